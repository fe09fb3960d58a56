"""An ONNX model before it knows its shapes.
Must not know what is computed or run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
NEWER_OPSET = 23
CONTRIB = "com.microsoft"

Constant = tuple[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes whose inputs carry the case's names, and constants."""

    name: str
    nodes: tuple[onnx.NodeProto, ...]
    constants: tuple[Constant, ...] = ()
    opset: int = OPSET


def node(op: str, inputs: str, output: str, *, domain: str = "", **attributes: object) -> onnx.NodeProto:
    """A node; names are separated by spaces, and `_` stands for an optional one left out."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, names, output.split(), domain=domain, **attributes)


def real(name: str, value: float) -> Constant:
    """A constant number."""
    return name, np.array(value, np.float32)


def integers(name: str, *values: int) -> Constant:
    """A constant vector of integers, as shapes and axes are."""
    return name, np.array(values, np.int64)


def model(
    graph: Graph, inputs: Mapping[str, NDArray[np.generic]], outputs: Mapping[str, Sequence[int]]
) -> onnx.ModelProto:
    """The model for inputs of these shapes and types; inputs that are constants are no inputs."""
    known = {name for name, _ in graph.constants}
    proto = helper.make_graph(
        list(graph.nodes),
        "kernel",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
            if name not in known
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in graph.constants],
    )
    imports = [helper.make_opsetid("", graph.opset), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(proto, opset_imports=imports, ir_version=10)
