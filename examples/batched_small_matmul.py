"""Products of many small pairs of matrices."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(
    workloads=[
        dict(B=4096, M=8, K=8, N=8),
        dict(B=1024, M=16, K=16, N=16),
        dict(B=256, M=32, K=32, N=32),
    ]
)
def batched_small_matmul(a: at.f32["B", "M", "K"], b: at.f32["B", "K", "N"], c: at.f32["B", "M", "N"]):
    """c[n] = a[n] b[n], each product small enough for one program."""
    for n in at.parallel(a.shape[0]):
        c[n, :, :] = at.dot(a[n, :, :], b[n, :, :])


@batched_small_matmul.reference
def reference(a, b):
    return {"c": np.einsum("bmk,bkn->bmn", a.astype(np.float64), b.astype(np.float64))}
