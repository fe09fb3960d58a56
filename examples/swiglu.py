"""SwiGLU: a gate's SiLU times a value."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=129, N=65), dict(M=129, N=512), dict(M=129, N=1024), dict(M=129, N=4096)])
def swiglu(g: at.f32["M", "N"], u: at.f32["M", "N"], y: at.f32["M", "N"]):
    """silu(g) * u, element by element."""
    for row in at.parallel(g.shape[0]):
        gate = g[row, :]
        y[row, :] = gate * at.sigmoid(gate) * u[row, :]


@swiglu.reference
def reference(g, u):
    g, u = g.astype(np.float64), u.astype(np.float64)
    return {"y": g / (1 + np.exp(-g)) * u}
