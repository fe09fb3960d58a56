"""Kernels about contractions: overwritten operands, one that is both sides, several users of one, order, doubles."""
# ruff: noqa: F821

import autotune as at


@at.kernel
def projected_in_place(x: at.f32["M", "N"], w: at.f32["N", "N"]):
    """A row is read whole before any of it is overwritten."""
    for row in at.parallel(x.shape[0]):
        x[row, :] = at.dot(x[row, :], w[:, :])


@at.kernel
def overwritten_then_used(x: at.f32["M", "N"], w: at.f32["N", "K"], y: at.f32["M", "K"]):
    """The operand is overwritten before the contraction that needs what it was."""
    for i in at.parallel(at.tile(x.shape[0])):
        v = x[i, :]
        x[i, :] = v * 2.0
        y[i, :] = at.dot(v, w[:, :])


@at.kernel
def gram(x: at.f32["M", "N"], y: at.f32["M", "M"]):
    """Both operands are rows of one tensor."""
    M, N = x.shape
    for i, j in at.parallel(at.tile(M), at.tile(M)):
        acc = at.zeros((i, j))
        for k in at.tile(N):
            acc += at.dot(x[i, k], x[j, k].T)
        y[i, j] = acc


@at.kernel
def scores_and_their_largest(a: at.f32["M", "N"], b: at.f32["K", "N"], s: at.f32["M", "K"], hi: at.f32["M"]):
    """One contraction with two users."""
    for i in at.parallel(at.tile(a.shape[0])):
        v = at.dot(a[i, :], b[:, :].T) * 0.5
        s[i, :] = v
        hi[i] = at.max(v, axis=1)


@at.kernel
def ordered_product(a: at.f32["M", "K"], b: at.f32["K", "N"], c: at.f32["M", "N"]):
    """A sum of products that keeps its order."""
    for i in at.parallel(at.tile(a.shape[0])):
        c[i, :] = at.sum(a[i, :][:, :, None] * b[:, :][None, :, :], axis=1, ordered=True)


@at.kernel
def doubles_over_two_axes(a: at.f64["M", "K", "N"], w: at.f64["K", "N", "H"], y: at.f64["M", "H"]):
    """Two axes are summed at once, above a start."""
    for row in at.parallel(a.shape[0]):
        y[row, :] = at.einsum("kn,knh->h", a[row, :, :], w[:, :, :]) + 1.5


@at.kernel
def chained(a: at.f32["M", "N"], b: at.f32["N", "V"], c: at.f32["V", "K"], y: at.f32["M", "K"]):
    """The result of one contraction is an operand of the next."""
    for i in at.parallel(at.tile(a.shape[0])):
        y[i, :] = at.dot(at.exp(at.dot(a[i, :], b[:, :]) * 0.1), c[:, :])


@at.kernel
def masked_blocks(a: at.f32["M", "K"], b: at.f32["N", "K"], y: at.f32["M"]):
    """Blocks below the diagonal are whole, the one on it is masked."""
    M, N = a.shape[0], b.shape[0]
    for i in at.parallel(at.tile(M)):
        total = at.zeros((i,))
        for j in at.tile(at.minimum(N, i.stop)):
            s = at.dot(a[i, :], b[j, :].T)
            total += at.sum(at.where(j.index[None, :] <= i.index[:, None], s, 0.0), axis=1)
        y[i] = total
