"""Reductions computed inside a nest: one contribution loop for the whole register block, lanes brought together after.
Must not know sinks or the nest's own loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from autotune.ir.buffer import InlineReduction, NestLoop, Tail
from autotune.ir.program import Load, Reduce, operands
from autotune.ir.types import DType
from autotune.realizations.accumulate import Accumulator
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.evaluate import Evaluator
from autotune.realizations.loops import LoopWriter
from autotune.realizations.memory_access import pairing
from autotune.realizations.points import AxisPoint, OpenLoop, Point, lanes_at

Start = Callable[[Point], Vector]


@dataclass(frozen=True, slots=True, eq=False)
class _Output:
    """One result of the reduction: where it stands and its partial results."""

    point: Point
    accumulator: Accumulator


class InlineReducer:
    """Writes the inline reductions of one nest."""

    def __init__(self, evaluator: Evaluator, loops: LoopWriter, tail: Tail) -> None:
        self.evaluator = evaluator
        self.builder: Builder = evaluator.builder
        self.loops = loops
        self.nest_tail = tail
        self.tail = tail
        self.uids: count[int] = loops.surroundings.uids

    def results(
        self, spec: InlineReduction, reduce: Reduce, dtype: DType, points: Sequence[Point], start: Start | None
    ) -> list[Vector]:
        """The reduction at every point of a register block; `start` gives what the accumulators begin with."""
        inner = next((loop for loop in spec.loops if loop.lanes > 1), None)
        self.tail = self.nest_tail if inner is None or self._can_mask(reduce.body) else Tail.SCALAR
        axes = frozenset(self.evaluator.axes(spec.value))
        if inner is None:
            first = [None if start is None else start(point) for point in points]
            outputs = [
                _Output(point, self._accumulator(spec, reduce, dtype, lanes_at(point, axes), False, begin))
                for point, begin in zip(points, first, strict=True)
            ]
            self._contribute(spec, reduce, outputs)
            return [o.accumulator.finish(self.evaluator, reduce, o.point) for o in outputs]
        results = self._across(spec, reduce, dtype, points, inner, axes)
        if start is None:
            return results
        return [
            self.builder.add(self.evaluator.spread(start(point), result.lanes), result, reduce.math)
            for point, result in zip(points, results, strict=True)
        ]

    def _can_mask(self, value: int) -> bool:
        """Whether a last vector of contributions can leave out lanes wherever its values lie in memory."""
        ev = self.evaluator
        let = ev.lets[value]
        if ev.reads_buffer(value) or isinstance(let.value, Load):
            return self.builder.target.masks(let.dtype)
        return all(self._can_mask(operand) for operand in operands(let.value))

    def _accumulator(
        self, spec: InlineReduction, reduce: Reduce, dtype: DType, lanes: int, horizontal: bool, first: Vector | None
    ) -> Accumulator:
        if first is not None:
            lanes = max(lanes, first.lanes)
            first = self.evaluator.spread(self.evaluator.convert(first, dtype), lanes)
        scalar_tail = horizontal and self.tail is Tail.SCALAR
        return Accumulator(self.builder, reduce, dtype, lanes, spec.chains, horizontal, scalar_tail, first)

    # ---- the contribution loop ----------------------------------------------------------------------------------
    def _contribute(self, spec: InlineReduction, reduce: Reduce, outputs: Sequence[_Output]) -> None:
        closed = frozenset(loop.axis for loop in spec.loops)
        for output in outputs:
            self._hoist(reduce.body, closed, output.point)

        def level(depth: int, opened: dict[int, OpenLoop]) -> None:
            if depth == len(spec.loops):
                self._points(reduce, list(opened.values()), outputs)
                return
            loop = spec.loops[depth]
            self.loops.write(loop, self.tail, lambda entered: level(depth + 1, {**opened, loop.axis: entered}))

        self.evaluator.memory.prefetch_bytes = spec.prefetch_bytes
        level(0, {})
        self.evaluator.memory.prefetch_bytes = 0

    def _hoist(self, value: int, closed: frozenset[int], point: Point) -> None:
        """Compute what the contribution loop cannot change before it opens."""
        ev = self.evaluator
        if not closed.intersection(ev.axes(value)):
            ev.value(value, point)
        elif not ev.reads_buffer(value):
            for operand in ev.hoistable_operands(value):
                self._hoist(operand, closed, point)

    def _points(self, reduce: Reduce, opened: Sequence[OpenLoop], outputs: Sequence[_Output]) -> None:
        """Every unrolled contribution to every output, outputs fastest."""
        for step, inner in enumerate(_products(opened)):
            for output in outputs:
                point = {**output.point, **inner}
                mask = self.evaluator.memory.validity(inner, tuple(inner))
                accumulator = output.accumulator
                lanes = lanes_at(inner, tuple(inner)) if accumulator.horizontal else accumulator.lanes
                accumulator.add(self.evaluator, reduce, point, step, lanes, mask)

    # ---- lanes of its own ---------------------------------------------------------------------------------------
    def _across(
        self,
        spec: InlineReduction,
        reduce: Reduce,
        dtype: DType,
        points: Sequence[Point],
        inner: NestLoop,
        axes: frozenset[int],
    ) -> list[Vector]:
        """Lanes are contributions; the outputs across a nest's own lanes are transposed together."""
        vector = next((a for a in axes if a in points[0] and points[0][a].lanes > 1), None)
        if vector is None:
            outputs = [
                _Output(point, self._accumulator(spec, reduce, dtype, inner.lanes, True, None)) for point in points
            ]
            self._contribute(spec, reduce, outputs)
            return [o.accumulator.finish(self.evaluator, reduce, o.point) for o in outputs]
        results: dict[int, Vector] = {}
        for numbers in _same_lanes(points, vector):
            trees = {number: _Tree(self.builder, reduce, inner.lanes) for number in numbers}
            lanes = [self._lane(points[numbers[0]][vector], lane) for lane in range(points[numbers[0]][vector].lanes)]
            existing = [lane for lane in lanes if lane is not None]
            for first in range(0, len(existing), spec.group):
                grouped = existing[first : first + spec.group]
                self.evaluator.memo.push()
                outputs = [
                    _Output(
                        {**points[number], vector: lane},
                        self._accumulator(spec, reduce, dtype, inner.lanes, True, None),
                    )
                    for lane in grouped
                    for number in numbers
                ]
                self._contribute(spec, reduce, outputs)
                self.evaluator.memo.pop()
                for position, output in enumerate(outputs):
                    trees[numbers[position % len(numbers)]].push(output.accumulator.partial())
            for number, tree in trees.items():
                results[number] = tree.finish(points[number][vector].lanes)
        return [results[number] for number in range(len(points))]

    def _lane(self, at: AxisPoint, lane: int) -> AxisPoint | None:
        """One lane of a vector point as a point of its own, None where it does not exist."""
        if at.count is not None and lane >= at.count:
            return None
        valid = None
        if at.valid is not None and at.count is None:
            valid = self.builder.extract(at.valid, lane)
        offset = at.offset + lane
        key = (-1 - at.key[0], offset)
        return replace(at, offset=offset, lanes=1, valid=valid, key=key, count=1)


