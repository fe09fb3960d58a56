"""Causal attention with grouped heads, the mask aligned bottom-right: prefill and decode in one kernel."""
# ruff: noqa: F821, E741

import numpy as np

import autotune as at


@at.kernel(
    workloads=[
        dict(B=1, Hq=4, Hkv=2, Q=64, K=128, D=64, Dv=64, scale=0.125),
        dict(B=1, Hq=8, Hkv=2, Q=1, K=2048, D=64, Dv=64, scale=0.125),
        dict(B=1, Hq=8, Hkv=2, Q=1, K=2053, D=80, Dv=96, scale=80**-0.5),
        dict(B=1, Hq=16, Hkv=4, Q=1, K=4096, D=128, Dv=128, scale=128**-0.5),
    ]
)
def attention(
    q: at.f32["B", "Hq", "Q", "D"],
    k: at.f32["B", "Hkv", "K", "D"],
    v: at.f32["B", "Hkv", "K", "Dv"],
    out: at.f32["B", "Hq", "Q", "Dv"],
    scale: at.f32,
):
    """Online-softmax attention: grouped heads, causal with the mask aligned bottom-right, prefill and decode alike."""
    (B, Hq, Q, D), (_, Hkv, K, Dv) = q.shape, v.shape
    group = Hq // Hkv
    for b, h, i in at.parallel(B, Hq, at.tile(Q)):
        qi = q[b, h, i, :] * scale
        m, l, acc = at.full((i,), -at.inf), at.zeros((i,)), at.zeros((i, Dv))
        for j in at.tile(at.minimum(K, i.stop + K - Q), merge=at.online_softmax):
            s = at.dot(qi, k[b, h // group, j, :].T)
            s = at.where(j.index[None, :] <= i.index[:, None] + (K - Q), s, -at.inf)
            m_new = at.maximum(m, at.max(s, axis=1))
            p = at.exp(s - m_new[:, None])
            alpha = at.exp(m - m_new)
            l = l * alpha + at.sum(p, axis=1)
            acc = acc * alpha[:, None] + at.dot(p, v[b, h // group, j, :])
            m = m_new
        out[b, h, i, :] = acc / l[:, None]


@attention.reference
def reference(q, k, v, scale):
    """Dense scores, their softmax and the weighted sum of values, each query head with its own copy of keys and
    values."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    group, Q, K = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * float(scale)
    scores = np.where(np.tri(Q, K, K - Q, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return {"out": np.einsum("bhqk,bhkv->bhqv", weights / weights.sum(axis=-1, keepdims=True), v)}
