"""Root-mean-square normalisation of query or key rows a head, followed by rotary position embedding."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(H=32, S=128, D=128), dict(H=8, S=512, D=64)])
def qk_norm_rope(
    x: at.f32["H", "S", "D"],
    w: at.f32["D"],
    cos: at.f32["S", "D//2"],
    sin: at.f32["S", "D//2"],
    y: at.f32["H", "S", "D"],
    eps: at.f32 = 1e-6,
):
    """Each row of each head scaled to mean square one and by the weights; then its halves turned as pairs."""
    H, S, D = x.shape
    for h, s in at.parallel(H, S):
        v = x[h, s, :]
        scale = at.rsqrt(at.sum(v * v) / D + eps)
        first = x[h, s, 0 : D // 2] * scale * w[0 : D // 2]
        second = x[h, s, D // 2 : D] * scale * w[D // 2 : D]
        y[h, s, 0 : D // 2] = first * cos[s, :] - second * sin[s, :]
        y[h, s, D // 2 : D] = second * cos[s, :] + first * sin[s, :]


@qk_norm_rope.reference
def reference(x, w, cos, sin, eps):
    x, w, cos, sin = (a.astype(np.float64) for a in (x, w, cos, sin))
    normal = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * w
    first, second = np.split(normal, 2, axis=-1)
    turned = (first + 1j * second) * (cos + 1j * sin)
    return {"y": np.concatenate([turned.real, turned.imag], axis=-1)}


@qk_norm_rope.inputs
def inputs(rng, kind, H, S, D):
    """Angles as models use them; the rows and weights may be of any kind."""
    frequencies = 10000.0 ** (-np.arange(D // 2) / max(D // 2, 1))
    angles = np.arange(S)[:, None] * frequencies[None, :]
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
