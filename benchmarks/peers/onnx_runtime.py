"""ONNX Runtime on its CPU provider, one thread, inputs and output bound to the shared buffers.
Must not let the runtime copy or allocate a tensor that could be bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto

from benchmarks.attention_cases import ATTENTION
from benchmarks.buffers import Buffers
from benchmarks.case import EPS, GELU_CUBIC, GELU_SCALE, Arrays, Case
from benchmarks.peers import Attempt, Prepared, Style, onnx_attention, onnx_contractions
from benchmarks.peers.onnx_graph import CONTRIB, NEWER_OPSET, Graph, integers, model, node, real
from benchmarks.timing import Call, PythonCall


def softmax_where(case: Case) -> Graph:
    nodes = (node("Where", "mask x minus_inf", "s"), node("Softmax", "s", "y", axis=-1))
    return Graph(name="Where, Softmax", nodes=nodes, constants=(real("minus_inf", -np.inf),))


def softmax_cast(case: Case) -> Graph:
    nodes = (
        node("Cast", "mask", "f", to=TensorProto.FLOAT),
        node("Sub", "f one", "g"),
        node("Mul", "g large", "h"),
        node("Add", "x h", "s"),
        node("Softmax", "s", "y", axis=-1),
    )
    return Graph(name="Cast, Sub, Mul, Add, Softmax", nodes=nodes, constants=(real("one", 1), real("large", 1e30)))


def column_softmax(case: Case) -> Graph:
    return Graph(name="Softmax", nodes=(node("Softmax", "x", "y", axis=0),))


def column_softmax_by_hand(case: Case) -> Graph:
    nodes = (
        node("ReduceMax", "x axis", "m", keepdims=1),
        node("Sub", "x m", "z"),
        node("Exp", "z", "e"),
        node("ReduceSum", "e axis", "t", keepdims=1),
        node("Div", "e t", "y"),
    )
    return Graph(name="ReduceMax, Sub, Exp, ReduceSum, Div", nodes=nodes, constants=(integers("axis", 0),))


def rmsnorm_steps(case: Case) -> Graph:
    nodes = (
        node("Mul", "x x", "q"),
        node("ReduceMean", "q axis", "m", keepdims=1),
        node("Add", "m eps", "v"),
        node("Sqrt", "v", "r"),
        node("Div", "x r", "n"),
        node("Mul", "n w", "y"),
    )
    return Graph(name="six operators", nodes=nodes, constants=(integers("axis", -1), real("eps", EPS)))


def rmsnorm_simplified(case: Case) -> Graph:
    norm = node("SimplifiedLayerNormalization", "x w", "y", axis=-1, epsilon=EPS, stash_type=1)
    return Graph(name="SimplifiedLayerNormalization", nodes=(norm,))


def rmsnorm_standard(case: Case) -> Graph:
    norm = node("RMSNormalization", "x w", "y", axis=-1, epsilon=EPS)
    return Graph(name="RMSNormalization", nodes=(norm,), opset=NEWER_OPSET)


def layernorm(case: Case) -> Graph:
    norm = node("LayerNormalization", "x w b", "y", axis=-1, epsilon=EPS)
    return Graph(name="LayerNormalization", nodes=(norm,))


def gelu(case: Case) -> Graph:
    return Graph(name="Gelu", nodes=(node("Gelu", "x", "y", approximate="tanh"),))


def gelu_fast(case: Case) -> Graph:
    return Graph(name="FastGelu", nodes=(node("FastGelu", "x", "y", domain=CONTRIB),))


def gelu_sigmoid(case: Case) -> Graph:
    nodes = (
        node("Mul", "x x", "q"),
        node("Mul", "q cubic", "c"),
        node("Add", "c linear", "l"),
        node("Mul", "x l", "u"),
        node("Sigmoid", "u", "g"),
        node("Mul", "x g", "y"),
    )
    scale = 2 * GELU_SCALE
    return Graph(name="Sigmoid", nodes=nodes, constants=(real("cubic", scale * GELU_CUBIC), real("linear", scale)))


def swiglu(case: Case) -> Graph:
    nodes = (node("Sigmoid", "gate", "g"), node("Mul", "gate g", "s"), node("Mul", "s up", "y"))
    return Graph(name="Sigmoid, Mul, Mul", nodes=nodes)


def swiglu_quick(case: Case) -> Graph:
    nodes = (node("QuickGelu", "gate", "s", domain=CONTRIB, alpha=1.0), node("Mul", "s up", "y"))
    return Graph(name="QuickGelu, Mul", nodes=nodes)


def rope_steps(case: Case) -> Graph:
    nodes = (
        node("Split", "x", "a b", axis=-1, num_outputs=2),
        node("Mul", "a cos", "ac"),
        node("Mul", "b sin", "bs"),
        node("Mul", "b cos", "bc"),
        node("Mul", "a sin", "as"),
        node("Sub", "ac bs", "left"),
        node("Add", "bc as", "right"),
        node("Concat", "left right", "y", axis=-1),
    )
    return Graph(name="Split, Mul, Sub, Add, Concat", nodes=nodes)


def rope_fused(case: Case) -> Graph:
    """The contributed operator wants `[batch, heads, sequence, size]` and positions."""
    h, s, d = case.extents.values()
    nodes = (
        node("Reshape", "x four", "x4"),
        node("RotaryEmbedding", "x4 positions cos sin", "y4", domain=CONTRIB),
        node("Reshape", "y4 three", "y"),
    )
    constants = (
        integers("four", 1, h, s, d),
        integers("three", h, s, d),
        ("positions", np.arange(s, dtype=np.int64)[None]),
    )
    return Graph(name="RotaryEmbedding", nodes=nodes, constants=constants)


_RMSNORM = (rmsnorm_steps, rmsnorm_simplified, rmsnorm_standard)
GRAPHS: dict[str, tuple[Callable[[Case], Graph], ...]] = {
    "softmax": (softmax_where, softmax_cast),
    "rmsnorm": _RMSNORM,
    "layernorm": (layernorm,),
    "gelu": (gelu, gelu_fast, gelu_sigmoid),
    "swiglu": (swiglu, swiglu_quick),
    "column_softmax": (column_softmax, column_softmax_by_hand),
    "short_rows": _RMSNORM,
    "rope": (rope_steps, rope_fused),
    **onnx_contractions.GRAPHS,
}
"""The first of each is what users write."""


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """The graph as written; the best style adds the others; prepacked, they know their weights beforehand."""
    for graph in _graphs_of(case, buffers, style):
        yield graph.name, partial(_prepare, graph, buffers.inputs, buffers.y)
    if style is Style.BEST and case.spec is ATTENTION:
        yield "GroupQueryAttention", partial(_prepare_grouped, case, buffers)


def _graphs_of(case: Case, buffers: Buffers, style: Style) -> tuple[Graph, ...]:
    if style is Style.PREPACKED:
        return onnx_contractions.prepacked(case, buffers.inputs)
    if case.kernel.startswith("attention"):
        graphs = tuple(onnx_attention.graphs(case))
    else:
        graphs = tuple(build(case) for build in GRAPHS[case.kernel])
    return graphs if style is Style.BEST else graphs[:1]


def _prepare(graph: Graph, inputs: Arrays, y: NDArray[np.float32]) -> Prepared:
    session = _session(model(graph, inputs, {"y": y.shape}))
    wanted = {found.name for found in session.get_inputs()}
    binding = session.io_binding()
    for name, array in inputs.items():
        if name in wanted:
            _bind_input(binding, name, array)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)

    def call() -> None:
        session.run_with_iobinding(binding)

    def outcome() -> NDArray[np.float32]:
        call()
        return y

    return Prepared(formulation=graph.name, call=PythonCall(function=call), outcome=outcome)


def _prepare_grouped(case: Case, buffers: Buffers) -> Prepared:
    """The cache is bound as past and as present, so that nothing is copied; in the output, heads are side by side."""
    given = onnx_attention.grouped(case, buffers.inputs)
    shapes = {"y": given.output.shape} | {name: array.shape for name, array in given.caches.items()}
    session = _session(model(given.graph, given.feeds, shapes))
    binding = session.io_binding()
    for name, array in given.feeds.items():
        _bind_input(binding, name, array)
    for name, array in {"y": given.output, **given.caches}.items():
        binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    B, H, Q, D = case.output

    def call(kept: object = given) -> None:
        session.run_with_iobinding(binding)

    def outcome() -> NDArray[np.float32]:
        call()
        return given.output.reshape(B, Q, H, D).transpose(0, 2, 1, 3)

    return Prepared(formulation=given.graph.name, call=PythonCall(function=call), outcome=outcome)


def _bind_input(binding: onnxruntime.IOBinding, name: str, array: NDArray[np.generic]) -> None:
    binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def trivial() -> Call:
    """A model that negates one number."""
    graph = Graph(name="Neg", nodes=(node("Neg", "x", "y"),))
    return _prepare(graph, {"x": np.ones(1, np.float32)}, np.ones(1, np.float32)).call
