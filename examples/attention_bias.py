"""Attention with a mask that is added to the scores, shared by batches and heads."""
# ruff: noqa: F821, E741

import numpy as np

import autotune as at


@at.kernel(
    workloads=[
        dict(B=1, Hq=8, Hkv=8, Q=256, K=256, D=64, Dv=64, scale=0.125),
        dict(B=1, Hq=8, Hkv=2, Q=64, K=1024, D=64, Dv=64, scale=0.125),
    ]
)
def attention_bias(
    q: at.f32["B", "Hq", "Q", "D"],
    k: at.f32["B", "Hkv", "K", "D"],
    v: at.f32["B", "Hkv", "K", "Dv"],
    bias: at.f32["Q", "K"],
    out: at.f32["B", "Hq", "Q", "Dv"],
    scale: at.f32,
):
    """Online-softmax attention over q k^T scale + bias; what is masked off has a large negative bias, not -inf, so
    that a block of keys masked off wholly stays a number."""
    (B, Hq, Q, D), (_, Hkv, K, Dv) = q.shape, v.shape
    group = Hq // Hkv
    for b, h, i in at.parallel(B, Hq, at.tile(Q)):
        qi = q[b, h, i, :] * scale
        m, l, acc = at.full((i,), -at.inf), at.zeros((i,)), at.zeros((i, Dv))
        for j in at.tile(K, merge=at.online_softmax):
            s = at.dot(qi, k[b, h // group, j, :].T) + bias[i, j]
            m_new = at.maximum(m, at.max(s, axis=1))
            p = at.exp(s - m_new[:, None])
            alpha = at.exp(m - m_new)
            l = l * alpha + at.sum(p, axis=1)
            acc = acc * alpha[:, None] + at.dot(p, v[b, h // group, j, :])
            m = m_new
        out[b, h, i, :] = acc / l[:, None]


@attention_bias.reference
def reference(q, k, v, bias, scale):
    """Dense scores plus the bias, their softmax and the weighted sum of values."""
    q, k, v, bias = (a.astype(np.float64) for a in (q, k, v, bias))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * float(scale) + bias
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return {"out": np.einsum("bhqk,bhkv->bhqv", weights / weights.sum(axis=-1, keepdims=True), v)}


@attention_bias.inputs
def inputs(rng, kind, B, Hq, Hkv, Q, K, D, Dv):
    """Four of five keys visible at a small bias, the others masked off."""
    visible = rng.random((Q, K)) < 0.8
    return {"bias": np.where(visible, rng.standard_normal((Q, K)), -30000.0).astype(np.float32)}
