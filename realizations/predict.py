"""Events of a buffer program, of its parts, and its code size: counted on the very path that emits.
Must not know what an event costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Branch,
    BufferProgram,
    InlineReduction,
    Nest,
    Part,
    ReduceInto,
    Step,
    WhileLoop,
)
from autotune.ir.program import AxisKind, Reduce, Value
from autotune.realizations.count import CountingBuilder
from autotune.realizations.emit import emit
from autotune.realizations.events import Events
from autotune.realizations.ranges import Ranges
from autotune.realizations.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Counts of nests or of a whole program. `events` are those of one entry over all its packets.

    `dependent_steps` is the length of the chains of dependent reduction steps, one after the other.
    """

    events: Events
    static: Events
    instructions: int
    dependent_steps: float


def count(plan: BufferProgram, target: Target) -> Count:
    """Count a whole buffer program."""
    builder = CountingBuilder(target)
    emit(plan, builder)
    return Count(
        events=builder.events(),
        static=builder.static_events(),
        instructions=builder.instructions,
        dependent_steps=sum(_steps_of_body(plan, body) for body in plan.bodies[:1]),
    )


def _steps_of_body(plan: BufferProgram, body: Body) -> float:
    """Dependent reduction steps of every packet, as if each were whole."""
    axes = plan.program.axes
    ranges = Ranges(plan.program)
    blocks = dict(plan.blocks)

    def extent_of(axis: int) -> int:
        return blocks[axis] if axis in blocks else ranges.most(axis)

    def of_nest(nest: Nest) -> float:
        lets = plan.program.lets()
        inside = sum(of_inline(nest, spec) for spec in nest.inline)
        chains = [s.chains for s in nest.sinks if isinstance(s, ReduceInto)]
        if not chains:
            return inside
        reduced = {a for s in nest.sinks if isinstance(s, ReduceInto) for a in _reduced(lets[s.value].value)}
        steps = 1.0
        for loop in nest.loops:
            extent = extent_of(loop.axis)
            trips = -(-extent // loop.lanes)
            if loop.axis in reduced:
                steps *= trips
            else:
                steps *= -(-trips // loop.factor)
        return max(inside, steps / min(chains))

    def of_inline(nest: Nest, spec: InlineReduction) -> float:
        """One chain after the other, each register block of outputs starting anew."""
        steps = 1.0
        for loop in spec.loops:
            steps *= -(-extent_of(loop.axis) // loop.lanes)
        own = any(loop.lanes > 1 for loop in spec.loops)
        for loop in nest.loops:
            if loop.axis not in plan.program.lets()[spec.value].axes:
                continue
            outputs = -(-extent_of(loop.axis) // loop.lanes)
            steps *= outputs * loop.lanes / spec.group if own and loop.lanes > 1 else -(-outputs // loop.factor)
        return steps / spec.chains

    def of(steps: Sequence[Step]) -> float:
        total = 0.0
        for step in steps:
            match step:
                case Nest():
                    total += of_nest(step)
                case BlockLoop():
                    extent = ranges.most(step.axis)
                    whole = -(-extent // step.block) if axes[step.axis].kind is AxisKind.RANGE else 1
                    total += 0.0 if step.part is Part.HEAD else of(step.body) * whole
                case WhileLoop():
                    total += of((*step.test, *step.body))
                case Branch():
                    total += max(of(step.then), of(step.otherwise))
        return total

    return of(body.steps) * plan.packets


def _reduced(value: Value) -> tuple[int, ...]:
    assert isinstance(value, Reduce)
    return value.axes


def whole_packets(plan: BufferProgram) -> int:
    """Packets in which every block is whole."""
    total = 1
    for axis, block in plan.blocks:
        total *= plan.program.axes[axis].extent.constant // block
    return total


def only_body(plan: BufferProgram, full: bool) -> BufferProgram:
    """The program with one of its bodies: what a clone is counted by."""
    return replace(plan, bodies=tuple(b for b in plan.bodies if b.full is full))


def only_nest(body: Body, number: int, exchange: Callable[[Nest], Nest]) -> Body:
    """A body with the nests of one number alone, exchanged, inside the loops that enclose them."""

    def keep(steps: Sequence[Step]) -> tuple[Step, ...]:
        kept: list[Step] = []
        for step in steps:
            match step:
                case BlockLoop():
                    inner = keep(step.body)
                    if inner:
                        kept.append(replace(step, body=inner))
                case WhileLoop():
                    test, inner = keep(step.test), keep(step.body)
                    if test or inner:
                        kept.append(replace(step, test=test, body=inner))
                case Branch():
                    then, otherwise = keep(step.then), keep(step.otherwise)
                    if then or otherwise:
                        kept.append(replace(step, then=then, otherwise=otherwise))
                case Nest():
                    if step.number == number:
                        kept.append(exchange(step))
        return tuple(kept)

    return replace(body, steps=keep(body.steps))


def count_nest(plan: BufferProgram, number: int, exchange: Callable[[Nest], Nest], target: Target) -> Count:
    """Count the nests of one number in every body of a program, exchanged, with the packets around them."""
    bodies = tuple(only_nest(body, number, exchange) for body in plan.bodies)
    return count(replace(plan, bodies=bodies), target)
