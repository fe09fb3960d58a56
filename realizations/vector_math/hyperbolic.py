"""tanh and sigmoid, both quotients of exponentials.
Must not know how the exponential is computed."""

from __future__ import annotations

from functools import partial

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.rounding import with_sign
from autotune.realizations.vector_math import exponential
from autotune.realizations.vector_math.pairs import Pair, divided, fast_two_sum, one_more
from autotune.realizations.vector_math.variant import Emit, Variant, like

_ONE_FROM = {DType.F32: 9.1, DType.F64: 19.1}  # tanh rounds to 1 from here on


def _tanh_expm1(x: Vector, b: Builder) -> Vector:
    """(e^2x − 1) / (e^2x + 1)."""
    largest = _ONE_FROM[x.dtype]
    near = b.keep_minimum(like(b, x, largest), b.keep_maximum(like(b, x, -largest), x))
    less_one = exponential.expm1_of(b.add(near, near), b)
    return b.div(less_one, b.add(less_one, like(b, x, 2.0)))


def _tanh_pair(x: Vector, b: Builder) -> Vector:
    """The same of |x|, every term but the last correction as a sum of two."""
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
    _tanh(dtype=DType.F32, name="expm1", max_ulp=3.6, max_ulp_without_fma=3.6, emit=_tanh_expm1),
    _tanh(dtype=DType.F32, name="through_f64", max_ulp=0.51, max_ulp_without_fma=0.51,
          emit=partial(_narrow, _tanh_expm1)),
    _tanh(dtype=DType.F64, name="expm1", max_ulp=3.6, max_ulp_without_fma=3.6, emit=_tanh_expm1),
    _tanh(dtype=DType.F64, name="pair", max_ulp=1.0, max_ulp_without_fma=1.0, emit=_tanh_pair),
    _logistic(dtype=DType.F32, name="quotient", max_ulp=4.0, max_ulp_without_fma=3.0, flushes=True, emit=_sigmoid),
    _logistic(dtype=DType.F32, name="through_f64", max_ulp=0.51, max_ulp_without_fma=0.51,
              emit=partial(_narrow, _sigmoid)),
    _logistic(dtype=DType.F64, name="quotient", max_ulp=3.0, max_ulp_without_fma=3.0, flushes=True, emit=_sigmoid),
    _logistic(dtype=DType.F64, name="pair", max_ulp=1.0, max_ulp_without_fma=1.0, emit=_sigmoid_pair),
)  # fmt: skip
