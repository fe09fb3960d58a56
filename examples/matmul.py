"""Product of two row-major matrices."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(
    workloads=[
        dict(M=512, K=512, N=512),
        dict(M=1024, K=1024, N=1024),
        dict(M=128, K=4096, N=4096),
        dict(M=4096, K=64, N=64),
    ]
)
def matmul(a: at.f32["M", "K"], b: at.f32["K", "N"], c: at.f32["M", "N"]):
    """c = a b."""
    (M, K), N = a.shape, b.shape[1]
    for i, j in at.parallel(at.tile(M), at.tile(N)):
        acc = at.zeros((i, j))
        for k in at.tile(K):
            acc += at.dot(a[i, k], b[k, j])
        c[i, j] = acc


@matmul.reference
def reference(a, b):
    return {"c": np.einsum("mk,kn->mn", a.astype(np.float64), b.astype(np.float64))}
