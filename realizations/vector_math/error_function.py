"""erf: a polynomial in x² up to 1, and 1 − e^(−x²)·erfcx(x) beyond, where errors of the second term hardly matter.
Must not know how the exponential is computed."""

from __future__ import annotations

from functools import partial

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.rounding import with_sign
from autotune.realizations.vector_math.exponential import exp_near
from autotune.realizations.vector_math.variant import Variant, horner, like

_LARGEST = {DType.F32: 4.0, DType.F64: 6.0}  # erf rounds to 1 from here on
# erf(x)/x − 1 in x² for |x| ≤ 1; source: tests/realizations/remez.py
_NEAR = {
    DType.F32: (
        0.12837916612625122,
        -0.3761262595653534,
        0.1128358542919159,
        -0.026853812858462334,
        0.005188327748328447,
        -0.0008010194869711995,
        7.85386364441365e-05,
    ),
    DType.F64: (
        0.1283791670955126,
        -0.3761263890318375,
        0.11283791670954857,
        -0.026866170645072886,
        0.005223977624780777,
        -0.0008548326978736781,
        0.00012055331036697814,
        -1.4925593502021988e-05,
        1.6460972739414184e-06,
        -1.6350024410172091e-07,
        1.4657874467669764e-08,
        -1.136564558203302e-09,
        5.945227979623853e-11,
    ),
}
# erfcx(x) = e^x²·erfc(x) in x less the middle of [1, largest], its error weighed by e^−x²
_FAR = {
    DType.F32: (
        0.2108076512813568,
        -0.07434232532978058,
        0.024912282824516296,
        -0.008137596771121025,
        0.002301708096638322,
        -0.0006505901692435145,
        0.0005572897498495877,
        0.0002322495129192248,
        0.00010819450835697353,
    ),
    DType.F64: (
        0.15529365560343053,
        -0.041323577961392556,
        0.010661132731153834,
        -0.0026730733929049596,
        0.0006526951604916879,
        -0.0001554527606804788,
        3.617944816221572e-05,
        -8.287355546573303e-06,
        1.7652414765627979e-06,
        -4.2835762021713356e-07,
        1.305112877624832e-07,
        4.9834255158457696e-08,
        4.176650528301203e-08,
        7.513044105316248e-10,
        -1.1821077533729064e-08,
        -8.890290188871422e-09,
        -3.403430924427646e-09,
        -7.882626243163662e-10,
        -1.0437758029236925e-10,
        -6.3599908419626575e-12,
    ),
}


def _two_ranges(x: Vector, b: Builder) -> Vector:
    size = b.keep_minimum(like(b, x, _LARGEST[x.dtype]), b.abs(x))
    square = b.mul(size, size)
    near = b.fma(x, horner(b, square, _NEAR[x.dtype]), x)
    from_middle = b.sub(size, like(b, x, (1.0 + _LARGEST[x.dtype]) / 2.0))
    tail = b.mul(exp_near(b.neg(square), b), horner(b, from_middle, _FAR[x.dtype]))
    far = with_sign(b, b.sub(like(b, x, 1.0), tail), x)
    return b.select(b.compare(Compare.LE, size, like(b, x, 1.0)), near, far)


def _through_f64(x: Vector, b: Builder) -> Vector:
    return b.cast(_two_ranges(b.cast(x, DType.F64), b), DType.F32)


_variant = partial(Variant, op=Op.ERF)
VARIANTS = (
    _variant(dtype=DType.F32, name="two_ranges", max_ulp=1.5, max_ulp_without_fma=2.0, emit=_two_ranges),
    _variant(dtype=DType.F32, name="through_f64", max_ulp=0.51, max_ulp_without_fma=0.51, emit=_through_f64),
    _variant(dtype=DType.F64, name="two_ranges", max_ulp=1.0, max_ulp_without_fma=1.0, emit=_two_ranges),
)
