"""Attention in PyTorch, in every formulation it offers: which one is fastest, and which exist, depends on the shape.
Must not know whether they are run eagerly or compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from benchmarks.attention_cases import ATTENTION, ATTENTION_BIAS, visible
from benchmarks.case import Case
from benchmarks.peers.torch_formulas import Formula

_Mask = Callable[[Tensor | None], Tensor | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A case's extents, and its mask in every form. Masks that only the shape decides are made before the clock
    starts; a bias that is an input is laid out by the call.

    Shapes: masks are [Q, K], or [group * Q, K] where the heads of a group are folded into the query axis.
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    depth: int
    values: int
    scale: float
    causal: bool
    visible: Tensor | None
    hidden: Tensor | None

    @property
    def group(self) -> int:
        return self.heads // self.kv_heads

    def boolean(self, bias: Tensor | None) -> Tensor | None:
        return self.visible if bias is None else bias

    def additive(self, bias: Tensor | None) -> Tensor | None:
        return self.hidden if bias is None else bias

    def folded(self, bias: Tensor | None) -> Tensor | None:
        mask = self.additive(bias)
        return None if mask is None or self.group == 1 else mask.repeat(self.group, 1)


def problem_of(case: Case) -> Problem:
    """The problem of an attention case; a query that sees every key needs no mask."""
    e = case.extents
    causal = case.spec is ATTENTION and e["Q"] > 1
    mask = torch.from_numpy(visible(e["Q"], e["K"])) if causal else None
    return Problem(
        batch=e["B"],
        heads=e["Hq"],
        kv_heads=e["Hkv"],
        queries=e["Q"],
        keys=e["K"],
        depth=e["D"],
        values=e["Dv"],
        scale=dict(case.scalars)["scale"],
        causal=causal,
        visible=mask,
        hidden=None if mask is None else torch.zeros(mask.shape).masked_fill_(~mask, -math.inf),
    )


def library(p: Problem, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """What users write."""
    return F.scaled_dot_product_attention(q, k, v, p.boolean(bias), scale=p.scale, enable_gqa=p.group > 1)


def library_additive(p: Problem, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, p.additive(bias), scale=p.scale, enable_gqa=p.group > 1)


def library_is_causal(p: Problem, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=p.scale, enable_gqa=p.group > 1)


def heads_repeated(p: Problem, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    k, v = k.repeat_interleave(p.group, 1), v.repeat_interleave(p.group, 1)
    return F.scaled_dot_product_attention(q, k, v, p.additive(bias), scale=p.scale)


def heads_expanded(p: Problem, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """The heads of a group as the heads, the others as batch: keys and values have stride 0 along the heads."""
    out = F.scaled_dot_product_attention(*_expanded(p, q, k, v), p.additive(bias), scale=p.scale)
    return out.reshape(p.batch, p.heads, p.queries, p.values)


def heads_expanded_is_causal(p: Problem, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out = F.scaled_dot_product_attention(*_expanded(p, q, k, v), is_causal=True, scale=p.scale)
    return out.reshape(p.batch, p.heads, p.queries, p.values)


def group_as_queries(p: Problem, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    folded = q.view(p.batch, p.kv_heads, p.group * p.queries, p.depth)
    out = F.scaled_dot_product_attention(folded, k, v, p.folded(bias), scale=p.scale)
    return out.reshape(p.batch, p.heads, p.queries, p.values)


def prefix_and_tail(p: Problem, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Two flash attentions, over the keys all queries see and over the causal square, merged by log-sum-exp."""
    flash = partial(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu, scale=p.scale)
    q, k, v = _expanded(p, q, k, v)
    first = p.keys - p.queries
    before, weight_before = flash(q, k[..., :first, :], v[..., :first, :])
    after, weight_after = flash(q, k[..., first:, :], v[..., first:, :], is_causal=True)
    part = torch.sigmoid(weight_after - weight_before).unsqueeze(-1)
    return torch.lerp(before, after, part).reshape(p.batch, p.heads, p.queries, p.values)


def _expanded(p: Problem, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    groups, shared = p.batch * p.kv_heads, (-1, p.group, -1, -1)
    return (
        q.view(groups, p.group, p.queries, p.depth),
        k.view(groups, 1, p.keys, p.depth).expand(*shared),
        v.view(groups, 1, p.keys, p.values).expand(*shared),
    )


def by_hand_into(p: Problem, y: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> None:
    """Scores, softmax and the weighted sum as three calls, the group folded into the query axis."""
    groups, rows = p.batch * p.kv_heads, p.group * p.queries
    q, k, v = q.view(groups, rows, p.depth), k.view(groups, p.keys, p.depth), v.view(groups, p.keys, p.values)
    mask = p.additive(bias) if p.group == 1 else p.folded(bias)
    if mask is None:
        scores = torch.bmm(q * p.scale, k.transpose(1, 2))
    else:
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=p.scale)
    torch.softmax(scores, -1, out=scores)
    torch.bmm(scores, v, out=y.view(groups, rows, p.values))


def returning(case: Case) -> Iterator[tuple[str, Formula]]:
    """All formulations that return their result, the one that users write first."""
    p = problem_of(case)
    more: tuple[Callable[..., Tensor], ...] = (library, library_additive) if p.causal else (library,)
    if p.group > 1:
        more += (heads_repeated, heads_expanded, group_as_queries)
    if p.causal and p.queries == p.keys:
        more += (library_is_causal, heads_expanded_is_causal) if p.group > 1 else (library_is_causal,)
    if p.causal and p.queries < p.keys:
        more += (prefix_and_tail,)
    for function in more:
        yield function.__name__, partial(function, p)


def into(case: Case) -> Iterator[tuple[str, Callable[..., None]]]:
    """All formulations that write into the output."""
    yield by_hand_into.__name__, partial(by_hand_into, problem_of(case))


def flexible(case: Case) -> Iterator[tuple[str, Formula]]:
    """`flex_attention` with the heads as they are, and with those of a group folded into the query axis."""
    p = problem_of(case)
    yield "flex_attention", _flex(p, biased=case.spec is ATTENTION_BIAS)
    if p.group > 1:
        yield "flex_attention, group as queries", _flex_folded(p, biased=case.spec is ATTENTION_BIAS)


def _flex(p: Problem, *, biased: bool) -> Formula:
    first, scale, shared = p.keys - p.queries, p.scale, p.group > 1
    mask = _block_mask(lambda _b, _h, i, j: j <= i + first, p.queries, p) if p.causal else None

    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q, k, v, block_mask=mask, scale=scale, enable_gqa=shared)

    def with_bias(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        def add(score: Tensor, _b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + bias[i, j]

        return flex_attention(q, k, v, score_mod=add, scale=scale, enable_gqa=shared)

    return with_bias if biased else plain


def _flex_folded(p: Problem, *, biased: bool) -> Formula:
    first, scale, queries, rows = p.keys - p.queries, p.scale, p.queries, p.group * p.queries
    shape, result = (p.batch, p.kv_heads, rows, p.depth), (p.batch, p.heads, queries, p.values)
    mask = _block_mask(lambda _b, _h, i, j: j <= i % queries + first, rows, p) if p.causal else None

    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q.view(shape), k, v, block_mask=mask, scale=scale).view(result)

    def with_bias(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        def add(score: Tensor, _b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + bias[i % queries, j]

        return flex_attention(q.view(shape), k, v, score_mod=add, scale=scale).view(result)

    return with_bias if biased else plain


def _block_mask(sees: Callable[..., Tensor], rows: int, p: Problem) -> BlockMask:
    return create_block_mask(sees, None, None, rows, p.keys, device="cpu")
