"""ONNX Runtime on its CPU provider, one thread, inputs and output bound to the shared buffers.
Must not let the runtime copy or allocate a tensor that could be bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from benchmarks.buffers import Buffers
from benchmarks.cases import EPS, GELU_CUBIC, GELU_SCALE, Case
from benchmarks.peers import Attempt, Prepared, Style
from benchmarks.timing import Call, PythonCall

_OPSET = 20
_NEWER_OPSET = 23
_CONTRIB = "com.microsoft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A model before it knows its shapes: nodes whose inputs carry the case's names, and constants."""

    name: str
    nodes: tuple[onnx.NodeProto, ...]
    constants: tuple[tuple[str, NDArray[np.generic]], ...] = ()
    opset: int = _OPSET


def _node(op: str, inputs: str, output: str, *, domain: str = "", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), output.split(), domain=domain, **attributes)


def _real(name: str, value: float) -> tuple[str, NDArray[np.generic]]:
    return name, np.array(value, np.float32)


def _axis(name: str, *values: int) -> tuple[str, NDArray[np.generic]]:
    return name, np.array(values, np.int64)


def softmax_where(case: Case) -> Graph:
    nodes = (_node("Where", "mask x minus_inf", "s"), _node("Softmax", "s", "y", axis=-1))
    return Graph(name="Where, Softmax", nodes=nodes, constants=(_real("minus_inf", -np.inf),))


def softmax_cast(case: Case) -> Graph:
    nodes = (
        _node("Cast", "mask", "f", to=TensorProto.FLOAT),
        _node("Sub", "f one", "g"),
        _node("Mul", "g large", "h"),
        _node("Add", "x h", "s"),
        _node("Softmax", "s", "y", axis=-1),
    )
    return Graph(name="Cast, Sub, Mul, Add, Softmax", nodes=nodes, constants=(_real("one", 1), _real("large", 1e30)))


def column_softmax(case: Case) -> Graph:
    return Graph(name="Softmax", nodes=(_node("Softmax", "x", "y", axis=0),))


def column_softmax_by_hand(case: Case) -> Graph:
    nodes = (
        _node("ReduceMax", "x axis", "m", keepdims=1),
        _node("Sub", "x m", "z"),
        _node("Exp", "z", "e"),
        _node("ReduceSum", "e axis", "t", keepdims=1),
        _node("Div", "e t", "y"),
    )
    return Graph(name="ReduceMax, Sub, Exp, ReduceSum, Div", nodes=nodes, constants=(_axis("axis", 0),))


def rmsnorm_steps(case: Case) -> Graph:
    nodes = (
        _node("Mul", "x x", "q"),
        _node("ReduceMean", "q axis", "m", keepdims=1),
        _node("Add", "m eps", "v"),
        _node("Sqrt", "v", "r"),
        _node("Div", "x r", "n"),
        _node("Mul", "n w", "y"),
    )
    return Graph(name="six operators", nodes=nodes, constants=(_axis("axis", -1), _real("eps", EPS)))


def rmsnorm_simplified(case: Case) -> Graph:
    node = _node("SimplifiedLayerNormalization", "x w", "y", axis=-1, epsilon=EPS, stash_type=1)
    return Graph(name="SimplifiedLayerNormalization", nodes=(node,))


def rmsnorm_standard(case: Case) -> Graph:
    node = _node("RMSNormalization", "x w", "y", axis=-1, epsilon=EPS)
    return Graph(name="RMSNormalization", nodes=(node,), opset=_NEWER_OPSET)


def layernorm(case: Case) -> Graph:
    node = _node("LayerNormalization", "x w b", "y", axis=-1, epsilon=EPS)
    return Graph(name="LayerNormalization", nodes=(node,))


def gelu(case: Case) -> Graph:
    return Graph(name="Gelu", nodes=(_node("Gelu", "x", "y", approximate="tanh"),))


def gelu_fast(case: Case) -> Graph:
    return Graph(name="FastGelu", nodes=(_node("FastGelu", "x", "y", domain=_CONTRIB),))


def gelu_sigmoid(case: Case) -> Graph:
    nodes = (
        _node("Mul", "x x", "q"),
        _node("Mul", "q cubic", "c"),
        _node("Add", "c linear", "l"),
        _node("Mul", "x l", "u"),
        _node("Sigmoid", "u", "g"),
        _node("Mul", "x g", "y"),
    )
    scale = 2 * GELU_SCALE
    return Graph(name="Sigmoid", nodes=nodes, constants=(_real("cubic", scale * GELU_CUBIC), _real("linear", scale)))


def swiglu(case: Case) -> Graph:
    nodes = (_node("Sigmoid", "gate", "g"), _node("Mul", "gate g", "s"), _node("Mul", "s up", "y"))
    return Graph(name="Sigmoid, Mul, Mul", nodes=nodes)


def swiglu_quick(case: Case) -> Graph:
    nodes = (_node("QuickGelu", "gate", "s", domain=_CONTRIB, alpha=1.0), _node("Mul", "s up", "y"))
    return Graph(name="QuickGelu, Mul", nodes=nodes)


def rope_steps(case: Case) -> Graph:
    nodes = (
        _node("Split", "x", "a b", axis=-1, num_outputs=2),
        _node("Mul", "a cos", "ac"),
        _node("Mul", "b sin", "bs"),
        _node("Mul", "b cos", "bc"),
        _node("Mul", "a sin", "as"),
        _node("Sub", "ac bs", "left"),
        _node("Add", "bc as", "right"),
        _node("Concat", "left right", "y", axis=-1),
    )
    return Graph(name="Split, Mul, Sub, Add, Concat", nodes=nodes)


def rope_fused(case: Case) -> Graph:
    """The contributed operator wants `[batch, heads, sequence, size]` and positions."""
    h, s, d = case.extents.values()
    nodes = (
        _node("Reshape", "x four", "x4"),
        _node("RotaryEmbedding", "x4 positions cos sin", "y4", domain=_CONTRIB),
        _node("Reshape", "y4 three", "y"),
    )
    constants = (_axis("four", 1, h, s, d), _axis("three", h, s, d), ("positions", np.arange(s, dtype=np.int64)[None]))
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
}
"""The first of each is what users write."""


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """The graph as written; the best style adds the others."""
    builders = GRAPHS[case.kernel] if style is Style.BEST else GRAPHS[case.kernel][:1]
    for builder in builders:
        graph = builder(case)
        yield graph.name, partial(_prepare, graph, buffers.inputs, buffers.y)


def _prepare(graph: Graph, inputs: dict[str, NDArray[np.generic]], y: NDArray[np.float32]) -> Prepared:
    session = _session(_model(graph, inputs, y.shape))
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)

    def call() -> None:
        session.run_with_iobinding(binding)

    def outcome() -> NDArray[np.float32]:
        call()
        return y

    return Prepared(formulation=graph.name, call=PythonCall(function=call), outcome=outcome)


def _model(graph: Graph, inputs: dict[str, NDArray[np.generic]], output: Sequence[int]) -> onnx.ModelProto:
    proto = helper.make_graph(
        list(graph.nodes),
        "row_kernel",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(value, name) for name, value in graph.constants],
    )
    imports = [helper.make_opsetid("", graph.opset), helper.make_opsetid(_CONTRIB, 1)]
    return helper.make_model(proto, opset_imports=imports, ir_version=10)


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
    graph = Graph(name="Neg", nodes=(_node("Neg", "x", "y"),))
    return _prepare(graph, {"x": np.ones(1, np.float32)}, np.ones(1, np.float32)).call
