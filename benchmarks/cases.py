"""The row kernels and their shapes: inputs, a float64 answer in numpy, and how far a float32 result may be from it.
Must not know who computes the answer or how it is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
Real: TypeAlias = NDArray[np.float64]

EPS = 1e-5
GELU_SCALE = float(np.sqrt(2.0 / np.pi))
GELU_CUBIC = 0.044715
WIDTHS = (65, 512, 1024, 4096)

_U = 2.0**-24
_FUNCTION_ERROR = 8 * _U
"""Relative error allowed to one exp, tanh or sigmoid: 4 units in the last place."""
_SMALLEST = float(np.finfo(np.float32).tiny)
"""Results below the smallest normal number may be flushed to zero."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKernel:
    """One example kernel: parameters in order (inputs, output, scalars), its inputs and its answer."""

    name: str
    dims: tuple[str, ...]
    make: Callable[..., dict[str, NDArray[np.generic]]]
    answer: Callable[..., Answer]
    scalars: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel at one shape."""

    kernel: str
    dims: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """The example file's stem, then its dimensions in order: `softmax:M=129,N=512`."""
        return f"{self.kernel}:" + ",".join(f"{dim}={extent}" for dim, extent in self.dims)

    @property
    def extents(self) -> dict[str, int]:
        return dict(self.dims)

    @property
    def scalars(self) -> tuple[tuple[str, float], ...]:
        return KERNELS[self.kernel].scalars

    def inputs(self, seed: int) -> dict[str, NDArray[np.generic]]:
        """The input tensors in parameter order, drawn from `seed`."""
        return KERNELS[self.kernel].make(np.random.default_rng(seed), **self.extents)

    def answer(self, inputs: Arrays) -> Answer:
        """The answer for `inputs`, computed in float64."""
        wide = {name: a if a.dtype == np.bool_ else a.astype(np.float64) for name, a in inputs.items()}
        return KERNELS[self.kernel].answer(**wide)

    @property
    def output(self) -> tuple[int, ...]:
        """The shape of the output, which is that of the first input in every row kernel."""
        return tuple(self.extents.values())


def _gamma(terms: int) -> float:
    """Error of a float32 sum of `terms` terms, in any order, relative to the sum of their magnitudes."""
    return terms * _U / (1 - terms * _U)


def _normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)


def _softmax(s: Real, axis: int) -> Answer:
    z = s - s.max(axis=axis, keepdims=True)
    e = np.exp(z)
    p = e / e.sum(axis=axis, keepdims=True)
    exp_error = np.where(e > 0, np.abs(np.where(e > 0, z, 0.0)) * _U + _FUNCTION_ERROR, 0.0)
    sum_error = (p * exp_error).sum(axis=axis, keepdims=True) + _gamma(s.shape[axis])
    return Answer(value=p, bound=p * (exp_error + sum_error + 3 * _U) + _SMALLEST)


def _masked_softmax(x: Real, mask: NDArray[np.bool_]) -> Answer:
    return _softmax(np.where(mask, x, -np.inf), -1)


def _column_softmax(x: Real) -> Answer:
    return _softmax(x, 0)


def _rmsnorm(x: Real, w: Real) -> Answer:
    y = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS) * w
    return Answer(value=y, bound=np.abs(y) * ((_gamma(x.shape[-1]) + 3 * _U) / 2 + _FUNCTION_ERROR) + _SMALLEST)


def _layernorm(x: Real, w: Real, b: Real) -> Answer:
    gamma = _gamma(x.shape[-1])
    d = x - x.mean(axis=-1, keepdims=True)
    mean_error = (gamma + _U) * np.abs(x).mean(axis=-1, keepdims=True)
    variance = (d * d).mean(axis=-1, keepdims=True) + EPS
    d_error = mean_error + _U * np.abs(d)
    variance_error = (gamma + 3 * _U) * variance + 2 * (np.abs(d) * d_error).mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(variance)
    y = d * scale * w + b
    scale_error = variance_error / variance / 2 + _FUNCTION_ERROR
    bound = np.abs(w) * scale * (d_error + np.abs(d) * (scale_error + 3 * _U)) + _U * (np.abs(y) + np.abs(b))
    return Answer(value=y, bound=bound + _SMALLEST)


