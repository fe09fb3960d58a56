"""Matrix products and their kin at their shapes: inputs, a float64 answer and the bound on a float32 one.
Must not know who computes the answer or how it is timed."""

from __future__ import annotations

import numpy as np

from benchmarks.case import (
    FUNCTION_ERROR,
    SMALLEST,
    Answer,
    Case,
    Inputs,
    Real,
    Spec,
    U,
    case_of,
    gamma,
    likely_gamma,
    normal,
)
from benchmarks.cases import gelu_answer

EPS = 1e-6
_GELU_SLOPE = 1.13
_SILU_SLOPE = 1.1
"""Upper bounds of the derivatives."""


def _product(a: Real, b: Real) -> Answer:
    terms = a.shape[-1]
    return Answer(value=a @ b, bound=gamma(terms) * (np.abs(a) @ np.abs(b)) + SMALLEST)


def _transposed(a: Real, b: Real) -> Answer:
    return _product(a, b.T)


def _linear_gelu(x: Real, w: Real, bias: Real) -> Answer:
    linear = _product(x, w)
    exact = gelu_answer(linear.value + bias)
    shifted = linear.bound + U * np.abs(linear.value + bias)
    return Answer(value=exact.value, bound=exact.bound + _GELU_SLOPE * shifted)


def _mlp(x: Real, gate: Real, up: Real, down: Real) -> Answer:
    g, u = _product(x, gate), _product(x, up)
    silu = g.value / (1 + np.exp(-g.value))
    hidden = silu * u.value
    wrong = _SILU_SLOPE * g.bound * np.abs(u.value) + np.abs(silu) * u.bound
    wrong += np.abs(hidden) * (2 * FUNCTION_ERROR + 4 * U)
    y = _product(hidden, down)
    return Answer(value=y.value, bound=y.bound + wrong @ np.abs(down))


def _qk_norm_rope(x: Real, w: Real, cos: Real, sin: Real, eps: float) -> Answer:
    half = x.shape[-1] // 2
    n = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * w
    a, b = n[..., :half], n[..., half:]
    y = np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)
    size = np.concatenate((np.abs(a * cos) + np.abs(b * sin), np.abs(b * cos) + np.abs(a * sin)), axis=-1)
    normed = (gamma(x.shape[-1]) + 3 * U) / 2 + FUNCTION_ERROR + 2 * U
    return Answer(value=y, bound=size * (normed + 2 * U) + SMALLEST)


def _dot(a: Real, b: Real) -> Answer:
    products = a * b
    return Answer(
        value=products.sum(axis=-1), bound=likely_gamma(a.shape[-1]) * np.abs(products).sum(axis=-1) + SMALLEST
    )


def _make_product(rng: np.random.Generator, M: int, K: int, N: int) -> Inputs:
    return {"a": normal(rng, M, K), "b": normal(rng, K, N)}


def _make_transposed(rng: np.random.Generator, M: int, K: int, N: int) -> Inputs:
    return {"a": normal(rng, M, K), "b": normal(rng, N, K)}


def _make_gemv(rng: np.random.Generator, M: int, K: int) -> Inputs:
    return {"a": normal(rng, M, K), "x": normal(rng, K)}


def _make_batch(rng: np.random.Generator, B: int, M: int, K: int, N: int) -> Inputs:
    return {"a": normal(rng, B, M, K), "b": normal(rng, B, K, N)}


def _make_linear(rng: np.random.Generator, M: int, K: int, N: int) -> Inputs:
    return {"x": normal(rng, M, K), "w": normal(rng, K, N) * np.float32(K**-0.5), "bias": normal(rng, N)}


def _make_mlp(rng: np.random.Generator, M: int, D: int, H: int) -> Inputs:
    def weights(rows: int, columns: int) -> np.typing.NDArray[np.generic]:
        return normal(rng, rows, columns) * np.float32(rows**-0.5)

    return {"x": normal(rng, M, D), "gate": weights(D, H), "up": weights(D, H), "down": weights(H, D)}


