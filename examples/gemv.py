"""Product of a row-major matrix and a vector."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=4096, K=4096), dict(M=1024, K=1024), dict(M=512, K=2048)])
def gemv(a: at.f32["M", "K"], x: at.f32["K"], y: at.f32["M"]):
    """y = a x."""
    M, K = a.shape
    for i in at.parallel(at.tile(M)):
        acc = at.zeros((i,))
        for k in at.tile(K):
            acc += at.dot(a[i, k], x[k])
        y[i] = acc


@gemv.reference
def reference(a, x):
    return {"y": (a.astype(np.float64) * x.astype(np.float64)).sum(axis=1)}
