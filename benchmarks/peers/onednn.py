"""oneDNN's linear layer, reached through PyTorch: with the weights as they are, and with weights laid out beforehand.
Must not count what is done before the clock starts as part of a plain formulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.buffers import Buffers
from benchmarks.case import Case
from benchmarks.peers import Attempt, Prepared, Style
from benchmarks.peers.torch_eager import trivial as trivial
from benchmarks.timing import PythonCall

torch.set_num_threads(1)

Weights = Callable[[Tensor], Tensor]
"""Makes of a weight matrix [N, K] what the library multiplies by."""


def _linear(x: Tensor, weights: Tensor, bias: Tensor | None = None, then: str = "none", how: str = "") -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weights, bias, then, [], how)


def _matmul(buffers: Buffers, prepare: Weights) -> Callable[[], Tensor]:
    a, b = map(torch.from_numpy, buffers.inputs.values())
    weights = prepare(b.t())
    return lambda: _linear(a, weights)


def _matmul_bt(buffers: Buffers, prepare: Weights) -> Callable[[], Tensor]:
    a, b = map(torch.from_numpy, buffers.inputs.values())
    weights = prepare(b)
    return lambda: _linear(a, weights)


def _gemv(buffers: Buffers, prepare: Weights) -> Callable[[], Tensor]:
    a, x = map(torch.from_numpy, buffers.inputs.values())
    weights, row = prepare(a), x[None, :]
    return lambda: _linear(row, weights).view(-1)


def _linear_gelu(buffers: Buffers, prepare: Weights) -> Callable[[], Tensor]:
    x, w, bias = map(torch.from_numpy, buffers.inputs.values())
    weights = prepare(w.t())
    return lambda: _linear(x, weights, bias, "gelu", "tanh")


def _mlp(buffers: Buffers, prepare: Weights) -> Callable[[], Tensor]:
    x, gate, up, down = map(torch.from_numpy, buffers.inputs.values())
    gated, raised, lowered = prepare(gate.t()), prepare(up.t()), prepare(down.t())
    return lambda: _linear(_linear(x, gated, None, "swish").mul_(_linear(x, raised)), lowered)


FORMULAS: dict[str, Callable[[Buffers, Weights], Callable[[], Tensor]]] = {
    "matmul": _matmul,
    "matmul_bt": _matmul_bt,
    "gemv": _gemv,
    "linear_gelu": _linear_gelu,
    "mlp": _mlp,
}


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """The linear layers; prepacked ones have their weights reordered for the case's number of rows."""
    if case.kernel not in FORMULAS:
        return
    if style is Style.PREPACKED:
        rows = 1 if case.kernel == "gemv" else case.extents["M"]
        prepare: Weights = partial(_reordered, rows)
        yield "linear, weights reordered", partial(_prepare, "linear, weights reordered", case, buffers, prepare)
        return
    yield "linear", partial(_prepare, "linear", case, buffers, lambda weights: weights)
    if case.kernel in ("matmul", "linear_gelu", "mlp"):
        # The weights stand transposed; whether the library or the caller copies them is a choice of their user.
        yield "linear, weights copied", partial(_copying, case, buffers)


def _reordered(rows: int, weights: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weights.contiguous(), rows)


def _prepare(name: str, case: Case, buffers: Buffers, prepare: Weights) -> Prepared:
    with torch.inference_mode():
        formula = FORMULAS[case.kernel](buffers, prepare)
    call = torch.inference_mode()(formula)
    return Prepared(formulation=name, call=PythonCall(function=call), outcome=lambda: call().contiguous().numpy())


def _copying(case: Case, buffers: Buffers) -> Prepared:
    @torch.inference_mode()
    def call() -> Tensor:
        return FORMULAS[case.kernel](buffers, Tensor.contiguous)()

    return Prepared(
        formulation="linear, weights copied",
        call=PythonCall(function=call),
        outcome=lambda: call().contiguous().numpy(),
    )
