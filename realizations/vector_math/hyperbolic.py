"""tanh and sigmoid: quotients of exponentials, and tanh by the formula for sums with or without a table.
Must not know how the exponential is computed."""

from __future__ import annotations

import math
from functools import partial

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.rounding import with_sign
from autotune.realizations.vector_math import exponential
from autotune.realizations.vector_math.pairs import Pair, divided, fast_two_sum, one_more
from autotune.realizations.vector_math.variant import Emit, Variant, horner, like

_ONE_FROM = {DType.F32: 9.1, DType.F64: 19.1}  # tanh rounds to 1 from here on
_Quotient = tuple[tuple[float, ...], tuple[float, ...]]
# tanh r ≈ r·over / under, polynomials in r² with the last coefficient of `over`, 1, left out: for |r| ≤ 1/4 and for
# |r| ≤ ln 2 / 4. Both stay just below a power of two, where rounding errs least. Source: tests/realizations/remez.py.
_QUARTER: _Quotient = (15.03227424621582,), (15.03227424621582, 6.010748386383057)
QUARTER_LN2: dict[DType, _Quotient] = {
    DType.F32: ((15.017939567565918,), (15.017939567565918, 6.00597620010376)),
    DType.F64: (
        (945.7169244809221, 105.06826997575918),
        (945.7169244809221, 420.3072448027256, 15.006825005488725),
    ),
}
_HALVES = tuple(math.tanh(k / 2) for k in range(32))


def _tanh_expm1(x: Vector, b: Builder) -> Vector:
    """(e^2x − 1) / (e^2x + 1)."""
    largest = _ONE_FROM[x.dtype]
    near = b.keep_minimum(like(b, x, largest), b.keep_maximum(like(b, x, -largest), x))
    less_one = exponential.expm1_of(b.add(near, near), b)
    return b.div(less_one, b.add(less_one, like(b, x, 2.0)))


def _short_tanh(r: Vector, fitted: _Quotient, b: Builder) -> tuple[Vector, Vector]:
    """tanh r as a quotient, not yet divided."""
    square = b.mul(r, r)
    over = b.add(square, like(b, r, fitted[0][-1]))
    for coefficient in reversed(fitted[0][:-1]):
        over = b.fma(over, square, like(b, r, coefficient))
    return b.mul(r, over), horner(b, square, fitted[1])


def _tanh_table_sum(x: Vector, b: Builder) -> Vector:
    """tanh(n + r) = (tanh n + tanh r) / (1 + tanh n · tanh r) of |x|, n the nearest half."""
    size = b.keep_minimum(like(b, x, 9.25), b.abs(x))
    shifter = like(b, x, 1.5 * 2.0**22)  # its last place is a half
    shifted = b.add(size, shifter)
    over, under = _short_tanh(b.sub(size, b.sub(shifted, shifter)), _QUARTER, b)
    whole = b.table(_HALVES, b.bitcast(shifted, DType.I32))
    return with_sign(b, b.div(b.fma(whole, under, over), b.fma(whole, over, under)), x)


def _tanh_power_sum(x: Vector, b: Builder) -> Vector:
    """The same for n the nearest multiple of ln 2 / 2, where tanh n = (s − 1) / (s + 1) with a power of two s = e^2n.

    The step of n needs no second part: where n is large, tanh hardly depends on r.
    """
    largest, one = _ONE_FROM[x.dtype], like(b, x, 1.0)
    mantissa_bits, bias, integer = (23, 127, DType.I32) if x.dtype is DType.F32 else (52, 1023, DType.I64)
    near = b.keep_minimum(like(b, x, largest), b.keep_maximum(like(b, x, -largest), x))
    shifter = like(b, x, 1.5 * 2.0**mantissa_bits + bias)  # leaves the exponent of s in the low bits
    shifted = b.fma(near, like(b, x, 2.0 / math.log(2.0)), shifter)
    r = b.fma(b.sub(shifted, shifter), like(b, x, -math.log(2.0) / 2.0), near)
    power = b.bitcast(b.shift_left(b.bitcast(shifted, integer), mantissa_bits), x.dtype)
    more, less = b.add(power, one), b.neg(b.sub(one, power))  # less is −0 for s = 1: it keeps the sign of x = −0
    over, under = _short_tanh(r, QUARTER_LN2[x.dtype], b)
    return b.div(b.fma(less, under, b.mul(more, over)), b.fma(more, under, b.mul(less, over)))


def _tanh_pair(x: Vector, b: Builder) -> Vector:
    """(e^2x − 1) / (e^2x + 1) of |x|, every term but the last correction as a sum of two."""
    size = b.keep_minimum(like(b, x, _ONE_FROM[x.dtype]), b.abs(x))
    power = exponential.exp_pair(b.add(size, size), b)
    numerator = fast_two_sum(b.sub(power.scale, like(b, x, 1.0)), b.mul(power.scale, power.change.high), b)
    low = b.add(numerator.low, b.mul(power.scale, power.change.low))
    numerator = fast_two_sum(numerator.high, low, b)
    total = fast_two_sum(like(b, x, 2.0), numerator.high, b)
    large = fast_two_sum(numerator.high, like(b, x, 2.0), b)
    swap = b.compare(Compare.GT, numerator.high, like(b, x, 2.0))
    rest = b.add(b.select(swap, large.low, total.low), numerator.low)
    return with_sign(b, divided(numerator, Pair(total.high, rest), b), x)


