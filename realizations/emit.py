"""Walks a buffer program: packets, block loops, nests with their register blocks, sinks and tails.
Must not know how choices were made; it may raise, never decline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product
from math import ceil
from typing import assert_never

from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Buffer,
    BufferProgram,
    Nest,
    NestLoop,
    ReduceInto,
    Role,
    Sink,
    Step,
    StorageClass,
    StoreBuffer,
    StoreTensor,
    Tail,
    Transfer,
)
from autotune.ir.program import AxisKind, Reduce, Scalar
from autotune.realizations import accumulate
from autotune.realizations.builder import Builder, Compare, Pointer, Vector
from autotune.realizations.evaluate import Access, AxisPoint, Evaluator, Point, contiguous_axis, transpose
from autotune.realizations.ranges import Ranges

SLOT_ALIGNMENT_BYTES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The current block of an axis: its first coordinate (None: zero) and how many coordinates exist."""

    start: Vector | None
    extent: int | Vector


@dataclass(frozen=True, slots=True, eq=False)
class OpenLoop:
    """A nest loop whose trip is being written: one point an unrolled step."""

    axis: int
    points: tuple[AxisPoint, ...]


def emit(buffer_program: BufferProgram, builder: Builder) -> None:
    """Write the whole entry: packets `first .. last-1`, each through the full body where its blocks are whole."""
    _Emitter(buffer_program, builder).entry()


