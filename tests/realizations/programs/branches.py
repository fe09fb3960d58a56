"""Kernels with branches and while loops: no trips, swaps, fan-out, nesting, stores and reductions in arms."""
# ruff: noqa: F821, SIM108

import autotune as at


@at.kernel
def branch_a_row(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        first = at.sum(v)
        if first > 0.0:
            v = at.exp(v) * 2.0
            kind = first
        elif first < -1.0:
            v = -v
            kind = at.max(v)
        else:
            kind = 3.0
        y[row, :] = v
        z[row] = kind


@at.kernel
def branch_for_all(x: at.f32["M", "N"], y: at.f32["M", "N"], mode: at.i32 = 2):
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        if mode == 1:
            v = at.tanh(v)
        elif mode == 2:
            v = v * at.sum(v)
        y[row, :] = v


@at.kernel
def stores_in_arms(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        y[row, :] = 0.0
        if row % 2 == 0:
            y[row, :] = x[row, :]
            z[row] = at.sum(x[row, :])
        else:
            for j in at.tile(N):
                y[row, j] = y[row, j] + at.exp(x[row, j])
            z[row] = 1.0


@at.kernel
def overwritten_in_an_arm(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        if at.max(v) > 1.0:
            x[row, :] = v * 0.5
            w = v + 1.0
        else:
            w = x[row, :] - v
        y[row, :] = w + v


@at.kernel
def branch_in_loop_in_branch(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        acc = x[row, :]
        if row > 0:
            for k in at.range(0, 4):
                if k % 2 == 0:
                    acc = acc * 0.5 + x[row, :]
                elif k < row:
                    acc = acc - 1.0
        y[row, :] = acc


@at.kernel
def same_condition_twice(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        a, b = x[row, :], x[row, :] + 1.0
        low = at.min(x[row, :]) < -1.0
        if low:
            a = a * 2.0
            if low:
                b = b * 3.0
        if low:
            b = a + b
        y[row, :] = a * b


@at.kernel
def tile_state_in_arms(x: at.f32["M", "N"], y: at.f32["M"], bound: at.i32 = 2):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        acc = at.zeros((i,))
        for k in at.range(N):
            if k % 3 == 0:
                acc = acc + x[i, k]
            elif k < bound:
                for t in at.range(2):
                    if t == k - 1:
                        acc = acc * 0.5
        y[i] = acc


@at.kernel
def joined_into_sums(x: at.f32["M", "N"], w: at.f32["N", "N"], y: at.f32["M", "N"], z: at.f32["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        if at.sum(v) > 0.0:
            v = v * 2.0
        else:
            v = v - 1.0
        z[row] = at.max(v)
        y[row, :] = at.dot(v, w[:, :])


@at.kernel
def known_by_a_byte(flags: at.bool_["M"], x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        if flags[row]:
            v = v * v
        y[row, :] = v + 1.0


@at.kernel
def shared_by_a_group(x: at.f32["H", "M", "N"], y: at.f32["H", "M", "N"]):
    H, M, N = x.shape
    for h, row in at.parallel(H, M):
        v = x[h, row, :]
        if h // 2 > 0:
            v = v + 5.0
        y[h, row, :] = v


@at.kernel
def swapped_while(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M", "N"], trips: at.i32 = 3):
    M, N = x.shape
    for row in at.parallel(M):
        a, b = x[row, :], x[row, :] * 2.0
        n = 0
        while n < trips:
            a, b = b, a + 1.0
            n += 1
        y[row, :] = a
        z[row, :] = b


@at.kernel
def fanned_out_while(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M", "N"], trips: at.i32 = 2):
    M, N = x.shape
    for row in at.parallel(M):
        a, b, c = x[row, :], x[row, :] * 2.0, at.zeros((N,))
        n = 0
        while n < trips:
            a, b, c = a * 0.5, a, a + b
            n += 1
        y[row, :] = a + b
        z[row, :] = c


@at.kernel
def halved_until_small(x: at.f32["M", "N"], y: at.f32["M", "N"], count: at.i64["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        n = at.cast(0, at.i64)
        while (at.sum(v * v) > 1.0) & (n < 20):
            v = v * 0.5
            n = n + 1
        y[row, :] = v
        count[row] = n


@at.kernel
def steps_to_one(start: at.i64["M"], y: at.i64["M"]):
    for row in at.parallel(start.shape[0]):
        n, steps = start[row], 0
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        y[row] = steps


@at.kernel
def carried_truth(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        v, going, k = x[row, :], at.sum(x[row, :]) > 0.0, 0
        while going:
            v = v - 1.0
            k += 1
            going = (at.sum(v) > 0.0) & (k < 9)
        y[row, :] = v
        z[row] = at.cast(k, at.f32)


@at.kernel
def tiles_inside_while(x: at.f32["M", "N"], y: at.f32["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        total, trips = 0.0, 0
        while trips < row % 3:
            for j in at.tile(N):
                total += at.sum(x[row, j])
            if total > 4.0:
                total = total * 0.5
            trips += 1
        y[row] = total


@at.kernel
def stored_while(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        y[row, :] = x[row, :]
        n = 0
        while (at.max(y[row, :]) > 0.5) & (n < 6):
            y[row, :] = y[row, :] * 0.5
            n += 1


@at.kernel
def decided_by_any(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        v = x[row, :]
        if at.any(v > 1.5):
            v = at.minimum(v, 1.5)
        y[row, :] = v


@at.kernel
def products_while(x: at.f32["M", "N"], w: at.f32["N", "N"], y: at.f32["M", "N"], trips: at.i32 = 3):
    M, N = x.shape
    for row in at.parallel(M):
        v, n = x[row, :], 0
        while n < trips:
            u = at.dot(v, w[:, :])
            v = u / (at.max(at.abs(u)) + 1.0)
            n += 1
        y[row, :] = v


@at.kernel
def products_in_arms(x: at.f32["M", "N"], w: at.f32["N", "V"], y: at.f32["M", "V"], mode: at.i32 = 1):
    M, N = x.shape
    V = w.shape[1]
    for i, j in at.parallel(at.tile(M), at.tile(V)):
        acc = at.zeros((i, j))
        if mode > 0:
            for k in at.tile(N):
                acc += at.dot(x[i, k], w[k, j])
            if mode == 1:
                acc = at.maximum(acc, 0.0)
        y[i, j] = acc
