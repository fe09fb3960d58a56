"""What every part of a trace shares: the draft, the parameters and the place in the source.
Must not know syntax beyond places."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from autotune.errors import Place
from autotune.ir.affine import Affine, Atom, Coord, Dim, Product, Quotient, Remainder, Start, Stop
from autotune.ir.program import AxisKind, Const, IndexValue, Parameter, Tensor
from autotune.ir.types import APPROXIMABLE, DEFAULT_MAX_ULP, STRICT, STRICT_MAX_ULP, DType, MathPolicy, Op
from autotune.language.draft import Draft
from autotune.language.operands import Array, IndexTerm, Literal, Numeric, Positions
from autotune.language.source import Source


class Context:
    """State of one trace."""

    def __init__(self, source: Source, parameters: tuple[Parameter, ...], dims: tuple[str, ...]) -> None:
        self.source = source
        self._kernel_source = source
        self.parameters = parameters
        self.dims = dims
        self.draft = Draft()
        self.node: ast.AST = source.tree

    @property
    def place(self) -> Place:
        return self.source.place(self.node)

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Errors raised and values made inside belong to `node`."""
        before = self.node, self.draft.line
        self.node = node
        if self.source is self._kernel_source:  # a helper's values belong to the line that calls it
            self.draft.line = self.source.line(node)
        yield
        self.node, self.draft.line = before

    def tensor(self, number: int) -> Tensor:
        parameter = self.parameters[number]
        assert isinstance(parameter, Tensor)
        return parameter

    # Values of the simplest kinds

    def constant(self, value: float | int | bool, dtype: DType, positions: Positions = ()) -> Array:
        typed = float(value) if dtype.is_float else bool(value) if dtype is DType.BOOL else int(value)
        return self.draft.emit(Const(value=typed), dtype, positions)

    def index_value(self, term: IndexTerm) -> Array:
        return self.draft.emit(IndexValue(expression=term.expression), DType.I64, term.positions)

    def positions(self, operand: Numeric) -> Positions:
        return () if isinstance(operand, Literal) else self.draft.resolve(operand.positions)

    def policy(self, op: Op) -> MathPolicy:
        """What an elementwise operation may do here: strict but for the accuracy of approximable functions."""
        if op not in APPROXIMABLE:
            return STRICT
        return MathPolicy(max_ulp=STRICT_MAX_ULP if self.draft.strict else DEFAULT_MAX_ULP[op])

    # Words for errors

    def axis_text(self, axis: int) -> str:
        this = self.draft.axis(axis)
        tile = this.kind in (AxisKind.TILE, AxisKind.PROGRAM_TILE)
        return f"tile {this.name}" if tile else self.text(this.extent)

    def shape_text(self, positions: Positions) -> str:
        parts = ["1" if p is None else self.axis_text(p) for p in positions]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def text(self, expression: Affine) -> str:
        """An index expression in the names of the kernel."""
        parts: list[str] = []
        for a, c in expression.terms:
            body = self._atom_text(a)
            factor = "" if abs(c) == 1 else f"{abs(c)}*"
            sign = "-" if c < 0 else "+" if parts else ""
            parts.append(f"{sign} {factor}{body}" if parts else f"{sign}{factor}{body}")
        constant = expression.constant
        if constant or not parts:
            parts.append(f"{'-' if constant < 0 else '+'} {abs(constant)}" if parts else str(constant))
        return " ".join(parts)

    def _atom_text(self, a: Atom) -> str:
        match a:
            case Dim(index=index):
                return self.dims[index]
            case Coord(axis=axis):
                return self.draft.axis(axis).name
            case Start(axis=axis):
                return f"{self.draft.axis(axis).name}.start"
            case Stop(axis=axis):
                return f"{self.draft.axis(axis).name}.stop"
            case Quotient(numerator=left, denominator=right):
                return f"{self._operand_text(left)}//{self._operand_text(right)}"
            case Remainder(numerator=left, denominator=right):
                return f"{self._operand_text(left)}%{self._operand_text(right)}"
            case Product(left=left, right=right):
                return f"{self._operand_text(left)}*{self._operand_text(right)}"
            case _:
                word = "minimum" if type(a).__name__ == "Least" else "maximum"
                return f"{word}({self.text(a.left)}, {self.text(a.right)})"

    def _operand_text(self, expression: Affine) -> str:
        text = self.text(expression)
        return f"({text})" if " " in text else text
