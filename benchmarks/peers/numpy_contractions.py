"""Contractions and attention in numpy: as an expression, and with products written into given arrays.
Must not use anything but numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.attention_cases import ATTENTION, visible
from benchmarks.case import GELU_CUBIC, GELU_SCALE, Case
from benchmarks.contraction_cases import EPS

F32 = NDArray[np.float32]
_ONE, _HALF, _EPS = np.float32(1), np.float32(0.5), np.float32(EPS)
_SCALE, _CUBIC = np.float32(GELU_SCALE), np.float32(GELU_CUBIC)

Expression = Callable[..., F32]
Into = Callable[..., object]


def _gelu(x: F32) -> F32:
    t: F32 = np.tanh(_SCALE * (x + _CUBIC * x * x * x))
    return _HALF * x * (_ONE + t)


def _gelu_in_place(y: F32) -> None:
    u = y * y
    u *= _CUBIC * _SCALE
    u += _SCALE
    u *= y
    np.tanh(u, out=u)
    u += _ONE
    u *= _HALF
    y *= u


def _linear_gelu_into(y: F32, x: F32, w: F32, bias: F32) -> None:
    np.matmul(x, w, out=y)
    y += bias
    _gelu_in_place(y)


def _mlp(x: F32, gate: F32, up: F32, down: F32) -> F32:
    g = x @ gate
    y: F32 = (g / (_ONE + np.exp(-g)) * (x @ up)) @ down
    return y


def _mlp_into(y: F32, x: F32, gate: F32, up: F32, down: F32) -> None:
    g, hidden = x @ gate, x @ up
    hidden *= g
    np.negative(g, out=g)
    np.exp(g, out=g)
    g += _ONE
    hidden /= g
    np.matmul(hidden, down, out=y)


def _qk_norm_rope(x: F32, w: F32, cos: F32, sin: F32) -> F32:
    n = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + _EPS) * w
    a, b = np.split(n, 2, axis=-1)
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)


def _qk_norm_rope_into(y: F32, x: F32, w: F32, cos: F32, sin: F32) -> None:
    squares = np.einsum("hsd,hsd->hs", x, x)[..., None]
    n = x * (_ONE / np.sqrt(squares / np.float32(x.shape[-1]) + _EPS))
    n *= w
    half = x.shape[-1] // 2
    a, b, left, right = n[..., :half], n[..., half:], y[..., :half], y[..., half:]
    np.multiply(a, cos, out=left)
    np.subtract(left, b * sin, out=left)
    np.multiply(b, cos, out=right)
    np.add(right, a * sin, out=right)


EXPRESSIONS: dict[str, Expression] = {
    "matmul": lambda a, b: a @ b,
    "matmul_bt": lambda a, b: a @ b.T,
    "gemv": lambda a, x: a @ x,
    "batched_small_matmul": lambda a, b: a @ b,
    "linear_gelu": lambda x, w, bias: _gelu(x @ w + bias),
    "mlp": _mlp,
    "qk_norm_rope": _qk_norm_rope,
    "dot": lambda a, b: (a * b).sum(axis=-1),
}
INTO: dict[str, tuple[tuple[str, Into], ...]] = {
    "matmul": (
        ("matmul into", lambda y, a, b: np.matmul(a, b, out=y)),
        ("dot into", lambda y, a, b: np.dot(a, b, out=y)),
        ("einsum into", lambda y, a, b: np.einsum("mk,kn->mn", a, b, out=y, optimize=True)),
    ),
    "matmul_bt": (
        ("matmul into", lambda y, a, b: np.matmul(a, b.T, out=y)),
        ("dot into", lambda y, a, b: np.dot(a, b.T, out=y)),
    ),
    "gemv": (
        ("matmul into", lambda y, a, x: np.matmul(a, x, out=y)),
        ("dot into", lambda y, a, x: np.dot(a, x, out=y)),
        ("matvec into", lambda y, a, x: np.matvec(a, x, out=y)),
        ("einsum into", lambda y, a, x: np.einsum("mk,k->m", a, x, out=y)),
    ),
    "batched_small_matmul": (
        ("matmul into", lambda y, a, b: np.matmul(a, b, out=y)),
        ("einsum into", lambda y, a, b: np.einsum("bmk,bkn->bmn", a, b, out=y)),
    ),
    "linear_gelu": (("in place", _linear_gelu_into),),
    "mlp": (("in place", _mlp_into),),
    "qk_norm_rope": (("in place", _qk_norm_rope_into),),
    "dot": (
        ("einsum into", lambda y, a, b: np.einsum("mk,mk->m", a, b, out=y)),
        ("vecdot into", lambda y, a, b: np.vecdot(a, b, out=y)),
        ("matmul into", lambda y, a, b: np.matmul(a[:, None, :], b[:, :, None], out=y[:, None, None])),
    ),
}


def expression(case: Case) -> Expression:
    """The formula as users write it."""
    return _attention(case) if case.kernel.startswith("attention") else EXPRESSIONS[case.kernel]


def into(case: Case) -> Iterator[tuple[str, Into]]:
    """The formulas that write into their first argument."""
    if case.kernel.startswith("attention"):
        yield "group as queries, in place", _attention_into(case)
    else:
        yield from INTO[case.kernel]


def _mask(case: Case, folds: int) -> F32 | None:
    """What is added to the scores of a causal case, once a head that is folded into the query axis."""
    Q, K = case.extents["Q"], case.extents["K"]
    if case.spec is not ATTENTION or Q == 1:
        return None
    return np.tile(np.where(visible(Q, K), np.float32(0), np.float32(-np.inf)), (folds, 1))


def _attention(case: Case) -> Expression:
    group, scale = case.extents["Hq"] // case.extents["Hkv"], np.float32(dict(case.scalars)["scale"])
    mask = _mask(case, 1)

    def attend(q: F32, k: F32, v: F32, bias: F32 | None = None) -> F32:
        if group > 1:
            k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = (q @ k.swapaxes(-1, -2)) * scale
        added = mask if bias is None else bias
        if added is not None:
            scores = scores + added
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        y: F32 = (weights / weights.sum(axis=-1, keepdims=True)) @ v
        return y

    return attend


def _attention_into(case: Case) -> Into:
    e = case.extents
    group, scale = e["Hq"] // e["Hkv"], np.float32(dict(case.scalars)["scale"])
    rows, mask = group * e["Q"], _mask(case, group)
    shape = (e["B"], e["Hkv"], rows)
    scores = np.empty((*shape, e["K"]), np.float32)

    def attend(y: F32, q: F32, k: F32, v: F32, bias: F32 | None = None) -> None:
        np.matmul(q.reshape(*shape, e["D"]) * scale, k.swapaxes(-1, -2), out=scores)
        added = mask if bias is None else np.tile(bias, (group, 1))
        if added is not None:
            np.add(scores, added, out=scores)
        np.subtract(scores, scores.max(axis=-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        out = y.reshape(*shape, e["Dv"])
        np.matmul(scores, v, out=out)
        np.divide(out, scores.sum(axis=-1, keepdims=True), out=out)

    return attend
