"""Writes one loop of a nest or of an inline reduction: whole register blocks, then what is left of them.
Must not know what the loop is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil, gcd

from autotune.ir.buffer import NestLoop, Tail
from autotune.realizations.builder import Builder, LoopName, Steps, Vector
from autotune.realizations.memo import Memo
from autotune.realizations.points import AxisPoint, OpenLoop, Span

WHILE_TRIPS = 8.0
"""Trips that a while loop is expected to make, which nothing in a program tells."""

Unrolled = Sequence[tuple[int, int, Vector | None, int | None]]
"""Unrolled points of a trip: offset, lanes, mask of the lanes that exist, and how many do if that is a constant."""

Trip = Callable[[OpenLoop], None]


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What stands around a nest: blocks of the axes, axes fixed at one coordinate, and expected extents.

    `active` gives the coordinates that a block of unknown extent has on average.
    """

    spans: Mapping[int, Span]
    fixed: Mapping[int, AxisPoint]
    active: Callable[[int], float]
    uids: count[int]


def trips_of(name: LoopName, active: float) -> float:
    """Expected trips of a loop over a block of which `active` coordinates exist: points are what vectors leave."""
    step = name.factor * name.lanes
    if name.steps is Steps.BLOCKS:
        return float(active // step)
    left = active % step if name.factor > 1 else active
    match name.steps:
        case Steps.VECTORS:
            return float(left // name.lanes)
        case Steps.MASKED:
            return float(ceil(left / name.lanes))
        case _:
            return left if name.lanes == 1 else left % name.lanes


class LoopWriter:
    """Writes loops over the current blocks of axes."""

    def __init__(self, builder: Builder, memo: Memo[object, object], surroundings: Surroundings) -> None:
        self.builder = builder
        self.memo = memo
        self.surroundings = surroundings

    def write(self, loop: NestLoop, tail: Tail, trip: Trip) -> None:
        """Every coordinate of the loop's block, through one or several copies of `trip`."""
        span = self.surroundings.spans[loop.axis]
        if isinstance(span.extent, int):
            self._static(loop, tail, span, span.extent, trip)
        else:
            self._dynamic(loop, tail, span, span.extent, trip)

    def _trip(self, loop: NestLoop, span: Span, iv: Vector, steps: Unrolled, trip: Trip, multiple: int = 1) -> None:
        uid = next(self.surroundings.uids)
        points = tuple(
            AxisPoint(
                start=span.start,
                iv=iv,
                offset=offset,
                lanes=lanes,
                valid=valid,
                key=(uid, offset),
                steps=len(steps),
                count=exist,
                multiple=multiple,
            )
            for offset, lanes, valid, exist in steps
        )
        self.memo.push()
        trip(OpenLoop(loop.axis, points))
        self.memo.pop()

    def _counted(
        self,
        loop: NestLoop,
        span: Span,
        bounds: tuple[Vector, Vector],
        steps: Callable[[Vector], Unrolled],
        covered: Steps,
        trip: Trip,
        active: float | None = None,
    ) -> None:
        name = LoopName(loop.axis, covered, loop.factor, loop.lanes)
        stride = {Steps.BLOCKS: loop.step, Steps.POINTS: 1}.get(covered, loop.lanes)
        multiple = 1 if bounds[0].constant is None else gcd(stride, int(bounds[0].constant))

        def body(iv: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
            self._trip(loop, span, iv, steps(iv), trip, multiple)
            return ()

        trips = None if active is None else trips_of(name, active)
        self.builder.loop(bounds[0], bounds[1], stride, (), body, trips=trips, name=name)

    def _static(self, loop: NestLoop, tail: Tail, span: Span, extent: int, trip: Trip) -> None:
        """Whole register blocks, then whole vectors that do not fill one, then the tail of the vector axis."""
        b = self.builder
        main = extent - extent % loop.step
        whole: Unrolled = [(k * loop.lanes, loop.lanes, None, loop.lanes) for k in range(loop.factor)]
        if main == loop.step:
            self._trip(loop, span, b.index(0), whole, trip)
        elif main:
            self._counted(loop, span, (b.index(0), b.index(main)), lambda _: whole, Steps.BLOCKS, trip)
        rest = extent - main
        if not rest:
            return
        vectors, ragged = divmod(rest, loop.lanes)
        steps = [(k * loop.lanes, loop.lanes, None, loop.lanes) for k in range(vectors)]
        masked: list[tuple[int, int, Vector | None, int | None]] = list(steps)
        if ragged and tail is Tail.MASK:
            masked.append((vectors * loop.lanes, loop.lanes, b.first_lanes(b.index(ragged), loop.lanes), ragged))
        if masked:
            self._trip(loop, span, b.index(main), masked, trip)
        if ragged and tail is Tail.OVERLAP and extent >= loop.lanes:
            self._trip(loop, span, b.index(extent - loop.lanes), [(0, loop.lanes, None, loop.lanes)], trip)
        elif ragged and tail is not Tail.MASK:
            bounds = b.index(extent - ragged), b.index(extent)
            self._counted(loop, span, bounds, lambda _: [(0, 1, None, 1)], Steps.POINTS, trip)

    def _dynamic(self, loop: NestLoop, tail: Tail, span: Span, extent: Vector, trip: Trip) -> None:
        """A block whose extent the program knows: whole register blocks, then one vector or scalar at a time."""
        b, lanes = self.builder, loop.lanes
        done, active = b.index(0), self.surroundings.active(loop.axis)
        if loop.factor > 1:
            whole: Unrolled = [(k * lanes, lanes, None, lanes) for k in range(loop.factor)]
            done = b.index_add(extent, b.index_scale(b.index_mod(extent, loop.step), -1))
            self._counted(loop, span, (b.index(0), done), lambda _: whole, Steps.BLOCKS, trip, active)
        if lanes == 1:
            self._counted(loop, span, (done, extent), lambda _: [(0, 1, None, 1)], Steps.POINTS, trip, active)
            return
        if tail is Tail.MASK:

            def masked(iv: Vector) -> Unrolled:
                left = b.index_add(extent, b.index_scale(iv, -1))
                return [(0, lanes, b.first_lanes(left, lanes), None)]

            self._counted(loop, span, (done, extent), masked, Steps.MASKED, trip, active)
            return
        main = b.index_add(extent, b.index_scale(b.index_mod(extent, lanes), -1))
        vector: Unrolled = [(0, lanes, None, lanes)]
        self._counted(loop, span, (done, main), lambda _: vector, Steps.VECTORS, trip, active)
        self._counted(loop, span, (main, extent), lambda _: [(0, 1, None, 1)], Steps.POINTS, trip, active)
