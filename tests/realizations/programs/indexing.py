"""Kernels about places: shifts, strides, slices, gathers, diagonals that are blocks, masked stores, coordinates."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel
def shifted(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        for j in at.tile(N):
            y[i, j] = x[i, j + 1] - 2.0 * x[i, j] + x[i, j - 1]


@at.kernel
def rows_shifted(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        y[i, :] = at.load(x[i - 1, :], fill=7.5) + at.load(x[i + 2, :], fill=-1)


@at.kernel
def row_maximum_with_fill(x: at.f32["M", "N"], y: at.f32["M"]):
    """The fill of a load that leaves the tensor is a contribution; a coordinate past the end is none."""
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        m = at.full((i,), -at.inf)
        for j in at.tile(N):
            m = at.maximum(m, at.max(at.load(x[i, j + 1], fill=0.5) - 10.0, axis=1))
        y[i] = m


@at.kernel
def every_second(x: at.f32["M", "2*N"], y: at.f32["M", "N"], z: at.f32["M", "2*N"]):
    (M, N) = y.shape
    for i in at.parallel(M):
        even, odd = x[i, 0 : 2 * N : 2], x[i, 1 : 2 * N : 2]
        y[i, :] = even * odd
        z[i, 0 : 2 * N : 2] = -odd
        z[i, 1 : 2 * N : 2] = even


@at.kernel
def sliced(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for i in at.parallel(M):
        y[i, :] = at.sum(x[i, 1:N:3]) + x[i, :]


@at.kernel
def picked(x: at.f32["M", "N"], label: at.i32["M"], y: at.f32["M"]):
    for r in at.parallel(x.shape[0]):
        y[r] = x[r, label[r]] - at.max(x[r, :])


@at.kernel
def embedding(t: at.f32["V", "N"], label: at.i64["M"], y: at.f32["M", "N"]):
    for r in at.parallel(label.shape[0]):
        y[r, :] = t[label[r], :] * 2.0


@at.kernel
def permuted(x: at.f32["M", "N"], order: at.i32["N"], y: at.f32["M", "N"]):
    for r in at.parallel(x.shape[0]):
        y[r, :] = at.load(x[r, order[:]], fill=-3.0)


@at.kernel
def square_block(x: at.f32["M", "M"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.sum(x[i, :]) + x[i, i]


@at.kernel
def outer(v: at.f32["M", "N"], y: at.f32["M", "N", "N"]):
    for i in at.parallel(v.shape[0]):
        w = v[i, :]
        y[i, :, :] = w[:, None] * w[None, :] - w[None, :]


@at.kernel
def outer_of_normalized(v: at.f32["M", "N"], y: at.f32["M", "N", "N"]):
    """The re-indexed value is expensive and used twice: a buffer read along two axes."""
    for i in at.parallel(v.shape[0]):
        w = at.exp(v[i, :] - at.max(v[i, :]))
        y[i, :, :] = w[:, None] / (w[None, :] + at.sum(w))


@at.kernel
def transposed(x: at.f32["M", "N"], y: at.f32["N", "M"]):
    M, N = x.shape
    for i, j in at.parallel(at.tile(M), at.tile(N)):
        y[j, i] = x[i, j].T + 1.0


@at.kernel
def masked_store(x: at.f32["M", "N"], keep: at.bool_["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        at.store(y[i, :], x[i, :] * 2.0, mask=keep[i, :])


@at.kernel
def masked_columns(x: at.f32["N", "M"], keep: at.bool_["M"], y: at.f32["N", "M"]):
    for i in at.parallel(x.shape[1]):
        at.store(y[:, i], x[:, i] - at.sum(x[:, i]), mask=keep[i])


@at.kernel
def store_outside(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    """A store that leaves the tensor where its mask is off."""
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        for j in at.tile(N):
            at.store(y[i, j + 1], x[i, j], mask=(j.index + 1 < N)[None, :])


@at.kernel
def coordinates(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.i64["M", "N"]):
    M, N = x.shape
    for i, j in at.parallel(at.tile(M), at.tile(N)):
        r, c = i.index[:, None], j.index[None, :]
        y[i, j] = at.where((r * 3 + c) % 4 == 1, x[i, j], -x[i, j]) + at.cast(r // 2 - c, at.f32)
        z[i, j] = r * N + c - (c - r) // 3 + (r - c) % 5


@at.kernel
def causal(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        for j in at.tile(N):
            y[i, j] = at.where(j.index[None, :] <= i.index[:, None], x[i, j], -at.inf)


@at.kernel
def grouped(x: at.f32["B", "H", "D"], w: at.f32["G", "D"], y: at.f32["B", "H", "D"]):
    """Several programs share one row of w: an index with a quotient."""
    (B, H, D), (G, _) = x.shape, w.shape
    for b, h in at.parallel(B, H):
        y[b, h, :] = x[b, h, :] * w[h // 2, :] + w[h % 2, :]


@permuted.inputs
def _(rng, kind, M, N):
    return {"order": (rng.permutation(N) + rng.integers(-1, 2)).astype(np.int32)}


@picked.inputs
def _(rng, kind, M, N):
    return {"label": rng.integers(-1, N + 1, M).astype(np.int32)}


@embedding.inputs
def _(rng, kind, V, M, N):
    return {"label": rng.integers(-1, V + 1, M).astype(np.int64)}
