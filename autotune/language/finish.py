"""The end of a trace: axes settled, dead and repeated values dropped, everything numbered in program order.
Must not know syntax."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from autotune.ir.program import (
    Axis,
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
from autotune.language.draft import Draft, DraftFor, DraftLet, DraftStatement
from autotune.language.renumbering import map_affine, map_value, mentioned, stored_tensors, walk
from autotune.language.repeated import merge_repeated, unite_equal_loads


def finish(
    draft: Draft, *, name: str, dims: tuple[str, ...], parameters: tuple[Parameter, ...], parallel: tuple[int, ...]
) -> Program:
    """The program a draft stands for.

    Before: axes united but not renamed, values in the order of tracing, every loop state present.
    After: axes and values dense, in program order (parallel axes first); only what a store needs; each pure value of
    a region once.
    """
    stored = stored_tensors(draft.body)
    unite_equal_loads(draft, draft.body, stored)
    _resolve(draft, draft.body)
    merge_repeated(draft.body, stored, {})
    live = _Liveness(draft.body)
    body = _pruned(draft.body, live)
    axes = {old: new for new, old in enumerate(_axis_order(draft, body, parallel))}
    numbering = _Numbering(draft=draft, axes=axes, slots=live.slots())
    region = numbering.region(body)
    kept = tuple(numbering.axis(draft.axes[old]) for old in axes)
    return Program(
        name=name,
        dims=dims,
        parameters=parameters,
        axes=kept,
        parallel=tuple(axes[p] for p in parallel),
        body=_with_axes(region),
    )


# Unification made final


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


# Liveness


class _Liveness:
    """Values and loop states that some store needs."""

    def __init__(self, body: list[DraftStatement]) -> None:
        self.values: set[int] = set()
        self.carries: set[tuple[int, int]] = set()
        self._lets = {s.id: s for s in walk(body) if isinstance(s, DraftLet)}
        self._loops = {s.axis: s for s in walk(body) if isinstance(s, DraftFor)}
        for statement in walk(body):
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
        for inner in mentioned(draft.axes[axis].extent) + mentioned(draft.axes[axis].start):
            order.setdefault(inner)
        order.setdefault(axis)

    for statement in walk(body):
        match statement:
            case DraftFor(axis=axis):
                use(axis)
            case Store(index=index):
                for entry in index:
                    for axis in mentioned(entry):
                        use(axis)
            case DraftLet(value=value):
                for axis in _value_axes(value):
                    use(axis)
    return list(order)


def _value_axes(value: Value) -> list[int]:
    match value:
        case Load(index=index):
            return [a for i in index if not isinstance(i, Indirect) for a in mentioned(i)]
        case IndexValue(expression=expression):
            return mentioned(expression)
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
                settled_value = _with_parts(value, known) if isinstance(value, Reduce) else value
                result.append(replace(statement, value=settled_value, axes=tuple(sorted(known[number]))))
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


def _with_parts(value: Reduce, known: dict[int, frozenset[int]]) -> Reduce:
    """A contraction with the part each axis plays; a plain reduction where a factor is the same along one of `k`."""
    this = value.contraction
    if this is None:
        return value
    left, right, k = known[this.lhs], known[this.rhs], set(this.k)
    if not k <= left & right:
        return replace(value, contraction=None)
    parts = {"batch": (left & right) - k, "m": left - right, "n": right - left}
    return replace(value, contraction=replace(this, **{name: tuple(sorted(axes)) for name, axes in parts.items()}))


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
