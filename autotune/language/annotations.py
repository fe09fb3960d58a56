"""Parameter annotations: element types and named dimensions, `at.f32["M", "N"]`.
Must not know how kernels are traced."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from autotune.ir.types import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """Annotation of a tensor parameter; a dimension is an extent, a name, or an expression such as "D//2"."""

    dtype: DType
    dims: tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementType:
    """An element type as kernels write it: `at.f32` for a scalar, `at.f32["M", "N"]` for a tensor."""

    dtype: DType

    def __getitem__(self, dims: str | int | tuple[str | int, ...]) -> TensorType:
        return TensorType(dtype=self.dtype, dims=dims if isinstance(dims, tuple) else (dims,))

    def __repr__(self) -> str:
        return f"at.{self.dtype.value}"


ELEMENT_TYPES: dict[str, ElementType] = {dtype.value: ElementType(dtype=dtype) for dtype in DType}


def dimension_names(dim: str | int) -> tuple[str, ...]:
    """Names in one dimension of an annotation, in order of appearance.

    Raises: ValueError where the text is no expression of names, integers and + - * //.
    """
    if isinstance(dim, int):
        return ()
    return tuple(node.id for node in _ordered(parse_dimension(dim)) if isinstance(node, ast.Name))


def parse_dimension(dim: str) -> ast.expr:
    """Syntax tree of a dimension written as text.

    Raises: ValueError where the text is no expression of names, integers and + - * //.
    """
    try:
        tree = ast.parse(dim.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"{dim!r} is no dimension") from None
    for node in _ordered(tree):
        plain = isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and type(node.value) is int)
        compound = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv)
        if not (plain or compound):
            raise ValueError(f"{dim!r} is no dimension")
    return tree


def _ordered(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node, *_ordered(node.left), *_ordered(node.right)]
    return [node]
