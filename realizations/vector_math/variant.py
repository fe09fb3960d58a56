"""One way of computing a function, with the error it declares and the instructions it needs.
Must not know how any function is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from autotune.ir.types import STRICT_MAX_ULP, DType, Op
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.target import Target

Emit = Callable[[Vector, Builder], Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Code for `op` on vectors of `dtype`.

    Units: `max_ulp` in units in the last place of `dtype`, the largest measured error rounded up; the same apart for
    targets without FMA, None where the method needs it. `needs` names capabilities of Target.
    """

    op: Op
    dtype: DType
    name: str
    max_ulp: float
    max_ulp_without_fma: float | None
    needs: tuple[str, ...] = ()
    flushes: bool = False  # results below the smallest normal become 0, which strict math does not allow
    emit: Emit = field(compare=False, repr=False)

    def available(self, target: Target, max_ulp: float) -> bool:
        """Whether the target has the instructions and the bound holds on it."""
        bound = self.max_ulp if target.has_fma else self.max_ulp_without_fma
        if self.flushes and max_ulp <= STRICT_MAX_ULP:
            return False
        return bound is not None and bound <= max_ulp and all(getattr(target, need) for need in self.needs)


def horner(builder: Builder, x: Vector, coefficients: tuple[float, ...]) -> Vector:
    """Σ c_k·x^k by multiply-adds, lowest coefficient first in the tuple."""
    result = builder.constant(x.dtype, coefficients[-1], x.lanes)
    for coefficient in reversed(coefficients[:-1]):
        result = builder.fma(result, x, builder.constant(x.dtype, coefficient, x.lanes))
    return result


def like(builder: Builder, x: Vector, value: float) -> Vector:
    """A constant of the type and lanes of x."""
    return builder.constant(x.dtype, value, x.lanes)
