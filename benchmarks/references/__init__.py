"""Two attentions of our own in C, compiled by the system's compiler: what hand-written code reaches on this machine.
Must not know the language, the search or how a call is timed.

`online` is an online-softmax attention with vector intrinsics, compiled for constant D and Dv: prefill has the query
rows across the lanes (prefill.h), few rows share one pass over K and V (decode.h). `dense` keeps whole rows of scores
and multiplies by NumPy's own OpenBLAS (dense.c). Both run on one thread and read nothing that the mask hides where a
block of rows can leave it out.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.c_compiler import load_library
from benchmarks.peers import Prepared
from benchmarks.references import openblas
from benchmarks.timing import NativeCall, repeater

F32: TypeAlias = NDArray[np.float32]

_FOLDER = Path(__file__).resolve().parent
DEEPEST = 1024
"""The largest D and Dv: tiles of this depth are kept on the stack."""


class BadOperands(ValueError):
    """Tensors that are no attention of contiguous float32 arrays."""


class _Problem(ctypes.Structure):
    """The `problem` of problem.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "query_heads", "kv_heads", "queries", "keys")),
        *((name, ctypes.c_int64) for name in ("depth", "value_depth", "causal")),
        ("scale", ctypes.c_double),
        ("sgemm", ctypes.c_void_p),
        ("sgemv", ctypes.c_void_p),
    )


def online(q: F32, k: F32, v: F32, out: F32, scale: float, *, causal: bool = True) -> Prepared:
    """The online reference on these tensors, as a native call that writes `out`.

    A row that sees no key (K < Q under the mask) gets zeros.

    Shapes: q[B, Hq, Q, D], k[B, Hkv, K, D], v[B, Hkv, K, Dv], out[B, Hq, Q, Dv], contiguous float32; the mask is
    aligned bottom-right: query i sees key j where j <= i + K - Q.
    Raises: BadOperands, NoCompiler, CompileFailed.
    """
    problem = _problem(q, k, v, out, scale, causal)
    depths = (f"-DDEPTH={q.shape[3]}", f"-DVALUE_DEPTH={v.shape[3]}")
    library = load_library(_FOLDER / "online.c", depths)
    return _prepared("online C", library, "online_attention", (q, k, v, out), problem)


def dense(q: F32, k: F32, v: F32, out: F32, scale: float, *, causal: bool = True) -> Prepared:
    """The dense reference on these tensors, as a native call that writes `out`; sets NumPy's OpenBLAS to one thread.

    A row that sees no key (K < Q under the mask) gets zeros.

    Shapes: as for `online`.
    Raises: BadOperands, NoCompiler, CompileFailed, NoOpenBlas.
    """
    problem = _problem(q, k, v, out, scale, causal)
    blas = openblas.find()
    openblas.one_thread()
    problem.sgemm, problem.sgemv = blas.sgemm, blas.sgemv
    library = load_library(_FOLDER / "dense.c")
    return _prepared(f"dense C, OpenBLAS {blas.core}", library, "dense_attention", (q, k, v, out), problem)


def _prepared(
    formulation: str, library: ctypes.CDLL, name: str, tensors: tuple[F32, F32, F32, F32], problem: _Problem
) -> Prepared:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    pointers = tuple(tensor.ctypes.data for tensor in tensors)
    call = NativeCall(address=address, arguments=(*pointers, ctypes.addressof(problem)))
    once = repeater(call)

    def outcome(kept: object = (problem, tensors, library)) -> F32:
        once(1)
        return tensors[3]

    return Prepared(formulation=formulation, call=call, outcome=outcome)


def _problem(q: F32, k: F32, v: F32, out: F32, scale: float, causal: bool) -> _Problem:
    for name, tensor in (("q", q), ("k", k), ("v", v), ("out", out)):
        if tensor.ndim != 4 or tensor.dtype != np.float32 or not tensor.flags.c_contiguous or tensor.size == 0:
            raise BadOperands(
                f"{name} is {tensor.dtype}{list(tensor.shape)}: expected four dimensions of contiguous float32, none 0"
            )
    batch, query_heads, queries, depth = q.shape
    kv_heads, keys, value_depth = k.shape[1], k.shape[2], v.shape[3]
    expected = {
        "k": (k.shape, (batch, kv_heads, keys, depth)),
        "v": (v.shape, (batch, kv_heads, keys, value_depth)),
        "out": (out.shape, (batch, query_heads, queries, value_depth)),
    }
    for name, (found, wanted) in expected.items():
        if found != wanted:
            raise BadOperands(f"{name} has shape {list(found)}: expected {list(wanted)} beside q {list(q.shape)}")
    if query_heads % kv_heads:
        raise BadOperands(f"{query_heads} query heads over {kv_heads} KV heads: expected a multiple")
    if max(depth, value_depth) > DEEPEST:
        raise BadOperands(f"D={depth}, Dv={value_depth}: expected at most {DEEPEST} each")
    return _Problem(batch, query_heads, kv_heads, queries, keys, depth, value_depth, causal, scale)
