"""Events of a buffer program, of its parts, and its code size: counted on the very path that emits.
Must not know what an event costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from autotune.realizations.evaluate import ProgramValues
from autotune.realizations.events import Events
from autotune.realizations.loops import WHILE_TRIPS
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
    steps = DependentSteps(ProgramValues(plan.program), dict(plan.blocks))
    return Count(
        events=builder.events(),
        static=builder.static_events(),
        instructions=builder.instructions,
        dependent_steps=sum(steps.of_body(body) for body in plan.bodies[:1]) * plan.packets,
    )


class DependentSteps:
    """Lengths of the chains of dependent reduction steps, as if every packet were whole."""

    def __init__(self, values: ProgramValues, blocks: Mapping[int, int]) -> None:
        self._values = values
        self._blocks = blocks

    def of_body(self, body: Body) -> float:
        """Steps of one packet."""
        return self._of(body.steps)

    def _of(self, steps: Sequence[Step]) -> float:
        total = 0.0
        for step in steps:
            match step:
                case Nest():
                    total += self.of_nest(step)
                case BlockLoop():
                    total += 0.0 if step.part is Part.HEAD else self._of(step.body) * self.trips(step.axis)
                case WhileLoop():
                    total += self._of((*step.test, *step.body)) * self.trips(step.axis)
                case Branch():
                    total += max(self._of(step.then), self._of(step.otherwise))
        return total

    def trips(self, axis: int) -> float:
        """Times that a loop around nests repeats their steps: the blocks of a tile loop together make one pass."""
        match self._values.program.axes[axis].kind:
            case AxisKind.RANGE:
                return self._values.ranges.most(axis)
            case AxisKind.WHILE:
                return WHILE_TRIPS
            case _:
                return 1

    def _extent(self, axis: int) -> int:
        return self._blocks[axis] if axis in self._blocks else self._values.ranges.most(axis)

    def of_nest(self, nest: Nest) -> float:
        """Steps of a nest over all blocks of the tile loops around it."""
        lets = self._values.lets
        inside = sum(self._of_inline(nest, spec) for spec in nest.inline)
        chains = [s.chains for s in nest.sinks if isinstance(s, ReduceInto)]
        if not chains:
            return inside
        reduced = {a for s in nest.sinks if isinstance(s, ReduceInto) for a in _reduced(lets[s.value].value)}
        steps = 1.0
        for loop in nest.loops:
            trips = -(-self._extent(loop.axis) // loop.lanes)
            if loop.axis in reduced:
                steps *= trips
            else:
                steps *= -(-trips // loop.factor)
        return max(inside, steps / min(chains))

    def _of_inline(self, nest: Nest, spec: InlineReduction) -> float:
        """One chain after the other, each register block of outputs starting anew."""
        steps = 1.0
        for loop in spec.loops:
            steps *= -(-self._extent(loop.axis) // loop.lanes)
        own = any(loop.lanes > 1 for loop in spec.loops)
        for loop in nest.loops:
            if loop.axis not in self._values.lets[spec.value].axes:
                continue
            outputs = -(-self._extent(loop.axis) // loop.lanes)
            steps *= outputs * loop.lanes / spec.group if own and loop.lanes > 1 else -(-outputs // loop.factor)
        return steps / spec.chains


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
