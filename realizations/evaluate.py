"""The lanes of a value at a point of a nest, each computed once.
Must not know loops or sinks: the emitter opens scopes and hands in points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from autotune.ir.affine import Affine, Atom, Coord, Greatest, Least, Product, Quotient, Remainder, Start, coord
from autotune.ir.buffer import Body, Buffer, BufferProgram, Nest, Transfer
from autotune.ir.program import (
    Carried,
    Const,
    Elementwise,
    Final,
    Index,
    IndexValue,
    Indirect,
    Load,
    Number,
    Reduce,
    Reindex,
    ScalarArgument,
    Store,
    Tensor,
    operands,
    statements,
)
from autotune.ir.types import TRANSCENDENTAL, DType, MathPolicy, Op
from autotune.realizations import vector_math
from autotune.realizations.builder import Builder, Compare, Pointer, Vector
from autotune.realizations.ranges import Ranges


@dataclass(frozen=True, slots=True, eq=False)
class AxisPoint:
    """Where a nest stands along one axis.

    The coordinate of lane l is `start + iv + offset + l·(lanes > 1)`, and that of a buffer the same without `start`.
    `valid` is the mask of the lanes that exist, None where all do. `key` tells points of one scope apart.
    """

    start: Vector | None
    iv: Vector
    offset: int
    lanes: int = 1
    valid: Vector | None = None
    key: tuple[int, int] = (0, 0)


Point = Mapping[int, AxisPoint]


@dataclass(frozen=True, slots=True)
class LinearIndex:
    """An element number along a nest: `base + constant + lane·stride`."""

    base: Vector
    constant: int
    stride: int


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A tensor access made ready: its element number as one expression, and that expression taken apart.

    `simple` says that only coordinates occur; `coefficients` are theirs. `unproven` are the index entries (position,
    entry) that may leave the tensor.
    """

    tensor: Tensor
    flat: Affine
    axes: tuple[int, ...]
    simple: bool
    coefficients: tuple[tuple[int, int], ...]
    unproven: tuple[tuple[int, Index], ...]
    indirect: bool


