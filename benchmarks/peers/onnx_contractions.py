"""Contractions as ONNX graphs: with weights as inputs of the call, and with weights known when the session is made.
Must not run anything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.case import GELU_CUBIC, GELU_SCALE, Arrays, Case
from benchmarks.contraction_cases import EPS
from benchmarks.peers.onnx_graph import CONTRIB, Graph, integers, node, real


def matmul(case: Case) -> Graph:
    return Graph(name="MatMul", nodes=(node("MatMul", "a b", "y"),))


def gemm(case: Case) -> Graph:
    return Graph(name="Gemm", nodes=(node("Gemm", "a b", "y"),))


def matmul_bt(case: Case) -> Graph:
    nodes = (node("Transpose", "b", "bt", perm=[1, 0]), node("MatMul", "a bt", "y"))
    return Graph(name="Transpose, MatMul", nodes=nodes)


def gemm_bt(case: Case) -> Graph:
    return Graph(name="Gemm, transB", nodes=(node("Gemm", "a b", "y", transB=1),))


def gemv(case: Case) -> Graph:
    return Graph(name="MatMul", nodes=(node("MatMul", "a x", "y"),))


def gemv_as_row(case: Case) -> Graph:
    m, k = case.extents.values()
    nodes = (node("Reshape", "x row", "r"), node("Gemm", "r a", "p", transB=1), node("Reshape", "p flat", "y"))
    return Graph(name="Gemm, transB, one row", nodes=nodes, constants=(integers("row", 1, k), integers("flat", m)))


def gemv_as_column(case: Case) -> Graph:
    m, k = case.extents.values()
    nodes = (node("Reshape", "x column", "c"), node("MatMul", "a c", "p"), node("Reshape", "p flat", "y"))
    return Graph(name="MatMul, one column", nodes=nodes, constants=(integers("column", k, 1), integers("flat", m)))


def linear_gelu(case: Case) -> Graph:
    nodes = (node("MatMul", "x w", "m"), node("Add", "m bias", "v"), node("Gelu", "v", "y", approximate="tanh"))
    return Graph(name="MatMul, Add, Gelu", nodes=nodes)


def linear_gelu_fast(case: Case) -> Graph:
    nodes = (node("MatMul", "x w", "m"), node("FastGelu", "m bias", "y", domain=CONTRIB))
    return Graph(name="MatMul, FastGelu", nodes=nodes)


def linear_gelu_sigmoid(case: Case) -> Graph:
    """x · sigmoid(2u) is GELU's tanh form with one exponential."""
    nodes = (
        node("Gemm", "x w bias", "v"),
        node("Mul", "v v", "q"),
        node("Mul", "q cubic", "c"),
        node("Add", "c linear", "l"),
        node("Mul", "v l", "u"),
        node("Sigmoid", "u", "g"),
        node("Mul", "v g", "y"),
    )
    scale = 2 * GELU_SCALE
    return Graph(
        name="Gemm, Sigmoid", nodes=nodes, constants=(real("cubic", scale * GELU_CUBIC), real("linear", scale))
    )


def mlp(case: Case) -> Graph:
    nodes = (
        node("MatMul", "x gate", "g"),
        node("MatMul", "x up", "u"),
        node("Sigmoid", "g", "s"),
        node("Mul", "g s", "silu"),
        node("Mul", "silu u", "h"),
        node("MatMul", "h down", "y"),
    )
    return Graph(name="MatMul, Sigmoid, Mul, MatMul", nodes=nodes)


def mlp_quick(case: Case) -> Graph:
    nodes = (
        node("MatMul", "x gate", "g"),
        node("MatMul", "x up", "u"),
        node("QuickGelu", "g", "silu", domain=CONTRIB, alpha=1.0),
        node("Mul", "silu u", "h"),
        node("MatMul", "h down", "y"),
    )
    return Graph(name="MatMul, QuickGelu, Mul, MatMul", nodes=nodes)


def qk_norm_rope(case: Case) -> Graph:
    nodes = (
        node("SimplifiedLayerNormalization", "x w", "n", axis=-1, epsilon=EPS, stash_type=1),
        node("Split", "n", "a b", axis=-1, num_outputs=2),
        node("Mul", "a cos", "ac"),
        node("Mul", "b sin", "bs"),
        node("Mul", "b cos", "bc"),
        node("Mul", "a sin", "as"),
        node("Sub", "ac bs", "left"),
        node("Add", "bc as", "right"),
        node("Concat", "left right", "y", axis=-1),
    )
    return Graph(name="SimplifiedLayerNormalization, Split, Mul, Sub, Add, Concat", nodes=nodes)


def qk_norm_rope_fused(case: Case) -> Graph:
    h, s, d = case.extents.values()
    nodes = (
        node("SimplifiedLayerNormalization", "x w", "n", axis=-1, epsilon=EPS, stash_type=1),
        node("Reshape", "n four", "n4"),
        node("RotaryEmbedding", "n4 positions cos sin", "y4", domain=CONTRIB),
        node("Reshape", "y4 three", "y"),
    )
    positions = ("positions", np.arange(s, dtype=np.int64)[None])
    constants = (integers("four", 1, h, s, d), integers("three", h, s, d), positions)
    return Graph(name="SimplifiedLayerNormalization, RotaryEmbedding", nodes=nodes, constants=constants)


def dot(case: Case) -> Graph:
    nodes = (node("Mul", "a b", "p"), node("ReduceSum", "p last", "y", keepdims=0))
    return Graph(name="Mul, ReduceSum", nodes=nodes, constants=(integers("last", -1),))


def dot_einsum(case: Case) -> Graph:
    return Graph(name="Einsum", nodes=(node("Einsum", "a b", "y", equation="mk,mk->m"),))


def dot_matmul(case: Case) -> Graph:
    m, k = case.extents.values()
    nodes = (
        node("Reshape", "a rows", "r"),
        node("Reshape", "b columns", "c"),
        node("MatMul", "r c", "p"),
        node("Reshape", "p flat", "y"),
    )
    constants = (integers("rows", m, 1, k), integers("columns", m, k, 1), integers("flat", m))
    return Graph(name="batched MatMul", nodes=nodes, constants=constants)


GRAPHS: dict[str, tuple[Callable[[Case], Graph], ...]] = {
    "matmul": (matmul, gemm),
    "matmul_bt": (matmul_bt, gemm_bt),
    "gemv": (gemv, gemv_as_row, gemv_as_column),
    "batched_small_matmul": (matmul,),
    "linear_gelu": (linear_gelu, linear_gelu_fast, linear_gelu_sigmoid),
    "mlp": (mlp, mlp_quick),
    "qk_norm_rope": (qk_norm_rope, qk_norm_rope_fused),
    "dot": (dot, dot_einsum, dot_matmul),
}
WEIGHTS: dict[str, tuple[str, ...]] = {
    "matmul": ("b",),
    "matmul_bt": ("b",),
    "linear_gelu": ("w", "bias"),
    "mlp": ("gate", "up", "down"),
}
"""What may be known when the session is made: the runtime then packs it before the first call."""


def prepacked(case: Case, inputs: Arrays) -> tuple[Graph, ...]:
    """The graphs with the weights as constants; none where a kernel has no weights."""
    names = WEIGHTS.get(case.kernel, ())
    constants = tuple((name, np.array(inputs[name])) for name in names)
    if not constants:
        return ()
    graphs = (build(case) for build in GRAPHS[case.kernel])
    return tuple(
        Graph(name=f"{g.name}, constant weights", nodes=g.nodes, constants=(*g.constants, *constants), opset=g.opset)
        for g in graphs
    )
