"""Inline vector code for exp, exp2, log, rsqrt, tanh, sigmoid, erf, sin and cos, several ways each, on a Builder.
Must not know nests or candidates: the search picks a variant by name."""

from __future__ import annotations

from functools import cache

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.target import Target
from autotune.realizations.vector_math import error_function, exponential, hyperbolic, logarithm, root, trigonometric
from autotune.realizations.vector_math.variant import Variant

ALL_VARIANTS: tuple[Variant, ...] = (
    *exponential.VARIANTS,
    *logarithm.VARIANTS,
    *root.VARIANTS,
    *hyperbolic.VARIANTS,
    *error_function.VARIANTS,
    *trigonometric.VARIANTS,
)
"""Every variant of every function, those expected to be fastest first within a function and type."""

_BY_NAME = {(variant.op, variant.dtype, variant.name): variant for variant in ALL_VARIANTS}


def emit(op: Op, x: Vector, builder: Builder, variant: Variant | str) -> Vector:
    """`op(x)` by a variant or its name.

    Raises: KeyError where the operation has no variant of this name for the type of x.
    """
    chosen = variant if isinstance(variant, Variant) else _BY_NAME[op, x.dtype, variant]
    return chosen.emit(x, builder)


@cache
def variants(op: Op, dtype: DType, target: Target, max_ulp: float) -> tuple[Variant, ...]:
    """Those whose declared bound is at most `max_ulp` and whose instructions the target has, fastest first."""
    return tuple(
        variant
        for variant in ALL_VARIANTS
        if variant.op is op and variant.dtype is dtype and variant.available(target, max_ulp)
    )
