"""The lanes of a value at a point of a nest, each computed once.
Must not know loops or sinks: the emitter opens scopes and hands in points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, assert_never

from autotune.ir.affine import Affine, coord
from autotune.ir.buffer import Body, Buffer, InlineReduction, Nest, Transfer
from autotune.ir.program import (
    Carried,
    Const,
    Elementwise,
    Final,
    IndexValue,
    Indirect,
    Joined,
    Load,
    MergeSide,
    Program,
    Reduce,
    Reindex,
    ScalarArgument,
    Store,
    operands,
    statements,
)
from autotune.ir.types import APPROXIMABLE, COMPARISONS, DType, MathPolicy, Op, ReduceOp
from autotune.realizations import vector_math
from autotune.realizations.builder import Builder, Compare, Pointer, Vector
from autotune.realizations.index_lanes import IndexWriter
from autotune.realizations.memo import Memo
from autotune.realizations.memory_access import MemoryWriter
from autotune.realizations.points import OpenLoop, Point, Span, combinations, lanes_at
from autotune.realizations.ranges import Ranges, state_type
from autotune.realizations.tensor_access import Access, prepare, strides_of

InlineReductions: TypeAlias = Callable[
    [InlineReduction, Reduce, DType, Sequence[Point], Callable[[Point], Vector] | None], list[Vector]
]
"""Writes an inline reduction at every point of a register block."""


class ProgramValues:
    """The values of a program and what is known of them whoever evaluates them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lets = program.lets()
        self.slots = program.slots()
        self.stores = tuple(s for s in statements(program.body) if isinstance(s, Store))
        self.ranges = Ranges(program)
        self._accesses: dict[tuple[str, int], Access] = {}

    def load_access(self, number: int, load: Load) -> Access:
        """The tensor access of a load."""
        key = ("load", number)
        if key not in self._accesses:
            self._accesses[key] = prepare(self.program.tensor(load.tensor), load.index, self.ranges)
        return self._accesses[key]

    def store_access(self, number: int) -> Access:
        """The tensor access of a store."""
        key = ("store", number)
        if key not in self._accesses:
            store = self.stores[number]
            self._accesses[key] = prepare(self.program.tensor(store.tensor), store.index, self.ranges)
        return self._accesses[key]


