"""Rotary position embedding, first half of each head rotated against the second."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(H=32, S=128, D=128)])
def rope(x: at.f32["H", "S", "D"], cos: at.f32["S", "D//2"], sin: at.f32["S", "D//2"], y: at.f32["H", "S", "D"]):
    """Element d and element d + D/2 of each head are one pair, turned by the angle of their position."""
    H, S, D = x.shape
    for h, s in at.parallel(H, S):
        first, second = x[h, s, 0 : D // 2], x[h, s, D // 2 : D]
        y[h, s, 0 : D // 2] = first * cos[s, :] - second * sin[s, :]
        y[h, s, D // 2 : D] = second * cos[s, :] + first * sin[s, :]


@rope.reference
def reference(x, cos, sin):
    first, second = np.split(x.astype(np.float64), 2, axis=-1)
    turned = (first + 1j * second) * (cos.astype(np.float64) + 1j * sin.astype(np.float64))
    return {"y": np.concatenate([turned.real, turned.imag], axis=-1)}


@rope.inputs
def inputs(rng, kind, H, S, D):
    """Angles as models use them; the input itself may be of any kind."""
    frequencies = 10000.0 ** (-np.arange(D // 2) / max(D // 2, 1))
    angles = np.arange(S)[:, None] * frequencies[None, :]
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
