"""What a program is interpreted with: checked private copies of tensors, rounded scalars.
Must not know what a program computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from autotune.ir.bounds import INTEGER_TYPES, Approx, Array, exact, round_to
from autotune.ir.errors import ArgumentMismatch, MissingArgument
from autotune.ir.program import Number, Program, Scalar, Tensor
from autotune.ir.types import DType


def tensors_of(program: Program) -> Iterator[tuple[int, Tensor]]:
    return ((k, p) for k, p in enumerate(program.parameters) if isinstance(p, Tensor))


def memory_of(tensor: Tensor, arguments: Mapping[str, Array | Number], stored: bool) -> Approx:
    """A private copy of a tensor argument; an output that was not given holds unknown contents."""
    shape = tuple(extent.evaluate({}) for extent in tensor.shape)
    if tensor.name not in arguments:
        if not stored:
            raise MissingArgument(name=tensor.name)
        kind = np.float64 if tensor.dtype.is_float else INTEGER_TYPES.get(tensor.dtype, np.bool_)
        return Approx(value=np.zeros(shape, dtype=kind), bound=np.full(shape, np.inf))
    array = np.asarray(arguments[tensor.name])
    if array.shape != shape:
        raise ArgumentMismatch(name=tensor.name, expected=f"shape {list(shape)}", found=f"shape {list(array.shape)}")
    return Approx(value=_elements(tensor, array), bound=np.zeros(shape))


def _elements(tensor: Tensor, array: Array) -> Array:
    match tensor.dtype:
        case DType.BF16 if array.dtype == np.uint16:
            return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        case DType.BF16 if array.dtype.kind == "f":
            return array.astype(np.float64)
        case DType.F64 | DType.F32 | DType.F16 if array.dtype == f"f{tensor.dtype.size_bytes}":
            return array.astype(np.float64)
        case DType.BOOL if array.dtype == np.bool_:
            return array.copy()
        case DType.I64 | DType.I32 | DType.I8 if array.dtype == INTEGER_TYPES[tensor.dtype]:
            return array.copy()
        case _:
            raise ArgumentMismatch(
                name=tensor.name, expected=f"elements of type {tensor.dtype.value}", found=str(array.dtype)
            )


def scalar_of(scalar: Scalar, arguments: Mapping[str, Array | Number]) -> Approx:
    value = arguments.get(scalar.name, scalar.default)
    if value is None:
        raise MissingArgument(name=scalar.name)
    array = np.asarray(value)
    if array.shape != ():
        raise ArgumentMismatch(name=scalar.name, expected="a number", found=f"an array of shape {list(array.shape)}")
    return exact(round_to(scalar.dtype, array))