class Evaluator:
    """Evaluates the values of one body of a buffer program on a builder."""

    def __init__(
        self,
        builder: Builder,
        values: ProgramValues,
        body: Body,
        tensors: Mapping[int, Pointer],
        buffers: Mapping[int, Pointer],
        spans: Mapping[int, Span],
    ) -> None:
        self.builder = builder
        self.program = values.program
        self.lets = values.lets
        self.slots = values.slots
        self.stores = values.stores
        self.ranges = values.ranges
        self.load_access = values.load_access
        self.store_access = values.store_access
        self.tensors = tensors
        self.pointers = buffers
        self.buffers: dict[int, Buffer] = {b.id: b for b in body.buffers}
        self.role = body.role
        self.materialized = dict(body.materialized)
        self.produced: frozenset[int] = frozenset()
        self.transfers: dict[int, Transfer] = {}
        self.variants: dict[str, str] = {}
        self.inline: dict[int, InlineReduction] = {}
        self.opened: list[OpenLoop] = []
        self.assumed: set[int] = set()
        self.memo: Memo[object, object] = Memo()
        self.indices = IndexWriter(builder, values.ranges, self.memo, spans)
        self.memory = MemoryWriter(builder, self.memo, self.indices)
        self.spread = self.memory.spread

    def enter_nest(self, nest: Nest, produced: frozenset[int], reductions: InlineReductions, fixed: Point) -> None:
        """Start a nest: values it produces are computed in it, all other materialized ones are read."""
        self.produced = produced
        self.inline = {spec.value: spec for spec in nest.inline}
        self.reductions = reductions
        self.fixed = fixed
        self.opened = []
        self.transfers = dict(nest.transfers)
        self.variants = dict(nest.variants)

    # ---- questions about values -----------------------------------------------------------------------------------
    def reads_buffer(self, value: int) -> bool:
        """Whether a value is read from its buffer here, rather than computed."""
        return value in self.materialized and value not in self.produced

    def axes(self, value: int) -> tuple[int, ...]:
        return self.lets[value].axes

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

    # ---- values ---------------------------------------------------------------------------------------------------
    def value(self, number: int, point: Point) -> Vector:
        """A value at a point: one lane where it is uniform along the vector axis, else a lane each."""
        key = (number, *[point[a].key for a in self.lets[number].axes if a in point])
        found = self.memo.find(key)
        if found is None:
            found = self._compute(number, point)
            self.memo.keep(key, found)
        assert isinstance(found, Vector)
        return found

    def lanes(self, number: int, point: Point, lanes: int) -> Vector:
        """A value at a point, in every lane."""
        return self.spread(self.value(number, point), lanes)

    def _compute(self, number: int, point: Point) -> Vector:
        if self.reads_buffer(number):
            return self.load_buffer(self.materialized[number], point)
        if number in self.assumed:
            return self.builder.constant(DType.BOOL, True)
        if number in self.inline:
            return self._reduced(number, number, None, point)
        let = self.lets[number]
        physical = self.ranges.physical(let)
        match let.value:
            case Const(value=constant):
                return self.builder.constant(physical, constant)
            case ScalarArgument(parameter=parameter):
                return self.builder.argument_scalar(self.slots[parameter], let.dtype)
            case IndexValue(expression=expression):
                return self.convert(self.indices.lanes(expression, point, self._exact(physical)), physical)
            case Load():
                return self.convert(self._load(number, let.value, point), physical)
            case Elementwise(op=Op.ADD, args=args) if (split := self._starting(number, args)) is not None:
                return self._reduced(number, *split, point)
            case Elementwise(op=op, args=args, math=math):
                return self._elementwise(op, args, math, physical, point)
            case Reindex(value=inner, source=source, target=target):
                moved = dict(point)
                moved[source] = point[target]
                return self.convert(self.value(inner, moved), physical)
            case Reduce() | Carried() | Final() | Joined() | MergeSide():
                raise AssertionError(f"value {number} is never computed in place; its buffer is missing")
            case _:
                assert_never(let.value)

    # ---- inline reductions ----------------------------------------------------------------------------------------
    def _starting(self, number: int, args: tuple[int, ...]) -> tuple[int, int] | None:
        """A sum of an inline reduction and something its accumulators may start with: (reduction, start)."""
        for reduction, start in (args, args[::-1]):
            reduce = self.lets[reduction].value
            if reduction not in self.inline or self.reads_buffer(reduction) or not isinstance(reduce, Reduce):
                continue
            if reduce.op is ReduceOp.SUM and reduce.math.reassociate and self.lets[number].dtype.is_float:
                return reduction, start
        return None

    def _reduced(self, number: int, reduction: int, start: int | None, point: Point) -> Vector:
        """An inline reduction, computed at every point of the register block at once."""
        reduce = self.lets[reduction].value
        assert isinstance(reduce, Reduce)
        axes = self.axes(number)
        block = [loop for loop in self.opened if loop.axis in axes]
        points = list(combinations(block, {**point, **self.fixed}))
        dtype = state_type(self.lets, reduction, self.ranges)
        begin = None if start is None else (lambda at: self.value(start, at))
        results = self.reductions(self.inline[reduction], reduce, dtype, points, begin)
        for at, result in zip(points, results, strict=True):
            self.memo.keep((number, *(at[a].key for a in axes if a in at)), result)
        found = self.memo.find((number, *(point[a].key for a in axes if a in point)))
        assert isinstance(found, Vector), "an inline reduction is evaluated at a point of its nest's register block"
        return found

    def _exact(self, physical: DType) -> DType:
        """The integer type in which an index value of some element type is computed."""
        return physical if physical in (DType.I32, DType.I64) else DType.I64

    def convert(self, value: Vector, dtype: DType) -> Vector:
        return value if value.dtype is dtype else self.builder.cast(value, dtype)

    # ---- elementwise ----------------------------------------------------------------------------------------------
    def _elementwise(self, op: Op, args: tuple[int, ...], math: MathPolicy, physical: DType, point: Point) -> Vector:
        values = [self.value(a, point) for a in args]
        lanes = max(v.lanes for v in values)
        values = [self.spread(v, lanes) for v in values]
        if op is Op.CAST:
            return self.convert(values[0], physical)
        if op is Op.WHERE:
            mask, then, otherwise = values
            if mask.constant is True:
                return self.convert(then, physical)
            return self.builder.select(mask, self.convert(then, physical), self.convert(otherwise, physical))
        common = self._common_type(args, values, physical)
        values = [self.convert(v, common) for v in values]
        if op in (Op.FLOORDIV, Op.MOD) and common.is_integer:
            return self._divide(op, args[1], values, point)
        return (
            self.convert(self.apply(op, values, math), physical)
            if physical.is_integer
            else self.apply(op, values, math)
        )

    def _common_type(self, args: tuple[int, ...], values: list[Vector], physical: DType) -> DType:
        if self.lets[args[0]].dtype is not DType.I64:
            return values[0].dtype
        types = {v.dtype for v in values} | ({physical} if physical.is_integer else set())
        return DType.I64 if DType.I64 in types else DType.I32

    def _divide(self, op: Op, divisor: int, values: list[Vector], point: Point) -> Vector:
        """Integer division: lanes that do not exist divide by 1, and division by -1 wraps as negation does."""
        b = self.builder
        above, below = values
        low, high = self.ranges.interval(divisor)
        one = b.constant(below.dtype, 1, below.lanes)
        below = self._divisor_of_dead_lanes(below, one, point)  # its range says nothing about those
        if not low <= -1 <= high:
            return self.apply(op, [above, below], MathPolicy())
        negates = b.compare(Compare.EQ, below, b.constant(below.dtype, -1, below.lanes))
        result = self.apply(op, [above, b.select(negates, one, below)], MathPolicy())
        return b.select(negates, b.neg(above), result) if op is Op.FLOORDIV else result

    def _divisor_of_dead_lanes(self, divisor: Vector, one: Vector, point: Point) -> Vector:
        for axis_point in point.values():
            if axis_point.valid is not None and axis_point.valid.lanes == divisor.lanes:
                divisor = self.builder.select(axis_point.valid, divisor, one)
        return divisor

    def apply(self, op: Op, v: list[Vector], math: MathPolicy) -> Vector:
        """One operation on lanes of one type."""
        b = self.builder
        if op in APPROXIMABLE:
            return vector_math.emit(op, v[0], b, self.variants[op.value])
        if op in COMPARISONS:
            return self._compare(_COMPARE[op], v[0], v[1])
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
            case Op.RECIPROCAL:
                return b.div(b.constant(v[0].dtype, 1, v[0].lanes), v[0])
            case Op.FLOOR:
                return b.floor(v[0])
            case Op.CEIL:
                return b.ceil(v[0])
            case Op.ROUND:
                return b.rint(v[0])
            case _:
                raise AssertionError(f"no lane rule for {op.value}")

    def _compare(self, how: Compare, a: Vector, b: Vector) -> Vector:
        """Bits compare as the numbers 0 and 1."""
        if a.dtype is DType.BOOL and how not in (Compare.EQ, Compare.NE):
            a, b = self.builder.cast(a, DType.I8), self.builder.cast(b, DType.I8)
        return self.builder.compare(how, a, b)

    # ---- tensors --------------------------------------------------------------------------------------------------
    def _load(self, number: int, load: Load, point: Point) -> Vector:
        access = self.load_access(number, load)
        base = self.tensors[load.tensor]
        axes = self.axes(number)
        lanes = lanes_at(point, axes)
        mask = self.memory.validity(point, axes)
        if access.unproven:
            mask = self.memory.both(mask, self.bounds_mask(access, point, lanes))
        mask = None if mask is None else self.spread(mask, lanes)
        if access.indirect:
            return self.builder.gather(
                base, self._indirect_index(access, load, point, lanes), mask=mask, fill=load.fill
            )
        linear = self.memory.linear_index(access, point)
        if linear is None:
            indices = self.memory.element_numbers(access, point, lanes)
            return self.builder.gather(base, indices, mask=mask, fill=load.fill)
        if self.transfers.get(number) is Transfer.TRANSPOSE and linear.stride not in (0, 1):
            return self.memory.transposed_load(number, base, access, point, load.fill)
        far = access.tensor_bytes > self.builder.target.l2_bytes
        return self.memory.load_linear(base, linear, lanes, mask, load.fill, far=far)

    def bounds_mask(self, access: Access, point: Point, lanes: int) -> Vector | None:
        """Where every index of an access that is not proven to stay inside its tensor does so."""
        mask: Vector | None = None
        for dimension, entry in access.unproven:
            if isinstance(entry, Indirect):
                position = self.lanes(entry.value, point, lanes)
            else:
                position = self.spread(self.indices.lanes(entry, point, DType.I64), lanes)
            size = access.tensor.shape[dimension].constant
            if position.dtype is DType.I8:
                position = self.builder.cast(position, DType.I32)
            mask = self.memory.both(mask, self.memory.inside(position, size))
        return mask

    def _indirect_index(self, access: Access, load: Load, point: Point, lanes: int) -> Vector:
        b = self.builder
        total = b.constant(DType.I64, 0, lanes)
        for entry, stride in zip(load.index, strides_of(access.tensor), strict=True):
            if isinstance(entry, Indirect):
                position = self.convert(self.lanes(entry.value, point, lanes), DType.I64)
            else:
                position = self.spread(self.indices.lanes(entry, point, DType.I64), lanes)
            total = b.add(total, b.mul(position, b.constant(DType.I64, stride, lanes)))
        return total

    # ---- buffers --------------------------------------------------------------------------------------------------
    def load_buffer(self, number: int, point: Point) -> Vector:
        return self.memory.load_buffer(self.pointers[number], self.buffers[number], point)

    def store_buffer(self, number: int, value: Vector, point: Point) -> None:
        buffer = self.buffers[number]
        lanes = lanes_at(point, tuple(entry.axis for entry in buffer.axes))
        value = self.convert(self.spread(value, lanes), buffer.dtype)
        self.memory.store_buffer(self.pointers[number], buffer, value, point)


_COMPARE = {
    Op.EQ: Compare.EQ,
    Op.NE: Compare.NE,
    Op.LT: Compare.LT,
    Op.LE: Compare.LE,
    Op.GT: Compare.GT,
    Op.GE: Compare.GE,
}
