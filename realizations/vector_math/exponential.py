"""exp and exp2: x = (n + j/steps)·ln 2 + r, then 2^n · 2^(j/steps) · e^r with a polynomial for e^r.
Must not know other functions; they build on `exp_of` and `expm1_of`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.vector_math.pairs import Pair, fast_two_sum
from autotune.realizations.vector_math.variant import Emit, Variant, horner, like


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """Constants of one function for one type.

    `polynomial` approximates (b^r − 1)/r on |r| ≤ half a step for whole steps, and `tables` the same for finer steps
    (number of steps → coefficients). Source: tests/realizations/remez.py.
    """

    dtype: DType
    integer: DType
    mantissa_bits: int
    bias: int
    log2: float  # log2 of the base
    step_high: float  # ln 2 in units of the argument: few enough bits that n·step_high is exact
    step_low: float  # the rest
    largest: float  # above this the result overflows
    smallest_normal: float  # below this the result is subnormal
    far_below: float  # a clamp: the result is 0 from well above here on
    far_above: float
    polynomial: tuple[float, ...]
    tables: dict[int, tuple[float, ...]]


_LN2_F32 = (0.693359375, -2.12194440e-4)  # 355/512 and the rest
_LN2_F64 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)  # 32 bits and the rest
_SHORT_LN2, _SHORT_LN2_REST = 0.693147182464599609375, -1.904654299957768e-09  # 24 bits and the rest

EXP_F32 = _Base(
    dtype=DType.F32,
    integer=DType.I32,
    mantissa_bits=23,
    bias=127,
    log2=1.4426950408889634,
    step_high=_LN2_F32[0],
    step_low=_LN2_F32[1],
    largest=88.72283172607422,
    smallest_normal=-87.33654022216797,
    far_below=-1e4,
    far_above=1e4,
    polynomial=(
        1.0,
        0.4999999403953552,
        0.1666652113199234,
        0.04166838899254799,
        0.008368710055947304,
        0.0013814601115882397,
    ),
    tables={
        16: (1.0, 0.5000162124633789, 0.16666074097156525),
        32: (1.0000146627426147, 0.4999999701976776),
    },
)
EXP2_F32 = _Base(
    dtype=DType.F32,
    integer=DType.I32,
    mantissa_bits=23,
    bias=127,
    log2=1.0,
    step_high=1.0,
    step_low=0.0,
    largest=127.99999237060547,
    smallest_normal=-126.0,
    far_below=-1e4,
    far_above=1e4,
    polynomial=(
        0.6931471824645996,
        0.24022647738456726,
        0.055503323674201965,
        0.00961843691766262,
        0.0013398875016719103,
        0.00015353366325143725,
    ),
    tables={
        16: (0.6931471824645996, 0.24023428559303284, 0.055502135306596756),
        32: (0.6931573152542114, 0.24022649228572845),
    },
)
EXP_F64 = _Base(
    dtype=DType.F64,
    integer=DType.I64,
    mantissa_bits=52,
    bias=1023,
    log2=1.4426950408889634,
    step_high=_LN2_F64[0],
    step_low=_LN2_F64[1],
    largest=709.782712893384,
    smallest_normal=-708.3964185322641,
    far_below=-1e5,
    far_above=1e5,
    polynomial=(
        1.0,
        0.5000000000000012,
        0.16666666666666216,
        0.04166666666651783,
        0.00833333333354978,
        0.0013888888946352463,
        0.00019841269436639118,
        2.4801490636579598e-05,
        2.755762682074474e-06,
        2.763103407093074e-07,
        2.49913979797916e-08,
    ),
    tables={
        16: (
            1.0000000000000022,
            0.4999999999999966,
            0.16666666662856666,
            0.04166666668617673,
            0.008333496069755815,
            0.0013888728207628257,
        ),
    },
)
EXP2_F64 = _Base(
    dtype=DType.F64,
    integer=DType.I64,
    mantissa_bits=52,
    bias=1023,
    log2=1.0,
    step_high=1.0,
    step_low=0.0,
    largest=1023.9999999999999,
    smallest_normal=-1022.0,
    far_below=-1e5,
    far_above=1e5,
    polynomial=(
        0.6931471805599453,
        0.2402265069591013,
        0.055504108664820084,
        0.00961812910759412,
        0.0013333558146774763,
        0.00015403530457111826,
        1.5252733493004914e-05,
        1.321543528234697e-06,
        1.0178199617760263e-07,
        7.073783257991584e-09,
        4.434765109482003e-10,
    ),
    tables={
        16: (
            0.6931471805599468,
            0.24022650695909908,
            0.05550410865213334,
            0.009618129112132086,
            0.0013333818529094649,
            0.0001540335218915652,
        ),
    },
)


@dataclass(frozen=True, slots=True)
class _Reduced:
    """x = n·step + r with n a multiple of 1/steps, whose low bits, in units of 1/steps, are those of `bits`."""

    bits: Vector
    n: Vector
    r: Vector


def _reduce(base: _Base, x: Vector, b: Builder, steps: int = 1) -> _Reduced:
    """Adding 1.5·2^mantissa / steps rounds to multiples of 1/steps and leaves the number in the low bits."""
    shifter = like(b, x, 1.5 * 2.0**base.mantissa_bits / steps)
    shifted = b.add(x, shifter) if base.log2 == 1.0 else b.fma(x, like(b, x, base.log2), shifter)
    n = b.sub(shifted, shifter)
    if base.step_low == 0.0:
        r = b.sub(x, n)
    else:
        r = b.fma(n, like(b, x, -base.step_high), x)
        r = b.fma(n, like(b, x, -base.step_low), r)
    return _Reduced(b.bitcast(shifted, base.integer), n, r)


def _clamp(base: _Base, x: Vector, b: Builder, coefficients: tuple[float, ...]) -> Vector:
    """Keep x where scaling answers rightly; NaN stays.

    Far above, r is no remainder any more, but a polynomial of even degree is still positive and the scaled result
    infinite, and at infinity the scaling instruction itself answers infinity. Far below always needs the clamp.
    """
    bounded = b.keep_maximum(like(b, x, base.far_below), x)
    even_degree = len(coefficients) % 2 == 0
    return bounded if even_degree else b.keep_minimum(like(b, x, base.far_above), bounded)


def _scalef_polynomial(base: _Base, x: Vector, b: Builder) -> Vector:
    """Whole steps, exponent by one scaling instruction."""
    reduced = _reduce(base, _clamp(base, x, b, base.polynomial), b)
    return b.scalef(horner(b, reduced.r, (1.0, *base.polynomial)), reduced.n)


def _scalef_table(base: _Base, steps: int, x: Vector, b: Builder) -> Vector:
    """2^(j/steps) from registers and a shorter polynomial, then the scaling instruction."""
    coefficients = base.tables[steps]
    return _from_table(base, steps, _reduce(base, _clamp(base, x, b, coefficients), b, steps), b)


def _from_table(base: _Base, steps: int, reduced: _Reduced, b: Builder) -> Vector:
    power = b.table([2.0 ** (j / steps) for j in range(steps)], reduced.bits)
    change = b.mul(reduced.r, horner(b, reduced.r, base.tables[steps]))
    return b.scalef(b.fma(power, change, power), reduced.n)


def _bits_polynomial(base: _Base, x: Vector, b: Builder) -> Vector:
    """Exponent by integer addition; results below the smallest normal are 0, found by comparing x."""
    reduced = _reduce(base, x, b)
    value = horner(b, reduced.r, (1.0, *base.polynomial))
    exponent = b.shift_left(reduced.bits, base.mantissa_bits)
    scaled = b.bitcast(b.add(b.bitcast(value, base.integer), exponent), x.dtype)
    above = like(b, x, base.smallest_normal)
    normal = b.select(b.compare(Compare.GE, x, above), scaled, like(b, x, 0.0))
    # x + inf is the infinity of a large x and the NaN of a NaN
    return b.select(b.compare(Compare.LE, x, like(b, x, base.largest)), normal, b.add(x, like(b, x, math.inf)))


def _two_scales_polynomial(base: _Base, x: Vector, b: Builder) -> Vector:
    """Two multiplications by powers of half the exponent: subnormal results and overflow round as they should."""
    near = _clamp_near(base, x, b)
    reduced = _reduce(base, near, b)
    if b.target.has_fma or base.dtype is DType.F32:
        value = horner(b, reduced.r, (1.0, *base.polynomial))
    else:
        value = _compensated(base, near, reduced, b)
    half, rest = _scales(base, reduced.n, b)
    return b.mul(b.mul(value, half), rest)


def _scales(base: _Base, n: Vector, b: Builder) -> tuple[Vector, Vector]:
    """Two normal powers of two whose product is 2^n."""
    shifter = like(b, n, 1.5 * 2.0**base.mantissa_bits)
    half = b.fma(n, like(b, n, 0.5), shifter)
    rest = b.add(b.sub(n, b.sub(half, shifter)), shifter)
    return (
        power_of_two(base.integer, b.bitcast(half, base.integer), b),
        power_of_two(base.integer, b.bitcast(rest, base.integer), b),
    )


def _compensated(base: _Base, x: Vector, reduced: _Reduced, b: Builder) -> Vector:
    """e^r as 1 + (high + (low + r²·q)), where high + low is the exponent to more digits than r: without FMA."""
    if base.step_low == 0.0:
        high, low = _times_ln2(reduced.r, b)
        second = base.polynomial[1:]
    else:
        rough = b.sub(x, b.mul(reduced.n, like(b, x, base.step_high)))
        rest = b.mul(reduced.n, like(b, x, base.step_low))
        high, second = reduced.r, base.polynomial[1:]
        low = b.sub(b.sub(rough, high), rest)
    square = b.mul(reduced.r, reduced.r)
    small = b.add(b.mul(square, horner(b, reduced.r, second)), low)
    return b.add(like(b, x, 1.0), b.add(high, small))


def _times_ln2(r: Vector, b: Builder) -> tuple[Vector, Vector]:
    """r·ln 2 as an exact product of two short factors and the rest."""
    keep = b.constant(DType.I64, -(1 << 27), r.lanes)
    short = b.bitcast(b.bit_and(b.bitcast(r, DType.I64), keep), DType.F64)
    high = b.mul(short, like(b, r, _SHORT_LN2))
    rest = b.mul(b.sub(r, short), like(b, r, math.log(2.0)))
    return high, b.add(rest, b.mul(short, like(b, r, _SHORT_LN2_REST)))


def _clamp_near(base: _Base, x: Vector, b: Builder) -> Vector:
    """Within where half the exponent is one of a normal number; 1.25 times the range covers all subnormals."""
    low, high = 1.25 * base.smallest_normal, 1.25 * base.largest
    return b.keep_minimum(like(b, x, high), b.keep_maximum(like(b, x, low), x))


def power_of_two(integer: DType, bits: Vector, b: Builder) -> Vector:
    """2^n as a float where the low bits of `bits` are those of n, and 2^n is normal."""
    mantissa_bits, bias, dtype = (23, 127, DType.F32) if integer is DType.I32 else (52, 1023, DType.F64)
    biased = b.add(b.shift_left(bits, mantissa_bits), b.constant(integer, bias << mantissa_bits, bits.lanes))
    return b.bitcast(biased, dtype)


def _through_f64(base: _Base, x: Vector, b: Builder) -> Vector:
    """The double result rounded once more: an f32 result lies far inside the range of doubles."""
    wide_base = EXP_F64 if base.log2 != 1.0 else EXP2_F64
    wide = b.keep_minimum(
        b.constant(DType.F64, 200.0, x.lanes),
        b.keep_maximum(b.constant(DType.F64, -200.0, x.lanes), b.cast(x, DType.F64)),
    )
    reduced = _reduce(wide_base, wide, b)
    value = horner(b, reduced.r, (1.0, *wide_base.polynomial))
    return b.cast(b.mul(value, power_of_two(DType.I64, reduced.bits, b)), x.dtype)


def expm1_of(x: Vector, b: Builder) -> Vector:
    """e^x − 1 to about 1.5 units in the last place of the result, for |x| so small that 2^n is normal; NaN stays."""
    base = EXP_F32 if x.dtype is DType.F32 else EXP_F64
    reduced = _reduce(base, x, b)
    change = b.mul(reduced.r, horner(b, reduced.r, base.polynomial))
    scale = power_of_two(base.integer, reduced.bits, b)
    return b.fma(scale, change, b.sub(scale, like(b, x, 1.0)))


@dataclass(frozen=True, slots=True)
class Power:
    """e^x = scale·(1 + change), and scale = half_scale·rest_scale where scale itself may be subnormal or zero."""

    scale: Vector
    half_scale: Vector
    rest_scale: Vector
    change: Pair


def exp_pair(x: Vector, b: Builder) -> Power:
    """e^x of doubles to some 58 digits; NaN stays."""
    near = _clamp_near(EXP_F64, x, b)
    reduced = _reduce(EXP_F64, near, b)
    rough = b.sub(near, b.mul(reduced.n, like(b, x, EXP_F64.step_high)))
    rest = b.mul(reduced.n, like(b, x, EXP_F64.step_low))
    high = b.sub(rough, rest)
    low = b.sub(b.sub(rough, high), rest)
    square = b.mul(high, high)
    change = fast_two_sum(high, b.fma(square, horner(b, high, EXP_F64.polynomial[1:]), low), b)
    half, other = _scales(EXP_F64, reduced.n, b)
    return Power(b.mul(half, other), half, other, change)


def exp_near(x: Vector, b: Builder) -> Vector:
    """e^x for x so small that 2^n is normal, without care for more; NaN stays."""
    base = EXP_F32 if x.dtype is DType.F32 else EXP_F64
    steps = (32 if x.dtype is DType.F32 else 16) if b.target.has_table_permute and b.target.has_scalef else 1
    reduced = _reduce(base, x, b, steps)
    if steps == 1:
        return b.mul(horner(b, reduced.r, (1.0, *base.polynomial)), power_of_two(base.integer, reduced.bits, b))
    return _from_table(base, steps, reduced, b)


def exp_of(x: Vector, b: Builder) -> Vector:
    """e^x in the fastest form that the target has, for functions built on it."""
    base = EXP_F32 if x.dtype is DType.F32 else EXP_F64
    if b.target.has_scalef and b.target.has_table_permute:
        return _scalef_table(base, 32 if x.dtype is DType.F32 else 16, x, b)
    return _bits_polynomial(base, x, b)


def _variants(op: Op, base: _Base, bounds: dict[str, tuple[float, float | None]]) -> tuple[Variant, ...]:
    """Bounds by name: with and without FMA."""
    permuting = ("has_scalef", "has_table_permute")
    methods: tuple[tuple[str, tuple[str, ...], bool, Emit], ...] = (
        ("table32_scalef", permuting, False, partial(_scalef_table, base, 32)),
        ("table16_scalef", permuting, False, partial(_scalef_table, base, 16)),
        ("polynomial_scalef", ("has_scalef",), False, partial(_scalef_polynomial, base)),
        ("polynomial_bits", (), True, partial(_bits_polynomial, base)),
        ("polynomial_two_scales", (), False, partial(_two_scales_polynomial, base)),
        ("through_f64", (), False, partial(_through_f64, base)),
    )
    return tuple(
        Variant(
            op=op,
            dtype=base.dtype,
            name=name,
            max_ulp=bounds[name][0],
            max_ulp_without_fma=bounds[name][1],
            needs=needs,
            flushes=flushes,
            emit=emit,
        )
        for name, needs, flushes, emit in methods
        if name in bounds
    )


_F32_BOUNDS = {
    "table32_scalef": (1.8, None),
    "table16_scalef": (1.0, None),
    "polynomial_scalef": (1.0, None),
    "polynomial_bits": (1.0, 1.25),
    "polynomial_two_scales": (1.0, 1.25),
    "through_f64": (0.51, 0.51),
}
_F64_BOUNDS = {
    "table16_scalef": (1.1, None),
    "polynomial_scalef": (1.0, None),
    "polynomial_bits": (1.0, 1.25),
    "polynomial_two_scales": (1.0, 1.0),
}
VARIANTS = (
    *_variants(Op.EXP, EXP_F32, _F32_BOUNDS),
    *_variants(Op.EXP, EXP_F64, _F64_BOUNDS),
    *_variants(Op.EXP2, EXP2_F32, _F32_BOUNDS),
    *_variants(Op.EXP2, EXP2_F64, _F64_BOUNDS),
)
