"""A linear layer followed by GELU in its tanh form."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.function
def gelu_tanh(v):
    """The Gaussian error linear unit, its error function replaced by a tanh of a cubic."""
    return 0.5 * v * (1.0 + at.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))


@at.kernel(workloads=[dict(M=128, K=512, N=2048), dict(M=512, K=512, N=512)])
def linear_gelu(x: at.f32["M", "K"], w: at.f32["K", "N"], bias: at.f32["N"], y: at.f32["M", "N"]):
    """y = gelu(x w + bias), the bias and the activation applied to each block before it is stored."""
    (M, K), N = x.shape, w.shape[1]
    for i, j in at.parallel(at.tile(M), at.tile(N)):
        acc = at.zeros((i, j))
        for k in at.tile(K):
            acc += at.dot(x[i, k], w[k, j])
        y[i, j] = gelu_tanh(acc + bias[j])


@linear_gelu.reference
def reference(x, w, bias):
    x, w, bias = (a.astype(np.float64) for a in (x, w, bias))
    v = np.einsum("mk,kn->mn", x, w) + bias
    return {"y": 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))}
