"""Plain loops compiled by numba: through its dispatcher as written and at best, and natively with constant extents.
Must not use vector instructions by hand: what the loops become is numba's and LLVM's doing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from benchmarks.attention_cases import ATTENTION
from benchmarks.buffers import Buffers
from benchmarks.case import EPS, GELU_CUBIC, GELU_SCALE, Case
from benchmarks.peers import Attempt, Prepared, Style, numba_contractions
from benchmarks.timing import Call, NativeCall, PythonCall, repeater

F32 = NDArray[np.float32]
Loops = Callable[..., None]

# numba compiles with the same llvmlite, in the same process, as our side and the timing loop. LLVM's options belong to
# the process; autotune.jit changes one only while it generates code of its own, so the order of compiling is free.

_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
_INF, _EPS = np.float32(np.inf), np.float32(EPS)
_SCALE, _CUBIC = np.float32(GELU_SCALE), np.float32(GELU_CUBIC)
_TWICE, _TWICE_CUBIC = np.float32(2 * GELU_SCALE), np.float32(2 * GELU_SCALE * GELU_CUBIC)

KEEPING_INF = {"reassoc", "contract", "arcp", "nsz", "afn"}
"""Fast-math without the promise that no infinity or NaN occurs: a mask by -inf breaks that promise."""
FASTMATH: dict[str, bool | set[str]] = {"fastmath": True, "fastmath keeping inf": KEEPING_INF}
STRICT = "njit"


def softmax(x: F32, mask: NDArray[np.bool_], y: F32) -> None:
    for i in range(x.shape[0]):
        largest = -_INF
        for j in range(x.shape[1]):
            if mask[i, j]:
                largest = max(largest, x[i, j])
        total = _ZERO
        for j in range(x.shape[1]):
            e = np.exp(x[i, j] - largest) if mask[i, j] else _ZERO
            y[i, j] = e
            total += e
        for j in range(x.shape[1]):
            y[i, j] /= total


def softmax_selected(x: F32, mask: NDArray[np.bool_], y: F32) -> None:
    for i in range(x.shape[0]):
        largest = np.float32(-1e30)
        for j in range(x.shape[1]):
            v = x[i, j] if mask[i, j] else np.float32(-1e30)
            largest = v if v > largest else largest
        for j in range(x.shape[1]):
            y[i, j] = (x[i, j] if mask[i, j] else np.float32(-1e30)) - largest
        total = _ZERO
        for j in range(x.shape[1]):
            e = np.exp(y[i, j])
            y[i, j] = e
            total += e
        scale = _ONE / total
        for j in range(x.shape[1]):
            y[i, j] *= scale


def column_softmax(x: F32, y: F32) -> None:
    for j in range(x.shape[1]):
        largest = -_INF
        for i in range(x.shape[0]):
            largest = max(largest, x[i, j])
        total = _ZERO
        for i in range(x.shape[0]):
            e = np.exp(x[i, j] - largest)
            y[i, j] = e
            total += e
        for i in range(x.shape[0]):
            y[i, j] /= total


def column_softmax_rows_outside(x: F32, y: F32) -> None:
    largest = np.empty(x.shape[1], np.float32)
    total = np.zeros(x.shape[1], np.float32)
    for j in range(x.shape[1]):
        largest[j] = x[0, j]
    for i in range(1, x.shape[0]):
        for j in range(x.shape[1]):
            largest[j] = x[i, j] if x[i, j] > largest[j] else largest[j]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            e = np.exp(x[i, j] - largest[j])
            y[i, j] = e
            total[j] += e
    for j in range(x.shape[1]):
        total[j] = _ONE / total[j]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] *= total[j]


def rmsnorm(x: F32, w: F32, y: F32) -> None:
    for i in range(x.shape[0]):
        total = _ZERO
        for j in range(x.shape[1]):
            total += x[i, j] * x[i, j]
        scale = _ONE / np.sqrt(total / np.float32(x.shape[1]) + _EPS)
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * scale * w[j]


def layernorm(x: F32, w: F32, b: F32, y: F32) -> None:
    for i in range(x.shape[0]):
        total = _ZERO
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / np.float32(x.shape[1])
        squares = _ZERO
        for j in range(x.shape[1]):
            d = x[i, j] - mean
            squares += d * d
        scale = _ONE / np.sqrt(squares / np.float32(x.shape[1]) + _EPS)
        for j in range(x.shape[1]):
            y[i, j] = (x[i, j] - mean) * scale * w[j] + b[j]


def gelu(x: F32, y: F32) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            v = x[i, j]
            y[i, j] = _HALF * v * (_ONE + np.tanh(_SCALE * (v + _CUBIC * v * v * v)))


def gelu_exp(x: F32, y: F32) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            v = x[i, j]
            y[i, j] = v / (_ONE + np.exp(-v * (_TWICE + _TWICE_CUBIC * v * v)))


def swiglu(gate: F32, up: F32, y: F32) -> None:
    for i in range(gate.shape[0]):
        for j in range(gate.shape[1]):
            y[i, j] = gate[i, j] / (_ONE + np.exp(-gate[i, j])) * up[i, j]


def rope(x: F32, cos: F32, sin: F32, y: F32) -> None:
    half = x.shape[2] // 2
    for h in range(x.shape[0]):
        for s in range(x.shape[1]):
            for d in range(half):
                a, b = x[h, s, d], x[h, s, d + half]
                y[h, s, d] = a * cos[s, d] - b * sin[s, d]
                y[h, s, d + half] = b * cos[s, d] + a * sin[s, d]


def rope_two_loops(x: F32, cos: F32, sin: F32, y: F32) -> None:
    half = x.shape[2] // 2
    for h in range(x.shape[0]):
        for s in range(x.shape[1]):
            for d in range(half):
                y[h, s, d] = x[h, s, d] * cos[s, d] - x[h, s, d + half] * sin[s, d]
            for d in range(half):
                y[h, s, d + half] = x[h, s, d + half] * cos[s, d] + x[h, s, d] * sin[s, d]


AS_WRITTEN: dict[str, Loops] = {
    "softmax": softmax,
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "gelu": gelu,
    "swiglu": swiglu,
    "column_softmax": column_softmax,
    "short_rows": rmsnorm,
    "rope": rope,
}
ALTERNATIVES: dict[str, tuple[Loops, ...]] = {
    "softmax": (softmax_selected,),
    "rmsnorm": (),
    "layernorm": (),
    "gelu": (gelu_exp,),
    "swiglu": (),
    "column_softmax": (column_softmax_rows_outside,),
    "short_rows": (),
    "rope": (rope_two_loops,),
}


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """`njit` without options; at best every loop under two sets of fast-math flags; both by numba's own call.

    Native: those loops again, compiled for the constant extents and called without the dispatcher, as no caller of
    numba calls them; it shows what the code alone takes.
    """
    arrays = (*buffers.inputs.values(), buffers.y)
    if case.kernel.startswith("attention"):
        yield from _attention_attempts(case, buffers)
        return
    loops = _loops_of(case)
    if style is Style.AS_WRITTEN:
        for way in loops[:1]:
            yield way.__name__, partial(_dispatched, f"{way.__name__}, njit", way, STRICT, arrays, buffers)
        return
    for way in loops:
        for flags in FASTMATH:
            label = f"{way.__name__}, {flags}"
            if style is Style.NATIVE:
                yield f"{label}, native", partial(_native, f"{label}, native", way, FASTMATH[flags], arrays)
            else:
                yield label, partial(_dispatched, label, way, flags, arrays, buffers)


def _loops_of(case: Case) -> tuple[Loops, ...]:
    if case.kernel in AS_WRITTEN:
        return AS_WRITTEN[case.kernel], *ALTERNATIVES[case.kernel]
    return numba_contractions.LOOPS.get(case.kernel, ())


def _attention_attempts(case: Case, buffers: Buffers) -> Iterator[tuple[str, Attempt]]:
    """Loops that also take a bias, empty where there is none, the scale and whether the mask is causal."""
    q, k, v, *bias = buffers.inputs.values()
    added = bias[0] if bias else np.empty((0, 0), np.float32)
    scale, causal = np.float32(dict(case.scalars)["scale"]), case.spec is ATTENTION
    arguments = (q, k, v, added, buffers.y, scale, causal)
    for way in numba_contractions.ATTENTION_LOOPS:
        label = f"{way.__name__}, fastmath"
        yield label, partial(_dispatched, label, way, "fastmath", arguments, buffers)


@cache
def _compiled(loops: Loops, flags: str) -> Loops:
    """One dispatcher a function and set of flags: it compiles once for the types of all cases."""
    strict = flags == STRICT
    compiled: Loops = numba.njit(loops) if strict else numba.njit(fastmath=FASTMATH[flags], error_model="numpy")(loops)
    return compiled


def _dispatched(label: str, loops: Loops, flags: str, arguments: tuple[object, ...], buffers: Buffers) -> Prepared:
    compiled = _compiled(loops, flags)

    def outcome() -> F32:
        compiled(*arguments)
        return buffers.y

    return Prepared(formulation=label, call=PythonCall(function=lambda: compiled(*arguments)), outcome=outcome)


def _native(label: str, loops: Loops, fastmath: bool | set[str], arrays: tuple[NDArray[np.generic], ...]) -> Prepared:
    compiled = numba.njit(fastmath=fastmath, error_model="numpy")(loops)
    pointers = [types.CPointer(numba.from_dtype(array.dtype)) for array in arrays]
    entry = numba.cfunc(types.void(*pointers))(_with_extents(compiled, tuple(array.shape for array in arrays)))
    call = NativeCall(address=entry.address, arguments=tuple(array.ctypes.data for array in arrays))
    once = repeater(call)

    def outcome(kept: object = entry) -> F32:
        once(1)
        return arrays[-1].view(np.float32)

    return Prepared(formulation=label, call=call, outcome=outcome)


def _with_extents(compiled: Loops, shapes: tuple[tuple[int, ...], ...]) -> Callable[..., None]:
    """A function of bare pointers that calls `compiled` on arrays of these constant shapes."""
    carray = numba.carray
    match shapes:
        case (first, second):

            def of_two(a, b):  # type: ignore[no-untyped-def]
                compiled(carray(a, first), carray(b, second))

            return of_two
        case (first, second, third):

            def of_three(a, b, c):  # type: ignore[no-untyped-def]
                compiled(carray(a, first), carray(b, second), carray(c, third))

            return of_three
        case (first, second, third, fourth):

            def of_four(a, b, c, d):  # type: ignore[no-untyped-def]
                compiled(carray(a, first), carray(b, second), carray(c, third), carray(d, fourth))

            return of_four
        case _:
            raise ValueError(f"a row kernel has two to four tensors, not {len(shapes)}: add the number here")


def trivial() -> Call:
    """An empty compiled function of three arrays, called through the dispatcher."""
    empty = numba.njit(lambda a, b, c: None)
    array = np.ones((1, 1), np.float32)
    empty(array, array, array)
    return PythonCall(function=lambda: empty(array, array, array))
