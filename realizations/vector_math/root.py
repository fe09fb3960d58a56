"""The reciprocal square root: a root and a division, or an estimate and one Newton step.
Must not know other functions."""

from __future__ import annotations

from functools import partial

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.vector_math.variant import Variant, like


def _estimate(x: Vector, b: Builder) -> Vector:
    """y − y/2·(x·y·y − 1) for the estimate y.

    With y off by at most 2^-14 and u = 2^-24, the step leaves 1.5·2^-28 < 0.1·u, the rounding of x·y u/2 and the last
    one u: at most 1.6·u in all, 1.1 units in the last place. Where x·y is not a number, y is the answer already.
    """
    y = b.rsqrt_estimate(x)
    product = b.mul(x, y)
    excess = b.fma(product, y, like(b, x, -1.0))
    better = b.fma(b.mul(y, like(b, x, -0.5)), excess, y)
    return b.select(b.compare(Compare.NE, product, product), y, better)


def _divide(x: Vector, b: Builder) -> Vector:
    return b.div(like(b, x, 1.0), b.sqrt(x))


_variant = partial(Variant, op=Op.RSQRT)
VARIANTS = (
    _variant(dtype=DType.F32, name="estimate", max_ulp=1.1, max_ulp_without_fma=None,
             needs=("has_fma", "has_rsqrt_estimate"), emit=_estimate),
    _variant(dtype=DType.F32, name="divide", max_ulp=1.5, max_ulp_without_fma=1.5, emit=_divide),
    _variant(dtype=DType.F64, name="divide", max_ulp=1.5, max_ulp_without_fma=1.5, emit=_divide),
)  # fmt: skip
