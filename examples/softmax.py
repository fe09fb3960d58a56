"""Masked softmax along rows."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel(workloads=[dict(M=129, N=65), dict(M=129, N=512), dict(M=129, N=1024), dict(M=129, N=4096)])
def masked_softmax(x: at.f32["M", "N"], mask: at.bool_["M", "N"], y: at.f32["M", "N"]):
    """Row-wise softmax where masked-off entries get probability zero (a row masked out wholly gives NaN)."""
    for row in at.parallel(x.shape[0]):
        s = at.where(mask[row, :], x[row, :], -at.inf)
        e = at.exp(s - at.max(s))
        y[row, :] = e / at.sum(e)


@masked_softmax.reference
def reference(x, mask):
    scores = np.where(mask, x.astype(np.float64), -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return {"y": weights / weights.sum(axis=1, keepdims=True)}
