"""Kernels about numbers: types, casts, integers, scalars, every function, in-place updates."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel
def narrow_integers(a: at.i8["M", "N"], b: at.i8["M", "N"], y: at.i8["M", "N"], z: at.i32["M", "N"]):
    for i in at.parallel(a.shape[0]):
        u, v = a[i, :], b[i, :]
        y[i, :] = u * v - (u + v)
        z[i, :] = at.where(u < v, at.cast(u, at.i32) * 300, -at.cast(v, at.i32))


@at.kernel
def integers(a: at.i32["M", "N"], b: at.i32["M", "N"], y: at.i32["M", "N"], q: at.i32["M", "N"], r: at.i64["M", "N"]):
    for i in at.parallel(a.shape[0]):
        u, v = a[i, :], b[i, :]
        y[i, :] = (u & v) | (u + 1) & ~v
        d = at.maximum(at.abs(v), 1)
        q[i, :] = u // d - at.minimum(u, v)
        r[i, :] = at.cast(u % d, at.i64) * 100000 * 100000


@at.kernel
def wide_integers(a: at.i64["M", "N"], y: at.i64["M", "N"], s: at.i64["M"]):
    for i in at.parallel(a.shape[0]):
        u = a[i, :]
        y[i, :] = u * u + u // 3 - u % 7
        s[i] = at.sum(u) + at.max(u)


@at.kernel
def divided(a: at.i32["M", "N"], b: at.i32["M", "N"], y: at.i32["M", "N"]):
    """The divisor is zero nowhere alive, but may be on lanes that do not exist."""
    for i in at.parallel(a.shape[0]):
        d = at.where(b[i, :] == 0, 1, b[i, :])
        y[i, :] = a[i, :] // d + a[i, :] % d


@at.kernel
def saturating(x: at.f32["M", "N"], a: at.i32["M", "N"], b: at.i8["M", "N"], c: at.i64["M", "N"], d: at.f64["M", "N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        a[i, :] = at.cast(v * 1e9, at.i32)
        b[i, :] = at.cast(v * 100.0, at.i8)
        c[i, :] = at.cast(v, at.i64)
        d[i, :] = v


@at.kernel
def from_integers(a: at.i32["M", "N"], b: at.bool_["M", "N"], y: at.f32["M", "N"], z: at.f64["M", "N"]):
    for i in at.parallel(a.shape[0]):
        y[i, :] = a[i, :] / 3 + at.cast(b[i, :], at.f32)
        z[i, :] = at.cast(a[i, :], at.f64) * at.cast(at.cast(b[i, :], at.i32), at.f64)


@at.kernel
def to_bool(x: at.f32["M", "N"], a: at.i32["M", "N"], y: at.bool_["M", "N"], z: at.bool_["M", "N"]):
    for i in at.parallel(x.shape[0]):
        y[i, :] = at.cast(x[i, :], at.bool_)
        z[i, :] = at.cast(a[i, :], at.bool_) & (x[i, :] >= -0.5)


@at.kernel
def every_function(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        u = at.exp2(v) + at.log(at.abs(v) + 0.5) * at.sqrt(at.abs(v)) + at.rsqrt(v * v + 1.0)
        y[i, :] = u + at.reciprocal(v * v + 2.0) - at.tanh(v) * at.sigmoid(v)
        z[i, :] = at.erf(v) + at.sin(v) * at.cos(v) + at.relu(v) + at.floor(v) - at.ceil(v) * at.round(v * 2.0)


@at.kernel
def every_function_double(x: at.f64["M", "N"], y: at.f64["M", "N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        u = at.exp(v) + at.log(at.abs(v) + 0.5) + at.tanh(v) + at.sigmoid(v) + at.erf(v) + at.sin(v) * at.exp2(v)
        y[i, :] = u * at.cos(v) + at.floor(v) / 2.0


@at.kernel
def mixed_precision(x: at.f32["M", "N"], w: at.f64["N"], y: at.f32["M", "N"], z: at.f64["M"]):
    for i in at.parallel(x.shape[0]):
        v = at.cast(x[i, :], at.f64) * w[:]
        y[i, :] = at.exp(x[i, :]) * at.cast(v, at.f32)
        z[i] = at.sum(v)


@at.kernel
def scalars(
    x: at.f32["M", "N"],
    y: at.f64["M", "N"],
    z: at.i32["M", "N"],
    a: at.f32 = 0.5,
    b: at.f64 = -1.25,
    k: at.i32 = 3,
    flag: at.bool_ = True,
    n: at.i64 = 5,
    c: at.i8 = -2,
):
    for i in at.parallel(x.shape[0]):
        y[i, :] = at.where(flag, at.cast(x[i, :] * a, at.f64) + b, at.cast(1.0, at.f64))
        z[i, :] = at.cast(x[i, :], at.i32) * k + at.cast(n, at.i32) - at.cast(c, at.i32)


@at.kernel
def in_place(x: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        x[i, :] = v / (at.sum(v * v) + 1.0)


@at.kernel
def in_place_twice(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    """The first load is a snapshot: it is used after its tensor was overwritten."""
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        x[i, :] = v * 2.0 + 1.0
        w = x[i, :]
        y[i, :] = v + w
        x[i, :] = w - v


@at.kernel
def in_place_reversed(x: at.f32["M", "N"]):
    """Every element moves within its program: nothing may be read after the store."""
    M, N = x.shape
    for i in at.parallel(M):
        s = at.max(x[i, :])
        x[i, :] = s - x[i, :]


@at.kernel
def constants(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f64["M"]):
    M, N = x.shape
    for i in at.parallel(M):
        y[i, :] = at.full((N,), 2.5) + 0.0 * at.minimum(x[i, :], 0.0)
        z[i] = at.cast(N, at.f64) / 3.0 + at.cast(M * 2, at.f64)


@at.kernel
def not_numbers(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M"], w: at.bool_["M", "N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        y[i, :] = at.maximum(v, 0.5) + at.minimum(-v, at.inf) * 0.0
        z[i] = at.max(v)
        w[i, :] = (v == v) & (v != 1.0)


@at.kernel
def several_parallel(x: at.f32["A", "B", "C"], w: at.f32["B"], y: at.f32["A", "B", "C"]):
    A, B, C = x.shape
    for a, b, c in at.parallel(A, B, at.tile(C)):
        y[a, b, c] = at.tanh(x[a, b, c]) * w[b]


@saturating.inputs
def _(rng, kind, M, N):
    x = (rng.standard_normal((M, N)) * 10.0 ** rng.integers(0, 15, (M, N))).astype(np.float32)
    flat = x.reshape(-1)
    flat[::5] = np.nan
    flat[1::7] = np.inf
    flat[2::7] = -np.inf
    return {"x": x}


@not_numbers.inputs
def _(rng, kind, M, N):
    x = rng.standard_normal((M, N)).astype(np.float32)
    x.reshape(-1)[::3] = np.nan
    if M > 1:
        x[1] = np.nan
    return {"x": x}


@narrow_integers.inputs
def _(rng, kind, M, N):
    return {name: rng.integers(-128, 128, (M, N)).astype(np.int8) for name in "ab"}


@integers.inputs
def _(rng, kind, M, N):
    return {name: rng.integers(-1000, 1000, (M, N)).astype(np.int32) for name in "ab"}


@wide_integers.inputs
def _(rng, kind, M, N):
    return {"a": rng.integers(-(2**40), 2**40, (M, N))}


@divided.inputs
def _(rng, kind, M, N):
    return {name: rng.integers(-9, 9, (M, N)).astype(np.int32) for name in "ab"}


@to_bool.inputs
def _(rng, kind, M, N):
    return {"x": rng.integers(-1, 2, (M, N)).astype(np.float32), "a": rng.integers(-1, 2, (M, N)).astype(np.int32)}


@at.kernel
def smallest_over_minus_one(
    a: at.i32["M", "N"], b: at.i64["M", "N"], c: at.i32["M", "N"], y: at.i32["M", "N"], z: at.i64["M", "N"]
):
    for i in at.parallel(a.shape[0]):
        u, v = a[i, :], b[i, :]
        d, e = at.where(c[i, :] == 0, 1, c[i, :]), at.cast(c[i, :], at.i64)
        y[i, :] = u // d + u % d
        z[i, :] = v // at.where(e == 0, 1, e) - v % -1


@smallest_over_minus_one.inputs
def _(rng, kind, M, N):
    a, b = rng.integers(-3, 5, (M, N)).astype(np.int32), rng.integers(-3, 5, (M, N))
    a.reshape(-1)[::3] = -(2**31)
    b.reshape(-1)[::3] = -(2**63)
    return {"a": a, "b": b, "c": rng.integers(-2, 2, (M, N)).astype(np.int32)}


@at.kernel
def bits_in_order(a: at.bool_["M", "N"], b: at.bool_["M", "N"], y: at.bool_["M", "N"], z: at.bool_["M", "N"]):
    for i in at.parallel(a.shape[0]):
        u, v = a[i, :], b[i, :]
        y[i, :] = at.where(u, v, ~v) & (u == v)
        z[i, :] = (u & v) | (u != v)


@at.kernel
def two_stores_apart(x: at.f32["M", "N"], y: at.f32["M", "2*N"]):
    """Stores to one tensor: one after the other over all of it, then halves."""
    M, N = x.shape
    for i in at.parallel(M):
        y[i, 0:N] = x[i, :]
        y[i, 1 : N + 1] = x[i, :] * 2.0
        y[i, N : 2 * N] = -x[i, :]
        y[i, N : 2 * N] = x[i, :] + 1.0
