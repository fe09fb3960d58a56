"""Kernels with sequential loops: sums, several states, swaps, no trips, ranges, functions inside loops."""
# ruff: noqa: F821

import numpy as np

import autotune as at


@at.kernel
def tile_sum(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        acc = 0.0
        for j in at.tile(x.shape[1]):
            acc += at.sum(x[row, j])
        y[row] = acc


@at.kernel
def two_passes(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        total, high = 0.0, -at.inf
        for j in at.tile(N):
            total += at.sum(at.exp(x[row, j]))
            high = at.maximum(high, at.max(x[row, j]))
        for j in at.tile(N):
            y[row, j] = at.exp(x[row, j]) / total + high


@at.kernel
def block_state(x: at.f32["M", "N"], s: at.f32["M"], p: at.f32["M"], lo: at.f32["M"], any_: at.bool_["M"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        total, product = at.zeros((i,)), at.full((i,), 1.0)
        low, found = at.full((i,), at.inf), at.full((i,), False, dtype=at.bool_)
        for j in at.tile(N):
            v = x[i, j]
            total += at.sum(v, axis=1)
            product = product * at.prod(v * 0.1 + 1.0, axis=1)
            low = at.minimum(low, at.min(v, axis=1))
            found = found | at.any(v > 2.0, axis=1)
        s[i], p[i], lo[i], any_[i] = total, product, low, found


@at.kernel
def swapped(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M", "N"], steps: at.f32 = 1.0):
    M, N = x.shape
    for row in at.parallel(M):
        a, b = x[row, :], x[row, :] * 2.0
        for k in at.range(0, 5):
            a, b = b, a + steps
        y[row, :] = a
        z[row, :] = b


@at.kernel
def fibonacci(x: at.f32["M"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        a, b = x[row], 1.0
        for k in at.range(1, 8, 2):
            a, b = b, a * 0.5 + b * at.cast(k, at.f32)
        y[row] = a - b


@at.kernel
def no_trip(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        a = x[row, :] + 1.0
        for k in at.range(3, 3):
            a = a * 2.0
        y[row, :] = a
        acc = 4.0
        for j in at.tile(0 * N):
            acc += at.sum(x[row, j])
        z[row] = acc


@at.kernel
def row_state(x: at.f32["K", "M", "N"], y: at.f32["M", "N"]):
    """State with an axis of its own, read and written whole on every trip."""
    K, M, N = x.shape
    for row in at.parallel(M):
        acc = at.zeros((N,))
        for k in at.range(0, K):
            acc = acc * 0.5 + at.tanh(x[k, row, :])
        y[row, :] = acc - at.max(acc)


@at.kernel
def normalized_state(x: at.f32["K", "M", "N"], y: at.f32["M", "N"], n: at.f32["M"]):
    """Each trip reduces the state and divides by the result."""
    K, M, N = x.shape
    for row in at.parallel(M):
        v, total = x[0, row, :], 0.0
        for k in at.range(0, K):
            v = v + x[k, row, :]
            size = at.sqrt(at.sum(v * v) + 1.0)
            v = v / size
            total = total + size
        y[row, :] = v
        n[row] = total


@at.kernel
def crossed(x: at.f32["M", "N"], y: at.f32["M"], z: at.i64["M"], w: at.bool_["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        low, high, count, flag = at.inf, -at.inf, at.cast(0, at.i64), False
        for k in at.range(N - 1, -1, -1):
            v = x[row, k]
            low, high = at.minimum(low, v), at.maximum(high, v)
            count = count + at.cast(v > 0.0, at.i64)
            flag = flag | (v > 2.0)
        y[row] = high - low
        z[row] = count
        w[row] = flag


@at.kernel
def stores_in_loop(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        for j in at.tile(N):
            v = x[i, j]
            y[i, j] = at.sigmoid(v) * at.erf(v) + at.log(at.abs(v) + 1.0) + at.sin(v) * at.cos(v)


@at.kernel
def running(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    """Prefix sums: a scalar state stored on every trip."""
    M, N = x.shape
    for row in at.parallel(M):
        acc = 0.0
        for k in at.range(0, N):
            acc = acc + x[row, k]
            y[row, k] = acc


@at.kernel
def nested(x: at.f32["M", "K", "N"], y: at.f32["M"]):
    M, K, N = x.shape
    for row in at.parallel(M):
        total = 0.0
        for k in at.range(0, K):
            high = -at.inf
            for j in at.tile(N):
                high = at.maximum(high, at.max(x[row, k, j]))
            total = total + high
        y[row] = total


@nested.inputs
def _(rng, kind, M, K, N):
    return {"x": rng.standard_normal((M, K, N)).astype(np.float32)}


@at.kernel
def rotated(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M", "N"], w: at.f32["M", "N"]):
    """Pure exchanges: every state is another's old one."""
    M, N = x.shape
    for row in at.parallel(M):
        a, b, c = x[row, :], x[row, :] * 2.0, x[row, :] * 3.0
        for k in at.range(0, 4):
            a, b, c = c, a, b
        y[row, :], z[row, :], w[row, :] = a, b, c


@at.kernel
def triangular(x: at.f32["M", "M"], y: at.f32["M"], z: at.f32["M"]):
    """Loop bounds that differ from program to program."""
    M, _ = x.shape
    for i in at.parallel(M):
        acc = 0.0
        for k in at.range(i, M):
            acc = acc + x[i, k]
        y[i] = acc
        total, high = 0.0, -at.inf
        for j in at.tile(i + 1):
            total += at.sum(at.exp(x[i, j]))
            high = at.maximum(high, at.max(x[i, j]))
        z[i] = total + high


@at.kernel
def up_to_diagonal(x: at.f32["M", "N"], y: at.f32["M"]):
    """A loop that ends with its own tile of programs."""
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        acc = at.zeros((i,))
        for j in at.tile(at.minimum(N, i.stop)):
            acc += at.sum(at.where(j.index[None, :] <= i.index[:, None], x[i, j], 0.0), axis=1)
        y[i] = acc


@at.kernel
def used_before_it_is_committed(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        a, b = x[row, :], x[row, :] * 2.0
        for k in at.range(0, 3):
            t = b * 0.5 + a
            z[row, :] = t
            a, b = t, a
        y[row, :] = a - b
