"""Dot products of the rows of two matrices, row by row."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=129, K=1024), dict(M=129, K=4096), dict(M=1, K=1048576)])
def dot(a: at.f32["M", "K"], b: at.f32["M", "K"], y: at.f32["M"]):
    """y[row] is the inner product of row `row` of a and of b."""
    for row in at.parallel(a.shape[0]):
        y[row] = at.dot(a[row, :], b[row, :])


@dot.reference
def reference(a, b):
    return {"y": np.einsum("mk,mk->m", a.astype(np.float64), b.astype(np.float64))}