def _gelu(x: Real) -> Answer:
    u = GELU_SCALE * (x + GELU_CUBIC * x**3)
    t = np.tanh(u)
    tanh_error = _FUNCTION_ERROR * np.abs(t) + (1 - t * t) * np.abs(u) * 6 * _U
    y = 0.5 * x * (1 + t)
    bound = 0.5 * np.abs(x) * (tanh_error + _U * (1 + t)) + 2 * _U * np.abs(y)
    return Answer(value=y, bound=bound + _SMALLEST)


def _swiglu(gate: Real, up: Real) -> Answer:
    y = gate * up / (1 + np.exp(-gate))
    return Answer(value=y, bound=np.abs(y) * (2 * _FUNCTION_ERROR + 4 * _U) + _SMALLEST)


def _rope(x: Real, cos: Real, sin: Real) -> Answer:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    y = np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)
    size = np.concatenate((np.abs(a * cos) + np.abs(b * sin), np.abs(b * cos) + np.abs(a * sin)), axis=-1)
    return Answer(value=y, bound=2 * _U * size + _SMALLEST)


def _make_softmax(rng: np.random.Generator, M: int, N: int) -> dict[str, NDArray[np.generic]]:
    mask = rng.random((M, N)) < 0.8
    mask[:, 0] = True  # a row masked out wholly has no defined answer under a finite mask
    return {"x": _normal(rng, M, N), "mask": mask}


def _make_rmsnorm(rng: np.random.Generator, M: int, N: int) -> dict[str, NDArray[np.generic]]:
    return {"x": _normal(rng, M, N), "w": _normal(rng, N)}


def _make_layernorm(rng: np.random.Generator, M: int, N: int) -> dict[str, NDArray[np.generic]]:
    return {"x": _normal(rng, M, N), "w": _normal(rng, N), "b": _normal(rng, N)}


def _make_one(rng: np.random.Generator, M: int, N: int) -> dict[str, NDArray[np.generic]]:
    return {"x": _normal(rng, M, N)}


def _make_swiglu(rng: np.random.Generator, M: int, N: int) -> dict[str, NDArray[np.generic]]:
    return {"gate": _normal(rng, M, N), "up": _normal(rng, M, N)}


def _make_rope(rng: np.random.Generator, H: int, S: int, D: int) -> dict[str, NDArray[np.generic]]:
    angle = np.arange(S)[:, None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
    return {
        "x": _normal(rng, H, S, D),
        "cos": np.cos(angle).astype(np.float32),
        "sin": np.sin(angle).astype(np.float32),
    }


_MN = ("M", "N")
_EPS = (("eps", EPS),)
KERNELS: dict[str, RowKernel] = {
    kernel.name: kernel
    for kernel in (
        RowKernel(name="softmax", dims=_MN, make=_make_softmax, answer=_masked_softmax),
        RowKernel(name="rmsnorm", dims=_MN, make=_make_rmsnorm, answer=_rmsnorm, scalars=_EPS),
        RowKernel(name="layernorm", dims=_MN, make=_make_layernorm, answer=_layernorm, scalars=_EPS),
        RowKernel(name="gelu", dims=_MN, make=_make_one, answer=_gelu),
        RowKernel(name="swiglu", dims=_MN, make=_make_swiglu, answer=_swiglu),
        RowKernel(name="column_softmax", dims=_MN, make=_make_one, answer=_column_softmax),
        RowKernel(name="short_rows", dims=_MN, make=_make_rmsnorm, answer=_rmsnorm, scalars=_EPS),
        RowKernel(name="rope", dims=("H", "S", "D"), make=_make_rope, answer=_rope),
    )
}


def case(kernel: str, *extents: int) -> Case:
    """The case of `kernel` with these extents, in the order of its dimensions."""
    return Case(kernel=kernel, dims=tuple(zip(KERNELS[kernel].dims, extents, strict=True)))


SINGLE_SHAPE = (case("short_rows", 4096, 7), case("rope", 32, 128, 128))
BY_WIDTH = tuple(name for name in KERNELS if name not in {single.kernel for single in SINGLE_SHAPE})


def row_cases(*, quick: bool) -> tuple[Case, ...]:
    """Every example at every width, or at width 512 alone when `quick`."""
    widths = (512,) if quick else WIDTHS
    return tuple(case(name, 129, width) for name in BY_WIDTH for width in widths) + SINGLE_SHAPE