class Evaluator:
    """Evaluates the values of one body of a buffer program on a builder."""

    def __init__(
        self,
        builder: Builder,
        buffer_program: BufferProgram,
        body: Body,
        ranges: Ranges,
        tensors: Mapping[int, Pointer],
        buffers: Mapping[int, Pointer],
    ) -> None:
        program = buffer_program.program
        self.builder = builder
        self.program = program
        self.lets = program.lets()
        self.slots = program.slots()
        self.stores = tuple(s for s in statements(program.body) if isinstance(s, Store))
        self.ranges = ranges
        self.tensors = tensors
        self.pointers = buffers
        self.buffers: dict[int, Buffer] = {b.id: b for b in body.buffers}
        self.role = body.role
        self.materialized = dict(body.materialized)
        self.produced: frozenset[int] = frozenset()
        self.transfers: dict[int, Transfer] = {}
        self.variants: dict[str, str] = {}
        self.unrolled: dict[int, int] = {}  # steps along each axis in the trip now being written
        self._memo: list[dict[object, object]] = [{}]
        self._accesses: dict[tuple[str, int], Access] = {}

    # ---- scopes -------------------------------------------------------------------------------------------------
    def enter_nest(self, nest: Nest, produced: frozenset[int]) -> None:
        """Start a nest: values it produces are computed in it, all other materialized ones are read."""
        self.produced = produced
        self.transfers = dict(nest.transfers)
        self.variants = dict(nest.variants)

    def push(self) -> None:
        """Open a scope: what is computed in it is forgotten when it closes."""
        self._memo.append({})

    def pop(self) -> None:
        self._memo.pop()

    def _find(self, key: object) -> object | None:
        for scope in reversed(self._memo):
            if key in scope:
                return scope[key]
        return None

    def _keep(self, key: object, value: object) -> None:
        self._memo[-1][key] = value

    # ---- values -------------------------------------------------------------------------------------------------
    def reads_buffer(self, value: int) -> bool:
        """Whether a value is read from its buffer here, rather than computed."""
        return value in self.materialized and value not in self.produced

    def axes(self, value: int) -> tuple[int, ...]:
        return self.lets[value].axes

    def body_type(self, value: int) -> DType:
        """The type a value is reduced in."""
        return self.ranges.physical(self.lets[value])

    def hoistable_operands(self, value: int) -> tuple[int, ...]:
        """Operands that are evaluated at the very point at which the value is."""
        inner = self.lets[value].value
        return () if isinstance(inner, Reindex | Reduce) else operands(inner)

    def argmax_index(self, reduce: Reduce) -> Affine:
        """Position along the reduced axes in row-major order, as the result of an argmax."""
        position = Affine()
        for axis in reduce.axes:
            position = position * self.program.axes[axis].extent + coord(axis)
        return position

    def value(self, number: int, point: Point) -> Vector:
        """A value at a point: one lane where it is uniform along the vector axis, else a lane each."""
        key = (number, *(point[a].key for a in self.axes(number) if a in point))
        found = self._find(key)
        if found is None:
            found = self._compute(number, point)
            self._keep(key, found)
        assert isinstance(found, Vector)
        return found

    def lanes(self, number: int, point: Point, lanes: int) -> Vector:
        """A value at a point, in every lane."""
        value = self.value(number, point)
        return self.spread(value, lanes)

    def spread(self, value: Vector, lanes: int) -> Vector:
        if value.lanes == lanes:
            return value
        key = ("splat", id(value), lanes)
        found = self._find(key)
        if found is None:
            found = (self.builder.splat(value, lanes), value)
            self._keep(key, found)
        assert isinstance(found, tuple)
        result = found[0]
        assert isinstance(result, Vector)
        return result

    def _compute(self, number: int, point: Point) -> Vector:
        if self.reads_buffer(number):
            return self.load_buffer(self.materialized[number], point)
        let = self.lets[number]
        physical = self.ranges.physical(let)
        match let.value:
            case Const(value=constant):
                return self.builder.constant(physical, constant)
            case ScalarArgument(parameter=parameter):
                return self.builder.argument_scalar(self.slots[parameter], let.dtype)
            case IndexValue(expression=expression):
                return self.index_lanes(expression, point, physical)
            case Load():
                return self.convert(self._load(number, let.value, point), physical)
            case Elementwise(op=op, args=args, math=math):
                return self._elementwise(op, args, math, physical, point)
            case Reindex(value=inner, source=source, target=target):
                moved = dict(point)
                moved[source] = point[target]
                return self.convert(self.value(inner, moved), physical)
            case Reduce() | Carried() | Final():
                raise AssertionError(f"value {number} is never computed in place; its buffer is missing")
            case _:
                assert_never(let.value)

    def convert(self, value: Vector, dtype: DType) -> Vector:
        return value if value.dtype is dtype else self.builder.cast(value, dtype)

    # ---- elementwise --------------------------------------------------------------------------------------------
    def _elementwise(
        self, op: Op, args: tuple[int, ...], math: MathPolicy, physical: DType, point: Point
    ) -> Vector:
        values = [self.value(a, point) for a in args]
        lanes = max(v.lanes for v in values)
        values = [self.spread(v, lanes) for v in values]
        if op is Op.CAST:
            return self.convert(values[0], physical)
        if op is Op.WHERE:
            mask, then, otherwise = values
            return self.builder.select(mask, self.convert(then, physical), self.convert(otherwise, physical))
        common = self._common_type(args, values, physical)
        values = [self.convert(v, common) for v in values]
        if op in (Op.FLOORDIV, Op.MOD) and common.is_integer:
            values[1] = self._safe_divisor(values[1], point)
        return self.apply(op, values, math)

    def _common_type(self, args: tuple[int, ...], values: list[Vector], physical: DType) -> DType:
        if self.lets[args[0]].dtype is not DType.I64:
            return values[0].dtype
        types = {v.dtype for v in values} | ({physical} if physical.is_integer else set())
        return DType.I64 if DType.I64 in types else DType.I32

    def _safe_divisor(self, divisor: Vector, point: Point) -> Vector:
        for axis_point in point.values():
            if axis_point.valid is not None and axis_point.valid.lanes == divisor.lanes:
                one = self.spread(self.builder.constant(divisor.dtype, 1), divisor.lanes)
                divisor = self.builder.select(axis_point.valid, divisor, one)
        return divisor

    def apply(self, op: Op, v: list[Vector], math: MathPolicy) -> Vector:
        """One operation on lanes of one type."""
        b = self.builder
        if op in TRANSCENDENTAL:
            return vector_math.emit(op, v[0], b, self.variants[op.value])
        match op:
            case Op.ADD:
                return b.bit_or(*v) if v[0].dtype is DType.BOOL else b.add(v[0], v[1], math)
            case Op.SUB:
                return b.sub(v[0], v[1], math)
            case Op.MUL:
                return b.bit_and(*v) if v[0].dtype is DType.BOOL else b.mul(v[0], v[1], math)
            case Op.DIV:
                return b.div(v[0], v[1], math)
            case Op.FLOORDIV:
                quotient = b.div(v[0], v[1], math)
                return b.floor(quotient) if v[0].dtype.is_float else quotient
            case Op.MOD:
                return b.mod(v[0], v[1])
            case Op.NEG:
                return b.neg(v[0])
            case Op.ABS:
                return b.abs(v[0])
            case Op.MINIMUM:
                return b.bit_and(*v) if v[0].dtype is DType.BOOL else b.minimum(v[0], v[1])
            case Op.MAXIMUM:
                return b.bit_or(*v) if v[0].dtype is DType.BOOL else b.maximum(v[0], v[1])
            case Op.EQ | Op.NE | Op.LT | Op.LE | Op.GT | Op.GE:
                return b.compare(_COMPARE[op], v[0], v[1])
            case Op.AND:
                return b.bit_and(v[0], v[1])
            case Op.OR:
                return b.bit_or(v[0], v[1])
            case Op.XOR:
                return b.bit_xor(v[0], v[1])
            case Op.NOT:
                return b.bit_not(v[0])
            case Op.SQRT:
                return b.sqrt(v[0])
            case Op.RSQRT:
                return b.div(self._one(v[0]), b.sqrt(v[0]))
            case Op.RECIPROCAL:
                return b.div(self._one(v[0]), v[0])
            case Op.FLOOR:
                return b.floor(v[0])
            case Op.CEIL:
                return b.ceil(v[0])
            case Op.ROUND:
                return b.rint(v[0])
            case _:
                raise AssertionError(f"no lane rule for {op.value}")

    def _one(self, like: Vector) -> Vector:
        return self.builder.constant(like.dtype, 1, like.lanes)

    # ---- index expressions --------------------------------------------------------------------------------------
    def coordinate(self, axis: int, point: Point) -> Vector:
        """Coordinate of lane 0 along an axis, without the constant offset of its point."""
        at = point[axis]
        if at.start is None:
            return at.iv
        key = ("coordinate", axis, at.key)
        found = self._find(key)
        if found is None:
            found = self.builder.index_add(at.start, at.iv)
            self._keep(key, found)
        assert isinstance(found, Vector)
        return found

    def uniform_index(self, expression: Affine, point: Point) -> Vector:
        """The expression at lane 0 as a one-lane I64."""
        total = self.builder.index(expression.constant)
        for a, coefficient in expression.terms:
            total = self.builder.index_add(total, self.builder.index_scale(self._uniform_atom(a, point), coefficient))
        return total

    def _uniform_atom(self, a: Atom, point: Point) -> Vector:
        b = self.builder
        match a:
            case Coord(axis=axis):
                return b.index_add(self.coordinate(axis, point), b.index(point[axis].offset))
            case Quotient(numerator=n, denominator=d):
                return b.index_floordiv(self.uniform_index(n, point), d.constant)
            case Remainder(numerator=n, denominator=d):
                return b.index_mod(self.uniform_index(n, point), d.constant)
            case Least(left=left, right=right):
                return b.index_min(self.uniform_index(left, point), self.uniform_index(right, point))
            case Greatest(left=left, right=right):
                return b.index_max(self.uniform_index(left, point), self.uniform_index(right, point))
            case Product(left=left, right=right):
                return b.mul(self.uniform_index(left, point), self.uniform_index(right, point))
            case Start(axis=axis):
                start = point[axis].start
                return b.index(0) if start is None else start
            case _:
                raise AssertionError(f"{a} has no value in a nest")

    def _vector_axis(self, expression: Affine, point: Point) -> int | None:
        """The vector axis that an expression depends on, if any."""
        for axis in expression.axes():
            if point[axis].lanes > 1:
                return axis
        return None

    def index_lanes(self, expression: Affine, point: Point, dtype: DType) -> Vector:
        """An index expression as numbers: one lane where uniform, else a lane each."""
        axis = self._vector_axis(expression, point)
        if axis is None:
            return self.convert(self.uniform_index(expression, point), dtype)
        lanes = point[axis].lanes
        stride = expression.coefficient(axis)
        if stride is None:
            return self._general_lanes(expression, point, dtype, lanes)
        base = self.builder.splat(self.convert(self.uniform_index(expression, point), dtype), lanes)
        steps = self.builder.constants(dtype, [stride * lane for lane in range(lanes)])
        return self.builder.add(base, steps)

    def _general_lanes(self, expression: Affine, point: Point, dtype: DType, lanes: int) -> Vector:
        b = self.builder
        total = b.constant(dtype, expression.constant, lanes)
        for a, coefficient in expression.terms:
            term = self._atom_lanes(a, point, dtype, lanes)
            total = b.add(total, b.mul(term, b.constant(dtype, coefficient, lanes)))
        return total

    def _atom_lanes(self, a: Atom, point: Point, dtype: DType, lanes: int) -> Vector:
        b = self.builder

        def inner(expression: Affine) -> Vector:
            return self.spread(self.index_lanes(expression, point, dtype), lanes)

        match a:
            case Coord():
                return inner(Affine(terms=((a, 1),)))
            case Quotient(numerator=n, denominator=d):
                return b.div(inner(n), inner(d))
            case Remainder(numerator=n, denominator=d):
                return b.mod(inner(n), inner(d))
            case Least(left=left, right=right):
                return b.minimum(inner(left), inner(right))
            case Greatest(left=left, right=right):
                return b.maximum(inner(left), inner(right))
            case Product(left=left, right=right):
                return b.mul(inner(left), inner(right))
            case _:
                return self.spread(self.convert(self._uniform_atom(a, point), dtype), lanes)

    # ---- tensors ------------------------------------------------------------------------------------------------
    def load_access(self, number: int, load: Load) -> Access:
        key = ("load", number)
        if key not in self._accesses:
            self._accesses[key] = self._prepare(load.tensor, load.index)
        return self._accesses[key]

    def store_access(self, number: int) -> Access:
        key = ("store", number)
        if key not in self._accesses:
            self._accesses[key] = self._prepare(self.stores[number].tensor, self.stores[number].index)
        return self._accesses[key]

    def _prepare(self, number: int, index: tuple[Index, ...]) -> Access:
        tensor = self.program.tensor(number)
        affine = tuple(i for i in index if isinstance(i, Affine))
        indirect = len(affine) < len(index)
        flat = Affine() if indirect else flatten(tensor, affine)
        unproven = tuple(
            (position, entry)
            for position, entry in enumerate(index)
            if not self._proven(entry, tensor.shape[position].constant)
        )
        return Access(
            tensor=tensor,
            flat=flat,
            axes=tuple(sorted(flat.axes())),
            simple=all(isinstance(a, Coord) for a, _ in flat.terms),
            coefficients=tuple((a.axis, c) for a, c in flat.terms if isinstance(a, Coord)),
            unproven=unproven,
            indirect=indirect,
        )

    def _proven(self, entry: Index, size: int) -> bool:
        if isinstance(entry, Affine):
            return self.ranges.inside(entry, size)
        low, high = self.ranges.interval(entry.value)
        return low >= 0 and high < size

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
        found = self._find(key) if access.simple else None
        if found is None:
            found = self._base(flat, point)
            if access.simple:
                self._keep(key, found)
        assert isinstance(found, Vector)
        return LinearIndex(found, constant, stride)

    def _base(self, flat: Affine, point: Point) -> Vector:
        b = self.builder
        total = b.index(0)
        for a, c in flat.terms:
            part = self.coordinate(a.axis, point) if isinstance(a, Coord) else self._uniform_atom(a, point)
            total = b.index_add(total, b.index_scale(part, c))
        return total

    def _load(self, number: int, load: Load, point: Point) -> Vector:
        access = self.load_access(number, load)
        base = self.tensors[load.tensor]
        axes = self.axes(number)
        lanes = max((point[a].lanes for a in axes), default=1)
        mask = self.validity(point, axes)
        if access.unproven:
            mask = self.both(mask, self._bounds_mask(access, point, lanes))
        if access.indirect:
            indices = self._indirect_index(access.tensor, load.index, point, lanes)
            return self.builder.gather(base, indices, mask=mask, fill=load.fill)
        linear = self.linear_index(access, point)
        if linear is None:
            indices = self.index_lanes(access.flat, point, self._index_type(access.tensor))
            return self.builder.gather(base, self.spread(indices, lanes), mask=mask, fill=load.fill)
        if self.transfers.get(number) is Transfer.TRANSPOSE and linear.stride not in (0, 1):
            return self._transposed_load(number, base, access, point, load.fill)
        return self.load_linear(base, linear, lanes, mask, load.fill)

    def load_linear(
        self, base: Pointer, linear: LinearIndex, lanes: int, mask: Vector | None, fill: Number = 0
    ) -> Vector:
        """Lanes at an element number with a constant stride: scalar, contiguous or gathered."""
        b = self.builder
        first = b.index_add(linear.base, b.index(linear.constant))
        if linear.stride == 0 or lanes == 1:
            uniform = mask if mask is not None and mask.lanes == 1 else None
            return b.load(base, first, 1, mask=uniform, fill=fill)
        if linear.stride == 1:
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

    def _strided(self, first: Vector, stride: int, lanes: int) -> Vector:
        b = self.builder
        steps = b.constants(DType.I64, [stride * lane for lane in range(lanes)])
        return b.add(b.splat(first, lanes), steps)

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

    def _index_type(self, tensor: Tensor) -> DType:
        elements = 1
        for extent in tensor.shape:
            elements *= max(extent.constant, 1)
        return DType.I32 if elements < 2**31 else DType.I64

    def _bounds_mask(self, access: Access, point: Point, lanes: int) -> Vector | None:
        mask: Vector | None = None
        for dimension, entry in access.unproven:
            if isinstance(entry, Indirect):
                position = self.lanes(entry.value, point, lanes)
            else:
                position = self.spread(self.index_lanes(entry, point, DType.I64), lanes)
            mask = self.both(mask, self._inside_mask(position, access.tensor.shape[dimension].constant))
        return mask

    def _inside_mask(self, position: Vector, size: int) -> Vector:
        b = self.builder
        zero = b.constant(position.dtype, 0, position.lanes)
        end = b.constant(position.dtype, size, position.lanes)
        return b.bit_and(b.compare(Compare.GE, position, zero), b.compare(Compare.LT, position, end))

    def _indirect_index(self, tensor: Tensor, index: tuple[Index, ...], point: Point, lanes: int) -> Vector:
        b = self.builder
        total = b.constant(DType.I64, 0, lanes)
        for entry, stride in zip(index, strides_of(tensor), strict=True):
            if isinstance(entry, Indirect):
                position = self.convert(self.lanes(entry.value, point, lanes), DType.I64)
            else:
                position = self.spread(self.index_lanes(entry, point, DType.I64), lanes)
            total = b.add(total, b.mul(position, b.constant(DType.I64, stride, lanes)))
        return total

    # ---- register transposition ---------------------------------------------------------------------------------
    def _transposed_load(self, number: int, base: Pointer, access: Access, point: Point, fill: Number) -> Vector:
        """One column of a block whose rows are contiguous; the whole block is loaded and transposed together."""
        lane_axis = next(axis for axis in access.axes if point[axis].lanes > 1)
        column_axis = contiguous_axis(access.flat, lane_axis)
        assert column_axis is not None
        at, lanes = point[column_axis], point[lane_axis].lanes
        first = at.offset - at.offset % lanes
        columns = min(lanes, self.unrolled[column_axis] - first)
        key = ("transposed", number, first, at.key[0], point[lane_axis].key)
        found = self._find(key)
        if found is None:
            corner = dict(point)
            corner[column_axis] = AxisPoint(at.start, at.iv, first, 1, at.valid, (at.key[0], first))
            linear = self.linear_index(access, corner)
            assert linear is not None
            found = self._transposed_block(base, linear, lanes, columns, point[lane_axis].valid, fill)
            self._keep(key, found)
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
            mask = whole
            if rows is not None:
                mask = self.both(whole, self.spread(b.extract(rows, lane), lanes))
            vectors.append(b.load(base, first, lanes, mask=mask, fill=fill))
        return transpose(b, vectors)[:columns]

    # ---- buffers ------------------------------------------------------------------------------------------------
    def buffer_index(self, buffer: Buffer, point: Point) -> LinearIndex:
        b = self.builder
        base, constant, stride, pitch = b.index(0), 0, 0, 1
        for entry in reversed(buffer.axes):
            at = point[entry.axis]
            base = b.index_add(base, b.index_scale(at.iv, pitch))
            constant += at.offset * pitch
            if at.lanes > 1:
                stride += pitch
            pitch *= entry.extent
        return LinearIndex(base, constant, stride)

    def load_buffer(self, number: int, point: Point) -> Vector:
        buffer = self.buffers[number]
        axes = tuple(entry.axis for entry in buffer.axes)
        lanes = max((point[a].lanes for a in axes), default=1)
        mask = self.validity(point, axes)
        return self.load_linear(self.pointers[number], self.buffer_index(buffer, point), lanes, mask)

    def store_buffer(self, number: int, value: Vector, point: Point) -> None:
        buffer = self.buffers[number]
        axes = tuple(entry.axis for entry in buffer.axes)
        lanes = max((point[a].lanes for a in axes), default=1)
        linear = self.buffer_index(buffer, point)
        value = self.convert(self.spread(value, lanes), buffer.dtype)
        self.store_linear(self.pointers[number], linear, value, self.validity(point, axes))


_COMPARE = {
    Op.EQ: Compare.EQ,
    Op.NE: Compare.NE,
    Op.LT: Compare.LT,
    Op.LE: Compare.LE,
    Op.GT: Compare.GT,
    Op.GE: Compare.GE,
}


def strides_of(tensor: Tensor) -> tuple[int, ...]:
    """Strides in elements; row-major ones where the tensor names none."""
    if tensor.strides is not None:
        return tensor.strides
    strides: list[int] = []
    pitch = 1
    for extent in reversed(tensor.shape):
        strides.append(pitch)
        pitch *= extent.constant
    return tuple(reversed(strides))


def flatten(tensor: Tensor, index: tuple[Affine, ...]) -> Affine:
    """The element number of an access as one index expression."""
    flat = Affine()
    for entry, stride in zip(index, strides_of(tensor), strict=True):
        flat = flat + entry.scaled(stride)
    return flat


def contiguous_axis(flat: Affine, except_axis: int | None = None) -> int | None:
    """The axis along which an access moves by one element a step."""
    for axis in sorted(flat.axes()):
        if axis != except_axis and flat.coefficient(axis) == 1:
            return axis
    return None


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
