"""Events of a buffer program, of its parts, and its code size: counted on the very path that emits.
Must not know what an event costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.ir.buffer import BlockLoop, Body, BufferProgram, Nest, Step
from autotune.realizations.count import CountingBuilder
from autotune.realizations.emit import emit
from autotune.realizations.events import Events
from autotune.realizations.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Counts of one body or whole program. `events` are those of one entry over all its packets."""

    events: Events
    static: Events
    instructions: int


def count(plan: BufferProgram, target: Target) -> Count:
    """Count a whole buffer program."""
    builder = CountingBuilder(target)
    emit(plan, builder)
    return Count(events=builder.events(), static=builder.static_events(), instructions=builder.instructions)


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
                case Nest():
                    if step.number == number:
                        kept.append(exchange(step))
        return tuple(kept)

    return replace(body, steps=keep(body.steps))


def count_nest(plan: BufferProgram, number: int, exchange: Callable[[Nest], Nest], target: Target) -> Count:
    """Count the nests of one number in every body of a program, exchanged, with the packets around them."""
    bodies = tuple(only_nest(body, number, exchange) for body in plan.bodies)
    return count(replace(plan, bodies=bodies), target)
