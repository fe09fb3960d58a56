"""Reference values with more digits than the type under test, sample points, distances in last places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf as erf_of_double

from autotune.ir.types import DType, Op

NUMPY = {DType.F32: np.float32, DType.F64: np.float64}
_MANTISSA = {DType.F32: 23, DType.F64: 52}
_SMALLEST_EXPONENT = {DType.F32: -126, DType.F64: -1022}
_RANGES = {
    (Op.EXP, DType.F32): (-104, 89),
    (Op.EXP, DType.F64): (-746, 710),
    (Op.EXP2, DType.F32): (-150, 128),
    (Op.EXP2, DType.F64): (-1075, 1024),
    (Op.LOG, DType.F32): (0.5, 2),
    (Op.LOG, DType.F64): (0.5, 2),
    (Op.RSQRT, DType.F32): (0.25, 4),
    (Op.RSQRT, DType.F64): (0.25, 4),
    (Op.TANH, DType.F32): (-10, 10),
    (Op.TANH, DType.F64): (-20, 20),
    (Op.SIGMOID, DType.F32): (-104, 20),
    (Op.SIGMOID, DType.F64): (-746, 40),
    (Op.ERF, DType.F32): (-4.2, 4.2),
    (Op.ERF, DType.F64): (-6.2, 6.2),
    (Op.SIN, DType.F32): (-(2**15), 2**15),
    (Op.SIN, DType.F64): (-(2**30), 2**30),
    (Op.COS, DType.F32): (-(2**15), 2**15),
    (Op.COS, DType.F64): (-(2**30), 2**30),
}
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 3.4e38, -3.4e38, 2.0**-149, -(2.0**-149), 2.0**-126]

Wide = NDArray[np.floating]


def wide(op: Op, x: Wide) -> Wide:
    """f(x) in double for single arguments, in 80-bit for double ones."""
    given = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
    functions: dict[Op, Callable[[Wide], Wide]] = {
        Op.EXP: np.exp,
        Op.EXP2: np.exp2,
        Op.LOG: np.log,
        Op.RSQRT: lambda v: 1 / np.sqrt(v),
        Op.TANH: np.tanh,
        Op.SIGMOID: lambda v: 1 / (1 + np.exp(-v)),
        Op.ERF: erf_of_double if x.dtype == np.float32 else _erf_long,
        Op.SIN: np.sin,
        Op.COS: np.cos,
    }
    with np.errstate(all="ignore"):
        return functions[op](given)


def _erf_long(x: Wide) -> Wide:
    """erf by its series without cancellation, 2/√π·e^−x²·Σ 2^k·x^(2k+1)/(2k+1)!!."""
    size = np.minimum(np.abs(x), np.longdouble(6.5))
    term = size.copy()
    total = np.zeros_like(size)
    for k in range(150):
        total += term
        term *= 2 * size * size / (2 * k + 3)
    root_pi = np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))
    return np.copysign(np.minimum(2 / root_pi * np.exp(-size * size) * total, 1), x)


def samples(op: Op, dtype: DType, count: int, seed: int) -> Wide:
    """Dense where the function varies, over all magnitudes, near multiples of π/2 for sin and cos, and special."""
    draw = np.random.default_rng(seed)
    low, high = _RANGES[op, dtype]
    share = count // 4
    exponents = draw.integers(_SMALLEST_EXPONENT[dtype] - _MANTISSA[dtype], -_SMALLEST_EXPONENT[dtype], share)
    parts = [
        draw.uniform(low, high, share),
        draw.uniform(-1, 1, share),
        draw.uniform(-20, 20, share),
        np.ldexp(draw.uniform(1, 2, share), exponents) * draw.choice([-1, 1], share),
    ]
    if op in (Op.SIN, Op.COS):
        parts.append(draw.integers(1, int(high / 1.58), share) * (np.pi / 2))
    with np.errstate(all="ignore"):
        return np.concatenate([*parts, SPECIAL]).astype(NUMPY[dtype])


def distance(got: Wide, exact: Wide, dtype: DType) -> NDArray[np.float64]:
    """|got − exact| in units in the last place of exact rounded to the type; infinite where one is not a number like
    the other."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(NUMPY[dtype])
        _, exponents = np.frexp(np.abs(exact))
        units = np.ldexp(exact.dtype.type(1), np.maximum(exponents - 1, _SMALLEST_EXPONENT[dtype]) - _MANTISSA[dtype])
        difference = (np.abs(got.astype(exact.dtype) - exact) / units).astype(np.float64)
    same = (np.isnan(got) & np.isnan(rounded)) | (got == rounded)
    both_finite = np.isfinite(got) & np.isfinite(rounded)
    return np.where(both_finite, difference, np.where(same, 0.0, np.inf))
