"""Kernels in numpy, called from Python; the formulas of the row kernels.
Must not use anything but numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.buffers import Buffers
from benchmarks.case import EPS, GELU_CUBIC, GELU_SCALE, Case
from benchmarks.peers import Attempt, Prepared, Style, numpy_contractions
from benchmarks.timing import Call, PythonCall

F32 = NDArray[np.float32]
_EPS, _ONE, _HALF = np.float32(EPS), np.float32(1), np.float32(0.5)
_SCALE, _CUBIC = np.float32(GELU_SCALE), np.float32(GELU_CUBIC)


def softmax(x: F32, mask: NDArray[np.bool_]) -> F32:
    s = np.where(mask, x, np.float32(-np.inf))
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def column_softmax(x: F32) -> F32:
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=0, keepdims=True)


def rmsnorm(x: F32, w: F32) -> F32:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + _EPS) * w


def layernorm(x: F32, w: F32, b: F32) -> F32:
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + _EPS) * w + b


def gelu(x: F32) -> F32:
    return _HALF * x * (_ONE + np.tanh(_SCALE * (x + _CUBIC * x * x * x)))


def swiglu(gate: F32, up: F32) -> F32:
    return gate / (_ONE + np.exp(-gate)) * up


def rope(x: F32, cos: F32, sin: F32) -> F32:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)


def softmax_into(y: F32, x: F32, mask: NDArray[np.bool_]) -> None:
    y.fill(-np.inf)
    np.copyto(y, x, where=mask)
    np.subtract(y, y.max(axis=-1, keepdims=True), out=y)
    np.exp(y, out=y)
    np.multiply(y, _ONE / y.sum(axis=-1, keepdims=True), out=y)


def column_softmax_into(y: F32, x: F32) -> None:
    np.subtract(x, x.max(axis=0, keepdims=True), out=y)
    np.exp(y, out=y)
    np.multiply(y, _ONE / y.sum(axis=0, keepdims=True), out=y)


def rmsnorm_into(y: F32, x: F32, w: F32) -> None:
    squares = np.einsum("ij,ij->i", x, x)[:, None]
    np.multiply(x, _ONE / np.sqrt(squares / np.float32(x.shape[-1]) + _EPS), out=y)
    np.multiply(y, w, out=y)


def layernorm_into(y: F32, x: F32, w: F32, b: F32) -> None:
    np.subtract(x, x.mean(axis=-1, keepdims=True), out=y)
    squares = np.einsum("ij,ij->i", y, y)[:, None]
    np.multiply(y, _ONE / np.sqrt(squares / np.float32(x.shape[-1]) + _EPS), out=y)
    np.multiply(y, w, out=y)
    np.add(y, b, out=y)


def gelu_into(y: F32, x: F32) -> None:
    np.multiply(x, x, out=y)
    np.multiply(y, _CUBIC * _SCALE, out=y)
    np.add(y, _SCALE, out=y)
    np.multiply(y, x, out=y)
    np.tanh(y, out=y)
    np.add(y, _ONE, out=y)
    np.multiply(y, x, out=y)
    np.multiply(y, _HALF, out=y)


def swiglu_into(y: F32, gate: F32, up: F32) -> None:
    np.negative(gate, out=y)
    np.exp(y, out=y)
    np.add(y, _ONE, out=y)
    np.divide(gate, y, out=y)
    np.multiply(y, up, out=y)


def rope_into(y: F32, x: F32, cos: F32, sin: F32) -> None:
    half = x.shape[-1] // 2
    a, b, left, right = x[..., :half], x[..., half:], y[..., :half], y[..., half:]
    np.multiply(a, cos, out=left)
    np.subtract(left, b * sin, out=left)
    np.multiply(b, cos, out=right)
    np.add(right, a * sin, out=right)


AS_WRITTEN: dict[str, Callable[..., F32]] = {
    "softmax": softmax,
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "gelu": gelu,
    "swiglu": swiglu,
    "column_softmax": column_softmax,
    "short_rows": rmsnorm,
    "rope": rope,
}
BEST: dict[str, Callable[..., None]] = {
    "softmax": softmax_into,
    "rmsnorm": rmsnorm_into,
    "layernorm": layernorm_into,
    "gelu": gelu_into,
    "swiglu": swiglu_into,
    "column_softmax": column_softmax_into,
    "short_rows": rmsnorm_into,
    "rope": rope_into,
}


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """The formula as an expression; or with every step written into the output."""
    yield "expression", partial(_expression, case, buffers)
    if style is Style.BEST:
        ways = (("in place", BEST[case.kernel]),) if case.kernel in BEST else numpy_contractions.into(case)
        for name, into in ways:
            yield name, partial(_writing, name, into, buffers)


def _expression(case: Case, buffers: Buffers) -> Prepared:
    inputs = tuple(buffers.inputs.values())
    formula = AS_WRITTEN[case.kernel] if case.kernel in AS_WRITTEN else numpy_contractions.expression(case)
    return Prepared(
        formulation="expression",
        call=PythonCall(function=lambda: formula(*inputs)),
        outcome=lambda: formula(*inputs),
    )


def _writing(name: str, into: Callable[..., object], buffers: Buffers) -> Prepared:
    inputs, y = tuple(buffers.inputs.values()), buffers.y

    def outcome() -> F32:
        into(y, *inputs)
        return y

    return Prepared(formulation=name, call=PythonCall(function=lambda: into(y, *inputs)), outcome=outcome)


def trivial() -> Call:
    """One addition of two arrays of one element, into a third."""
    one, two = np.ones(1, np.float32), np.ones(1, np.float32)
    return PythonCall(function=lambda: np.add(one, one, out=two))