def _make_rope(rng: np.random.Generator, H: int, S: int, D: int) -> Inputs:
    angle = np.arange(S)[:, None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
    turns = {"cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}
    return {"x": normal(rng, H, S, D), "w": normal(rng, D), **turns}


def _make_dot(rng: np.random.Generator, M: int, K: int) -> Inputs:
    return {"a": normal(rng, M, K), "b": normal(rng, M, K)}


def _rows_and_columns(M: int, K: int, N: int) -> tuple[int, ...]:
    return M, N


def _product_flops(M: int, K: int, N: int) -> int:
    return 2 * M * K * N


_MKN = ("M", "K", "N")
MATMUL = Spec(
    name="matmul", dims=_MKN, make=_make_product, answer=_product, output=_rows_and_columns, flops=_product_flops
)
MATMUL_BT = Spec(
    name="matmul_bt",
    dims=_MKN,
    make=_make_transposed,
    answer=_transposed,
    output=_rows_and_columns,
    flops=_product_flops,
)
GEMV = Spec(
    name="gemv",
    dims=("M", "K"),
    make=_make_gemv,
    answer=lambda a, x: _product(a, x),
    output=lambda M, K: (M,),
    flops=lambda M, K: 2 * M * K,
)
BATCHED = Spec(
    name="batched_small_matmul",
    dims=("B", "M", "K", "N"),
    make=_make_batch,
    answer=_product,
    output=lambda B, M, K, N: (B, M, N),
    flops=lambda B, M, K, N: 2 * B * M * K * N,
)
LINEAR_GELU = Spec(
    name="linear_gelu",
    dims=_MKN,
    make=_make_linear,
    answer=_linear_gelu,
    output=_rows_and_columns,
    flops=_product_flops,
)
MLP = Spec(
    name="mlp",
    dims=("M", "D", "H"),
    make=_make_mlp,
    answer=_mlp,
    output=lambda M, D, H: (M, D),
    flops=lambda M, D, H: 6 * M * D * H,
)
QK_NORM_ROPE = Spec(
    name="qk_norm_rope",
    dims=("H", "S", "D"),
    make=_make_rope,
    answer=_qk_norm_rope,
    scalars=lambda **_extents: {"eps": EPS},
    flops=lambda H, S, D: 7 * H * S * D,
)
DOT = Spec(
    name="dot",
    dims=("M", "K"),
    make=_make_dot,
    answer=_dot,
    output=lambda M, K: (M,),
    flops=lambda M, K: 2 * M * K,
)

CONTRACTION_CASES: tuple[Case, ...] = (
    case_of(MATMUL, 512, 512, 512),
    case_of(MATMUL, 1024, 1024, 1024),
    case_of(MATMUL, 128, 4096, 4096),
    case_of(MATMUL, 4096, 64, 64),
    case_of(MATMUL, 64, 64, 64),
    case_of(MATMUL, 61, 67, 71),
    case_of(MATMUL_BT, 512, 512, 512),
    case_of(MATMUL_BT, 4096, 64, 64),
    case_of(GEMV, 4096, 4096),
    case_of(GEMV, 1024, 1024),
    case_of(BATCHED, 4096, 8, 8, 8),
    case_of(BATCHED, 1024, 16, 16, 16),
    case_of(BATCHED, 256, 32, 32, 32),
    case_of(LINEAR_GELU, 128, 512, 2048),
    case_of(LINEAR_GELU, 512, 512, 512),
    case_of(MLP, 128, 512, 1536),
    case_of(MLP, 32, 256, 1024),
    case_of(QK_NORM_ROPE, 32, 128, 128),
    case_of(QK_NORM_ROPE, 8, 512, 64),
    case_of(DOT, 129, 1024),
    case_of(DOT, 129, 4096),
    case_of(DOT, 1, 1 << 20),
)
