"""What every suite compares on: a kernel at a shape, its inputs, its float64 answer and the bound on a float32 one.
Must not know which kernels there are, who computes the answer or how it is timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
Inputs: TypeAlias = dict[str, NDArray[np.generic]]
Real: TypeAlias = NDArray[np.float64]

EPS = 1e-5
GELU_SCALE = float(np.sqrt(2.0 / np.pi))
GELU_CUBIC = 0.044715

U = 2.0**-24
FUNCTION_ERROR = 8 * U
"""Relative error allowed to one exp, tanh or sigmoid: 4 units in the last place."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Results below the smallest normal number may be flushed to zero."""
_LIKELY = 6.0
"""Deviations of a random walk of rounding errors that are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The float64 result and the first-order bound on a float32 result's distance from it."""

    value: Real
    bound: Real

    def error(self, got: NDArray[np.float32]) -> float:
        """The largest error over its bound; infinity where the result is not a number.

        Shapes: `got` has the shape of `value`.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = np.where(got == self.value, 0.0, np.abs(got.astype(np.float64) - self.value) / self.bound)
        return float("inf") if np.isnan(scaled).any() else float(scaled.max())


def _no_scalars(**_extents: int) -> dict[str, float]:
    return {}


def _all_extents(**extents: int) -> tuple[int, ...]:
    return tuple(extents.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One example kernel: parameters in order (inputs, output, scalars), its inputs and its answer.

    `make` takes a generator and the extents, `answer` the inputs in float64 and the scalars; `output` gives the
    shape of the output, `scalars` the scalar arguments and `flops` the useful floating-point operations of a call
    (None where a roof says nothing), each from the extents.
    """

    name: str
    dims: tuple[str, ...]
    make: Callable[..., Inputs]
    answer: Callable[..., Answer]
    output: Callable[..., tuple[int, ...]] = _all_extents
    scalars: Callable[..., dict[str, float]] = _no_scalars
    flops: Callable[..., int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel at one shape."""

    spec: Spec
    dims: tuple[tuple[str, int], ...]

    @property
    def kernel(self) -> str:
        """The stem of the example file."""
        return self.spec.name

    @property
    def name(self) -> str:
        """The example file's stem, then its dimensions in order: `softmax:M=129,N=512`."""
        return f"{self.kernel}:" + ",".join(f"{dim}={extent}" for dim, extent in self.dims)

    @property
    def extents(self) -> dict[str, int]:
        return dict(self.dims)

    @property
    def scalars(self) -> tuple[tuple[str, float], ...]:
        return tuple(self.spec.scalars(**self.extents).items())

    @property
    def output(self) -> tuple[int, ...]:
        """The shape of the output."""
        return self.spec.output(**self.extents)

    @property
    def flops(self) -> int | None:
        """Useful operations of a call, a multiplication and an addition counted as two."""
        return None if self.spec.flops is None else self.spec.flops(**self.extents)

    def inputs(self, seed: int) -> Inputs:
        """The input tensors in parameter order, drawn from `seed`."""
        return self.spec.make(np.random.default_rng(seed), **self.extents)

    def answer(self, inputs: Arrays) -> Answer:
        """The answer for `inputs`, computed in float64."""
        wide = {name: a if a.dtype == np.bool_ else a.astype(np.float64) for name, a in inputs.items()}
        return self.spec.answer(**wide, **dict(self.scalars))


def case_of(spec: Spec, *extents: int) -> Case:
    """The case of `spec` with these extents, in the order of its dimensions."""
    return Case(spec=spec, dims=tuple(zip(spec.dims, extents, strict=True)))


def gamma(terms: int) -> float:
    """Error of a float32 sum of `terms` terms, in any order, relative to the sum of their magnitudes."""
    return terms * U / (1 - terms * U)


def likely_gamma(terms: int) -> float:
    """`gamma` with errors that go up and down at random: the bound by which a long sum can still be found wrong.

    Source: Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis (2019).
    """
    return min(gamma(terms), _LIKELY * math.sqrt(terms) * U)


def normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Standard normal numbers in float32."""
    return rng.standard_normal(shape, dtype=np.float32)
