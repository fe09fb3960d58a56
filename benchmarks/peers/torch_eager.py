"""PyTorch run eagerly, called from Python, one thread.
Must not compile anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.buffers import Buffers
from benchmarks.cases import EPS, Case
from benchmarks.peers import Attempt, Prepared, Style
from benchmarks.peers.torch_formulas import (
    ALTERNATIVES,
    AS_WRITTEN,
    INF,
    MASKED,
    Formula,
    softmax_masked_fill,
    tensors_for,
)
from benchmarks.timing import Call, PythonCall

torch.set_num_threads(1)


def softmax_into(y: Tensor, x: Tensor, mask: Tensor) -> None:
    torch.softmax(torch.where(mask, x, -INF), -1, out=y)


def softmax_byte_mask_into(y: Tensor, x: Tensor, mask_bytes: Tensor) -> None:
    torch.sub(mask_bytes, 1.0, out=y)
    torch.add(x, y, alpha=MASKED, out=y)
    torch.softmax(y, -1, out=y)


def column_softmax_into(y: Tensor, x: Tensor) -> None:
    torch.softmax(x, 0, out=y)


def rmsnorm_into(y: Tensor, x: Tensor, w: Tensor) -> None:
    scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(EPS).rsqrt_()
    torch.mul(x, scale, out=y).mul_(w)


def layernorm_into(y: Tensor, x: Tensor, w: Tensor, b: Tensor) -> None:
    mean, scale = _layernorm_statistics(x)
    torch.ops.aten.native_layer_norm.out(x, w.shape, w, b, EPS, out0=y, out1=mean, out2=scale)


def _layernorm_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    shape = (*x.shape[:-1], 1)
    return torch.empty(shape), torch.empty(shape)


def gelu_into(y: Tensor, x: Tensor) -> None:
    torch.ops.aten.gelu.out(x, approximate="tanh", out=y)


def swiglu_into(y: Tensor, gate: Tensor, up: Tensor) -> None:
    torch.ops.aten.silu.out(gate, out=y).mul_(up)


def rope_into(y: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    half = x.shape[-1] // 2
    a, b, left, right = x[..., :half], x[..., half:], y[..., :half], y[..., half:]
    torch.mul(a, cos, out=left).addcmul_(b, sin, value=-1)
    torch.mul(b, cos, out=right).addcmul_(a, sin)


INTO: dict[str, tuple[Callable[..., None], ...]] = {
    "softmax": (softmax_into, softmax_byte_mask_into),
    "rmsnorm": (rmsnorm_into,),
    "layernorm": (layernorm_into,),
    "gelu": (gelu_into,),
    "swiglu": (swiglu_into,),
    "column_softmax": (column_softmax_into,),
    "short_rows": (rmsnorm_into,),
    "rope": (rope_into,),
}


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """The formula as written; the best style adds other formulations and those that write into the output."""
    as_written = AS_WRITTEN[case.kernel]
    yield as_written.__name__, partial(_returning, as_written, buffers)
    if style is Style.AS_WRITTEN:
        return
    more = (softmax_masked_fill,) if case.kernel == "softmax" else ()
    for formula in (*ALTERNATIVES[case.kernel], *more):
        yield formula.__name__, partial(_returning, formula, buffers)
    for into in INTO[case.kernel]:
        yield into.__name__, partial(_writing, into, buffers)


def _returning(formula: Formula, buffers: Buffers) -> Prepared:
    inputs = tensors_for(formula, buffers.inputs)

    @torch.inference_mode()
    def call() -> Tensor:
        return formula(*inputs)

    return Prepared(
        formulation=formula.__name__, call=PythonCall(function=call), outcome=lambda: call().contiguous().numpy()
    )


def _writing(into: Callable[..., None], buffers: Buffers) -> Prepared:
    y, inputs = torch.from_numpy(buffers.y), tensors_for(into, buffers.inputs)

    @torch.inference_mode()
    def call() -> None:
        into(y, *inputs)

    def outcome() -> NDArray[np.float32]:
        call()
        return buffers.y

    return Prepared(formulation=into.__name__, call=PythonCall(function=call), outcome=outcome)


def trivial() -> Call:
    """One addition of two tensors of one element, into a third."""
    one, two = torch.ones(1), torch.ones(1)

    @torch.inference_mode()
    def call() -> Tensor:
        return torch.add(one, one, out=two)

    return PythonCall(function=call)
