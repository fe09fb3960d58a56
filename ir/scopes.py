"""The rules of form about where a value, a loop's state and an axis may be read.
Must not know what anything computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from autotune.ir.control_checks import LOOP_KINDS
from autotune.ir.dependence import axes_needed
from autotune.ir.faults import Fault
from autotune.ir.program import (
    Carried,
    Final,
    For,
    If,
    Joined,
    Let,
    MergeSide,
    Program,
    Region,
    Statement,
    Store,
    While,
    operands,
)
from autotune.ir.text import Item


def check_defined_before_use(program: Program) -> Iterator[Fault]:
    """Values are used after their definition and inside its region; loop state, merge sides and what a branch leaves
    only where their loop or branch provides them."""
    yield from _undefined(program.body, _Scope())


def check_axes_in_scope(program: Program) -> Iterator[Fault]:
    """A tile or range axis occurs only inside its own loop, also in the extents of other axes."""
    for statement, inside in _with_axes(program.body, frozenset()):
        for axis in sorted(axes_needed(program, statement)):
            if program.axes[axis].kind in LOOP_KINDS and axis not in inside:
                yield Fault(item=statement, message=f"axis number {axis} is used outside its loop")


def _with_axes(region: Region, inside: frozenset[int]) -> Iterator[tuple[Statement, frozenset[int]]]:
    """Every statement with the axes of the loops around it."""
    for statement in region:
        yield statement, inside
        match statement:
            case Let() | Store():
                pass
            case For(axis=axis, body=body, merge=merge):
                yield from _with_axes(body, inside | {axis})
                if merge is not None:
                    yield from _with_axes(merge.body, inside)
            case While(test=test, body=body):
                yield from _with_axes(test, inside)
                yield from _with_axes(body, inside)
            case If(then=then, otherwise=otherwise):
                yield from _with_axes(then, inside)
                yield from _with_axes(otherwise, inside)
            case _:
                assert_never(statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What may be read at one place; loops and branches map to their number of slots."""

    values: frozenset[int] = frozenset()
    running: Mapping[int, int] = field(default_factory=dict)
    ended: Mapping[int, int] = field(default_factory=dict)
    joined: Mapping[int, int] = field(default_factory=dict)
    sides: Mapping[int, int] = field(default_factory=dict)

    def after(self, statement: Statement) -> _Scope:
        match statement:
            case Let(id=number):
                return replace(self, values=self.values | {number})
            case Store():
                return self
            case For(axis=axis, carries=carries) | While(axis=axis, carries=carries):
                return replace(self, ended={**self.ended, axis: len(carries)})
            case If(branch=branch, choices=choices):
                return replace(self, joined={**self.joined, branch: len(choices)})
            case _:
                assert_never(statement)

    def past(self, region: Region) -> _Scope:
        """The scope at the end of a region that starts with this one."""
        scope = self
        for statement in region:
            scope = scope.after(statement)
        return scope

    def inside(self, loop: For | While) -> _Scope:
        return replace(self, running={**self.running, loop.axis: len(loop.carries)})

    def merging(self, loop: For) -> _Scope:
        return replace(self, sides={**self.sides, loop.axis: len(loop.carries)})


def _undefined(region: Region, scope: _Scope) -> Iterator[Fault]:
    for statement in region:
        match statement:
            case Let(value=value):
                yield from _unseen(statement, operands(value), scope)
                yield from _without_slot(statement, scope)
            case Store(value=stored, mask=mask):
                yield from _unseen(statement, (stored,) if mask is None else (stored, mask), scope)
            case For(carries=carries, body=body, merge=merge):
                yield from _unseen(statement, tuple(c.initial for c in carries), scope)
                inside = scope.inside(statement)
                yield from _undefined(body, inside)
                yield from _unseen(statement, tuple(c.updated for c in carries), inside.past(body))
                if merge is not None:
                    beside = scope.merging(statement)
                    yield from _undefined(merge.body, beside)
                    yield from _unseen(statement, merge.merged, beside.past(merge.body))
            case While(carries=carries, test=test, condition=condition, body=body):
                yield from _unseen(statement, tuple(c.initial for c in carries), scope)
                inside = scope.inside(statement)
                yield from _undefined(test, inside)
                tested = inside.past(test)
                yield from _unseen(statement, (condition,), tested)
                yield from _undefined(body, tested)
                yield from _unseen(statement, tuple(c.updated for c in carries), tested.past(body))
            case If(condition=condition, choices=choices, then=then, otherwise=otherwise):
                yield from _unseen(statement, (condition,), scope)
                yield from _undefined(then, scope)
                yield from _undefined(otherwise, scope)
                yield from _unseen(statement, tuple(c.then for c in choices), scope.past(then))
                yield from _unseen(statement, tuple(c.otherwise for c in choices), scope.past(otherwise))
            case _:
                assert_never(statement)
        scope = scope.after(statement)


def _unseen(item: Item, used: tuple[int, ...], scope: _Scope) -> Iterator[Fault]:
    for value in used:
        if value not in scope.values:
            yield Fault(item=item, message=f"%{value} is not defined here")


def _without_slot(let: Let, scope: _Scope) -> Iterator[Fault]:
    """A fault where a value reads a slot that nothing provides here."""
    match let.value:
        case Carried(axis=number, slot=slot):
            slots, where = scope.running, "inside a loop"
        case Final(axis=number, slot=slot):
            slots, where = scope.ended, "after a loop"
        case Joined(branch=number, slot=slot):
            slots, where = scope.joined, "after a branch"
        case MergeSide(axis=number, slot=slot, side=side):
            slots, where = scope.sides, "inside the merge rule of a loop"
            if side not in (0, 1):
                yield Fault(item=let, message=f"side {side} of a merge; the sides are 0 and 1")
        case _:
            return
    if not 0 <= slot < slots.get(number, 0):
        yield Fault(item=let, message=f"this is not {where} that has such a slot")
