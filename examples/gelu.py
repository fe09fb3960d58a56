"""GELU in its tanh form."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.function
def gelu_tanh(v):
    """The Gaussian error linear unit, its error function replaced by a tanh of a cubic."""
    return 0.5 * v * (1.0 + at.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))


@at.kernel(workloads=[dict(M=129, N=65), dict(M=129, N=512), dict(M=129, N=1024), dict(M=129, N=4096)])
def gelu(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    """GELU of every element."""
    for row in at.parallel(x.shape[0]):
        y[row, :] = gelu_tanh(x[row, :])


@gelu.reference
def reference(x):
    x = x.astype(np.float64)
    return {"y": 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))}
