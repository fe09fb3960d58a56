"""Questions that both builders must answer alike: what a target does in one instruction, how often a loop runs.
Must not write or count anything."""

from __future__ import annotations

from autotune.ir.program import Number
from autotune.ir.types import DType
from autotune.realizations.builder import Vector
from autotune.realizations.target import Target

INT_OF_SIZE = {1: DType.I8, 4: DType.I32, 8: DType.I64}
"""The integer type of each element size that has one."""


def known_trips(start: Vector, stop: Vector, step: int) -> int | None:
    """Trips of `range(start, stop, step)` where both bounds are constants."""
    if start.constant is None or stop.constant is None:
        return None
    return len(range(int(start.constant), int(stop.constant), step))


def gathers(target: Target, dtype: DType) -> bool:
    """Whether lanes of this type are gathered by an instruction."""
    return target.has_gather and dtype.size_bytes in (4, 8)


def scatters(target: Target, dtype: DType) -> bool:
    """Whether lanes of this type are scattered by an instruction."""
    return target.has_scatter and dtype.size_bytes in (4, 8)


def mask_lane_type(target: Target, lanes: int) -> DType:
    """The integer type in which lane numbers are compared: as wide as the lanes of one full register."""
    return DType.I64 if lanes * 8 == target.vector_bytes else DType.I32


def folded_cast(value: Vector, dtype: DType) -> Number | None:
    """The constant that a conversion of a constant gives; None where it has to be computed."""
    if value.constant is None:
        return None
    if dtype.is_float:
        return float(value.constant)
    fits = -(2 ** (8 * dtype.size_bytes - 1)) <= value.constant < 2 ** (8 * dtype.size_bytes - 1)
    return int(value.constant) if value.dtype.is_integer and dtype.is_integer and fits else None
