"""Reads and writes of memory along a nest: contiguous, strided, gathered, transposed in registers, masked.
Must not know values or loops; indices read from memory are handed in by the evaluator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from autotune.ir.affine import Affine, Coord
from autotune.ir.buffer import Buffer, BufferAxis
from autotune.ir.program import Number
from autotune.ir.types import DType
from autotune.realizations.builder import Builder, Compare, Pointer, Vector
from autotune.realizations.index_lanes import IndexWriter
from autotune.realizations.memo import Memo
from autotune.realizations.points import AxisPoint, Point, lanes_at
from autotune.realizations.tensor_access import Access, contiguous_axis


@dataclass(frozen=True, slots=True)
class LinearIndex:
    """An element number along a nest: `base + constant + lane·stride`."""

    base: Vector
    constant: int
    stride: int


class MemoryWriter:
    """Writes the loads and stores of one body."""

    def __init__(self, builder: Builder, memo: Memo[object, object], indices: IndexWriter) -> None:
        self.builder = builder
        self.memo = memo
        self.indices = indices
        self.prefetch_bytes = 0  # how far ahead of each contiguous load of a far tensor its stream is asked for

    # ---- lanes and masks ------------------------------------------------------------------------------------------
    def spread(self, value: Vector, lanes: int) -> Vector:
        """A uniform value in every lane."""
        if value.lanes == lanes:
            return value
        key = ("splat", id(value), lanes)
        found = self.memo.find(key)
        if found is None:
            found = (self.builder.splat(value, lanes), value)
            self.memo.keep(key, found)
        assert isinstance(found, tuple)
        result = found[0]
        assert isinstance(result, Vector)
        return result

    def validity(self, point: Point, axes: Iterable[int]) -> Vector | None:
        """Mask of the lanes that exist, None where all do."""
        mask: Vector | None = None
        for axis in axes:
            if axis in point and point[axis].valid is not None:
                mask = self.both(mask, point[axis].valid)
        return mask

    def both(self, a: Vector | None, b: Vector | None) -> Vector | None:
        if a is None or b is None:
            return a if b is None else b
        lanes = max(a.lanes, b.lanes)
        return self.builder.bit_and(self.spread(a, lanes), self.spread(b, lanes))

    def inside(self, position: Vector, size: int) -> Vector:
        """Where an index lies in `0 ≤ index < size`."""
        b = self.builder
        zero = b.constant(position.dtype, 0, position.lanes)
        end = b.constant(position.dtype, size, position.lanes)
        return b.bit_and(b.compare(Compare.GE, position, zero), b.compare(Compare.LT, position, end))

    # ---- places ---------------------------------------------------------------------------------------------------
    def linear_index(self, access: Access, point: Point) -> LinearIndex | None:
        """Element number of an access, or None where it is not affine along the vector axis."""
        flat = access.flat
        stride = 0
        for axis in access.axes:
            if point[axis].lanes > 1:
                across = flat.coefficient(axis)
                if across is None:
                    return None
                stride = across
        constant = flat.constant + sum(c * point[axis].offset for axis, c in access.coefficients)
        key = (id(access), *(point[a].key[0] for a in access.axes))
        found = self.memo.find(key) if access.simple else None
        if found is None:
            found = self._base(flat, point)
            if access.simple:
                self.memo.keep(key, found)
        assert isinstance(found, Vector)
        return LinearIndex(found, constant, stride)

    def _base(self, flat: Affine, point: Point) -> Vector:
        b = self.builder
        total = b.index(0)
        for a, c in flat.terms:
            if isinstance(a, Coord):
                part = self.indices.coordinate(a.axis, point)
            else:
                part = self.indices.uniform_atom(a, point)
            total = b.index_add(total, b.index_scale(part, c))
        return total

    def element_numbers(self, access: Access, point: Point, lanes: int) -> Vector:
        """Element numbers of an access, one a lane."""
        elements = 1
        for extent in access.tensor.shape:
            elements *= max(extent.constant, 1)
        dtype = DType.I32 if elements < 2**31 else DType.I64
        return self.spread(self.indices.lanes(access.flat, point, dtype), lanes)

    def _strided(self, first: Vector, stride: int, lanes: int) -> Vector:
        b = self.builder
        steps = b.constants(DType.I64, [stride * lane for lane in range(lanes)])
        return b.add(b.splat(first, lanes), steps)

    # ---- linear accesses ------------------------------------------------------------------------------------------
    def load_linear(
        self,
        base: Pointer,
        linear: LinearIndex,
        lanes: int,
        mask: Vector | None,
        fill: Number = 0,
        *,
        far: bool = False,
    ) -> Vector:
        """Lanes at an element number with a constant stride: scalar, contiguous or gathered.

        `far`: the memory is a tensor that the second level does not hold.
        """
        b = self.builder
        first = b.index_add(linear.base, b.index(linear.constant))
        if lanes == 1 or (linear.stride == 0 and mask is None):
            return b.load(base, first, 1, mask=mask, fill=fill)
        mask = None if mask is None else self.spread(mask, lanes)
        if linear.stride == 1:
            if far and self.prefetch_bytes and mask is None:
                ahead = b.index(linear.constant + self.prefetch_bytes // base.dtype.size_bytes)
                b.prefetch(base, b.index_add(linear.base, ahead))
            return b.load(base, first, lanes, mask=mask, fill=fill)
        return b.gather(base, self._strided(first, linear.stride, lanes), mask=mask, fill=fill)

    def store_linear(self, base: Pointer, linear: LinearIndex, value: Vector, mask: Vector | None) -> None:
        """Store lanes at an element number with a constant stride: scalar, contiguous or scattered."""
        b = self.builder
        first = b.index_add(linear.base, b.index(linear.constant))
        if value.lanes == 1 or linear.stride == 1:
            b.store(base, first, value, mask=mask)
        else:
            b.scatter(base, self._strided(first, linear.stride, value.lanes), value, mask=mask)

    def store(self, base: Pointer, access: Access, point: Point, value: Vector, mask: Vector | None) -> None:
        """Store lanes at the place of an access."""
        linear = self.linear_index(access, point)
        if linear is not None:
            self.store_linear(base, linear, value, mask)
        else:
            self.builder.scatter(base, self.element_numbers(access, point, value.lanes), value, mask=mask)

    # ---- buffers --------------------------------------------------------------------------------------------------
    def buffer_index(self, buffer: Buffer, point: Point) -> LinearIndex:
        """Element number in a buffer, whose coordinates count from the start of the current block."""
        b = self.builder
        base, constant, stride = b.index(0), 0, 0
        for entry in buffer.axes:
            at = point[entry.axis]
            if at.lanes > 1:
                stride += entry.stride
            if entry.panel:
                part, offset = self._in_panel(entry, at)
                base, constant = b.index_add(base, part), constant + offset
            else:
                base = b.index_add(base, b.index_scale(at.iv, entry.stride))
                constant += at.offset * entry.stride
        return LinearIndex(base, constant, stride)

    def _in_panel(self, entry: BufferAxis, at: AxisPoint) -> tuple[Vector, int]:
        """The place of a coordinate in panels: the moving part and the constant one."""
        b = self.builder
        panel, pitch = entry.panel, entry.panel_stride
        if (at.multiple if at.iv.constant is None else int(at.iv.constant)) % panel == 0:
            moving = b.index_scale(at.iv, pitch // panel)  # a panel's pitch is a multiple of its width
            return moving, (at.offset // panel) * pitch + (at.offset % panel) * entry.stride
        position = b.index_add(at.iv, b.index(at.offset))
        inside = b.index_scale(b.index_mod(position, panel), entry.stride)
        return b.index_add(b.index_scale(b.index_floordiv(position, panel), pitch), inside), 0

    # ---- register transposition -----------------------------------------------------------------------------------
    def transposed_load(self, number: int, base: Pointer, access: Access, point: Point, fill: Number) -> Vector:
        """One column of a block whose rows are contiguous; the whole block is loaded and transposed together."""
        lane_axis = next(axis for axis in access.axes if point[axis].lanes > 1)
        column_axis = contiguous_axis(access.flat, lane_axis)
        assert column_axis is not None
        at, lanes = point[column_axis], point[lane_axis].lanes
        first = at.offset - at.offset % lanes
        columns = min(lanes, at.steps - first)
        others = tuple(point[a].key for a in access.axes if a not in (lane_axis, column_axis))
        key = ("transposed", number, first, at.key[0], point[lane_axis].key, others)
        found = self.memo.find(key)
        if found is None:
            corner = {**point, column_axis: replace(at, offset=first, key=(at.key[0], first))}
            linear = self.linear_index(access, corner)
            assert linear is not None
            found = self._transposed_block(base, linear, lanes, columns, point[lane_axis].valid, fill)
            self.memo.keep(key, found)
        assert isinstance(found, tuple)
        column = found[at.offset - first]
        assert isinstance(column, Vector)
        return column

    def _transposed_block(
        self, base: Pointer, linear: LinearIndex, lanes: int, columns: int, rows: Vector | None, fill: Number
    ) -> tuple[Vector, ...]:
        b = self.builder
        whole = None if columns == lanes else b.first_lanes(b.index(columns), lanes)
        vectors = []
        for lane in range(lanes):
            first = b.index_add(linear.base, b.index(linear.constant + lane * linear.stride))
            vectors.append(b.load(base, first, lanes, mask=self._row_mask(whole, rows, lane, lanes), fill=fill))
        return transpose(b, vectors)[:columns]

    def store_rows(self, base: Pointer, linear: LinearIndex, columns: list[Vector], rows: Vector | None) -> None:
        """Transpose columns held in registers and store each program's row contiguously."""
        b = self.builder
        lanes = columns[0].lanes
        padding = [b.constant(columns[0].dtype, 0, lanes)] * (lanes - len(columns))
        whole = None if not padding else b.first_lanes(b.index(len(columns)), lanes)
        for lane, row in enumerate(transpose(b, [*columns, *padding])):
            first = b.index_add(linear.base, b.index(linear.constant + lane * linear.stride))
            b.store(base, first, row, mask=self._row_mask(whole, rows, lane, lanes))

    def _row_mask(self, whole: Vector | None, rows: Vector | None, lane: int, lanes: int) -> Vector | None:
        if rows is None:
            return whole
        return self.both(whole, self.spread(self.builder.extract(rows, lane), lanes))

    # ---- vectors of a buffer --------------------------------------------------------------------------------------
    def load_buffer(self, base: Pointer, buffer: Buffer, point: Point) -> Vector:
        axes = tuple(entry.axis for entry in buffer.axes)
        mask = self.validity(point, axes)
        return self.load_linear(base, self.buffer_index(buffer, point), lanes_at(point, axes), mask)

    def store_buffer(self, base: Pointer, buffer: Buffer, value: Vector, point: Point) -> None:
        axes = tuple(entry.axis for entry in buffer.axes)
        self.store_linear(base, self.buffer_index(buffer, point), value, self.validity(point, axes))


def transpose(b: Builder, rows: list[Vector]) -> tuple[Vector, ...]:
    """Transpose a square block held in vectors.

    Shapes: `n` vectors of `n` lanes, n a power of two; `n·log2 n` two-source shuffles.
    """
    n = len(rows)
    span = 1
    while span < n:
        paired: list[Vector] = list(rows)
        low = [(k if k & span == 0 else k - span + n) for k in range(n)]
        high = [(k + span if k & span == 0 else k + n) for k in range(n)]
        for r in range(n):
            if r & span == 0:
                paired[r] = b.shuffle(rows[r], rows[r + span], low)
                paired[r + span] = b.shuffle(rows[r], rows[r + span], high)
        rows = paired
        span *= 2
    return tuple(rows)


def pairing(lanes: int, level: int) -> tuple[list[int], list[int]]:
    """Lanes of two vectors to add for one level of a transposing sum, by number in the first followed by the second.

    A lane whose bit `level` is clear adds two lanes of the first vector, one whose bit is set two of the second.
    """
    bit = 1 << level
    low = [lane if lane & bit == 0 else lanes + (lane ^ bit) for lane in range(lanes)]
    high = [lane | bit if lane & bit == 0 else lanes + lane for lane in range(lanes)]
    return low, high
