"""Attention as ONNX graphs: the standard operator, the contributed ones, and three products by hand.
Must not run anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.attention_cases import ATTENTION, ATTENTION_BIAS, visible
from benchmarks.case import Arrays, Case
from benchmarks.peers.onnx_graph import CONTRIB, NEWER_OPSET, Constant, Graph, integers, node, real

F32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """What GroupQueryAttention takes and gives: heads beside each other in a row, and a cache that holds all keys.

    The last rows of the cache are those of the call: the operator stores them there again, which is part of it.
    """

    graph: Graph
    feeds: dict[str, NDArray[np.generic]]
    output: F32
    caches: dict[str, NDArray[np.generic]]


def graphs(case: Case) -> Iterator[Graph]:
    """Graphs on the case's own tensors, the one that users write first."""
    yield _standard(case, "mask" if _masked(case) else "")
    yield _by_hand(case)
    yield _by_hand_scaled_queries(case)
    if case.extents["Hq"] == case.extents["Hkv"]:
        yield _multi_head(case)


def _masked(case: Case) -> bool:
    return case.spec is ATTENTION and case.extents["Q"] > 1


def _mask(case: Case, folds: int) -> tuple[Constant, ...]:
    if not _masked(case):
        return ()
    seen = visible(case.extents["Q"], case.extents["K"])
    return (("mask", np.tile(np.where(seen, np.float32(0), np.float32(-np.inf)), (folds, 1))),)


def _scale(case: Case) -> float:
    return dict(case.scalars)["scale"]


def _standard(case: Case, mask: str) -> Graph:
    added = "bias" if case.spec is ATTENTION_BIAS else mask
    inputs = f"q k v {added}".rstrip()
    return Graph(
        name="Attention, float mask" if added else "Attention",
        nodes=(node("Attention", inputs, "y", scale=_scale(case)),),
        constants=_mask(case, 1),
        opset=NEWER_OPSET,
    )


def _by_hand(case: Case) -> Graph:
    """The group folded into the query axis; the runtime fuses the transpose and the scale into the first product."""
    e = case.extents
    group = e["Hq"] // e["Hkv"]
    rows = group * e["Q"]
    added = "folded" if case.spec is ATTENTION_BIAS else "mask" if _masked(case) else ""
    nodes = (
        node("Reshape", "q grouped", "qg"),
        node("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "qg kt", "s"),
        node("Mul", "s scale", "t"),
        *((node("Tile", "bias folds", "folded"),) if case.spec is ATTENTION_BIAS else ()),
        *((node("Add", f"t {added}", "m"),) if added else ()),
        node("Softmax", "m" if added else "t", "p", axis=-1),
        node("MatMul", "p v", "o"),
        node("Reshape", "o heads", "y"),
    )
    constants = (
        integers("grouped", e["B"], e["Hkv"], rows, e["D"]),
        integers("heads", e["B"], e["Hq"], e["Q"], e["Dv"]),
        integers("folds", group, 1),
        real("scale", _scale(case)),
        *_mask(case, group),
    )
    return Graph(name="MatMul, Softmax, MatMul, group as queries", nodes=nodes, constants=constants)


def _by_hand_scaled_queries(case: Case) -> Graph:
    base = _by_hand(case)
    _, transpose, _, _, *rest = base.nodes
    nodes = (
        node("Mul", "q scale", "qs"),
        node("Reshape", "qs grouped", "qg"),
        transpose,
        node("MatMul", "qg kt", "t"),
        *rest,
    )
    return Graph(name="Mul, MatMul, Softmax, MatMul, group as queries", nodes=nodes, constants=base.constants)


def _multi_head(case: Case) -> Graph:
    """Keys and values keep their place; the queries' heads are laid beside each other, and put back."""
    e = case.extents
    added = "bias4" if case.spec is ATTENTION_BIAS else "mask4" if _masked(case) else ""
    nodes = (
        node("Transpose", "q", "qt", perm=[0, 2, 1, 3]),
        node("Reshape", "qt beside", "q3"),
        *((node("Reshape", "bias square", "bias4"),) if case.spec is ATTENTION_BIAS else ()),
        *((node("Reshape", "mask square", "mask4"),) if _masked(case) else ()),
        node(
            "MultiHeadAttention",
            f"q3 k v _ _ {added}" if added else "q3 k v",
            "o3",
            domain=CONTRIB,
            num_heads=e["Hq"],
            scale=_scale(case),
        ),
        node("Reshape", "o3 apart", "o4"),
        node("Transpose", "o4", "y", perm=[0, 2, 1, 3]),
    )
    constants = (
        integers("beside", e["B"], e["Q"], e["Hq"] * e["D"]),
        integers("apart", e["B"], e["Q"], e["Hq"], e["Dv"]),
        integers("square", 1, 1, e["Q"], e["K"]),
        *_mask(case, 1),
    )
    return Graph(name="MultiHeadAttention", nodes=nodes, constants=constants)


def grouped(case: Case, inputs: Arrays) -> Grouped:
    """GroupQueryAttention over a full cache; it is causal by nature, aligned bottom-right."""
    e = case.extents
    B, Q, K = e["B"], e["Q"], e["K"]
    q, k, v = inputs["q"], np.array(inputs["k"]), np.array(inputs["v"])

    def beside(x: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(B, x.shape[2], -1)

    operator = node(
        "GroupQueryAttention",
        "query key value past_key past_value seqlens total",
        "y present_key present_value",
        domain=CONTRIB,
        num_heads=e["Hq"],
        kv_num_heads=e["Hkv"],
        scale=_scale(case),
    )
    feeds: dict[str, NDArray[np.generic]] = {
        "query": beside(q),
        "key": beside(k[:, :, K - Q :]),
        "value": beside(v[:, :, K - Q :]),
        "past_key": k,
        "past_value": v,
        "seqlens": np.full(B, K - 1, np.int32),
        "total": np.array(K, np.int32),
    }
    return Grouped(
        graph=Graph(name="GroupQueryAttention", nodes=(operator,)),
        feeds=feeds,
        output=np.empty((B, Q, e["Hq"] * e["Dv"]), np.float32),
        caches={"present_key": k, "present_value": v},
    )
