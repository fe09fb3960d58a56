"""Product of a matrix and a transposed one, as a linear layer stores its weights."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(
    workloads=[
        dict(M=512, K=512, N=512),
        dict(M=1024, K=1024, N=1024),
        dict(M=4096, K=64, N=64),
    ]
)
def matmul_bt(a: at.f32["M", "K"], b: at.f32["N", "K"], c: at.f32["M", "N"]):
    """c = a b^T: both operands run along K in memory."""
    (M, K), N = a.shape, b.shape[0]
    for i, j in at.parallel(at.tile(M), at.tile(N)):
        acc = at.zeros((i, j))
        for k in at.tile(K):
            acc += at.dot(a[i, k], b[j, k].T)
        c[i, j] = acc


@matmul_bt.reference
def reference(a, b):
    return {"c": np.einsum("mk,nk->mn", a.astype(np.float64), b.astype(np.float64))}
