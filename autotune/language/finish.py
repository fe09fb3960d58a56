"""The end of a trace: axes settled, dead and repeated values dropped, everything numbered in program order.
Must not know syntax."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from autotune.ir.affine import Affine, Atom, Coord, Start, Stop, atom
from autotune.ir.program import (
    Axis,
    AxisKind,
    Carried,
    Carry,
    Const,
    Elementwise,
    Final,
    For,
    IndexValue,
    Indirect,
    Let,
    Load,
    Parameter,
    Program,
    Reduce,
    Region,
    Reindex,
    ScalarArgument,
    Statement,
    Store,
    Value,
    operands,
)
from autotune.ir.types import DType
from autotune.language.draft import Draft, DraftFor, DraftLet, DraftStatement


def finish(
    draft: Draft, *, name: str, dims: tuple[str, ...], parameters: tuple[Parameter, ...], parallel: tuple[int, ...]
) -> tuple[Program, dict[int, int]]:
    """The program a draft stands for, and the new number of each axis that it keeps.

    Before: axes united but not renamed, values in the order of tracing, every loop state present.
    After: axes and values dense, in program order (parallel axes first); only what a store needs; each pure value of
    a region once.
    """
    _unite_equal_loads(draft, draft.body, _stored(draft.body))
    _resolve(draft, draft.body)
    _merge_repeated(draft.body, _stored(draft.body), {})
    live = _Liveness(draft.body)
    body = _pruned(draft.body, live)
    axes = {old: new for new, old in enumerate(_axis_order(draft, body, parallel))}
    numbering = _Numbering(draft=draft, axes=axes, slots=live.slots())
    region = numbering.region(body)
    kept = tuple(numbering.axis(draft.axes[old]) for old in axes)
    program = Program(
        name=name,
        dims=dims,
        parameters=parameters,
        axes=kept,
        parallel=tuple(axes[p] for p in parallel),
        body=_with_axes(region),
    )
    return program, axes


def map_value(value: Value, draft_axes: dict[int, int], values: dict[int, int]) -> Value:
    """A value with its axes and operands renumbered; numbers that are missing stay."""

    def a(axis: int) -> int:
        return draft_axes.get(axis, axis)

    def v(number: int) -> int:
        return values.get(number, number)

    match value:
        case Const() | ScalarArgument():
            return value
        case IndexValue(expression=expression):
            return IndexValue(expression=map_affine(expression, draft_axes))
        case Load(index=index):
            entries = tuple(
                Indirect(value=v(i.value)) if isinstance(i, Indirect) else map_affine(i, draft_axes) for i in index
            )
            return replace(value, index=entries)
        case Elementwise(args=args):
            return replace(value, args=tuple(v(x) for x in args))
        case Reduce(body=body, axes=axes, init=init):
            moved = tuple(a(x) for x in axes)
            moved = moved if value.ordered else tuple(sorted(moved))
            return replace(value, body=v(body), axes=moved, init=None if init is None else v(init))
        case Reindex(value=inner, source=source, target=target):
            return Reindex(value=v(inner), source=a(source), target=a(target))
        case Carried(axis=axis, slot=slot):
            return Carried(axis=a(axis), slot=slot)
        case Final(axis=axis, slot=slot):
            return Final(axis=a(axis), slot=slot)
        case _:
            assert_never(value)


def map_affine(expression: Affine, axes: dict[int, int]) -> Affine:
    mapping: dict[Atom, Affine] = {}
    for kind in (Coord, Start, Stop):
        mapping.update({kind(axis=a): atom(kind(axis=axes[a])) for a in expression.axes() if a in axes})
    return expression.substitute(mapping) if mapping else expression


# Unification made final


def _unite_equal_loads(draft: Draft, region: list[DraftStatement], stored: frozenset[int]) -> None:
    """Let loads of a region that differ only in the full axes they run over share those, where no value forbids it."""
    known: dict[object, list[tuple[int, ...]]] = {}
    for statement in region:
        match statement:
            case DraftFor():
                _unite_equal_loads(draft, statement.body, stored)
            case DraftLet(value=Load(tensor=tensor) as load) if tensor not in stored:
                key, axes = _up_to_full_axes(draft, load)
                others = known.setdefault(key, [])
                if not any(all(map(draft.unify, axes, theirs)) for theirs in others):
                    others.append(axes)
            case _:
                pass


def _up_to_full_axes(draft: Draft, load: Load) -> tuple[object, tuple[int, ...]]:
    """A load with its full axes replaced by their order of appearance and their extents, and those axes."""
    order: dict[int, None] = {}
    for entry in load.index:
        if isinstance(entry, Affine):
            order.update(dict.fromkeys(draft.root(a) for a in _mentioned(entry)))
    axes = tuple(a for a in order if draft.axis(a).kind is AxisKind.FULL)
    places = {a: len(draft.axes) + k for k, a in enumerate(axes)}
    roots = {a.id: places.get(draft.root(a.id), draft.root(a.id)) for a in draft.axes}
    extents = tuple(draft.resolve_affine(draft.axis(a).extent) for a in axes)
    return (map_value(load, roots, {}), extents), axes


def _resolve(draft: Draft, region: list[DraftStatement]) -> None:
    roots = {axis.id: draft.root(axis.id) for axis in draft.axes}
    for k, statement in enumerate(region):
        match statement:
            case DraftLet():
                region[k] = replace(statement, value=map_value(statement.value, roots, {}))
            case Store():
                region[k] = replace(statement, index=tuple(map_affine(i, roots) for i in statement.index))
            case DraftFor():
                _resolve(draft, statement.body)


# Repeated values


def _stored(region: list[DraftStatement]) -> frozenset[int]:
    return frozenset(s.tensor for s in _walk(region) if isinstance(s, Store))


def _walk(region: list[DraftStatement]) -> Iterator[DraftStatement]:
    for statement in region:
        yield statement
        if isinstance(statement, DraftFor):
            yield from _walk(statement.body)


def _merge_repeated(region: list[DraftStatement], stored: frozenset[int], names: dict[int, int]) -> None:
    """Let every repeated pure value of a region stand for its first occurrence; `names` maps the others to it."""
    first: dict[tuple[Value, DType], int] = {}
    kept: list[DraftStatement] = []
    for statement in region:
        match statement:
            case DraftLet(id=number, value=Reindex(value=inner, source=source, target=target)) if source == target:
                names[number] = names.get(inner, inner)
            case DraftLet(value=value, dtype=dtype):
                value = map_value(value, {}, names)
                pure = not isinstance(value, Carried | Final) and not (
                    isinstance(value, Load) and value.tensor in stored
                )
                key = (_keyed(value), dtype)
                if pure and key in first:
                    names[statement.id] = first[key]
                    continue
                first.setdefault(key, statement.id)
                kept.append(replace(statement, value=value))
            case Store(value=stored_value, mask=mask):
                new_mask = None if mask is None else names.get(mask, mask)
                kept.append(replace(statement, value=names.get(stored_value, stored_value), mask=new_mask))
            case DraftFor():
                _merge_repeated(statement.body, stored, names)
                statement.carries = [(names.get(i, i), names.get(u, u), dtype) for i, u, dtype in statement.carries]
                kept.append(statement)
    region[:] = kept


def _keyed(value: Value) -> Value:
    """`value` so that different bit patterns that Python calls equal (0.0, -0.0, False) stay apart."""
    return replace(value, value=repr(value.value)) if isinstance(value, Const) else value  # type: ignore[arg-type]


# Liveness


class _Liveness:
    """Values and loop states that some store needs."""

    def __init__(self, body: list[DraftStatement]) -> None:
        self.values: set[int] = set()
        self.carries: set[tuple[int, int]] = set()
        self._lets = {s.id: s for s in _walk(body) if isinstance(s, DraftLet)}
        self._loops = {s.axis: s for s in _walk(body) if isinstance(s, DraftFor)}
        for statement in _walk(body):
            if isinstance(statement, Store):
                self._need(statement.value)
                if statement.mask is not None:
                    self._need(statement.mask)

    def _need(self, number: int) -> None:
        pending = [number]
        while pending:
            one = pending.pop()
            if one in self.values:
                continue
            self.values.add(one)
            value = self._lets[one].value
            pending.extend(operands(value))
            if isinstance(value, Carried | Final) and (value.axis, value.slot) not in self.carries:
                self.carries.add((value.axis, value.slot))
                initial, updated, _ = self._loops[value.axis].carries[value.slot]
                pending.extend((initial, updated))

    def slots(self) -> dict[tuple[int, int], int]:
        """New slot number of each state that is needed."""
        result: dict[tuple[int, int], int] = {}
        for axis, slot in sorted(self.carries):
            result[axis, slot] = sum(1 for a, _ in result if a == axis)
        return result


def _pruned(region: list[DraftStatement], live: _Liveness) -> list[DraftStatement]:
    result: list[DraftStatement] = []
    for statement in region:
        match statement:
            case DraftLet(id=number):
                if number in live.values:
                    result.append(statement)
            case Store():
                result.append(statement)
            case DraftFor():
                body = _pruned(statement.body, live)
                if any(not isinstance(s, DraftLet) for s in body) or any(a == statement.axis for a, _ in live.carries):
                    carries = [c for k, c in enumerate(statement.carries) if (statement.axis, k) in live.carries]
                    result.append(DraftFor(axis=statement.axis, line=statement.line, carries=carries, body=body))
    return result


# Numbers


def _axis_order(draft: Draft, body: list[DraftStatement], parallel: tuple[int, ...]) -> list[int]:
    """Axes by first use: parallel ones, then as the statements mention them."""
    order: dict[int, None] = dict.fromkeys(parallel)

    def use(axis: int) -> None:
        for inner in _mentioned(draft.axes[axis].extent) + _mentioned(draft.axes[axis].start):
            order.setdefault(inner)
        order.setdefault(axis)

    for statement in _walk(body):
        match statement:
            case DraftFor(axis=axis):
                use(axis)
            case Store(index=index):
                for entry in index:
                    for axis in _mentioned(entry):
                        use(axis)
            case DraftLet(value=value):
                for axis in _value_axes(value):
                    use(axis)
    return list(order)


def _mentioned(expression: Affine) -> list[int]:
    return list(dict.fromkeys(a.axis for a in expression.atoms() if isinstance(a, Coord | Start | Stop)))


def _value_axes(value: Value) -> list[int]:
    match value:
        case Load(index=index):
            return [a for i in index if not isinstance(i, Indirect) for a in _mentioned(i)]
        case IndexValue(expression=expression):
            return _mentioned(expression)
        case Reduce(axes=axes):
            return list(axes)
        case Reindex(source=source, target=target):
            return [source, target]
        case _:
            return []


class _Numbering:
    """Renames axes, values and states to their dense numbers, statement by statement."""

    def __init__(self, *, draft: Draft, axes: dict[int, int], slots: dict[tuple[int, int], int]) -> None:
        self.draft = draft
        self.axes = axes
        self.slots = slots
        self.values: dict[int, int] = {}

    def axis(self, axis: Axis) -> Axis:
        return replace(
            axis,
            id=self.axes[axis.id],
            extent=map_affine(axis.extent, self.axes),
            start=map_affine(axis.start, self.axes),
        )

    def region(self, body: list[DraftStatement]) -> Region:
        return tuple(self.statement(s) for s in body)

    def statement(self, statement: DraftStatement) -> Statement:
        match statement:
            case DraftLet():
                return self.let(statement)
            case Store(value=value, mask=mask):
                return replace(
                    statement,
                    index=tuple(map_affine(i, self.axes) for i in statement.index),
                    value=self.values[value],
                    mask=None if mask is None else self.values[mask],
                )
            case DraftFor(axis=axis, line=line):
                body = self.region(statement.body)
                carries = tuple(
                    Carry(initial=self.values[i], updated=self.values[u], dtype=dtype, axes=())
                    for i, u, dtype in statement.carries
                )
                return For(axis=self.axes[axis], carries=carries, body=body, line=line)

    def let(self, let: DraftLet) -> Let:
        value = let.value
        if isinstance(value, Carried | Final):
            value = replace(value, slot=self.slots[value.axis, value.slot])
        value = map_value(value, self.axes, self.values)
        self.values[let.id] = len(self.values)
        return Let(id=self.values[let.id], value=value, dtype=let.dtype, axes=(), line=let.line)


# Axes of values


def _with_axes(body: Region) -> Region:
    """The region with every value's axes filled in; those of loop states grow until they no longer change."""
    known: dict[int, frozenset[int]] = {}
    states: dict[tuple[int, int], frozenset[int]] = {}
    while True:
        before = dict(states)
        result = _axes_pass(body, known, states)
        if states == before:
            return result


