"""Which integers a value can be: lets index arithmetic run in 32 bits and bounds checks disappear.
Must not know nests or builders."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from autotune.ir.affine import Affine, Atom, Coord, Start, Stop
from autotune.ir.program import Const, Elementwise, IndexValue, Let, Load, Program, Reduce, Reindex
from autotune.ir.types import DType, Op, ReduceOp

Interval = tuple[int, int]

_BY_DTYPE: dict[DType, Interval] = {
    DType.BOOL: (0, 1),
    DType.I8: (-(2**7), 2**7 - 1),
    DType.I32: (-(2**31), 2**31 - 1),
    DType.I64: (-(2**63), 2**63 - 1),
}
_I32 = _BY_DTYPE[DType.I32]


class Ranges:
    """Intervals of the integer values and index expressions of one bound program."""

    def __init__(self, program: Program) -> None:
        self._lets = program.lets()
        self._axes = program.axes
        self._known: dict[int, Interval] = {}

    @cached_property
    def leaves(self) -> Mapping[Atom, Interval]:
        """Inclusive bounds of every coordinate; those of block bounds are the coordinates' own, one past for stops."""
        bounds: dict[Atom, Interval] = {}
        for axis in self._axes:
            extent = axis.extent.range(bounds) or (0, 2**31)
            first = axis.start.range(bounds) or (0, 0)
            last = first[1] + axis.step * max(extent[1] - 1, 0)
            low, high = min(first[0], last), max(first[1], last)
            bounds[Coord(axis=axis.id)] = (low, high)
            bounds[Start(axis=axis.id)] = (low, high)
            bounds[Stop(axis=axis.id)] = (low, high + 1)
        return bounds

    def most(self, axis: int) -> int:
        """The largest extent an axis can have."""
        extent = self._axes[axis].extent
        if extent.is_constant:
            return extent.constant
        bounds = self.affine(extent)
        assert bounds is not None, f"axis {axis} has no largest extent"
        return max(bounds[1], 0)

    def affine(self, expression: Affine) -> Interval | None:
        return expression.range(self.leaves)

    def inside(self, expression: Affine, size: int) -> bool:
        """Whether an index provably stays in `0 ≤ index < size` at every coordinate that exists."""
        bounds = self.affine(expression)
        return bounds is not None and bounds[0] >= 0 and bounds[1] < size

    def interval(self, value: int) -> Interval:
        """Bounds of an integer value, those of its type where nothing better is known."""
        if value not in self._known:
            let = self._lets[value]
            whole = _BY_DTYPE[let.dtype]
            found = self._derive(let)
            self._known[value] = found if found and whole[0] <= found[0] and found[1] <= whole[1] else whole
        return self._known[value]

    def physical(self, let: Let) -> DType:
        """The type a value is computed in: I32 for an I64 value that provably fits, else its own."""
        if let.dtype is not DType.I64:
            return let.dtype
        low, high = self.interval(let.id)
        return DType.I32 if _I32[0] <= low and high <= _I32[1] else DType.I64

    def _derive(self, let: Let) -> Interval | None:
        match let.value:
            case Const(value=number):
                return int(number), int(number)
            case IndexValue(expression=expression):
                return self.affine(expression)
            case Reindex(value=inner):
                return self.interval(inner)
            case Load(tensor=_):
                return None
            case Elementwise(op=op, args=args):
                return self._elementwise(op, args)
            case _:
                return None

    def _elementwise(self, op: Op, args: tuple[int, ...]) -> Interval | None:
        if not all(self._lets[a].dtype in _BY_DTYPE for a in args):
            return None
        intervals = [self.interval(a) for a in args]
        match op, intervals:
            case Op.CAST, [inner]:
                return inner
            case Op.NEG, [(low, high)]:
                return -high, -low
            case Op.ADD, [(a, b), (c, d)]:
                return a + c, b + d
            case Op.SUB, [(a, b), (c, d)]:
                return a - d, b - c
            case Op.MUL, [(a, b), (c, d)]:
                products = (a * c, a * d, b * c, b * d)
                return min(products), max(products)
            case Op.MINIMUM, [(a, b), (c, d)]:
                return min(a, c), min(b, d)
            case Op.MAXIMUM, [(a, b), (c, d)]:
                return max(a, c), max(b, d)
            case Op.WHERE, [_, (a, b), (c, d)]:
                return min(a, c), max(b, d)
            case Op.ABS, [(low, high)]:
                return 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))
            case Op.FLOORDIV, [(a, b), (c, d)] if c > 0:
                quotients = (a // c, a // d, b // c, b // d)
                return min(quotients), max(quotients)
            case Op.MOD, [_, (c, d)] if c > 0:
                return 0, d - 1
            case _:
                return None


def state_type(lets: Mapping[int, Let], number: int, ranges: Ranges) -> DType:
    """The type a reduction runs in: the body's where it only picks one of the contributions, else the result's."""
    reduce = lets[number].value
    assert isinstance(reduce, Reduce)
    if reduce.op in (ReduceOp.ARGMAX, ReduceOp.MAX, ReduceOp.MIN):
        return ranges.physical(lets[reduce.body])
    return lets[number].dtype
