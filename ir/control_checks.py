"""The rules of form of loops, branches and merge rules: what they walk, carry, decide and leave behind.
Must not know the rules of single values."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ir.affine import Affine
from autotune.ir.dependence import varying
from autotune.ir.faults import Fault
from autotune.ir.program import (
    AxisKind,
    Carried,
    Final,
    For,
    If,
    Joined,
    Let,
    MergeSide,
    Program,
    Reduce,
    Statement,
    Store,
    While,
    statements,
)
from autotune.ir.types import DType

LOOP_KINDS = frozenset({AxisKind.TILE, AxisKind.RANGE})
CONDITION_KINDS = frozenset({AxisKind.PROGRAM, AxisKind.RANGE})
"""Axes along which a condition may vary: they give one value a program and trip."""


def check_loops(program: Program) -> Iterator[Fault]:
    """Every tile, range and while axis is walked by exactly one loop of its sort, and no other axis by any."""
    walked: set[int] = set()
    for statement in statements(program.body):
        if isinstance(statement, For | While):
            kind, allowed = program.axes[statement.axis].kind, LOOP_KINDS
            if isinstance(statement, While):
                allowed = frozenset({AxisKind.WHILE})
            if kind not in allowed:
                sort = "a while loop" if isinstance(statement, While) else "a loop"
                yield Fault(item=statement, message=f"{sort} over an axis of kind {kind.value}")
            if statement.axis in walked:
                yield Fault(item=statement, message="a second loop over the same axis")
            walked.add(statement.axis)
    for axis in program.axes:
        if axis.kind in LOOP_KINDS | {AxisKind.WHILE} and axis.id not in walked:
            yield Fault(item=axis, message=f"no loop walks this axis of kind {axis.kind.value}")


def check_while_axes(program: Program) -> Iterator[Fault]:
    """An axis of a while loop has no extent, no value varies along it, and no index expression names it."""
    trips = {a.id for a in program.axes if a.kind is AxisKind.WHILE}
    for axis in program.axes:
        if axis.id in trips and axis.extent != Affine():
            yield Fault(item=axis, message="an axis of kind while with an extent")
        if trips & (axis.extent.axes() | axis.start.axes()):
            yield Fault(item=axis, message="an extent depends on the trips of a while loop")
    for statement in statements(program.body):
        if trips & _axes_of(statement):
            yield Fault(item=statement, message="an axis of kind while is used as if it had coordinates")


def _axes_of(statement: Statement) -> set[int]:
    """Axes along which a statement's own values vary or reduce."""
    match statement:
        case Let(value=Reduce(axes=reduced), axes=axes):
            return {*reduced, *axes}
        case Let(axes=axes):
            return set(axes)
        case Store(index=index):
            return set().union(*(i.axes() for i in index))
        case For(carries=carries) | While(carries=carries):
            return {a for c in carries for a in c.axes}
        case If(choices=choices):
            return {a for c in choices for a in c.axes}


def check_loop_carries(program: Program) -> Iterator[Fault]:
    """A carry has one type, and axes that hold those of its states and exclude the loop's own."""
    lets = program.lets()
    loops = {s.axis: s for s in statements(program.body) if isinstance(s, For | While)}
    for loop in loops.values():
        for slot, carry in enumerate(loop.carries):
            for state in (lets[carry.initial], lets[carry.updated]):
                if state.dtype is not carry.dtype:
                    yield Fault(item=loop, message=f"%{state.id} has another type than slot {slot}")
                if not set(state.axes) - {loop.axis} <= set(carry.axes):
                    yield Fault(item=loop, message=f"%{state.id} varies along axes that slot {slot} lacks")
            if loop.axis in carry.axes:
                yield Fault(item=loop, message=f"slot {slot} varies along the loop's own axis")
    for let in lets.values():
        if isinstance(let.value, Carried | Final | MergeSide):
            carry = loops[let.value.axis].carries[let.value.slot]
            if let.dtype is not carry.dtype or let.axes != carry.axes:
                yield Fault(item=let, message="type or axes differ from those of the carry it reads")


def check_branches(program: Program) -> Iterator[Fault]:
    """Branches are numbered in program order; both arms give a choice its type, and its axes hold theirs."""
    lets = program.lets()
    branches = [s for s in statements(program.body) if isinstance(s, If)]
    for number, branch in enumerate(branches):
        if branch.branch != number:
            yield Fault(item=branch, message=f"branch {branch.branch} is number {number} in program order")
        for slot, choice in enumerate(branch.choices):
            for arm in (lets[choice.then], lets[choice.otherwise]):
                if arm.dtype is not choice.dtype:
                    yield Fault(item=branch, message=f"%{arm.id} has another type than choice {slot}")
                if not set(arm.axes) <= set(choice.axes):
                    yield Fault(item=branch, message=f"%{arm.id} varies along axes that choice {slot} lacks")
    for let in lets.values():
        if isinstance(let.value, Joined):
            choice = branches[let.value.branch].choices[let.value.slot]
            if let.dtype is not choice.dtype or let.axes != choice.axes:
                yield Fault(item=let, message="type or axes differ from those of the choice it reads")


def check_conditions(program: Program) -> Iterator[Fault]:
    """A condition is one truth value a program, and what it decides varies wherever it does."""
    lets, along = program.lets(), varying(program)
    for statement in statements(program.body):
        match statement:
            case If(condition=condition, choices=choices):
                decided = [choice.axes for choice in choices]
            case While(condition=condition, carries=carries):
                decided = [carry.axes for carry in carries]
            case _:
                continue
        if lets[condition].dtype is not DType.BOOL:
            yield Fault(item=statement, message=f"the condition %{condition} is not of type bool_")
        for axis in lets[condition].axes:
            if program.axes[axis].kind not in CONDITION_KINDS:
                kind = program.axes[axis].kind.value
                yield Fault(item=statement, message=f"the condition %{condition} varies along an axis of kind {kind}")
        for slot, axes in enumerate(decided):
            if not along[condition] <= set(axes):
                message = f"the condition %{condition} varies along axes that slot {slot} lacks"
                yield Fault(item=statement, message=message)


def check_merge_rules(program: Program) -> Iterator[Fault]:
    """A merge rule gives one value of the right type and axes a carry, and stores nothing."""
    lets = program.lets()
    for loop in statements(program.body):
        if not isinstance(loop, For) or loop.merge is None:
            continue
        merged = loop.merge.merged
        if len(merged) != len(loop.carries):
            yield Fault(item=loop, message=f"{len(merged)} merged values for {len(loop.carries)} carries")
        for slot, (value, carry) in enumerate(zip(merged, loop.carries, strict=False)):
            if lets[value].dtype is not carry.dtype:
                yield Fault(item=loop, message=f"the merged %{value} has another type than slot {slot}")
            if not set(lets[value].axes) <= set(carry.axes):
                yield Fault(item=loop, message=f"the merged %{value} varies along axes that slot {slot} lacks")
        for statement in statements(loop.merge.body):
            if isinstance(statement, Store):
                yield Fault(item=statement, message="a merge rule stores")
