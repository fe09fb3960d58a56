"""Contractions and what is fused with them in PyTorch: as users write them, other ways, and into given outputs.
Must not know whether they are run eagerly or compiled."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.contraction_cases import EPS
from benchmarks.peers.torch_formulas import Formula


def matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def matmul_linear(a: Tensor, b: Tensor) -> Tensor:
    return F.linear(a, b.t())


def matmul_into(y: Tensor, a: Tensor, b: Tensor) -> None:
    torch.mm(a, b, out=y)


def matmul_transposed_into(y: Tensor, a: Tensor, b: Tensor) -> None:
    torch.mm(b.t(), a.t(), out=y.t())


def matmul_bt(a: Tensor, b: Tensor) -> Tensor:
    return F.linear(a, b)


def matmul_bt_into(y: Tensor, a: Tensor, b: Tensor) -> None:
    torch.mm(a, b.t(), out=y)


def gemv(a: Tensor, x: Tensor) -> Tensor:
    return a @ x


def gemv_linear(a: Tensor, x: Tensor) -> Tensor:
    return F.linear(x, a)


def gemv_sum(a: Tensor, x: Tensor) -> Tensor:
    return (a * x).sum(-1)


def gemv_into(y: Tensor, a: Tensor, x: Tensor) -> None:
    torch.mv(a, x, out=y)


def batched(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def batched_einsum(a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("bmk,bkn->bmn", a, b)


def batched_sum(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, :, :, None] * b[:, None, :, :]).sum(2)


def batched_into(y: Tensor, a: Tensor, b: Tensor) -> None:
    torch.bmm(a, b, out=y)


def linear_gelu(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w.t(), bias), approximate="tanh")


def linear_gelu_addmm(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(torch.addmm(bias, x, w), approximate="tanh")


def linear_gelu_into(y: Tensor, x: Tensor, w: Tensor, bias: Tensor) -> None:
    torch.addmm(bias, x, w, out=y)
    torch.ops.aten.gelu_(y, approximate="tanh")


def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return (F.silu(x @ gate) * (x @ up)) @ down


def mlp_into(y: Tensor, x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> None:
    hidden = torch.mm(x, gate)
    torch.ops.aten.silu_(hidden).mul_(torch.mm(x, up))
    torch.mm(hidden, down, out=y)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def qk_norm_rope(x: Tensor, w: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = _halves(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def qk_norm_rope_library(x: Tensor, w: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = _halves(F.rms_norm(x, w.shape, w, EPS))
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def qk_norm_rope_assigned(x: Tensor, w: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = _halves(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w)
    y = torch.empty_like(x)
    left, right = _halves(y)
    left.copy_(a * cos - b * sin)
    right.copy_(b * cos + a * sin)
    return y


def qk_norm_rope_into(y: Tensor, x: Tensor, w: Tensor, cos: Tensor, sin: Tensor) -> None:
    (a, b), (left, right) = _halves(F.rms_norm(x, w.shape, w, EPS)), _halves(y)
    torch.mul(a, cos, out=left).addcmul_(b, sin, value=-1)
    torch.mul(b, cos, out=right).addcmul_(a, sin)


def dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.vecdot(a, b)


def dot_sum(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def dot_bmm(a: Tensor, b: Tensor) -> Tensor:
    return torch.bmm(a[:, None, :], b[:, :, None]).view(-1)


def dot_einsum(a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("mk,mk->m", a, b)


def dot_row_by_row_into(y: Tensor, a: Tensor, b: Tensor) -> None:
    for row in range(a.shape[0]):
        torch.dot(a[row], b[row], out=y[row])


AS_WRITTEN: dict[str, Formula] = {
    "matmul": matmul,
    "matmul_bt": matmul_bt,
    "gemv": gemv,
    "batched_small_matmul": batched,
    "linear_gelu": linear_gelu,
    "mlp": mlp,
    "qk_norm_rope": qk_norm_rope,
    "dot": dot,
}
ALTERNATIVES: dict[str, tuple[Formula, ...]] = {
    "matmul": (matmul_linear,),
    "matmul_bt": (),
    "gemv": (gemv_linear, gemv_sum),
    "batched_small_matmul": (batched_einsum, batched_sum),
    "linear_gelu": (linear_gelu_addmm,),
    "mlp": (),
    "qk_norm_rope": (qk_norm_rope_library, qk_norm_rope_assigned),
    "dot": (dot_sum, dot_bmm, dot_einsum),
}
INTO: dict[str, tuple[Callable[..., None], ...]] = {
    "matmul": (matmul_into, matmul_transposed_into),
    "matmul_bt": (matmul_bt_into,),
    "gemv": (gemv_into,),
    "batched_small_matmul": (batched_into,),
    "linear_gelu": (linear_gelu_into,),
    "mlp": (mlp_into,),
    "qk_norm_rope": (qk_norm_rope_into,),
    "dot": (dot_row_by_row_into,),
}
