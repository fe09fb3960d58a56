"""What an expression of a kernel stands for while it is traced.
Must not know syntax; positions exist only here, programs know axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from autotune.ir.affine import Affine
from autotune.ir.program import Number
from autotune.ir.types import DType

Positions: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A Python number: it takes the type of what it meets."""

    value: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTerm:
    """An index expression: extents, coordinates and their sums; a number of type i64 once it meets a value."""

    expression: Affine
    positions: Positions = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """Value number `value`; each position is an axis, or None where its extent is 1."""

    value: int
    dtype: DType
    positions: Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class TileName:
    """The variable of a tile loop: a block of coordinates along `axis`."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorName:
    """A tensor parameter without an index."""

    parameter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A tuple, such as a shape."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """A Python object that the kernel's file defines or imports: a module, a function, an element type."""

    name: str
    thing: object


Operand: TypeAlias = Literal | IndexTerm | Array | TileName | TensorName | Group | Outside
Numeric: TypeAlias = Literal | IndexTerm | Array


def kind_name(operand: Operand) -> str:
    """What an operand is, in the words of an error."""
    match operand:
        case Literal(value=value):
            return f"the number {value!r}"
        case IndexTerm():
            return "an index expression"
        case Array(dtype=dtype):
            return f"a value of type {dtype.value}"
        case TileName():
            return "a tile"
        case TensorName():
            return "a tensor"
        case Group():
            return "a tuple"
        case Outside(name=name):
            return f"{name!r}"
