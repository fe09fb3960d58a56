"""Rounding to integers on instruction sets without an instruction for it, from additions and comparisons.
Must not know which builder carries it out."""

from __future__ import annotations

from autotune.ir.types import DType
from autotune.realizations.builder import Builder, Compare, Vector

_MANTISSA_BITS = {DType.F64: 52, DType.F32: 23, DType.F16: 10, DType.BF16: 7}


def rint(builder: Builder, a: Vector) -> Vector:
    """Nearest integer, ties to even; the sign of zero is kept, as are infinities and NaN.

    Adding and subtracting 2^mantissa leaves no room for a fraction; larger numbers are integers already.
    """
    limit = builder.constant(a.dtype, 2.0 ** _MANTISSA_BITS[a.dtype], a.lanes)
    size = builder.abs(a)
    whole = builder.sub(builder.add(size, limit), limit)
    return builder.select(builder.compare(Compare.LT, size, limit), with_sign(builder, whole, a), a)


def floor(builder: Builder, a: Vector) -> Vector:
    """Largest integer not above."""
    nearest = rint(builder, a)
    return _corrected(builder, a, nearest, builder.compare(Compare.GT, nearest, a), -1.0)


def ceil(builder: Builder, a: Vector) -> Vector:
    """Smallest integer not below."""
    nearest = rint(builder, a)
    return _corrected(builder, a, nearest, builder.compare(Compare.LT, nearest, a), 1.0)


def _corrected(builder: Builder, a: Vector, nearest: Vector, wrong: Vector, step: float) -> Vector:
    moved = builder.add(nearest, builder.constant(a.dtype, step, a.lanes))
    return with_sign(builder, builder.select(wrong, moved, nearest), a)


def with_sign(builder: Builder, magnitude: Vector, sign: Vector) -> Vector:
    """|magnitude| (its sign bit clear, or already right) with the sign bit of `sign`."""
    as_int = {8: DType.I64, 4: DType.I32}[sign.dtype.size_bytes]
    bit = builder.constant(as_int, -(2 ** (8 * sign.dtype.size_bytes - 1)), sign.lanes)
    signs = builder.bit_and(builder.bitcast(sign, as_int), bit)
    return builder.bitcast(builder.bit_or(builder.bitcast(magnitude, as_int), signs), sign.dtype)
