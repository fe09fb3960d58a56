"""Index expressions as numbers: one for a whole nest point, or one a lane.
Must not know tensors, values or loops."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.affine import Affine, Atom, Coord, Greatest, Least, Product, Quotient, Remainder, Start, Stop
from autotune.ir.dependence import coordinates
from autotune.ir.types import DType
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.memo import Memo
from autotune.realizations.points import Point, Span
from autotune.realizations.ranges import Interval, Ranges

_I32 = (-(2**31), 2**31 - 1)


class IndexWriter:
    """Writes index arithmetic: I64 by meaning, I32 where the caller's range allows it."""

    def __init__(self, builder: Builder, ranges: Ranges, memo: Memo[object, object], spans: Mapping[int, Span]) -> None:
        self.builder = builder
        self.ranges = ranges
        self._memo = memo
        self._spans = spans

    # ---- one number -----------------------------------------------------------------------------------------------
    def coordinate(self, axis: int, point: Point) -> Vector:
        """Coordinate of lane 0 along an axis, without the constant offset of its point."""
        at = point[axis]
        if at.start is None:
            return at.iv
        key = ("coordinate", axis, at.key)
        found = self._memo.find(key)
        if found is None:
            found = self.builder.index_add(at.start, at.iv)
            self._memo.keep(key, found)
        assert isinstance(found, Vector)
        return found

    def uniform(self, expression: Affine, point: Point) -> Vector:
        """The expression at lane 0 as a one-lane I64."""
        total = self.builder.index(expression.constant)
        for a, coefficient in expression.terms:
            total = self.builder.index_add(total, self.builder.index_scale(self.uniform_atom(a, point), coefficient))
        return total

    def uniform_atom(self, a: Atom, point: Point) -> Vector:
        b = self.builder
        match a:
            case Coord(axis=axis):
                return b.index_add(self.coordinate(axis, point), b.index(point[axis].offset))
            case Quotient(numerator=n, denominator=d):
                if self._plainly_divided(n, d):
                    return b.index_floordiv(self.uniform(n, point), d.constant)
                return b.div(self.uniform(n, point), self.uniform(d, point))
            case Remainder(numerator=n, denominator=d):
                if self._plainly_divided(n, d):
                    return b.index_mod(self.uniform(n, point), d.constant)
                return b.mod(self.uniform(n, point), self.uniform(d, point))
            case Least(left=left, right=right):
                return b.index_min(self.uniform(left, point), self.uniform(right, point))
            case Greatest(left=left, right=right):
                return b.index_max(self.uniform(left, point), self.uniform(right, point))
            case Product(left=left, right=right):
                return b.mul(self.uniform(left, point), self.uniform(right, point))
            case Start(axis=axis):
                return self._start(axis)
            case Stop(axis=axis):
                extent = self._spans[axis].extent
                return b.index_add(self._start(axis), b.index(extent) if isinstance(extent, int) else extent)
            case _:
                raise AssertionError(f"{a} has no value in a nest")

    def _start(self, axis: int) -> Vector:
        start = self._spans[axis].start
        return self.builder.index(0) if start is None else start

    def _plainly_divided(self, numerator: Affine, denominator: Affine) -> bool:
        """Whether a division has a numerator that is never negative and a positive constant below."""
        bounds = self.ranges.affine(numerator)
        return denominator.is_constant and denominator.constant > 0 and bounds is not None and bounds[0] >= 0

    # ---- a number a lane ------------------------------------------------------------------------------------------
    def lanes(self, expression: Affine, point: Point, dtype: DType) -> Vector:
        """An index expression as numbers: one lane where uniform, else a lane each."""
        axis = self._vector_axis(expression, point)
        if axis is None:
            return self._converted(self.uniform(expression, point), dtype)
        lanes = point[axis].lanes
        stride = expression.coefficient(axis)
        if stride is None:
            return self._general(expression, point, dtype, lanes)
        base = self.builder.splat(self._converted(self.uniform(expression, point), dtype), lanes)
        steps = self.builder.constants(dtype, [stride * lane for lane in range(lanes)])
        return self.builder.add(base, steps)

    def _vector_axis(self, expression: Affine, point: Point) -> int | None:
        """The vector axis along which an expression varies, if any."""
        for axis in coordinates((expression,)):
            if point[axis].lanes > 1:
                return axis
        return None

    def _general(self, expression: Affine, point: Point, dtype: DType, lanes: int) -> Vector:
        b = self.builder
        total = b.constant(dtype, expression.constant, lanes)
        for a, coefficient in expression.terms:
            term = self._converted(self._atom(a, point, dtype, lanes), dtype)
            total = b.add(total, b.mul(term, b.constant(dtype, coefficient, lanes)))
        return total

    def _atom(self, a: Atom, point: Point, dtype: DType, lanes: int) -> Vector:
        b = self.builder
        match a:
            case Quotient(numerator=n, denominator=d) | Remainder(numerator=n, denominator=d):
                wide = self._type_of((n, d), dtype)
                above, below = self._all(n, point, wide, lanes), self._divisor(d, point, wide, lanes)
                return b.div(above, below) if isinstance(a, Quotient) else b.mod(above, below)
            case Least(left=left, right=right) | Greatest(left=left, right=right):
                wide = self._type_of((left, right), dtype)
                both = self._all(left, point, wide, lanes), self._all(right, point, wide, lanes)
                return b.minimum(*both) if isinstance(a, Least) else b.maximum(*both)
            case Product(left=left, right=right):
                return b.mul(self._all(left, point, dtype, lanes), self._all(right, point, dtype, lanes))
            case _:
                return self._all(Affine(terms=((a, 1),)), point, dtype, lanes)

    def _all(self, expression: Affine, point: Point, dtype: DType, lanes: int) -> Vector:
        return self.builder.splat(one, lanes) if (one := self.lanes(expression, point, dtype)).lanes == 1 else one

    def _divisor(self, expression: Affine, point: Point, dtype: DType, lanes: int) -> Vector:
        """The divisor in every lane, 1 in those that do not exist."""
        divisor = self._all(expression, point, dtype, lanes)
        for axis in coordinates((expression,)):
            valid = point[axis].valid
            if valid is not None and point[axis].lanes == lanes:
                divisor = self.builder.select(valid, divisor, self.builder.constant(dtype, 1, lanes))
        return divisor

    def _type_of(self, operands: tuple[Affine, ...], dtype: DType) -> DType:
        """The type in which operands are exact; sums and products alone may wrap on the way."""
        bounds = [self.ranges.affine(operand) for operand in operands]
        return dtype if all(known is not None and _narrow(known) for known in bounds) else DType.I64

    def _converted(self, value: Vector, dtype: DType) -> Vector:
        return value if value.dtype is dtype else self.builder.cast(value, dtype)


def _narrow(interval: Interval) -> bool:
    return _I32[0] <= interval[0] and interval[1] <= _I32[1]
