"""Softmax down the columns of a row-major matrix."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=129, N=65), dict(M=129, N=512), dict(M=129, N=1024), dict(M=129, N=4096)])
def column_softmax(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    """Each column becomes a probability distribution."""
    for column in at.parallel(x.shape[1]):
        v = x[:, column]
        e = at.exp(v - at.max(v))
        y[:, column] = e / at.sum(e)


@column_softmax.reference
def reference(x):
    x = x.astype(np.float64)
    weights = np.exp(x - x.max(axis=0))
    return {"y": weights / weights.sum(axis=0)}
