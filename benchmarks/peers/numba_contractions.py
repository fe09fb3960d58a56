"""Plain loops for contractions and attention, to be compiled by numba.
Must not use vector instructions by hand: what the loops become is numba's and LLVM's doing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.contraction_cases import EPS

F32 = NDArray[np.float32]
Loops = Callable[..., None]

_ZERO, _ONE, _INF, _EPS = np.float32(0), np.float32(1), np.float32(np.inf), np.float32(EPS)


def matmul(a: F32, b: F32, c: F32) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = _ZERO
        for k in range(a.shape[1]):
            x = a[i, k]
            for j in range(b.shape[1]):
                c[i, j] += x * b[k, j]


def matmul_four_rows(a: F32, b: F32, c: F32) -> None:
    whole = a.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        c[i : i + 4] = _ZERO
        for k in range(a.shape[1]):
            p, q, r, s = a[i, k], a[i + 1, k], a[i + 2, k], a[i + 3, k]
            for j in range(b.shape[1]):
                x = b[k, j]
                c[i, j] += p * x
                c[i + 1, j] += q * x
                c[i + 2, j] += r * x
                c[i + 3, j] += s * x
    for i in range(whole, a.shape[0]):
        c[i] = _ZERO
        for k in range(a.shape[1]):
            p = a[i, k]
            for j in range(b.shape[1]):
                c[i, j] += p * b[k, j]


def matmul_bt(a: F32, b: F32, c: F32) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            total = _ZERO
            for k in range(a.shape[1]):
                total += a[i, k] * b[j, k]
            c[i, j] = total


def gemv(a: F32, x: F32, y: F32) -> None:
    for i in range(a.shape[0]):
        total = _ZERO
        for k in range(a.shape[1]):
            total += a[i, k] * x[k]
        y[i] = total


def gemv_four_rows(a: F32, x: F32, y: F32) -> None:
    whole = a.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        p, q, r, s = _ZERO, _ZERO, _ZERO, _ZERO
        for k in range(a.shape[1]):
            p += a[i, k] * x[k]
            q += a[i + 1, k] * x[k]
            r += a[i + 2, k] * x[k]
            s += a[i + 3, k] * x[k]
        y[i], y[i + 1], y[i + 2], y[i + 3] = p, q, r, s
    for i in range(whole, a.shape[0]):
        total = _ZERO
        for k in range(a.shape[1]):
            total += a[i, k] * x[k]
        y[i] = total


def batched(a: F32, b: F32, c: F32) -> None:
    for n in range(a.shape[0]):
        for i in range(a.shape[1]):
            for j in range(b.shape[2]):
                c[n, i, j] = _ZERO
            for k in range(a.shape[2]):
                x = a[n, i, k]
                for j in range(b.shape[2]):
                    c[n, i, j] += x * b[n, k, j]


def qk_norm_rope(x: F32, w: F32, cos: F32, sin: F32, y: F32) -> None:
    half = x.shape[2] // 2
    for h in range(x.shape[0]):
        for s in range(x.shape[1]):
            total = _ZERO
            for d in range(x.shape[2]):
                total += x[h, s, d] * x[h, s, d]
            scale = _ONE / np.sqrt(total / np.float32(x.shape[2]) + _EPS)
            for d in range(half):
                a, b = x[h, s, d] * scale * w[d], x[h, s, d + half] * scale * w[d + half]
                y[h, s, d] = a * cos[s, d] - b * sin[s, d]
                y[h, s, d + half] = b * cos[s, d] + a * sin[s, d]


def dot(a: F32, b: F32, y: F32) -> None:
    for i in range(a.shape[0]):
        total = _ZERO
        for k in range(a.shape[1]):
            total += a[i, k] * b[i, k]
        y[i] = total


def attention_two_passes(q: F32, k: F32, v: F32, bias: F32, y: F32, scale: np.float32, causal: bool) -> None:
    """One query row after another: scores into a buffer, their softmax, the weighted sum of values."""
    group, first = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    scores = np.empty(k.shape[2], np.float32)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            keys, values = k[b, h // group], v[b, h // group]
            for i in range(q.shape[2]):
                seen = i + first + 1 if causal else k.shape[2]
                row, out = q[b, h, i], y[b, h, i]
                for j in range(seen):
                    total = _ZERO
                    for d in range(row.shape[0]):
                        total += row[d] * keys[j, d]
                    scores[j] = total * scale
                if bias.size > 0:
                    for j in range(seen):
                        scores[j] += bias[i, j]
                largest = scores[0]
                for j in range(seen):
                    largest = scores[j] if scores[j] > largest else largest
                weight = _ZERO
                for j in range(seen):
                    e = np.exp(scores[j] - largest)
                    scores[j] = e
                    weight += e
                for d in range(out.shape[0]):
                    out[d] = _ZERO
                for j in range(seen):
                    e = scores[j]
                    for d in range(out.shape[0]):
                        out[d] += e * values[j, d]
                for d in range(out.shape[0]):
                    out[d] /= weight


def attention_shared_keys(q: F32, k: F32, v: F32, bias: F32, y: F32, scale: np.float32, causal: bool) -> None:
    """The heads of a group together: every key and value is read once for all of them."""
    group, first = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    scores = np.empty((group, k.shape[2]), np.float32)
    weights = np.empty(group, np.float32)
    for b in range(q.shape[0]):
        for shared in range(k.shape[1]):
            keys, values, head = k[b, shared], v[b, shared], shared * group
            for i in range(q.shape[2]):
                seen = i + first + 1 if causal else k.shape[2]
                for j in range(seen):
                    for g in range(group):
                        total = _ZERO
                        for d in range(q.shape[3]):
                            total += q[b, head + g, i, d] * keys[j, d]
                        scores[g, j] = total * scale
                for g in range(group):
                    if bias.size > 0:
                        for j in range(seen):
                            scores[g, j] += bias[i, j]
                    largest = scores[g, 0]
                    for j in range(seen):
                        largest = scores[g, j] if scores[g, j] > largest else largest
                    weight = _ZERO
                    for j in range(seen):
                        e = np.exp(scores[g, j] - largest)
                        scores[g, j] = e
                        weight += e
                    weights[g] = _ONE / weight
                    for d in range(v.shape[3]):
                        y[b, head + g, i, d] = _ZERO
                for j in range(seen):
                    for g in range(group):
                        e = scores[g, j]
                        for d in range(v.shape[3]):
                            y[b, head + g, i, d] += e * values[j, d]
                for g in range(group):
                    for d in range(v.shape[3]):
                        y[b, head + g, i, d] *= weights[g]


LOOPS: dict[str, tuple[Loops, ...]] = {
    "matmul": (matmul, matmul_four_rows),
    "matmul_bt": (matmul_bt,),
    "gemv": (gemv, gemv_four_rows),
    "batched_small_matmul": (batched,),
    "qk_norm_rope": (qk_norm_rope,),
    "dot": (dot,),
}
ATTENTION_LOOPS: tuple[Loops, ...] = (attention_two_passes, attention_shared_keys)
