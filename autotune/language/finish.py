"""The end of a trace: axes settled, dead and repeated values dropped, everything numbered in program order.
Must not know syntax."""

from __future__ import annotations

from dataclasses import replace

from autotune.ir.program import (
    Axis,
    Carried,
    Carry,
    Choice,
    Final,
    For,
    If,
    IndexValue,
    Indirect,
    Joined,
    Let,
    Load,
    Merge,
    MergeSide,
    Parameter,
    Program,
    Reduce,
    Region,
    Reindex,
    Statement,
    Store,
    Value,
    While,
)
from autotune.ir.types import DType
from autotune.language.draft import Draft
from autotune.language.drafted import (
    DraftFor,
    DraftIf,
    DraftLet,
    DraftMerge,
    DraftStatement,
    DraftWhile,
    inner_regions,
)
from autotune.language.liveness import Liveness, pruned
from autotune.language.renumbering import map_affine, map_value, mentioned, stored_tensors, walk
from autotune.language.repeated import merge_repeated, unite_equal_loads
from autotune.language.settling import with_axes


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
    live = Liveness(draft.body)
    body = pruned(draft.body, live)
    axes = {old: new for new, old in enumerate(_axis_order(draft, body, parallel))}
    numbering = _Numbering(draft=draft, axes=axes, live=live)
    region = numbering.region(body)
    kept = tuple(numbering.axis(draft.axes[old]) for old in axes)
    return Program(
        name=name,
        dims=dims,
        parameters=parameters,
        axes=kept,
        parallel=tuple(axes[p] for p in parallel),
        body=with_axes(region),
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
            case DraftFor() | DraftWhile() | DraftIf():
                for inner in inner_regions(statement):
                    _resolve(draft, inner)


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
            case DraftFor(axis=axis) | DraftWhile(axis=axis):
                use(axis)
            case DraftIf():
                pass
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
    """Renames axes, values, branches and states to their dense numbers, statement by statement."""

    def __init__(self, *, draft: Draft, axes: dict[int, int], live: Liveness) -> None:
        self.draft = draft
        self.axes = axes
        self.slots = live.carry_slots()
        self.choice_slots = live.choice_slots()
        self.values: dict[int, int] = {}
        self.branches: dict[int, int] = {}

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
            case DraftFor(axis=axis, line=line, merge=merge):
                body = self.region(statement.body)
                rule = None if merge is None else self.merge(merge)
                carries = self.carries(statement.carries)
                return For(axis=self.axes[axis], carries=carries, body=body, merge=rule, line=line)
            case DraftWhile(axis=axis, line=line):
                test, body = self.region(statement.test), self.region(statement.body)
                return While(
                    axis=self.axes[axis],
                    carries=self.carries(statement.carries),
                    test=test,
                    condition=self.values[statement.condition],
                    body=body,
                    line=line,
                )
            case DraftIf():
                return self.branch(statement)

    def carries(self, carries: list[tuple[int, int, DType]]) -> tuple[Carry, ...]:
        return tuple(
            Carry(initial=self.values[i], updated=self.values[u], dtype=dtype, axes=()) for i, u, dtype in carries
        )

    def merge(self, merge: DraftMerge) -> Merge:
        body = self.region(merge.body)
        return Merge(body=body, merged=tuple(self.values[v] for v in merge.merged))

    def branch(self, statement: DraftIf) -> If:
        number = self.branches[statement.branch] = len(self.branches)
        then, otherwise = self.region(statement.then), self.region(statement.otherwise)
        choices = tuple(
            Choice(then=self.values[t], otherwise=self.values[o], dtype=dtype, axes=())
            for t, o, dtype in statement.choices
        )
        condition = self.values[statement.condition]
        return If(
            branch=number, condition=condition, choices=choices, then=then, otherwise=otherwise, line=statement.line
        )

    def let(self, let: DraftLet) -> Let:
        value = let.value
        match value:
            case Carried() | Final() | MergeSide():
                value = replace(value, slot=self.slots[value.axis, value.slot])
            case Joined(branch=branch, slot=slot):
                value = Joined(branch=self.branches[branch], slot=self.choice_slots[branch, slot])
            case _:
                pass
        value = map_value(value, self.axes, self.values)
        self.values[let.id] = len(self.values)
        shape = (self.draft.root(p) for p in let.positions if p is not None)
        axes = tuple(sorted(self.axes[p] for p in shape if p in self.axes))
        return Let(id=self.values[let.id], value=value, dtype=let.dtype, axes=axes, line=let.line)
