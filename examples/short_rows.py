"""Root-mean-square normalisation of many short rows."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=4096, N=7)])
def short_rows(x: at.f32["M", "N"], w: at.f32["N"], y: at.f32["M", "N"], eps: at.f32 = 1e-5):
    """Rows so short that lanes run across programs rather than along a row."""
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        y[row, :] = v * at.rsqrt(at.sum(v * v) / N + eps) * w[:]


@short_rows.reference
def reference(x, w, eps):
    x, w = x.astype(np.float64), w.astype(np.float64)
    return {"y": x / np.sqrt(np.mean(x**2, axis=1, keepdims=True) + eps) * w}
