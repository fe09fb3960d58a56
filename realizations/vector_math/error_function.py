"""erf: a polynomial in x² up to 1, and 1 − e^(−x²)·erfcx(x) beyond, where errors of the second term hardly matter.
Must not know how the exponential is computed."""

from __future__ import annotations

from functools import partial

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.rounding import with_sign
from autotune.realizations.vector_math.exponential import exp_near, exp_pair
from autotune.realizations.vector_math.pairs import two_product
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
# erfcx(x) = e^x²·erfc(x) in x − 1 on [1, largest], its error weighed by e^−x²
_FAR = {
    DType.F32: (
        0.42758357524871826,
        -0.27321115136146545,
        0.15435189008712769,
        -0.07906118780374527,
        0.03689661994576454,
        -0.015141170471906662,
        0.0049349237233400345,
        -0.0010660846019163728,
        0.00010819450835697353,
    ),
    DType.F64: (
        0.4275835761558069,
        -0.2732120147838527,
        0.15437156136885255,
        -0.07922696886219532,
        0.03757229515296271,
        -0.016661860533764544,
        0.006970097239038812,
        -0.002768899593272636,
        0.0010498327754364975,
        -0.00038109626383898824,
        0.00013238082145195217,
        -4.36638453644935e-05,
        1.3415316984595185e-05,
        -3.717584073216246e-06,
        8.899670758866567e-07,
        -1.7490449856887736e-07,
        2.658090579603067e-08,
        -2.8885117235073395e-09,
        1.9772198470085695e-10,
        -6.3599908419626575e-12,
    ),
}

# The same in x − 0.84375 on [0.84375, 6]
_EARLY = 0.84375
_FAR_EARLY = (
    0.4743680720269093,
    -0.3278830455501013,
    0.19771675234386255,
    -0.10737302383542159,
    0.05356038166855042,
    -0.024872580018134704,
    0.010858042948503736,
    -0.004488867556201942,
    0.0017675754502340971,
    -0.0006659478320753246,
    0.00024084118324986707,
    -8.370386529081965e-05,
    2.787447039445208e-05,
    -8.806589316679674e-06,
    2.5897136629502517e-06,
    -6.8922330807369e-07,
    1.6038179033115615e-07,
    -3.139652745236486e-08,
    4.9534650958815496e-09,
    -5.981684214331443e-10,
    5.145800804058141e-11,
    -2.790654105243009e-12,
    7.137955452267933e-14,
)


def _two_ranges(x: Vector, b: Builder) -> Vector:
    size = b.keep_minimum(like(b, x, _LARGEST[x.dtype]), b.abs(x))
    square = b.mul(size, size)
    near = b.fma(x, horner(b, square, _NEAR[x.dtype]), x)
    beyond = b.sub(size, like(b, x, 1.0))
    tail = b.mul(exp_near(b.neg(square), b), horner(b, beyond, _FAR[x.dtype]))
    far = with_sign(b, b.sub(like(b, x, 1.0), tail), x)
    return b.select(b.compare(Compare.LE, size, like(b, x, 1.0)), near, far)


def _two_ranges_pair(x: Vector, b: Builder) -> Vector:
    """With x² and its exponential to more digits, and an earlier split."""
    size = b.keep_minimum(like(b, x, _LARGEST[DType.F64]), b.abs(x))
    square = two_product(size, size, b)
    near = b.fma(x, horner(b, square.high, _NEAR[DType.F64]), x)
    power = exp_pair(b.neg(square.high), b)
    factor = b.mul(power.scale, horner(b, b.sub(size, like(b, x, _EARLY)), _FAR_EARLY))
    change = b.add(power.change.high, b.sub(power.change.low, square.low))
    tail = b.fma(factor, change, factor)
    far = with_sign(b, b.sub(like(b, x, 1.0), tail), x)
    return b.select(b.compare(Compare.LE, size, like(b, x, _EARLY)), near, far)


def _through_f64(x: Vector, b: Builder) -> Vector:
    return b.cast(_two_ranges(b.cast(x, DType.F64), b), DType.F32)


_variant = partial(Variant, op=Op.ERF)
VARIANTS = (
    _variant(dtype=DType.F32, name="two_ranges", max_ulp=1.5, max_ulp_without_fma=2.0, emit=_two_ranges),
    _variant(dtype=DType.F32, name="through_f64", max_ulp=0.51, max_ulp_without_fma=0.51, emit=_through_f64),
    _variant(dtype=DType.F64, name="two_ranges", max_ulp=1.5, max_ulp_without_fma=1.5, emit=_two_ranges),
    _variant(dtype=DType.F64, name="two_ranges_pair", max_ulp=1.0, max_ulp_without_fma=1.0, emit=_two_ranges_pair),
)
