"""How loads and stores walk their tensors: strides along axes.
Must not know what is loaded or stored for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.ir.affine import Affine
from autotune.ir.dependence import coordinates
from autotune.ir.program import Index, Let, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a phase walks a tensor: the stride in elements along each axis, None where it is no constant."""

    tensor: int
    strides: tuple[tuple[int, int | None], ...]


def access(program: Program, lets: Mapping[int, Let], tensor: int, index: tuple[Index, ...]) -> Access:
    """Strides along every axis of an access; None where they are not constant or not known yet."""
    steps = tensor_strides(program, tensor)
    read = (lets[i.value].axes for i in index if not isinstance(i, Affine))
    axes = sorted(coordinates(index).union(*read))
    return Access(tensor=tensor, strides=tuple((a, _stride(lets, a, index, steps)) for a in axes))


def _stride(lets: Mapping[int, Let], axis: int, index: tuple[Index, ...], steps: tuple[int | None, ...]) -> int | None:
    total = 0
    for entry, step in zip(index, steps, strict=True):
        if isinstance(entry, Affine):
            coefficient = entry.coefficient(axis)
        else:
            coefficient = None if axis in lets[entry.value].axes else 0
        if coefficient == 0:
            continue
        if coefficient is None or step is None:
            return None
        total += coefficient * step
    return total


def tensor_strides(program: Program, number: int) -> tuple[int | None, ...]:
    """Strides in elements of a tensor's dimensions, None while an extent is a symbol."""
    tensor = program.tensor(number)
    if tensor.strides is not None:
        return tensor.strides
    strides: list[int | None] = [1]
    for extent in reversed(tensor.shape[1:]):
        last = strides[-1]
        strides.append(last * extent.constant if last is not None and extent.is_constant else None)
    return tuple(reversed(strides[: len(tensor.shape)]))
