"""Attention without a mask, with grouped heads, as encoders and cross-attention use it."""
# ruff: noqa: F821, E741

import numpy as np

import autotune as at


@at.kernel(
    workloads=[
        dict(B=1, Hq=8, Hkv=8, Q=256, K=256, D=64, Dv=64, scale=0.125),
        dict(B=1, Hq=8, Hkv=2, Q=64, K=1024, D=64, Dv=64, scale=0.125),
    ]
)
def attention_full(
    q: at.f32["B", "Hq", "Q", "D"],
    k: at.f32["B", "Hkv", "K", "D"],
    v: at.f32["B", "Hkv", "K", "Dv"],
    out: at.f32["B", "Hq", "Q", "Dv"],
    scale: at.f32,
):
    """Online-softmax attention in which every query sees every key."""
    (B, Hq, Q, D), (_, Hkv, K, Dv) = q.shape, v.shape
    group = Hq // Hkv
    for b, h, i in at.parallel(B, Hq, at.tile(Q)):
        qi = q[b, h, i, :] * scale
        m, l, acc = at.full((i,), -at.inf), at.zeros((i,)), at.zeros((i, Dv))
        for j in at.tile(K, merge=at.online_softmax):
            s = at.dot(qi, k[b, h // group, j, :].T)
            m_new = at.maximum(m, at.max(s, axis=1))
            p = at.exp(s - m_new[:, None])
            alpha = at.exp(m - m_new)
            l = l * alpha + at.sum(p, axis=1)
            acc = acc * alpha[:, None] + at.dot(p, v[b, h // group, j, :])
            m = m_new
        out[b, h, i, :] = acc / l[:, None]


@attention_full.reference
def reference(q, k, v, scale):
    """Dense scores, their softmax and the weighted sum of values, one query head after another."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    group = q.shape[1] // k.shape[1]
    heads = []
    for h in range(q.shape[1]):
        scores = float(scale) * q[:, h] @ k[:, h // group].transpose(0, 2, 1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        heads.append(weights / weights.sum(axis=-1, keepdims=True) @ v[:, h // group])
    return {"out": np.stack(heads, axis=1)}