def _sigmoid(x: Vector, b: Builder) -> Vector:
    """1 / (1 + e^−x)."""
    one = like(b, x, 1.0)
    return b.div(one, b.add(one, exponential.exp_of(b.neg(x), b)))


def _sigmoid_power(x: Vector, b: Builder) -> Vector:
    """The same with e^−x = s·(1 − t) / (1 + t), s a power of two, t = tanh r/2 a short quotient: one division in all.

    Up to s = 2^127 the quotient rounds rightly, and the next s is infinite.
    """
    near = b.keep_minimum(like(b, x, 87.0), b.keep_maximum(like(b, x, -89.0), x))
    shifter = like(b, x, 1.5 * 2.0**23 + 127.0)  # leaves the exponent of s in the low bits
    shifted = b.fma(near, like(b, x, -1.0 / math.log(2.0)), shifter)
    n = b.sub(shifted, shifter)
    r = b.fma(n, like(b, x, exponential.EXP_F32.step_high), near)
    r = b.fma(n, like(b, x, exponential.EXP_F32.step_low), r)
    power = b.bitcast(b.shift_left(b.bitcast(shifted, DType.I32), 23), DType.F32)
    (numerator,), (_, slope) = QUARTER_LN2[DType.F32]  # of r/2, scaled so that no product with s overflows early
    square = b.mul(r, r)
    over = b.mul(r, b.fma(square, like(b, x, 1.0 / 128.0), like(b, x, numerator / 32.0)))
    under = b.fma(square, like(b, x, slope / 64.0), like(b, x, numerator / 16.0))
    whole = b.add(under, over)
    return b.div(whole, b.fma(b.sub(under, over), power, whole))


def _sigmoid_pair(x: Vector, b: Builder) -> Vector:
    """With z = e^−|x|: 1 / (1+z), or z / (1+z) for negative x, scaled last so that subnormal results round rightly."""
    power = exponential.exp_pair(b.neg(b.abs(x)), b)
    whole = one_more(power.change, b)
    sum_ = one_more(Pair(b.mul(power.scale, whole.high), b.mul(power.scale, whole.low)), b)
    zero, one = like(b, x, 0.0), like(b, x, 1.0)
    negative = b.compare(Compare.LT, x, zero)
    numerator = Pair(b.select(negative, whole.high, one), b.select(negative, whole.low, zero))
    quotient = divided(numerator, sum_, b)
    scaled = b.mul(b.mul(quotient, power.half_scale), power.rest_scale)
    return b.select(negative, scaled, quotient)


def _narrow(wide: Emit, x: Vector, b: Builder) -> Vector:
    return b.cast(wide(b.cast(x, DType.F64), b), DType.F32)


_tanh, _logistic = partial(Variant, op=Op.TANH), partial(Variant, op=Op.SIGMOID)
VARIANTS = (
    _tanh(dtype=DType.F32, name="table_sum", max_ulp=3.5, max_ulp_without_fma=None, needs=("has_table_permute",),
          emit=_tanh_table_sum),
    _tanh(dtype=DType.F32, name="power_sum", max_ulp=2.8, max_ulp_without_fma=4.0, emit=_tanh_power_sum),
    _tanh(dtype=DType.F32, name="expm1", max_ulp=3.6, max_ulp_without_fma=3.6, emit=_tanh_expm1),
    _tanh(dtype=DType.F32, name="through_f64", max_ulp=0.51, max_ulp_without_fma=0.51,
          emit=partial(_narrow, _tanh_power_sum)),
    _tanh(dtype=DType.F64, name="power_sum", max_ulp=3.3, max_ulp_without_fma=4.7, emit=_tanh_power_sum),
    _tanh(dtype=DType.F64, name="expm1", max_ulp=3.6, max_ulp_without_fma=3.6, emit=_tanh_expm1),
    _tanh(dtype=DType.F64, name="pair", max_ulp=1.0, max_ulp_without_fma=1.0, emit=_tanh_pair),
    _logistic(dtype=DType.F32, name="quotient", max_ulp=4.0, max_ulp_without_fma=None,
              needs=("has_scalef", "has_table_permute"), flushes=True, emit=_sigmoid),
    _logistic(dtype=DType.F32, name="power_quotient", max_ulp=2.8, max_ulp_without_fma=2.8, flushes=True,
              emit=_sigmoid_power),
    _logistic(dtype=DType.F32, name="through_f64", max_ulp=0.51, max_ulp_without_fma=0.51,
              emit=partial(_narrow, _sigmoid)),
    _logistic(dtype=DType.F64, name="quotient", max_ulp=3.0, max_ulp_without_fma=3.0, flushes=True, emit=_sigmoid),
    _logistic(dtype=DType.F64, name="pair", max_ulp=1.0, max_ulp_without_fma=1.0, emit=_sigmoid_pair),
)  # fmt: skip
