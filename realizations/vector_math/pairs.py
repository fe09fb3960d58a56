"""Unevaluated sums of two floats, for the few places where one is not exact enough.
Must not know any function."""

from __future__ import annotations

from typing import NamedTuple

from autotune.ir.types import DType
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.vector_math.variant import like


class Pair(NamedTuple):
    """high + low with |low| at most half a unit in the last place of high."""

    high: Vector
    low: Vector


def two_sum(x: Vector, y: Vector, b: Builder) -> Pair:
    """x + y exactly, of any sizes. Source: D. Knuth, The Art of Computer Programming 2, 4.2.2."""
    total = b.add(x, y)
    y_part = b.sub(total, x)
    x_part = b.sub(total, y_part)
    return Pair(total, b.add(b.sub(x, x_part), b.sub(y, y_part)))


def fast_two_sum(x: Vector, y: Vector, b: Builder) -> Pair:
    """x + y exactly where |x| ≥ |y| or x is zero."""
    total = b.add(x, y)
    return Pair(total, b.sub(y, b.sub(total, x)))


def two_product(x: Vector, y: Vector, b: Builder) -> Pair:
    """x·y exactly: by FMA, or by splitting doubles into halves (no overflow near the largest numbers is caught)."""
    product = b.mul(x, y)
    if b.target.has_fma:
        return Pair(product, b.fma(x, y, b.neg(product)))
    assert x.dtype is DType.F64
    x_high, x_low = _halves(x, b)
    y_high, y_low = _halves(y, b)
    error = b.sub(b.mul(x_high, y_high), product)
    error = b.add(b.add(error, b.mul(x_high, y_low)), b.mul(x_low, y_high))
    return Pair(product, b.add(error, b.mul(x_low, y_low)))


def _halves(x: Vector, b: Builder) -> tuple[Vector, Vector]:
    """The upper 26 bits and the rest."""
    keep = b.constant(DType.I64, -(1 << 27), x.lanes)
    high = b.bitcast(b.bit_and(b.bitcast(x, DType.I64), keep), DType.F64)
    return high, b.sub(x, high)


def divided(numerator: Pair, denominator: Pair, b: Builder) -> Vector:
    """Their quotient to little more than half a unit in the last place."""
    first = b.div(numerator.high, denominator.high)
    product = two_product(first, denominator.high, b)
    rest = b.sub(b.sub(numerator.high, product.high), product.low)
    rest = b.sub(b.add(rest, numerator.low), b.mul(first, denominator.low))
    return b.add(first, b.div(rest, denominator.high))


def one_more(x: Pair, b: Builder) -> Pair:
    """1 + x for |x| ≤ 1 or so, or any x that is not tiny compared with its own low part."""
    total = two_sum(like(b, x.high, 1.0), x.high, b)
    return fast_two_sum(total.high, b.add(total.low, x.low), b)
