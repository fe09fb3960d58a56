"""The count of one execution of a nest, kept by the loops that multiply it: the same for every size of the blocks.
Must not know programs around the nest, costs, or where tallies are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from autotune.ir.buffer import Body, Nest, StorageClass
from autotune.ir.program import Scalar
from autotune.ir.types import DType
from autotune.realizations.builder import LoopName, Pointer, Space, Vector
from autotune.realizations.count import CountingBuilder
from autotune.realizations.emit import SLOT_ALIGNMENT_BYTES, write_nest
from autotune.realizations.evaluate import Evaluator, ProgramValues
from autotune.realizations.events import EVENT_COUNT, Events
from autotune.realizations.loops import Surroundings, trips_of
from autotune.realizations.points import AxisPoint, Span
from autotune.realizations.target import Target
from autotune.realizations.visits import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Events of the code at one depth: `level` of the places around the nest, and the loops of the nest around it."""

    level: int
    loops: tuple[LoopName, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The count of one execution of a nest. Axes of the loops are those of the nest's canonical form.

    Units: builder instructions.
    """

    parts: tuple[Part, ...]
    instructions: int

    def events(self, weights: tuple[float, ...], coordinates: Callable[[int], float]) -> Events:
        """Events of all executions: `weights` of the levels around, `coordinates` in the block of each axis."""
        total = [0.0] * EVENT_COUNT
        for part in self.parts:
            weight = weights[part.level]
            for name in part.loops:
                weight *= trips_of(name, coordinates(name.axis))
            for event, times in enumerate(part.counts):
                total[event] += weight * times
        return Events(tuple(total))


def tally(values: ProgramValues, body: Body, nest: Nest, visit: Visit, axes: dict[int, int], target: Target) -> Tally:
    """Count a nest by itself at one place of its body; `axes` numbers its axes canonically."""
    builder = CountingBuilder(target)
    levels = len(visit.weights)
    builder.stand_inside(levels - 1)
    rebuilt = _Rebuilt(builder)
    spans = {axis: rebuilt.span(span) for axis, span in visit.spans.items()}
    fixed = {axis: rebuilt.point(point) for axis, point in visit.fixed.items()}
    tensors = {
        number: Pointer(parameter.dtype, Space.TENSOR, None)
        for number, parameter in enumerate(values.program.parameters)
        if not isinstance(parameter, Scalar)
    }
    pointers = {
        buffer.id: builder.slot(buffer.dtype, buffer.elements, SLOT_ALIGNMENT_BYTES)
        if buffer.storage is StorageClass.REGISTER
        else Pointer(buffer.dtype, Space.WORKSPACE, None)
        for buffer in body.buffers
    }
    evaluator = Evaluator(builder, values, body, tensors, pointers, spans)
    evaluator.assumed.update(visit.assumed)
    write_nest(evaluator, Surroundings(spans, fixed, lambda axis: 1.0, count(1 + len(fixed))), nest)
    return Tally(parts=_parts(builder, levels, axes), instructions=builder.instructions)


def _parts(builder: CountingBuilder, levels: int, axes: dict[int, int]) -> tuple[Part, ...]:
    """Places of equal loops in one."""
    where: list[tuple[int, tuple[LoopName, ...], float]] = []
    merged: dict[tuple[int, tuple[LoopName, ...]], list[float]] = {}
    for number, place in enumerate(builder.places):
        loops: tuple[LoopName, ...] = ()
        if number < levels:
            level, factor = number, 1.0
        else:
            assert place.around is not None
            level, loops, factor = where[place.around]
            if place.name is None:
                factor *= place.factor
            else:
                loops = (*loops, place.name._replace(axis=axes[place.name.axis]))
        where.append((level, loops, factor))
        if any(place.counts):
            total = merged.setdefault((level, tuple(sorted(loops, key=str))), [0.0] * EVENT_COUNT)
            for event, times in enumerate(place.counts):
                total[event] += factor * times
    return tuple(Part(level=level, loops=loops, counts=tuple(c)) for (level, loops), c in merged.items())


class _Rebuilt:
    """What stands around a nest, made anew for a builder of its own."""

    def __init__(self, builder: CountingBuilder) -> None:
        self._builder = builder
        self._known: dict[int, Vector] = {}
        self._uids = count(1)

    def _number(self, old: Vector) -> Vector:
        if old.constant is not None:
            return self._builder.index(int(old.constant))
        if id(old.handle) not in self._known:
            depth: int = old.handle.depth  # type: ignore[attr-defined]
            self._known[id(old.handle)] = self._builder.made_at(depth, DType.I64)
        return self._known[id(old.handle)]

    def span(self, old: Span) -> Span:
        start = None if old.start is None else self._number(old.start)
        return Span(start, old.extent if isinstance(old.extent, int) else self._number(old.extent))

    def point(self, old: AxisPoint) -> AxisPoint:
        start = None if old.start is None else self._number(old.start)
        return AxisPoint(start=start, iv=self._number(old.iv), offset=old.offset, key=(next(self._uids), 0))
