"""Axes of a numbered program's values: filled in statement by statement, states of loops until they no longer grow.
Must not know syntax or drafts."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from autotune.ir.program import (
    Carried,
    Carry,
    Choice,
    Const,
    Elementwise,
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
    Reduce,
    Region,
    Reindex,
    ScalarArgument,
    Statement,
    Store,
    Value,
    While,
)

Axes = frozenset[int]


def with_axes(body: Region) -> Region:
    """The region with the axes of every value, carry and choice, and the part that each axis of a contraction plays.

    Before: what control flow hands on names the axes of its shape, other values name none.
    """
    settling = _Settling()
    while True:
        before = dict(settling.states), dict(settling.joined)
        result = settling.region(body)
        if (settling.states, settling.joined) == before:
            return result


class _Settling:
    """One pass after another over the same region; only what is known grows."""

    def __init__(self) -> None:
        self.known: dict[int, Axes] = {}
        self.states: dict[tuple[int, int], Axes] = {}
        self.joined: dict[tuple[int, int], Axes] = {}

    def region(self, body: Region) -> Region:
        return tuple(self.statement(s) for s in body)

    def statement(self, statement: Statement) -> Statement:
        match statement:
            case Let(id=number, value=value, axes=shape):
                self.known[number] = self.axes_of(value, Axes(shape))
                if isinstance(value, Reduce):
                    value = self.with_parts(value)
                return replace(statement, value=value, axes=_ascending(self.known[number]))
            case Store():
                return statement
            case For(axis=axis, carries=carries, merge=merge):
                self.enter(axis, carries)
                inner = self.region(statement.body)
                rule = None if merge is None else self.merge(axis, merge)
                return replace(statement, carries=self.leave(axis, carries), body=inner, merge=rule)
            case While(axis=axis, carries=carries):
                self.enter(axis, carries)
                test, inner = self.region(statement.test), self.region(statement.body)
                for slot in range(len(carries)):  # where a loop ends at different trips, its states differ too
                    self.states[axis, slot] |= self.known[statement.condition]
                return replace(statement, carries=self.leave(axis, carries), test=test, body=inner)
            case If(branch=branch):
                then, otherwise = self.region(statement.then), self.region(statement.otherwise)
                decides = self.known[statement.condition]
                choices = tuple(self.choice(branch, slot, c, decides) for slot, c in enumerate(statement.choices))
                return replace(statement, choices=choices, then=then, otherwise=otherwise)

    def enter(self, axis: int, carries: tuple[Carry, ...]) -> None:
        for slot, carry in enumerate(carries):
            self.states[axis, slot] = self.states.get((axis, slot), Axes()) | self.known[carry.initial]

    def leave(self, axis: int, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        for slot, carry in enumerate(carries):
            self.states[axis, slot] |= self.known[carry.updated] - {axis}
        return tuple(replace(c, axes=_ascending(self.states[axis, slot])) for slot, c in enumerate(carries))

    def merge(self, axis: int, merge: Merge) -> Merge:
        body = self.region(merge.body)
        for slot, value in enumerate(merge.merged):
            self.states[axis, slot] |= self.known[value] - {axis}
        return replace(merge, body=body)

    def choice(self, branch: int, slot: int, choice: Choice, decides: Axes) -> Choice:
        axes = self.known[choice.then] | self.known[choice.otherwise] | decides
        self.joined[branch, slot] = self.joined.get((branch, slot), Axes()) | axes
        return replace(choice, axes=_ascending(self.joined[branch, slot]))

    def axes_of(self, value: Value, shape: Axes) -> Axes:
        match value:
            case Const() | ScalarArgument():
                return Axes()
            case IndexValue(expression=expression):
                return expression.axes()
            case Load(index=index):
                parts = (self.known[i.value] if isinstance(i, Indirect) else i.axes() for i in index)
                return Axes().union(*parts)
            case Elementwise(args=args):
                return Axes().union(*(self.known[a] for a in args))
            case Reduce(body=body, axes=axes, init=init):
                kept = self.known[body] - set(axes)
                return kept if init is None else kept | self.known[init]
            case Reindex(value=inner, source=source, target=target):
                return self.known[inner] - {source} | {target}
            case Carried(axis=axis, slot=slot) | Final(axis=axis, slot=slot) | MergeSide(axis=axis, slot=slot):
                self.states[axis, slot] |= shape
                return self.states[axis, slot]
            case Joined(branch=branch, slot=slot):
                self.joined[branch, slot] |= shape
                return self.joined[branch, slot]
            case _:
                assert_never(value)

    def with_parts(self, value: Reduce) -> Reduce:
        """A contraction with its parts; a plain reduction where a factor is the same all along one of its axes."""
        this = value.contraction
        if this is None:
            return value
        left, right, k = self.known[this.lhs], self.known[this.rhs], Axes(this.k)
        if not k <= left & right:
            return replace(value, contraction=None)
        batch, m, n = _ascending((left & right) - k), _ascending(left - right), _ascending(right - left)
        return replace(value, contraction=replace(this, batch=batch, m=m, n=n))


def _ascending(axes: Axes) -> tuple[int, ...]:
    return tuple(sorted(axes))
