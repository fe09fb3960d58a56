"""Root-mean-square normalisation of rows, with weights."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=129, N=65), dict(M=129, N=512), dict(M=129, N=1024), dict(M=129, N=4096)])
def rmsnorm(x: at.f32["M", "N"], w: at.f32["N"], y: at.f32["M", "N"], eps: at.f32 = 1e-5):
    """Each row divided by the root of its mean square, times the weights."""
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        y[row, :] = v * at.rsqrt(at.sum(v * v) / N + eps) * w[:]


@rmsnorm.reference
def reference(x, w, eps):
    x, w = x.astype(np.float64), w.astype(np.float64)
    return {"y": x / np.sqrt(np.mean(x**2, axis=1, keepdims=True) + eps) * w}
