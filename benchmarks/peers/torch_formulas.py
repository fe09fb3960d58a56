"""The row kernels in PyTorch: as users write them, and other ways to put the same mathematics.
Must not know whether they are run eagerly or compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.case import EPS, GELU_CUBIC, GELU_SCALE

INF = float("inf")
MASKED = 1e30
"""Large enough that exp of anything less it is zero, small enough to stay finite."""

Formula = Callable[..., Tensor]


def tensors_for(formula: Callable[..., object], inputs: Mapping[str, NDArray[np.generic]]) -> tuple[Tensor, ...]:
    """The inputs as tensors on the same memory; a formula that asks for `mask_bytes` gets the mask as bytes of 0 and 1.

    Viewing a boolean tensor as bytes costs nothing outside a compiled graph, and keeps the graph from converting it
    one element at a time inside.
    """
    views = []
    for name, array in inputs.items():
        as_bytes = array.dtype == np.bool_ and f"{name}_bytes" in inspect.signature(formula).parameters
        views.append(torch.from_numpy(array.view(np.uint8) if as_bytes else array))
    return tuple(views)


def softmax(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(torch.where(mask, x, -INF), -1)


def softmax_byte_mask(x: Tensor, mask_bytes: Tensor) -> Tensor:
    return torch.softmax(x + (mask_bytes - 1.0) * MASKED, -1)


def softmax_byte_mask_by_hand(x: Tensor, mask_bytes: Tensor) -> Tensor:
    s = x + (mask_bytes - 1.0) * MASKED
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return e * (1 / e.sum(-1, keepdim=True))


def softmax_finite_where(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(torch.where(mask, x, -MASKED), -1)


def softmax_masked_fill(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(x.masked_fill(~mask, -INF), -1)


def column_softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, 0)


def column_softmax_by_hand(x: Tensor) -> Tensor:
    e = torch.exp(x - x.amax(0, keepdim=True))
    return e * (1 / e.sum(0, keepdim=True))


def column_softmax_transposed(x: Tensor) -> Tensor:
    return torch.softmax(x.t(), -1).t().contiguous()


def rmsnorm(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w


def rmsnorm_library(x: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, w.shape, w, EPS)


def rmsnorm_norm(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) * (1 / x.shape[-1]) + EPS) * w


def layernorm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, w.shape, w, b, EPS)


def layernorm_two_passes(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + EPS) * w + b


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def gelu_sigmoid(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x * (2 * GELU_SCALE + (2 * GELU_SCALE * GELU_CUBIC) * (x * x)))


def gelu_exp(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(x * (-2 * GELU_SCALE - (2 * GELU_SCALE * GELU_CUBIC) * (x * x))))


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def swiglu_sigmoid(gate: Tensor, up: Tensor) -> Tensor:
    return gate * torch.sigmoid(gate) * up


def swiglu_exp(gate: Tensor, up: Tensor) -> Tensor:
    return gate * up / (1 + torch.exp(-gate))


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = _halves(x)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def rope_rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = _halves(x)
    return x * torch.cat((cos, cos), -1) + torch.cat((-b, a), -1) * torch.cat((sin, sin), -1)


def rope_assigned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = _halves(x)
    y = torch.empty_like(x)
    left, right = _halves(y)
    left.copy_(a * cos - b * sin)
    right.copy_(b * cos + a * sin)
    return y


AS_WRITTEN: dict[str, Formula] = {
    "softmax": softmax,
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "gelu": gelu,
    "swiglu": swiglu,
    "column_softmax": column_softmax,
    "short_rows": rmsnorm,
    "rope": rope,
}
ALTERNATIVES: dict[str, tuple[Formula, ...]] = {
    "softmax": (softmax_byte_mask, softmax_byte_mask_by_hand, softmax_finite_where),
    "rmsnorm": (rmsnorm_library, rmsnorm_norm),
    "layernorm": (layernorm_two_passes,),
    "gelu": (gelu_sigmoid, gelu_exp),
    "swiglu": (swiglu_sigmoid, swiglu_exp),
    "column_softmax": (column_softmax_by_hand, column_softmax_transposed),
    "short_rows": (rmsnorm_library, rmsnorm_norm),
    "rope": (rope_rotated, rope_assigned),
}
