"""Attention at its shapes, causal, full and with a bias: inputs, a float64 answer and the bound on a float32 one.
Must not know who computes the answer or how it is timed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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

DIMS = ("B", "Hq", "Hkv", "Q", "K", "D", "Dv")
HIDDEN = -30000.0
"""The bias of a key that a query may not see: finite, and small enough that its weight is zero."""


def visible(Q: int, K: int) -> NDArray[np.bool_]:
    """Which keys each query sees under a causal mask aligned bottom-right."""
    return np.tri(Q, K, K - Q, dtype=np.bool_)


def attend(q: Real, k: Real, v: Real, scale: float, bias: Real) -> Answer:
    """Dense attention under an additive bias, in float64.

    Shapes: q [B, Hq, Q, D], k [B, Hkv, K, D], v [B, Hkv, K, Dv], bias [Q, K], where -inf hides a key.
    """
    group, terms = q.shape[1] // k.shape[1], k.shape[2]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = scale * (q @ k.swapaxes(-1, -2)) + bias
    wrong = scale * gamma(q.shape[-1] + 2) * (np.abs(q) @ np.abs(k).swapaxes(-1, -2)) + U * np.abs(_finite(scores))
    shifted = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(shifted)
    weights /= weights.sum(axis=-1, keepdims=True)
    wrong += np.abs(_finite(shifted)) * U + FUNCTION_ERROR
    wrong *= weights
    # Every block of an online loop rescales what it has, which counts as further terms of both sums.
    sums = wrong.sum(axis=-1, keepdims=True) + 2 * likely_gamma(3 * terms)
    bound = wrong @ np.abs(v) + sums * (weights @ np.abs(v)) + SMALLEST
    return Answer(value=weights @ v, bound=bound)


def _finite(scores: Real) -> Real:
    return np.where(np.isfinite(scores), scores, 0.0)


def _causal(q: Real, k: Real, v: Real, scale: float) -> Answer:
    return attend(q, k, v, scale, np.where(visible(q.shape[2], k.shape[2]), 0.0, -np.inf))


def _full(q: Real, k: Real, v: Real, scale: float) -> Answer:
    return attend(q, k, v, scale, np.zeros((q.shape[2], k.shape[2])))


def _biased(q: Real, k: Real, v: Real, bias: Real, scale: float) -> Answer:
    return attend(q, k, v, scale, bias)


def _make(rng: np.random.Generator, B: int, Hq: int, Hkv: int, Q: int, K: int, D: int, Dv: int) -> Inputs:
    return {"q": normal(rng, B, Hq, Q, D), "k": normal(rng, B, Hkv, K, D), "v": normal(rng, B, Hkv, K, Dv)}


def _make_biased(rng: np.random.Generator, **extents: int) -> Inputs:
    shape = extents["Q"], extents["K"]
    bias = np.where(rng.random(shape) < 0.8, normal(rng, *shape), np.float32(HIDDEN))
    return {**_make(rng, **extents), "bias": bias}


def _output(B: int, Hq: int, Hkv: int, Q: int, K: int, D: int, Dv: int) -> tuple[int, ...]:
    return B, Hq, Q, Dv


def _scale(D: int, **_others: int) -> dict[str, float]:
    return {"scale": float(np.float32(D**-0.5))}


def _visible_flops(B: int, Hq: int, Hkv: int, Q: int, K: int, D: int, Dv: int) -> int:
    return 2 * B * Hq * int(visible(Q, K).sum()) * (D + Dv)


def _dense_flops(B: int, Hq: int, Hkv: int, Q: int, K: int, D: int, Dv: int) -> int:
    return 2 * B * Hq * Q * K * (D + Dv)


ATTENTION = Spec(
    name="attention", dims=DIMS, make=_make, answer=_causal, output=_output, scalars=_scale, flops=_visible_flops
)
ATTENTION_FULL = Spec(
    name="attention_full", dims=DIMS, make=_make, answer=_full, output=_output, scalars=_scale, flops=_dense_flops
)
ATTENTION_BIAS = Spec(
    name="attention_bias",
    dims=DIMS,
    make=_make_biased,
    answer=_biased,
    output=_output,
    scalars=_scale,
    flops=_dense_flops,
)

PREFILL = (
    (1, 4, 2, 64, 128, 64, 64),
    (1, 8, 2, 256, 1024, 64, 64),
    (1, 4, 2, 65, 131, 64, 64),
    (1, 8, 2, 3, 67, 80, 96),
    (1, 4, 2, 65, 65, 64, 64),
    (1, 4, 2, 32, 65, 32, 32),
    (1, 4, 2, 64, 129, 32, 48),
    (2, 6, 2, 17, 67, 40, 48),
    (1, 32, 8, 512, 512, 128, 128),
)
DECODE = (
    (1, 8, 2, 1, 2048, 64, 64),
    (1, 8, 2, 1, 2053, 80, 96),
    (1, 16, 4, 1, 4096, 128, 128),
    (2, 8, 1, 1, 2053, 80, 96),
    (1, 8, 8, 1, 2048, 64, 64),
    (1, 16, 4, 1, 8193, 128, 128),
    (1, 8, 2, 1, 32768, 64, 96),
    (1, 32, 8, 1, 4096, 128, 128),
)
UNMASKED = ((1, 8, 8, 256, 256, 64, 64), (1, 8, 2, 64, 1024, 64, 64))

ATTENTION_CASES: tuple[Case, ...] = (
    *(case_of(ATTENTION, *shape) for shape in (*PREFILL, *DECODE)),
    *(case_of(spec, *shape) for spec in (ATTENTION_FULL, ATTENTION_BIAS) for shape in UNMASKED),
)