class _Tree:
    """Brings vectors of partial lanes together: lane l of the result is the sum of the lanes of vector l.

    Folds like a binary counter, so that no more than log2 of the lanes are alive beside the vectors still to come.
    """

    def __init__(self, builder: Builder, reduce: Reduce, lanes: int) -> None:
        self.builder = builder
        self.reduce = reduce
        self.lanes = lanes
        self.held: list[tuple[int, Vector]] = []

    def push(self, vector: Vector) -> None:
        level = 0
        while self.held and self.held[-1][0] == level:
            vector = self._fold(self.held.pop()[1], vector, level)
            level += 1
        self.held.append((level, vector))

    def finish(self, wanted: int) -> Vector:
        """The result in `wanted` lanes; absent vectors leave lanes that nobody reads."""
        top = wanted.bit_length() - 1
        while len(self.held) > 1 or self.held[0][0] < top:
            level, vector = self.held.pop()
            if self.held and self.held[-1][0] == level:
                vector = self._fold(self.held.pop()[1], vector, level)
            else:
                vector = self._fold(vector, vector, level)
            self.held.append((level + 1, vector))
        vector = self.held[0][1]
        lanes = vector.lanes
        while lanes > wanted:  # more contributions a vector than outputs: what is left is summed by halves
            lanes //= 2
            low = self.builder.shuffle(vector, vector, range(lanes))
            high = self.builder.shuffle(vector, vector, range(lanes, 2 * lanes))
            vector = self.builder.add(low, high, self.reduce.math)
        return vector

    def _fold(self, left: Vector, right: Vector, level: int) -> Vector:
        low, high = pairing(self.lanes, level)
        b = self.builder
        if left is right:
            return b.add(left, b.shuffle(left, left, [lane ^ (1 << level) for lane in range(self.lanes)]))
        return b.add(b.shuffle(left, right, low), b.shuffle(left, right, high), self.reduce.math)


def _products(opened: Sequence[OpenLoop]) -> list[dict[int, AxisPoint]]:
    found: list[dict[int, AxisPoint]] = [{}]
    for loop in opened:
        found = [{**point, loop.axis: at} for point in found for at in loop.points]
    return found


def _same_lanes(points: Sequence[Point], vector: int) -> list[list[int]]:
    """Numbers of the points that stand at the same vector along an axis."""
    groups: dict[tuple[int, int], list[int]] = {}
    for number, point in enumerate(points):
        groups.setdefault(point[vector].key, []).append(number)
    return list(groups.values())
