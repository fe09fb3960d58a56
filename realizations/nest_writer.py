"""Writes one nest: opens its loops, unrolls its register block, feeds its sinks, closes its reductions.
Must not know packets or how nests follow each other; it may raise, never decline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from autotune.ir.buffer import (
    Nest,
    NestLoop,
    ReduceInto,
    Sink,
    StoreBuffer,
    StoreTensor,
    Tail,
    Transfer,
)
from autotune.ir.program import Reduce
from autotune.realizations import accumulate
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.evaluate import Evaluator
from autotune.realizations.inline_reduction import InlineReducer
from autotune.realizations.loops import LoopWriter, Surroundings
from autotune.realizations.points import AxisPoint, OpenLoop, Point, combinations, lanes_at
from autotune.realizations.ranges import state_type
from autotune.realizations.tensor_access import contiguous_axis

Held = dict[int, list[tuple[dict[int, AxisPoint], Vector]]]
"""Columns of transposed stores, by sink, until the whole register block is there."""


class NestWriter:
    """Writes one nest of a body with the evaluator of that body."""

    def __init__(self, evaluator: Evaluator, surroundings: Surroundings, nest: Nest) -> None:
        self.evaluator = evaluator
        self.surroundings = surroundings
        self.loops = LoopWriter(evaluator.builder, evaluator.memo, surroundings)
        self.builder: Builder = evaluator.builder
        self.nest = nest
        self.domain = frozenset(loop.axis for loop in nest.loops)
        written = (s for s in nest.sinks if isinstance(s, StoreBuffer | ReduceInto))
        self.produced = frozenset(s.value for s in written if evaluator.materialized.get(s.value) == s.buffer)
        self.reductions = [s for s in nest.sinks if isinstance(s, ReduceInto)]
        self.reduced_axes: frozenset[int] = frozenset()
        for sink in self.reductions:
            self.reduced_axes = self.reduced_axes | set(self._reduce(sink).axes)
        self.accumulators: dict[tuple[int, tuple[tuple[int, int], ...]], accumulate.Accumulator] = {}

    def _reduce(self, sink: ReduceInto) -> Reduce:
        value = self.evaluator.lets[sink.value].value
        assert isinstance(value, Reduce)
        return value

    def write(self) -> None:
        reducer = InlineReducer(self.evaluator, self.loops, self.nest.tail)
        self.evaluator.enter_nest(self.nest, self.produced, reducer.results, self.surroundings.fixed)
        self.level(0, [])

    # ---- loops --------------------------------------------------------------------------------------------------
    def level(self, depth: int, opened: list[OpenLoop]) -> None:
        """Write loop number `depth` and everything inside it."""
        loops = self.nest.loops
        if self._reductions_open_at(depth):
            self.open_reductions(opened)
            self.hoist(depth, opened)
            self.inside(depth, opened)
            self.close_reductions(opened)
            return
        self.hoist(depth, opened)
        if depth == len(loops):
            self.points(opened)
        else:
            self.inside(depth, opened)

    def _reductions_open_at(self, depth: int) -> bool:
        if not self.reductions:
            return False
        loops = self.nest.loops
        first = next((k for k, loop in enumerate(loops) if loop.axis in self.reduced_axes), len(loops))
        return depth == first

    def inside(self, depth: int, opened: list[OpenLoop]) -> None:
        if depth == len(self.nest.loops):
            self.points(opened)
            return
        loop = self.nest.loops[depth]

        def trip(entered: OpenLoop) -> None:
            self.evaluator.opened = within = [*opened, entered]
            self.level(depth + 1, within)
            self.evaluator.opened = opened

        self.loops.write(loop, self.nest.tail, trip)

    # ---- points -------------------------------------------------------------------------------------------------
    def combinations(
        self, opened: Sequence[OpenLoop], axes: frozenset[int] | None = None
    ) -> Iterator[dict[int, AxisPoint]]:
        """Points of the register block, the vector axis fastest."""
        chosen = [loop for loop in opened if axes is None or loop.axis in axes]
        return combinations(chosen, self.surroundings.fixed)

    def hoist(self, depth: int, opened: list[OpenLoop]) -> None:
        """Compute what the loops still to open cannot change, before they open."""
        closed = frozenset(loop.axis for loop in self.nest.loops[depth:])
        if not closed:
            return
        seen: set[int] = set()
        for sink in self.nest.sinks:
            for value in self._inputs(sink):
                self._hoist(value, closed, opened, seen)

    def _inputs(self, sink: Sink) -> tuple[int, ...]:
        match sink:
            case StoreTensor(store=number):
                store = self.evaluator.stores[number]
                return (store.value,) if store.mask is None else (store.value, store.mask)
            case StoreBuffer(value=value, source=source):
                return (value,) if source is None else ()
            case ReduceInto():
                return (self._reduce(sink).body,)
            case _:
                assert_never(sink)

    def _hoist(self, value: int, closed: frozenset[int], opened: list[OpenLoop], seen: set[int]) -> None:
        if value in seen:
            return
        seen.add(value)
        axes = self.evaluator.axes(value)
        if not closed.intersection(axes):
            for point in self.combinations(opened, frozenset(axes)):
                self.evaluator.value(value, point)
            return
        if not self.evaluator.reads_buffer(value):
            for operand in self.evaluator.hoistable_operands(value):
                self._hoist(operand, closed, opened, seen)

    def points(self, opened: list[OpenLoop]) -> None:
        """Feed every sink at every point of the register block."""
        held: Held = {}
        for point in self.combinations(opened):
            for number, sink in enumerate(self.nest.sinks):
                match sink:
                    case StoreTensor():
                        self.store(number, sink, point, held)
                    case StoreBuffer():
                        self.store_buffer(sink, point)
                    case ReduceInto():
                        self.contribute(number, sink, point, opened)
                    case _:
                        assert_never(sink)
        for number, columns in held.items():
            self.store_transposed(number, columns)

    # ---- stores -------------------------------------------------------------------------------------------------
    def store_buffer(self, sink: StoreBuffer, point: dict[int, AxisPoint]) -> None:
        ev = self.evaluator
        value = ev.value(sink.value, point) if sink.source is None else ev.load_buffer(sink.source, point)
        ev.store_buffer(sink.buffer, value, point)

    def store(self, number: int, sink: StoreTensor, point: dict[int, AxisPoint], held: Held) -> None:
        ev = self.evaluator
        store = ev.stores[sink.store]
        lanes = lanes_at(point, self.domain)
        value = ev.spread(ev.convert(ev.value(store.value, point), ev.program.tensor(store.tensor).dtype), lanes)
        if lanes > 1 and dict(self.nest.store_transfers).get(sink.store) is Transfer.TRANSPOSE:
            held.setdefault(number, []).append((point, value))
            return
        access = ev.store_access(sink.store)
        mask = ev.memory.validity(point, self.domain)
        if store.mask is not None:
            mask = ev.memory.both(mask, ev.lanes(store.mask, point, lanes))
        if access.unproven:
            mask = ev.memory.both(mask, ev.bounds_mask(access, point, lanes))
        ev.memory.store(ev.tensors[store.tensor], access, point, value, mask)

    def store_transposed(self, number: int, columns: list[tuple[dict[int, AxisPoint], Vector]]) -> None:
        """Columns held in registers are transposed, and each program's row is stored contiguously."""
        ev = self.evaluator
        sink = self.nest.sinks[number]
        assert isinstance(sink, StoreTensor)
        access = ev.store_access(sink.store)
        lane_axis = next(loop.axis for loop in self.nest.loops if loop.lanes > 1)
        column_axis = contiguous_axis(access.flat, lane_axis)
        assert column_axis is not None
        groups: dict[tuple[object, ...], list[tuple[dict[int, AxisPoint], Vector]]] = {}
        for point, value in columns:
            others = tuple(p.key for a, p in sorted(point.items()) if a != column_axis)
            groups.setdefault((others, point[column_axis].offset // value.lanes), []).append((point, value))
        for group in groups.values():
            corner = group[0][0]
            linear = ev.memory.linear_index(access, corner)
            assert linear is not None
            base = ev.tensors[ev.stores[sink.store].tensor]
            ev.memory.store_rows(base, linear, [value for _, value in group], corner[lane_axis].valid)

    # ---- reductions ---------------------------------------------------------------------------------------------
    def _outer_key(self, opened_axes: frozenset[int], point: Point) -> tuple[tuple[int, int], ...]:
        return tuple(sorted((a, point[a].offset) for a in opened_axes))

    def open_reductions(self, opened: list[OpenLoop]) -> None:
        """Start the partial results of every reduction, one set a point of the axes that are not reduced."""
        self.outer_axes = frozenset(loop.axis for loop in opened)
        vector = next((loop for loop in self.nest.loops if loop.lanes > 1), None)
        for number, sink in enumerate(self.nest.sinks):
            if not isinstance(sink, ReduceInto):
                continue
            reduce = self._reduce(sink)
            for point in self.combinations(opened):
                lanes = lanes_at(point, self.outer_axes)
                horizontal = vector is not None and vector.axis in self.reduced_axes
                if horizontal and vector is not None:
                    lanes = vector.lanes
                dtype = state_type(self.evaluator.lets, sink.value, self.evaluator.ranges)
                accumulator = accumulate.Accumulator(
                    self.builder, reduce, dtype, lanes, sink.chains, horizontal, self._scalar_tail(vector, horizontal)
                )
                self.accumulators[number, self._outer_key(self.outer_axes, point)] = accumulator

    def _scalar_tail(self, vector: NestLoop | None, horizontal: bool) -> bool:
        if vector is None or not horizontal or self.nest.tail is not Tail.SCALAR:
            return False
        extent = self.surroundings.spans[vector.axis].extent
        return not isinstance(extent, int) or extent % vector.lanes != 0

    def contribute(self, number: int, sink: ReduceInto, point: Point, opened: list[OpenLoop]) -> None:
        reduce = self._reduce(sink)
        accumulator = self.accumulators[number, self._outer_key(self.outer_axes, point)]
        step = 0
        for loop in opened:
            if loop.axis in self.reduced_axes:
                position = next(k for k, p in enumerate(loop.points) if p is point[loop.axis])
                step = step * len(loop.points) + position
        lanes = lanes_at(point, self.domain)
        mask = self.evaluator.memory.validity(point, self.reduced_axes)
        accumulator.add(self.evaluator, reduce, point, step, lanes, mask)

    def close_reductions(self, opened: list[OpenLoop]) -> None:
        """Combine partial results and lanes, merge the initial value once, write the result to its buffer."""
        for number, sink in enumerate(self.nest.sinks):
            if not isinstance(sink, ReduceInto):
                continue
            reduce = self._reduce(sink)
            for point in self.combinations(opened):
                key = (number, self._outer_key(self.outer_axes, point))
                result = self.accumulators.pop(key).finish(self.evaluator, reduce, point)
                self.evaluator.store_buffer(sink.buffer, result, point)
