"""Layer normalisation of rows, with weights and bias."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=129, N=65), dict(M=129, N=512), dict(M=129, N=1024), dict(M=129, N=4096)])
def layernorm(x: at.f32["M", "N"], weight: at.f32["N"], bias: at.f32["N"], y: at.f32["M", "N"], eps: at.f32 = 1e-5):
    """Each row shifted to mean zero and scaled to variance one, times the weights, plus the bias."""
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        centred = v - at.sum(v) / N
        variance = at.sum(centred * centred) / N
        y[row, :] = centred * at.rsqrt(variance + eps) * weight[:] + bias[:]


@layernorm.reference
def reference(x, weight, bias, eps):
    x, weight, bias = (a.astype(np.float64) for a in (x, weight, bias))
    mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return {"y": (x - mean) / np.sqrt(variance + eps) * weight + bias}
