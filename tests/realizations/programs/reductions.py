"""Kernels about reductions: every operation, order, initial values, axes, fused sinks, argmax pairs."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel
def every_reduction(x: at.f32["M", "N"], s: at.f32["M"], p: at.f32["M"], lo: at.f32["M"], hi: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        s[i] = at.sum(v)
        p[i] = at.prod(v * 0.25 + 1.0)
        lo[i] = at.min(v)
        hi[i] = at.max(v)


@at.kernel
def with_initial(x: at.f32["M", "N"], y: at.f32["M", "4"], start: at.f32 = 2.5):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        y[i, 0] = at.sum(v + 3.0, init=start)
        y[i, 1] = at.prod(v, init=2.0)
        y[i, 2] = at.max(v, init=start)
        y[i, 3] = at.min(v - 5.0, init=-start)


@at.kernel
def ordered_sum(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.sum(x[i, :] * x[i, :], ordered=True)


@at.kernel
def strict_sum(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        with at.strict():
            y[i, :] = at.exp(x[i, :]) * at.sum(x[i, :] * x[i, :]) + at.tanh(x[i, :])


@at.kernel
def quantifiers(x: at.f32["M", "N"], some: at.bool_["M"], every: at.bool_["M"], y: at.bool_["M", "N"]):
    for i in at.parallel(x.shape[0]):
        b = x[i, :] > 0.5
        some[i] = at.any(b)
        every[i] = at.all(b | (x[i, :] < 9.0))
        y[i, :] = b & (at.sum(x[i, :]) > 0.0) | ~(x[i, :] != x[i, :])


@at.kernel
def largest_place(x: at.f32["M", "N"], y: at.i64["M"], z: at.i32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.argmax(x[i, :])
        z[i] = at.cast(at.argmax(-x[i, :]), at.i32) + 1


@at.kernel
def largest_place_down(x: at.f64["N", "M"], y: at.i64["M"]):
    for i in at.parallel(x.shape[1]):
        y[i] = at.argmax(x[:, i])


@at.kernel
def integer_places(x: at.i32["M", "N"], y: at.i64["M"], s: at.i32["M"], h: at.i32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.argmax(x[i, :])
        s[i] = at.sum(x[i, :])
        h[i] = at.min(x[i, :]) + at.max(x[i, :])


@at.kernel
def over_two_axes(x: at.f32["M", "N", "K"], y: at.f32["M", "N", "K"], a: at.i64["M", "N"], b: at.i64["M", "K"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :, :]
        y[i, :, :] = v - at.sum(v) / 7.0
        a[i, :] = at.argmax(v, axis=1)
        b[i, :] = at.argmax(-v, axis=0)


@at.kernel
def middle_axis(x: at.f32["M", "N", "K"], y: at.f32["M", "N", "K"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :, :]
        e = at.exp(v - at.max(v, axis=0)[None, :])
        y[i, :, :] = e / at.sum(e, axis=0)[None, :]


@at.kernel
def last_axis_then_first(x: at.f32["M", "N", "K"], y: at.f32["M", "N"], z: at.f32["M", "K"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :, :]
        s = at.sum(v, axis=1)
        y[i, :] = s
        z[i, :] = at.max(v * s[:, None], axis=0)


@at.kernel
def blocks_of_rows(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        v = x[i, :]
        m = at.max(v, axis=1)
        y[i, :] = at.exp(v - m[:, None]) / at.sum(at.exp(v - m[:, None]), axis=1)[:, None]


@at.kernel
def independent_of_lanes(x: at.f32["M", "N"], w: at.f32["K"], y: at.f32["M", "N"]):
    """A reduction whose body does not vary along the axis that the store is contiguous in, and one over nothing."""
    for i in at.parallel(x.shape[0]):
        y[i, :] = x[i, :] * at.sum(w[:]) + at.sum(at.exp(w[:]) * at.sum(x[i, :]))


@at.kernel
def reduce_constant(x: at.f32["M", "N"], y: at.f32["M"], z: at.i64["M"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        acc = at.zeros((i,))
        n = at.zeros((i,), dtype=at.i64)
        for j in at.tile(N):
            acc += at.sum(at.where(j.index[None, :] <= i.index[:, None], 1.5, 0.0), axis=1)
            n += at.sum(at.cast(j.index, at.i64))
        y[i] = acc * x[i, 0]
        z[i] = n


@at.kernel
def column_sums(x: at.f32["N", "M"], y: at.f32["N", "M"]):
    for i in at.parallel(x.shape[1]):
        v = x[:, i]
        d = v - at.sum(v) / x.shape[0]
        y[:, i] = d * at.rsqrt(at.sum(d * d) / x.shape[0] + 1e-5)


@at.kernel
def double_statistics(x: at.f64["M", "N"], y: at.f64["M", "N"], m: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        mean = at.sum(v) / x.shape[1]
        y[i, :] = (v - mean) / at.sqrt(at.sum((v - mean) * (v - mean)) + 1e-9)
        m[i] = mean


def _with_ties(rng, shape, dtype=np.float32):
    x = rng.integers(-3, 3, shape).astype(dtype)
    if x.dtype.kind == "f" and x.size:
        flat = x.reshape(-1)
        flat[rng.integers(0, flat.size, max(1, flat.size // 7))] = np.nan
        rows = x.reshape(x.shape[0], -1)
        rows[0] = -np.inf
        if len(rows) > 1:
            rows[1] = np.nan
        if len(rows) > 2:
            rows[2, : rows.shape[1] // 2] = -np.inf
    return x


@largest_place.inputs
def _(rng, kind, M, N):
    return {"x": _with_ties(rng, (M, N))}


@largest_place_down.inputs
def _(rng, kind, M, N):
    return {"x": np.ascontiguousarray(_with_ties(rng, (M, N), np.float64).T)}


@integer_places.inputs
def _(rng, kind, M, N):
    return {"x": rng.integers(-3, 3, (M, N)).astype(np.int32)}


@with_initial.inputs
def _(rng, kind, M, N):
    x = rng.standard_normal((M, N)).astype(np.float32)
    if x.size:
        x[0, :] = 0
        x[0, 0] = 1
    return {"x": x}


@at.kernel
def wide_index_sum(x: at.f32["M", "N"], y: at.i64["M"], z: at.i64["M"], f: at.f32["M"]):
    """Sums of small numbers that leave 32 bits, products that wrap."""
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        s, p, f_ = at.zeros((i,), dtype=at.i64), at.full((i,), 1, dtype=at.i64), at.zeros((i,))
        for j in at.tile(N):
            s += at.sum(j.index * 100000000)
            p = p * at.prod(j.index[None, :] + i.index[:, None] + 1, axis=1)
            f_ += at.sum(x[i, j], axis=1)
        y[i], z[i], f[i] = s, p, f_


@at.kernel
def initial_with_axes(x: at.f32["M", "N"], w: at.f32["K"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        y[i, :] = at.sum(v[None, :] * w[:][:, None], axis=0, init=v) + at.max(w[:], init=at.min(v))


@at.kernel
def places_of_bits(x: at.f32["M", "N"], y: at.i64["M"], n: at.i64["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.argmax(x[i, :] > 0.5)
        n[i] = at.sum(at.cast(x[i, :] > 0.5, at.i64))
