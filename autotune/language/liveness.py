"""What a draft's stores need: values, loop states, choices of branches; the rest is dropped.
Must not know syntax or final numbers."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ir.program import Carried, Final, Joined, MergeSide, Store, operands
from autotune.language.drafted import (
    DraftFor,
    DraftIf,
    DraftLet,
    DraftLoop,
    DraftMerge,
    DraftStatement,
    DraftWhile,
    inner_regions,
)
from autotune.language.renumbering import walk


class Liveness:
    """Values, carries (loop axis, slot) and choices (branch, slot) that some store needs."""

    def __init__(self, body: list[DraftStatement]) -> None:
        self.values: set[int] = set()
        self.carries: set[tuple[int, int]] = set()
        self.choices: set[tuple[int, int]] = set()
        self._lets = {s.id: s for s in walk(body) if isinstance(s, DraftLet)}
        self._loops: dict[int, DraftLoop] = {s.axis: s for s in walk(body) if isinstance(s, DraftFor | DraftWhile)}
        self._branches = {s.branch: s for s in walk(body) if isinstance(s, DraftIf)}
        self._follow(list(_stored(body, ())))

    def _follow(self, pending: list[int]) -> None:
        while pending:
            one = pending.pop()
            if one in self.values:
                continue
            self.values.add(one)
            value = self._lets[one].value
            pending.extend(operands(value))
            match value:
                case Carried(axis=axis, slot=slot) | Final(axis=axis, slot=slot) | MergeSide(axis=axis, slot=slot):
                    pending.extend(self._carry(axis, slot))
                case Joined(branch=branch, slot=slot) if (branch, slot) not in self.choices:
                    self.choices.add((branch, slot))
                    this = self._branches[branch]
                    pending.extend((this.condition, *this.choices[slot][:2]))
                case _:
                    pass

    def _carry(self, axis: int, slot: int) -> Iterator[int]:
        """What a loop's state needs, when it is first needed itself."""
        if (axis, slot) in self.carries:
            return
        self.carries.add((axis, slot))
        loop = self._loops[axis]
        yield from loop.carries[slot][:2]
        if isinstance(loop, DraftWhile):
            yield loop.condition
        elif loop.merge is not None:
            yield loop.merge.merged[slot]

    def carry_slots(self) -> dict[tuple[int, int], int]:
        """New slot number of each carry that is needed."""
        return _dense(self.carries)

    def choice_slots(self) -> dict[tuple[int, int], int]:
        """New slot number of each choice that is needed."""
        return _dense(self.choices)


def _dense(needed: set[tuple[int, int]]) -> dict[tuple[int, int], int]:
    result: dict[tuple[int, int], int] = {}
    for owner, slot in sorted(needed):
        result[owner, slot] = sum(1 for o, _ in result if o == owner)
    return result


def _stored(region: list[DraftStatement], conditions: tuple[int, ...]) -> Iterator[int]:
    """Values that the stores of a region write, their masks, and the conditions under which they are reached."""
    for statement in region:
        match statement:
            case Store(value=value, mask=mask):
                yield from (value, *conditions) if mask is None else (value, mask, *conditions)
            case DraftLet():
                pass
            case DraftFor():
                yield from _stored(statement.body, conditions)
            case DraftWhile(condition=condition) | DraftIf(condition=condition):
                for inner in inner_regions(statement):
                    yield from _stored(inner, (*conditions, condition))


def pruned(region: list[DraftStatement], live: Liveness) -> list[DraftStatement]:
    """A region without what no store needs."""
    result: list[DraftStatement] = []
    for statement in region:
        match statement:
            case DraftLet(id=number):
                if number in live.values:
                    result.append(statement)
            case Store():
                result.append(statement)
            case DraftFor() | DraftWhile():
                loop = _pruned_loop(statement, live)
                if loop.carries or _acts(loop.body):
                    result.append(loop)
            case DraftIf(branch=branch, condition=condition, line=line):
                then, otherwise = pruned(statement.then, live), pruned(statement.otherwise, live)
                choices = [c for k, c in enumerate(statement.choices) if (branch, k) in live.choices]
                if choices or _acts(then) or _acts(otherwise):
                    kept = DraftIf(branch=branch, condition=condition, line=line, choices=choices)
                    kept.then, kept.otherwise = then, otherwise
                    result.append(kept)
    return result


def _pruned_loop(loop: DraftLoop, live: Liveness) -> DraftLoop:
    slots = [k for k in range(len(loop.carries)) if (loop.axis, k) in live.carries]
    carries, body = [loop.carries[k] for k in slots], pruned(loop.body, live)
    if isinstance(loop, DraftWhile):
        test = pruned(loop.test, live)
        return DraftWhile(
            axis=loop.axis, line=loop.line, carries=carries, test=test, condition=loop.condition, body=body
        )
    merge = None
    if loop.merge is not None and slots:
        merge = DraftMerge(body=pruned(loop.merge.body, live), merged=[loop.merge.merged[k] for k in slots])
    return DraftFor(axis=loop.axis, line=loop.line, carries=carries, body=body, merge=merge)


def _acts(region: list[DraftStatement]) -> bool:
    """True where a pruned region stores, or hands a state on."""
    return any(not isinstance(statement, DraftLet) for statement in region)
