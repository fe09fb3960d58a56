"""Refusal of programs whose result would depend on the block size of a sequential tile loop.
Must not know syntax or sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from autotune.errors import BlockDependent
from autotune.ir.affine import Affine, Start, Stop
from autotune.ir.program import (
    AxisKind,
    Carried,
    Elementwise,
    Final,
    For,
    If,
    IndexValue,
    Joined,
    Let,
    Load,
    Program,
    Reduce,
    Region,
    Store,
    Value,
    While,
    operands,
    regions,
    statements,
)
from autotune.ir.types import Op, ReduceOp
from autotune.language.places import Places

MATCHING: dict[Op, ReduceOp] = {
    Op.ADD: ReduceOp.SUM,
    Op.MUL: ReduceOp.PROD,
    Op.MAXIMUM: ReduceOp.MAX,
    Op.MINIMUM: ReduceOp.MIN,
    Op.OR: ReduceOp.ANY,
    Op.AND: ReduceOp.ALL,
}


def check_block_independence(program: Program, places: Places) -> None:
    """Refuse a tile loop that lets a part of a reduction escape other than through a running reduction.

    Inside a tile loop, what was reduced over its axis, what the loop carries and where its blocks begin may be used
    only to update a carried variable by `carry op reduction`, `op` being the reduction's own. A loop with a merge rule
    may update what it carries in any way, but stores no part either.
    Raises: BlockDependent.
    """
    lets = program.lets()
    loops = {s.axis: s for s in statements(program.body) if isinstance(s, For | While)}
    branches = {s.branch: s for s in statements(program.body) if isinstance(s, If)}
    for axis, loop in loops.items():
        if isinstance(loop, For) and program.axes[axis].kind is AxisKind.TILE:
            _Check(program=program, places=places, lets=lets, loops=loops, branches=branches, loop=loop).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """The check of one tile loop."""

    program: Program
    places: Places
    lets: dict[int, Let]
    loops: dict[int, For | While]
    branches: dict[int, If]
    loop: For

    def run(self) -> None:
        for store, conditions in _stores(self.loop.body, ()):
            used = (store.value, *conditions) if store.mask is None else (store.value, store.mask, *conditions)
            if any(self.partial(value, set()) for value in used):
                name = self.program.tensor(store.tensor).name
                self.refuse(
                    f"a part of a reduction over it is stored to {name!r}",
                    "store after the loop",
                    store.line,
                )
            if any(self.mentions_block(entry) for entry in store.index):
                self.refuse("a store is placed where its blocks begin or end", "index with {name}", store.line)
        if self.loop.merge is None:
            for slot, carry in enumerate(self.loop.carries):
                self.running(carry.updated, slot, None)

    def running(self, number: int, slot: int, op: Op | None) -> None:
        """Check that a value is the carry itself or `carry op reduction`, repeatedly with one operation."""
        let = self.lets[number]
        match let.value:
            case Carried(axis=axis) if axis == self.loop.axis:
                if let.value.slot != slot:
                    self.refuse("one carried variable takes the state of another", _RUNNING, self.loop.line)
            case Final(axis=axis, slot=inner):
                carry = self.loops[axis].carries[inner]
                self.whole(axis)
                self.running(carry.initial, slot, op)
                self.contribution_chain(carry.updated, axis, inner, op)
            case Joined():
                for arm in self.arms(let.value):
                    self.running(arm, slot, op)
            case Elementwise(op=found, args=(left, right)) if found in MATCHING and op in (None, found):
                first, second = (left, right) if self.reaches(left, slot) else (right, left)
                self.running(first, slot, found)
                self.contribution(second, found)
            case _:
                self.refuse("a carried variable is not updated as a running reduction", _RUNNING, let.line)

    def contribution_chain(self, number: int, axis: int, slot: int, op: Op | None) -> None:
        """The update of a loop inside this one: its own state combined with reductions over this loop's axis too."""
        let = self.lets[number]
        match let.value:
            case Carried(axis=found, slot=inner) if (found, inner) == (axis, slot):
                return
            case Final(axis=found, slot=inner):
                carry = self.loops[found].carries[inner]
                self.whole(found)
                self.contribution_chain(carry.initial, axis, slot, op)
                self.contribution_chain(carry.updated, found, inner, op)
            case Joined():
                for arm in self.arms(let.value):
                    self.contribution_chain(arm, axis, slot, op)
            case Elementwise(op=found, args=(left, right)) if found in MATCHING and op in (None, found):
                first, second = (left, right) if self.holds_state(left, axis, slot) else (right, left)
                self.contribution_chain(first, axis, slot, found)
                self.contribution(second, found)
            case _:
                self.refuse("a carried variable is not updated as a running reduction", _RUNNING, let.line)

    def arms(self, value: Joined) -> tuple[int, int]:
        """The two values that a branch chooses from, on a condition that no unfinished reduction decides."""
        this = self.branches[value.branch]
        if self.partial(this.condition, set()):
            self.refuse("an unfinished reduction over it decides a branch", _RUNNING, this.line)
        return this.choices[value.slot].then, this.choices[value.slot].otherwise

    def whole(self, axis: int) -> None:
        """Refuse a loop inside this one whose number of trips an unfinished reduction decides."""
        loop = self.loops[axis]
        if isinstance(loop, While) and self.partial(loop.condition, set()):
            self.refuse("an unfinished reduction over it decides how often a loop runs", _RUNNING, loop.line)

    def contribution(self, number: int, op: Op) -> None:
        """Check one operand that is merged into a carry: a reduction over this loop's axis by the same operation."""
        let = self.lets[number]
        value = let.value
        if isinstance(value, Elementwise) and value.op is Op.CAST:
            self.contribution(value.args[0], op)
            return
        if not (isinstance(value, Reduce) and value.op is MATCHING[op] and self.loop.axis in value.axes):
            word = MATCHING[op].value
            name = self.name
            self.refuse(f"what a trip adds to a carried variable is no at.{word} over {name}", _RUNNING, let.line)
        if self.partial(value.body, set()) or value.init is not None:
            self.refuse("what a trip reduces depends on an unfinished reduction", _RUNNING, let.line)

    def partial(self, number: int, seen: set[int]) -> bool:
        """True where a value depends on an unfinished reduction over this axis, or on where a block begins."""
        if number in seen:
            return False
        seen.add(number)
        value = self.lets[number].value
        match value:
            case Reduce(axes=axes) if self.loop.axis in axes or any(map(self.walks_block, axes)):
                return True
            case Carried(axis=axis) if axis == self.loop.axis:
                return True
            case Carried(axis=axis, slot=slot) | Final(axis=axis, slot=slot):
                if axis not in self.inner_axes():
                    return False
                if self.walks_block(axis):
                    return True
                loop = self.loops[axis]
                carry = loop.carries[slot]
                used = (carry.initial, carry.updated, *((loop.condition,) if isinstance(loop, While) else ()))
                return any(self.partial(n, seen) for n in used)
            case Joined(branch=branch, slot=slot):
                choice = self.branches[branch].choices[slot]
                used = (self.branches[branch].condition, choice.then, choice.otherwise)
                return any(self.partial(n, seen) for n in used)
            case _:
                return self.block_bound(value) or any(self.partial(n, seen) for n in operands(value))

    def block_bound(self, value: Value) -> bool:
        """True where an index expression mentions the start or stop of this loop's blocks."""
        expressions: list[Affine] = [value.expression] if isinstance(value, IndexValue) else []
        if isinstance(value, Load):
            expressions += [i for i in value.index if isinstance(i, Affine)]
        return any(map(self.mentions_block, expressions))

    def mentions_block(self, expression: Affine) -> bool:
        return any(isinstance(a, Start | Stop) and a.axis == self.loop.axis for a in expression.atoms())

    def walks_block(self, axis: int) -> bool:
        """True where how far an axis runs depends on this loop's blocks."""
        this = self.program.axes[axis]
        return self.mentions_block(this.extent) or self.mentions_block(this.start)

    def reaches(self, number: int, slot: int) -> bool:
        """True where a chain of two-operand operations leads from a value to this loop's state."""
        return self.holds_state(number, self.loop.axis, slot)

    def holds_state(self, number: int, axis: int, slot: int) -> bool:
        value = self.lets[number].value
        match value:
            case Carried(axis=found, slot=inner):
                return (found, inner) == (axis, slot)
            case Final(axis=found, slot=inner):
                return self.holds_state(self.loops[found].carries[inner].initial, axis, slot)
            case Joined(branch=branch, slot=inner):
                choice = self.branches[branch].choices[inner]
                return any(self.holds_state(n, axis, slot) for n in (choice.then, choice.otherwise))
            case Elementwise(args=args):
                return any(self.holds_state(a, axis, slot) for a in args)
            case _:
                return False

    def inner_axes(self) -> set[int]:
        inside = statements(self.loop.body)
        return {self.loop.axis, *(s.axis for s in inside if isinstance(s, For | While))}

    @property
    def name(self) -> str:
        return self.program.axes[self.loop.axis].name

    def refuse(self, problem: str, instead: str, line: int) -> NoReturn:
        raise BlockDependent(
            self.places.line(line), name=self.name, problem=problem, instead=instead.format(name=self.name)
        )


_RUNNING = (
    "write acc += at.sum(..., axis=...) or acc = at.maximum(acc, at.max(...)) over {name}, "
    "or use the whole dimension [:] at once"
)


def _stores(region: Region, conditions: tuple[int, ...]) -> Iterator[tuple[Store, tuple[int, ...]]]:
    """Every store of a region with the conditions under which it is reached."""
    for statement in region:
        match statement:
            case Store():
                yield statement, conditions
            case Let():
                pass
            case For(body=body):
                yield from _stores(body, conditions)
            case While(condition=condition) | If(condition=condition):
                for inner in regions(statement):
                    yield from _stores(inner, (*conditions, condition))
