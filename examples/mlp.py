"""A gated feed-forward layer: two contractions up, SwiGLU between, one contraction down."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=128, D=512, H=1536), dict(M=32, D=256, H=1024)])
def mlp(
    x: at.f32["M", "D"],
    gate: at.f32["D", "H"],
    up: at.f32["D", "H"],
    down: at.f32["H", "D"],
    y: at.f32["M", "D"],
):
    """y = (silu(x gate) * (x up)) down; a program owns its rows, and of the hidden layer only one block exists at a
    time."""
    (M, D), H = x.shape, gate.shape[1]
    for i in at.parallel(at.tile(M)):
        xi = x[i, :]
        acc = at.zeros((i, D))
        for h in at.tile(H):
            g = at.dot(xi, gate[:, h])
            hidden = g * at.sigmoid(g) * at.dot(xi, up[:, h])
            acc += at.dot(hidden, down[h, :])
        y[i, :] = acc


@mlp.reference
def reference(x, gate, up, down):
    x, gate, up, down = (a.astype(np.float64) for a in (x, gate, up, down))
    g = x @ gate
    return {"y": (g / (1 + np.exp(-g)) * (x @ up)) @ down}


@mlp.inputs
def inputs(rng, kind, M, D, H):
    """Weights as layers are initialised: products keep the size of what they multiply."""

    def weights(rows, columns):
        return (rng.standard_normal((rows, columns)) * rows**-0.5).astype(np.float32)

    return {"gate": weights(D, H), "up": weights(D, H), "down": weights(H, D)}
