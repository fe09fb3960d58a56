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
from benchmarks.case import EPS, Case
from benchmarks.peers import Attempt, Prepared, Style, torch_attention, torch_contractions
from benchmarks.peers.torch_formulas import INF, MASKED, Formula, softmax_masked_fill, tensors_for
from benchmarks.peers.torch_table import formulas_of
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
    **torch_contractions.INTO,
}


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """The formula as written; the best style adds other formulations and those that write into the output."""
    for k, (name, formula) in enumerate(_returning_formulas(case)):
        if k == 0 or style is Style.BEST:
            yield name, partial(_returning, name, formula, buffers)
    if style is Style.BEST:
        for name, into in _writing_formulas(case):
            yield name, partial(_writing, name, into, buffers)


def _returning_formulas(case: Case) -> Iterator[tuple[str, Formula]]:
    if case.kernel.startswith("attention"):
        yield from torch_attention.returning(case)
        return
    more = (softmax_masked_fill,) if case.kernel == "softmax" else ()
    for formula in (*formulas_of(case), *more):
        yield formula.__name__, formula


def _writing_formulas(case: Case) -> Iterator[tuple[str, Callable[..., None]]]:
    if case.kernel.startswith("attention"):
        yield from torch_attention.into(case)
        return
    for into in INTO[case.kernel]:
        yield into.__name__, into


def _returning(name: str, formula: Formula, buffers: Buffers) -> Prepared:
    inputs = tensors_for(formula, buffers.inputs)

    @torch.inference_mode()
    def call() -> Tensor:
        return formula(*inputs)

    return Prepared(formulation=name, call=PythonCall(function=call), outcome=lambda: call().contiguous().numpy())


def _writing(name: str, into: Callable[..., None], buffers: Buffers) -> Prepared:
    y, inputs = torch.from_numpy(buffers.y), tensors_for(into, buffers.inputs)

    @torch.inference_mode()
    def call() -> None:
        into(y, *inputs)

    def outcome() -> NDArray[np.float32]:
        call()
        return buffers.y

    return Prepared(formulation=name, call=PythonCall(function=call), outcome=outcome)


def trivial() -> Call:
    """One addition of two tensors of one element, into a third."""
    one, two = torch.ones(1), torch.ones(1)

    @torch.inference_mode()
    def call() -> Tensor:
        return torch.add(one, one, out=two)

    return PythonCall(function=call)
