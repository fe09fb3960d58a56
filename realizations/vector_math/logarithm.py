"""log: x = 2^e·m with m in [√½, √2), then e·ln 2 + log(m) from a polynomial or from the atanh series in a quotient.
Must not know other functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.vector_math.variant import Variant, horner, like


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """How floats of one type are laid out, and ln 2 in two parts whose first times any exponent is exact."""

    dtype: DType
    integer: DType
    mantissa_bits: int
    bias: int
    smallest_normal: float
    root_half_bits: int  # bit pattern of √½
    ln2_high: float
    ln2_low: float


_F32 = _Format(
    dtype=DType.F32,
    integer=DType.I32,
    mantissa_bits=23,
    bias=127,
    smallest_normal=2.0**-126,
    root_half_bits=0x3F3504F3,
    ln2_high=0.693359375,
    ln2_low=-2.12194440e-4,
)
_F64 = _Format(
    dtype=DType.F64,
    integer=DType.I64,
    mantissa_bits=52,
    bias=1023,
    smallest_normal=2.0**-1022,
    root_half_bits=0x3FE6A09E667F3BCD,
    ln2_high=6.93147180369123816490e-01,
    ln2_low=1.90821492927058770002e-10,
)
# (log(1+f) − f)/f² = −1/2 + f·(...) on [√½−1, √2−1]; source: tests/realizations/remez.py
_POLYNOMIAL_F32 = (
    -0.5,
    0.3333333134651184,
    -0.2500081956386566,
    0.20001226663589478,
    -0.1662335842847824,
    0.142017662525177,
    -0.13160182535648346,
    0.1276153177022934,
    -0.07634440064430237,
)
# (log((1+s)/(1−s)) − 2s)/s³ in s² for |s| ≤ (√2−1)/(√2+1)
_SERIES_F64 = (
    0.6666666666666734,
    0.399999999994147,
    0.28571428742384564,
    0.2222219857338558,
    0.18183564319884393,
    0.15314050633534385,
    0.1479594945510329,
)


def _split(form: _Format, x: Vector, b: Builder) -> tuple[Vector, Vector]:
    """(e as a float, m − 1); subnormals are scaled up first."""
    small = b.compare(Compare.LT, x, like(b, x, form.smallest_normal))
    scaled = b.select(small, b.mul(x, like(b, x, 2.0 ** (form.mantissa_bits + 2))), x)
    offset = (form.bias << form.mantissa_bits) - form.root_half_bits
    moved = b.add(b.bitcast(scaled, form.integer), b.constant(form.integer, offset, x.lanes))
    biased = b.shift_right(moved, form.mantissa_bits)
    # 2^mantissa + a small integer has that integer in its low bits
    magic = 2.0**form.mantissa_bits
    magic_bits = b.constant(form.integer, (form.bias + form.mantissa_bits) << form.mantissa_bits, x.lanes)
    number = b.bitcast(b.bit_or(biased, magic_bits), form.dtype)
    bias = like(b, x, magic + form.bias)
    small_bias = like(b, x, magic + form.bias + form.mantissa_bits + 2)
    exponent = b.sub(number, b.select(small, small_bias, bias))
    fraction = b.bit_and(moved, b.constant(form.integer, (1 << form.mantissa_bits) - 1, x.lanes))
    mantissa = b.bitcast(b.add(fraction, b.constant(form.integer, form.root_half_bits, x.lanes)), form.dtype)
    return exponent, b.sub(mantissa, like(b, x, 1.0))


def _edges(x: Vector, value: Vector, b: Builder) -> Vector:
    """Infinity and NaN stay, negative numbers give NaN, zero gives −infinity."""
    finite = b.select(b.compare(Compare.LT, x, like(b, x, math.inf)), value, x)
    zero = like(b, x, 0.0)
    real = b.select(b.compare(Compare.LT, x, zero), like(b, x, math.nan), finite)
    return b.select(b.compare(Compare.EQ, x, zero), like(b, x, -math.inf), real)


def _polynomial(x: Vector, b: Builder) -> Vector:
    exponent, f = _split(_F32, x, b)
    low = b.mul(exponent, like(b, x, _F32.ln2_low))
    small = b.fma(b.mul(f, f), horner(b, f, _POLYNOMIAL_F32), low)
    return _edges(x, b.fma(exponent, like(b, x, _F32.ln2_high), b.add(f, small)), b)


def _quotient(x: Vector, b: Builder) -> Vector:
    """log(1+f) = f − (f²/2 − s·(f²/2 + s²·R)) with s = f/(2+f), whose error hardly matters."""
    exponent, f = _split(_F64, x, b)
    s = b.div(f, b.add(f, like(b, x, 2.0)))
    square = b.mul(s, s)
    half = b.mul(b.mul(f, f), like(b, x, 0.5))
    series = b.fma(square, horner(b, square, _SERIES_F64), half)
    low = b.fma(exponent, like(b, x, _F64.ln2_low), b.mul(s, series))
    small = b.sub(half, low)
    return _edges(x, b.fma(exponent, like(b, x, _F64.ln2_high), b.sub(f, small)), b)


def _through_f64(x: Vector, b: Builder) -> Vector:
    return b.cast(_quotient(b.cast(x, DType.F64), b), DType.F32)


_variant = partial(Variant, op=Op.LOG)
VARIANTS = (
    _variant(dtype=DType.F32, name="polynomial", max_ulp=0.95, max_ulp_without_fma=0.95, emit=_polynomial),
    _variant(dtype=DType.F32, name="through_f64", max_ulp=0.51, max_ulp_without_fma=0.51, emit=_through_f64),
    _variant(dtype=DType.F64, name="quotient", max_ulp=1.0, max_ulp_without_fma=1.0, emit=_quotient),
)
