"""The row kernels and their shapes: inputs, a float64 answer in numpy, and how far a float32 result may be from it.
Must not know who computes the answer or how it is timed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.case import (
    EPS,
    FUNCTION_ERROR,
    GELU_CUBIC,
    GELU_SCALE,
    SMALLEST,
    Answer,
    Case,
    Inputs,
    Real,
    Spec,
    U,
    case_of,
    gamma,
    normal,
)

WIDTHS = (65, 512, 1024, 4096)


def _softmax(s: Real, axis: int) -> Answer:
    z = s - s.max(axis=axis, keepdims=True)
    e = np.exp(z)
    p = e / e.sum(axis=axis, keepdims=True)
    exp_error = np.where(e > 0, np.abs(np.where(e > 0, z, 0.0)) * U + FUNCTION_ERROR, 0.0)
    sum_error = (p * exp_error).sum(axis=axis, keepdims=True) + gamma(s.shape[axis])
    return Answer(value=p, bound=p * (exp_error + sum_error + 3 * U) + SMALLEST)


def _masked_softmax(x: Real, mask: NDArray[np.bool_]) -> Answer:
    return _softmax(np.where(mask, x, -np.inf), -1)


def _column_softmax(x: Real) -> Answer:
    return _softmax(x, 0)


def _rmsnorm(x: Real, w: Real, eps: float) -> Answer:
    y = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * w
    return Answer(value=y, bound=np.abs(y) * ((gamma(x.shape[-1]) + 3 * U) / 2 + FUNCTION_ERROR) + SMALLEST)


def _layernorm(x: Real, w: Real, b: Real, eps: float) -> Answer:
    growth = gamma(x.shape[-1])
    d = x - x.mean(axis=-1, keepdims=True)
    mean_error = (growth + U) * np.abs(x).mean(axis=-1, keepdims=True)
    variance = (d * d).mean(axis=-1, keepdims=True) + eps
    d_error = mean_error + U * np.abs(d)
    variance_error = (growth + 3 * U) * variance + 2 * (np.abs(d) * d_error).mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(variance)
    y = d * scale * w + b
    scale_error = variance_error / variance / 2 + FUNCTION_ERROR
    bound = np.abs(w) * scale * (d_error + np.abs(d) * (scale_error + 3 * U)) + U * (np.abs(y) + np.abs(b))
    return Answer(value=y, bound=bound + SMALLEST)


def gelu_answer(x: Real) -> Answer:
    """GELU of an exact `x`."""
    u = GELU_SCALE * (x + GELU_CUBIC * x**3)
    t = np.tanh(u)
    tanh_error = FUNCTION_ERROR * np.abs(t) + (1 - t * t) * np.abs(u) * 6 * U
    y = 0.5 * x * (1 + t)
    bound = 0.5 * np.abs(x) * (tanh_error + U * (1 + t)) + 2 * U * np.abs(y)
    return Answer(value=y, bound=bound + SMALLEST)


def _swiglu(gate: Real, up: Real) -> Answer:
    y = gate * up / (1 + np.exp(-gate))
    return Answer(value=y, bound=np.abs(y) * (2 * FUNCTION_ERROR + 4 * U) + SMALLEST)


def _rope(x: Real, cos: Real, sin: Real) -> Answer:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    y = np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)
    size = np.concatenate((np.abs(a * cos) + np.abs(b * sin), np.abs(b * cos) + np.abs(a * sin)), axis=-1)
    return Answer(value=y, bound=2 * U * size + SMALLEST)


def _make_softmax(rng: np.random.Generator, M: int, N: int) -> Inputs:
    mask = rng.random((M, N)) < 0.8
    mask[:, 0] = True  # a row masked out wholly has no defined answer under a finite mask
    return {"x": normal(rng, M, N), "mask": mask}


def _make_rmsnorm(rng: np.random.Generator, M: int, N: int) -> Inputs:
    return {"x": normal(rng, M, N), "w": normal(rng, N)}


def _make_layernorm(rng: np.random.Generator, M: int, N: int) -> Inputs:
    return {"x": normal(rng, M, N), "w": normal(rng, N), "b": normal(rng, N)}


def _make_one(rng: np.random.Generator, M: int, N: int) -> Inputs:
    return {"x": normal(rng, M, N)}


def _make_swiglu(rng: np.random.Generator, M: int, N: int) -> Inputs:
    return {"gate": normal(rng, M, N), "up": normal(rng, M, N)}


def _make_rope(rng: np.random.Generator, H: int, S: int, D: int) -> Inputs:
    angle = np.arange(S)[:, None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
    return {
        "x": normal(rng, H, S, D),
        "cos": np.cos(angle).astype(np.float32),
        "sin": np.sin(angle).astype(np.float32),
    }


_MN = ("M", "N")


def _eps(**_extents: int) -> dict[str, float]:
    return {"eps": EPS}


KERNELS: dict[str, Spec] = {
    kernel.name: kernel
    for kernel in (
        Spec(name="softmax", dims=_MN, make=_make_softmax, answer=_masked_softmax),
        Spec(name="rmsnorm", dims=_MN, make=_make_rmsnorm, answer=_rmsnorm, scalars=_eps),
        Spec(name="layernorm", dims=_MN, make=_make_layernorm, answer=_layernorm, scalars=_eps),
        Spec(name="gelu", dims=_MN, make=_make_one, answer=gelu_answer),
        Spec(name="swiglu", dims=_MN, make=_make_swiglu, answer=_swiglu),
        Spec(name="column_softmax", dims=_MN, make=_make_one, answer=_column_softmax),
        Spec(name="short_rows", dims=_MN, make=_make_rmsnorm, answer=_rmsnorm, scalars=_eps),
        Spec(name="rope", dims=("H", "S", "D"), make=_make_rope, answer=_rope),
    )
}


def case(kernel: str, *extents: int) -> Case:
    """The case of `kernel` with these extents, in the order of its dimensions."""
    return case_of(KERNELS[kernel], *extents)


SINGLE_SHAPE = (case("short_rows", 4096, 7), case("rope", 32, 128, 128))
BY_WIDTH = tuple(name for name in KERNELS if name not in {single.kernel for single in SINGLE_SHAPE})


def row_cases(*, quick: bool) -> tuple[Case, ...]:
    """Every example at every width, or at width 512 alone when `quick`."""
    widths = (512,) if quick else WIDTHS
    return tuple(case(name, 129, width) for name in BY_WIDTH for width in widths) + SINGLE_SHAPE