def _axes_pass(body: Region, known: dict[int, frozenset[int]], states: dict[tuple[int, int], frozenset[int]]) -> Region:
    result: list[Statement] = []
    for statement in body:
        match statement:
            case Let(id=number, value=value):
                known[number] = _axes_of(value, known, states)
                result.append(replace(statement, axes=tuple(sorted(known[number]))))
            case Store():
                result.append(statement)
            case For(axis=axis, carries=carries):
                for slot, carry in enumerate(carries):
                    states[axis, slot] = states.get((axis, slot), frozenset()) | known[carry.initial]
                inner = _axes_pass(statement.body, known, states)
                settled = []
                for slot, carry in enumerate(carries):
                    states[axis, slot] |= known[carry.updated] - {axis}
                    settled.append(replace(carry, axes=tuple(sorted(states[axis, slot]))))
                result.append(replace(statement, carries=tuple(settled), body=inner))
    return tuple(result)


def _axes_of(
    value: Value, known: dict[int, frozenset[int]], states: dict[tuple[int, int], frozenset[int]]
) -> frozenset[int]:
    match value:
        case Const() | ScalarArgument():
            return frozenset()
        case IndexValue(expression=expression):
            return expression.axes()
        case Load(index=index):
            return frozenset().union(*(known[i.value] if isinstance(i, Indirect) else i.axes() for i in index))
        case Elementwise(args=args):
            return frozenset().union(*(known[a] for a in args))
        case Reduce(body=body, axes=axes, init=init):
            kept = known[body] - set(axes)
            return kept if init is None else kept | known[init]
        case Reindex(value=inner, source=source, target=target):
            return known[inner] - {source} | {target}
        case Carried(axis=axis, slot=slot) | Final(axis=axis, slot=slot):
            return states[axis, slot]
        case _:
            assert_never(value)
