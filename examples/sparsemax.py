"""Sparsemax of rows: the nearest probability vector, found by raising a threshold until no entry leaves."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=129, N=65), dict(M=129, N=512), dict(M=129, N=4096)])
def sparsemax(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    """Each row less its threshold, and zero below it: the entries above the threshold exceed it by one in all.

    Newton's iteration from below: the threshold of the entries kept so far drops some of them, which raises it. It
    cannot be less than the largest entry less one, and every row ends after trips of its own.
    """
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :] - at.max(x[row, :])
        threshold = at.cast(-1.0, at.f32)
        count = at.cast(N + 1, at.i64)
        before = count + 1
        while count < before:
            before = count
            kept = v > threshold
            count = at.sum(at.cast(kept, at.i64))
            threshold = (at.sum(at.where(kept, v, 0.0)) - 1.0) / count
        y[row, :] = at.maximum(v - threshold, 0.0)


@sparsemax.reference
def reference(x):
    """By sorting: the largest k whose k-th entry still exceeds the threshold of the k largest."""
    ordered = -np.sort(-x.astype(np.float64), axis=1)
    thresholds = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, x.shape[1] + 1)
    kept = (ordered > thresholds).sum(axis=1)
    return {"y": np.maximum(x - thresholds[np.arange(len(x)), kept - 1][:, None], 0)}