class _Emitter:
    def __init__(self, buffer_program: BufferProgram, builder: Builder) -> None:
        self.plan = buffer_program
        self.program = buffer_program.program
        self.builder = builder
        self.ranges = Ranges(self.program)
        self.spans: dict[int, Span] = {}
        self._uids = count(1)
        slots = self.program.slots()
        self.tensors = {
            number: builder.argument_pointer(slots[number], parameter.dtype)
            for number, parameter in enumerate(self.program.parameters)
            if not isinstance(parameter, Scalar)
        }

    # ---- packets ------------------------------------------------------------------------------------------------
    def entry(self) -> None:
        b = self.builder

        def packet(number: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
            self.packet(number)
            return ()

        b.loop(b.first, b.last, 1, (), packet, trips=float(self.plan.packets))

    def packet(self, number: Vector) -> None:
        """One packet: decode its coordinates, then the full body if every block is whole, else the general one."""
        b = self.builder
        spans: dict[int, Span] = {}
        whole: Vector | None = None
        whole_share = 1.0
        rest = number
        for (axis, block), along in reversed(list(zip(self.plan.blocks, self.plan.packets_along(), strict=True))):
            position = b.index_mod(rest, along) if along > 1 else b.index(0)
            rest = b.index_floordiv(rest, along) if along > 1 else rest
            extent = self.program.axes[axis].extent.constant
            start = b.index_scale(position, block)
            spans[axis] = Span(start, block)
            if extent % block:
                left = b.index_add(b.index(extent), b.index_scale(start, -1))
                spans[axis] = Span(start, b.index_min(left, b.index(block)))
                inside = b.compare(Compare.LT, position, b.index(extent // block))
                whole = inside if whole is None else b.bit_and(whole, inside)
                whole_share *= (extent // block) / along
        self._bodies(spans, whole, whole_share)

    def _bodies(self, spans: dict[int, Span], whole: Vector | None, whole_share: float) -> None:
        full = {axis: Span(spans[axis].start, block) for axis, block in self.plan.blocks}
        bodies = self.plan.bodies
        if len(bodies) == 1:
            self.body(bodies[0], full if bodies[0].full else spans)
            return
        assert whole is not None
        self.builder.branch(
            whole,
            lambda: self.body(bodies[0], full),
            lambda: self.body(bodies[1], spans),
            probability=whole_share,
        )

    def body(self, body: Body, spans: dict[int, Span]) -> None:
        b = self.builder
        pointers = {buffer.id: self._place(buffer) for buffer in body.buffers}
        self.evaluator = Evaluator(b, self.plan, body, self.ranges, self.tensors, pointers)
        self.spans = dict(spans)
        for axis in self.program.axes:
            if axis.kind is AxisKind.FULL:
                self.spans[axis.id] = Span(None, axis.extent.constant)
        self.fixed: dict[int, AxisPoint] = {}
        for axis_id, block in self.plan.blocks:
            if block == 1:
                start = self.spans[axis_id].start
                assert start is not None
                self.fixed[axis_id] = AxisPoint(start=start, iv=b.index(0), offset=0, key=(next(self._uids), 0))
        self.steps(body.steps)

    def _place(self, buffer: Buffer) -> Pointer:
        if buffer.storage is StorageClass.REGISTER:
            return self.builder.slot(buffer.dtype, buffer.elements, SLOT_ALIGNMENT_BYTES)
        return self.builder.view(self.builder.workspace, buffer.offset_bytes, buffer.dtype)

    # ---- steps --------------------------------------------------------------------------------------------------
    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Nest():
                    self.evaluator.push()
                    NestWriter(self, step).write()
                    self.evaluator.pop()
                case BlockLoop():
                    self.block_loop(step)
                case _:
                    assert_never(step)

    def block_loop(self, loop: BlockLoop) -> None:
        """Whole blocks in a loop, then one copy of the body for a last partial block."""
        b = self.builder
        axis = self.program.axes[loop.axis]
        extent = axis.extent.constant
        single = axis.kind is AxisKind.RANGE

        def trip(start: Vector, size: int) -> None:
            self.evaluator.push()
            if single:
                self.fixed[loop.axis] = AxisPoint(start=None, iv=start, offset=0, key=(next(self._uids), 0))
            else:
                self.spans[loop.axis] = Span(start, size)
            self.steps(loop.body)
            self.evaluator.pop()

        def whole(start: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
            trip(start, loop.block)
            return ()

        if single:
            first = axis.start.constant
            last = first + axis.step * extent
            if extent > 0:
                b.loop(b.index(first), b.index(last), axis.step, (), whole)
            self.fixed.pop(loop.axis, None)
            return
        main = extent - extent % loop.block
        if main:
            b.loop(b.index(0), b.index(main), loop.block, (), whole)
        if extent > main:
            trip(b.index(main), extent - main)
        self.spans.pop(loop.axis, None)

    def active(self, axis: int) -> float:
        """Coordinates that a packet of the current body has along a parallel axis on average."""
        extent = self.program.axes[axis].extent.constant
        block = dict(self.plan.blocks)[axis]
        if self.evaluator.role is Role.REST and extent % block:
            return float(extent % block)
        return extent / -(-extent // block)

    def uid(self) -> int:
        return next(self._uids)


class NestWriter:
    """Writes one nest: opens its loops, unrolls its register block, feeds its sinks, closes its reductions."""

    def __init__(self, emitter: _Emitter, nest: Nest) -> None:
        self.emitter = emitter
        self.builder = emitter.builder
        self.evaluator = emitter.evaluator
        self.nest = nest
        written = (s for s in nest.sinks if isinstance(s, StoreBuffer | ReduceInto))
        self.produced = frozenset(s.value for s in written if emitter.evaluator.materialized.get(s.value) == s.buffer)
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
        self.evaluator.enter_nest(self.nest, self.produced)
        self.evaluator.unrolled = {}
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
        span = self.emitter.spans[loop.axis]
        if isinstance(span.extent, int):
            self.static_loop(depth, opened, loop, span, span.extent)
        else:
            self.dynamic_loop(depth, opened, loop, span, span.extent)

    def trip(
        self, depth: int, opened: list[OpenLoop], loop: NestLoop, span: Span, iv: Vector,
        steps: Sequence[tuple[int, int, Vector | None]],
    ) -> None:
        """One trip: `steps` are (offset, lanes, valid mask) of the unrolled points."""
        uid = self.emitter.uid()
        points = tuple(
            AxisPoint(start=span.start, iv=iv, offset=offset, lanes=lanes, valid=valid, key=(uid, offset))
            for offset, lanes, valid in steps
        )
        self.evaluator.push()
        self.evaluator.unrolled[loop.axis] = len(points)
        self.level(depth + 1, [*opened, OpenLoop(loop.axis, points)])
        self.evaluator.pop()

    def counted(
        self, depth: int, opened: list[OpenLoop], loop: NestLoop, span: Span, start: Vector, stop: Vector,
        steps: Callable[[Vector], list[tuple[int, int, Vector | None]]], stride: int, trips: float | None = None,
    ) -> None:
        def body(iv: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
            self.trip(depth, opened, loop, span, iv, steps(iv))
            return ()

        self.builder.loop(start, stop, stride, (), body, trips=trips)

    def static_loop(self, depth: int, opened: list[OpenLoop], loop: NestLoop, span: Span, extent: int) -> None:
        """Whole register blocks, then whole vectors that do not fill one, then the tail of the vector axis."""
        b = self.builder
        main = extent - extent % loop.step
        whole = [(k * loop.lanes, loop.lanes, None) for k in range(loop.factor)]
        if main:
            self.counted(depth, opened, loop, span, b.index(0), b.index(main), lambda _: list(whole), loop.step)
        rest = extent - main
        if not rest:
            return
        vectors, ragged = divmod(rest, loop.lanes)
        steps: list[tuple[int, int, Vector | None]] = [(k * loop.lanes, loop.lanes, None) for k in range(vectors)]
        overlap = self.nest.tail is Tail.OVERLAP and extent >= loop.lanes
        if ragged and self.nest.tail is Tail.MASK:
            steps.append((vectors * loop.lanes, loop.lanes, b.first_lanes(b.index(ragged), loop.lanes)))
        if steps:
            self.trip(depth, opened, loop, span, b.index(main), steps)
        if ragged and overlap:
            self.trip(depth, opened, loop, span, b.index(extent - loop.lanes), [(0, loop.lanes, None)])
        elif ragged and self.nest.tail is not Tail.MASK:
            start, stop = b.index(extent - ragged), b.index(extent)
            self.counted(depth, opened, loop, span, start, stop, lambda _: [(0, 1, None)], 1)

    def dynamic_loop(self, depth: int, opened: list[OpenLoop], loop: NestLoop, span: Span, extent: Vector) -> None:
        """A block whose extent is known at run time only: vectors (masked, or whole and then scalars), not unrolled."""
        b = self.builder
        lanes = loop.lanes
        zero = b.index(0)
        active = self.emitter.active(loop.axis)
        if lanes == 1:
            self.counted(depth, opened, loop, span, zero, extent, lambda _: [(0, 1, None)], 1, active)
            return
        if self.nest.tail is Tail.MASK:
            def masked(iv: Vector) -> list[tuple[int, int, Vector | None]]:
                active = b.index_add(extent, b.index_scale(iv, -1))
                return [(0, lanes, b.first_lanes(active, lanes))]

            self.counted(depth, opened, loop, span, zero, extent, masked, lanes, float(ceil(active / lanes)))
            return
        main = b.index_add(extent, b.index_scale(b.index_mod(extent, lanes), -1))
        self.counted(depth, opened, loop, span, zero, main, lambda _: [(0, lanes, None)], lanes, float(active // lanes))
        self.counted(depth, opened, loop, span, main, extent, lambda _: [(0, 1, None)], 1, active % lanes)

    # ---- points -------------------------------------------------------------------------------------------------
    def combinations(self, opened: Sequence[OpenLoop], axes: Iterator[int] | frozenset[int] | None = None) -> Iterator[dict[int, AxisPoint]]:
        """Points of the register block, the vector axis fastest."""
        chosen = [loop for loop in opened if axes is None or loop.axis in axes]
        chosen.sort(key=lambda loop: loop.points[0].lanes > 1)
        for points in product(*(loop.points for loop in chosen)):
            yield {**self.emitter.fixed, **{loop.axis: p for loop, p in zip(chosen, points, strict=True)}}

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
            case StoreBuffer(value=value):
                return (value,)
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
        held: dict[int, list[tuple[dict[int, AxisPoint], Vector]]] = {}
        for point in self.combinations(opened):
            for number, sink in enumerate(self.nest.sinks):
                match sink:
                    case StoreTensor():
                        self.store(number, sink, point, held)
                    case StoreBuffer(buffer=buffer, value=value):
                        self.evaluator.store_buffer(buffer, self.evaluator.value(value, point), point)
                    case ReduceInto():
                        self.contribute(number, sink, point, opened)
                    case _:
                        assert_never(sink)
        for number, columns in held.items():
            self.store_transposed(number, columns)

    # ---- stores -------------------------------------------------------------------------------------------------
    def store(
        self, number: int, sink: StoreTensor, point: dict[int, AxisPoint],
        held: dict[int, list[tuple[dict[int, AxisPoint], Vector]]],
    ) -> None:
        ev = self.evaluator
        store = ev.stores[sink.store]
        tensor = self.emitter.program.tensor(store.tensor)
        lanes = max((p.lanes for a, p in point.items() if a in self._domain()), default=1)
        value = ev.spread(ev.convert(ev.value(store.value, point), tensor.dtype), lanes)
        linear = ev.linear_index(ev.store_access(sink.store), point)
        assert linear is not None
        if dict(self.nest.store_transfers).get(sink.store) is Transfer.TRANSPOSE and lanes > 1 and linear.stride > 1:
            held.setdefault(number, []).append((point, value))
            return
        mask = ev.validity(point, self._domain())
        if store.mask is not None:
            mask = ev.both(mask, ev.lanes(store.mask, point, lanes))
        ev.store_linear(ev.tensors[store.tensor], linear, value, mask)

    def _domain(self) -> frozenset[int]:
        return frozenset(loop.axis for loop in self.nest.loops)

    def store_transposed(self, number: int, columns: list[tuple[dict[int, AxisPoint], Vector]]) -> None:
        """Columns held in registers are transposed, and each program's row is stored contiguously."""
        sink = self.nest.sinks[number]
        assert isinstance(sink, StoreTensor)
        access = self.evaluator.store_access(sink.store)
        lane_axis = next(loop.axis for loop in self.nest.loops if loop.lanes > 1)
        column_axis = contiguous_axis(access.flat, lane_axis)
        assert column_axis is not None
        groups: dict[tuple[object, ...], list[tuple[dict[int, AxisPoint], Vector]]] = {}
        for point, value in columns:
            others = tuple(p.key for a, p in sorted(point.items()) if a != column_axis)
            groups.setdefault((others, point[column_axis].offset // value.lanes), []).append((point, value))
        for group in groups.values():
            corner = group[0][0]
            self._store_rows(access, sink.store, corner, corner[lane_axis].valid, [value for _, value in group])

    def _store_rows(
        self, access: Access, store: int, corner: Point, valid: Vector | None, columns: list[Vector]
    ) -> None:
        ev, b = self.evaluator, self.builder
        linear = ev.linear_index(access, corner)
        assert linear is not None
        lanes = columns[0].lanes
        padding = [b.constant(columns[0].dtype, 0, lanes)] * (lanes - len(columns))
        whole = None if not padding else b.first_lanes(b.index(len(columns)), lanes)
        base = ev.tensors[ev.stores[store].tensor]
        for lane, row in enumerate(transpose(b, [*columns, *padding])):
            mask = whole if valid is None else ev.both(whole, ev.spread(b.extract(valid, lane), lanes))
            first = b.index_add(linear.base, b.index(linear.constant + lane * linear.stride))
            b.store(base, first, row, mask=mask)

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
                lanes = max((p.lanes for a, p in point.items() if a in self.outer_axes), default=1)
                horizontal = vector is not None and vector.axis in self.reduced_axes
                if horizontal and vector is not None:
                    lanes = vector.lanes
                dtype = self.evaluator.body_type(reduce.body)
                accumulator = accumulate.Accumulator(
                    self.builder, reduce, dtype, lanes, sink.chains, horizontal, self._scalar_tail(vector, horizontal)
                )
                self.accumulators[number, self._outer_key(self.outer_axes, point)] = accumulator

    def _scalar_tail(self, vector: NestLoop | None, horizontal: bool) -> bool:
        if vector is None or not horizontal or self.nest.tail is not Tail.SCALAR:
            return False
        extent = self.emitter.spans[vector.axis].extent
        return not isinstance(extent, int) or extent % vector.lanes != 0

    def contribute(self, number: int, sink: ReduceInto, point: Point, opened: list[OpenLoop]) -> None:
        reduce = self._reduce(sink)
        accumulator = self.accumulators[number, self._outer_key(self.outer_axes, point)]
        step = 0
        for loop in opened:
            if loop.axis in self.reduced_axes:
                position = next(k for k, p in enumerate(loop.points) if p is point[loop.axis])
                step = step * len(loop.points) + position
        lanes = max((p.lanes for a, p in point.items() if a in self._domain()), default=1)
        mask = self.evaluator.validity(point, self.reduced_axes)
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
