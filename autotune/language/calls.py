"""Calls of the language's functions: arguments checked, then traced.
Must not know statements or loops."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from autotune.errors import UnknownFunction, UnsupportedSyntax, WrongArguments
from autotune.ir.affine import as_affine
from autotune.ir.program import AxisKind
from autotune.ir.types import DType, Op, ReduceOp
from autotune.language.annotations import ElementType
from autotune.language.arithmetic import as_array, binary, typed, unary, where
from autotune.language.builtins import INTRINSICS, Form, Intrinsic
from autotune.language.context import Context
from autotune.language.contractions import dot, einsum
from autotune.language.indexing import load, spot
from autotune.language.operands import (
    Array,
    Group,
    IndexTerm,
    Literal,
    Numeric,
    Operand,
    Outside,
    TensorName,
    TileName,
    kind_name,
)
from autotune.language.reductions import reduce
from autotune.language.reshaping import Rest, Tile, Wanted, reshape

Evaluate: TypeAlias = Callable[[ast.expr], Operand]
Number: TypeAlias = Callable[[ast.expr], Numeric]


class Calls:
    """Traces calls, evaluating arguments through the two functions it is given."""

    def __init__(self, context: Context, evaluate: Evaluate, number: Number) -> None:
        self.context = context
        self.evaluate = evaluate
        self.number = number

    def call(self, intrinsic: Intrinsic, node: ast.Call) -> Numeric:
        """The value of one call.

        Raises: WrongArguments, UnsupportedSyntax and what the function's own rules raise.
        """
        match intrinsic.form:
            case Form.ELEMENTWISE:
                return self.elementwise(intrinsic, node)
            case Form.REDUCTION:
                return self.reduction(intrinsic, node)
            case Form.CONTRACTION:
                return self.contraction(intrinsic, node)
            case Form.FILL:
                return self.fill(intrinsic, node)
            case Form.CAST:
                return self.cast(intrinsic, node)
            case Form.MEMORY:
                return self.memory(intrinsic, node)
            case Form.RESHAPE:
                positional, _ = arguments(self.context, intrinsic, node, 2)
                return self.reshape(intrinsic, self.number(positional[0]), positional[1:])
            case Form.LOOP | Form.MODE | Form.MERGE:
                instead = f"expected {intrinsic.usage}"
                raise UnsupportedSyntax(self.context.place, feature=f"at.{intrinsic.name} as a value", instead=instead)

    def elementwise(self, intrinsic: Intrinsic, node: ast.Call) -> Numeric:
        count = {"where": 3, "minimum": 2, "maximum": 2}.get(intrinsic.name, 1)
        operands = [self.number(a) for a in arguments(self.context, intrinsic, node, count)[0]]
        if intrinsic.name == "relu":
            return binary(self.context, Op.MAXIMUM, operands[0], Literal(value=0))
        op = intrinsic.op
        assert isinstance(op, Op)
        match operands:
            case [one]:
                return unary(self.context, op, one)
            case [left, right]:
                return binary(self.context, op, left, right)
            case [condition, left, right]:
                return where(self.context, condition, left, right)
            case _:
                raise AssertionError(intrinsic.name)

    def reduction(self, intrinsic: Intrinsic, node: ast.Call) -> Array:
        allowed = {"axis", "ordered", "init"}
        positional, named = arguments(self.context, intrinsic, node, 1, allowed, optional=1)
        if len(positional) == 2:
            named.setdefault("axis", positional[1])
        ordered = self.flag(intrinsic, named["ordered"]) if "ordered" in named else False
        axis = self.axis(intrinsic, named["axis"]) if "axis" in named else None
        init = self.number(named["init"]) if "init" in named else None
        op = intrinsic.op
        assert isinstance(op, ReduceOp)
        if op is ReduceOp.ARGMAX and init is not None:
            bad_call(self.context, intrinsic, "argmax has no init")
        return reduce(self.context, op, self.number(positional[0]), axis=axis, ordered=ordered, init=init)

    def contraction(self, intrinsic: Intrinsic, node: ast.Call) -> Array:
        if intrinsic.name == "dot":
            (left, right), _ = arguments(self.context, intrinsic, node, 2)
            return dot(self.context, self.number(left), self.number(right))
        positional, _ = arguments(self.context, intrinsic, node, 1, optional=len(node.args))
        match positional[0]:
            case ast.Constant(value=str() as subscripts):
                return einsum(self.context, subscripts, [self.number(a) for a in positional[1:]])
            case _:
                bad_call(self.context, intrinsic, "the first argument is no string of subscripts")

    def fill(self, intrinsic: Intrinsic, node: ast.Call) -> Array:
        """A constant with the positions of its shape; the program needs the number only."""
        count = 1 if intrinsic.name == "zeros" else 2
        positional, named = arguments(self.context, intrinsic, node, count, {"dtype"}, optional=1)
        given = positional[count] if len(positional) > count else named.get("dtype")
        dtype = DType.F32 if given is None else self.element_type(intrinsic, given)
        positions = self.shape(intrinsic, self.evaluate(positional[0]))
        value = Literal(value=0) if count == 1 else self.number(positional[1])
        array = typed(self.context, value, dtype)
        if array.positions:
            bad_call(self.context, intrinsic, "the fill value is no single number")
        self.context.draft.live_together(positions)
        return Array(value=array.value, dtype=dtype, positions=positions)

    def cast(self, intrinsic: Intrinsic, node: ast.Call) -> Array:
        positional, _ = arguments(self.context, intrinsic, node, 2)
        dtype = self.element_type(intrinsic, positional[1])
        return typed(self.context, self.number(positional[0]), dtype)

    def memory(self, intrinsic: Intrinsic, node: ast.Call) -> Array:
        if intrinsic.name != "load":
            instead = f"{intrinsic.usage} stands alone on its line"
            raise UnsupportedSyntax(self.context.place, feature="at.store as a value", instead=instead)
        positional, named = arguments(self.context, intrinsic, node, 1, {"fill"})
        tensor, subscript = self.target(intrinsic, positional[0])
        fill = self.number(named["fill"]) if "fill" in named else Literal(value=0)
        if not isinstance(fill, Literal):
            bad_call(self.context, intrinsic, "fill is no number known at tracing")
        return load(self.context, spot(self.context, tensor, subscript, self.evaluate), fill.value)

    def reshaped(self, operand: Numeric, node: ast.Call) -> Numeric:
        """`x.reshape(A, B)` and `x.reshape((A, B))`."""
        intrinsic = INTRINSICS["reshape"]
        positional, _ = arguments(self.context, intrinsic, node, 0, optional=len(node.args))
        return self.reshape(intrinsic, operand, positional)

    def reshape(self, intrinsic: Intrinsic, operand: Numeric, shape: Sequence[ast.expr]) -> Numeric:
        given = [self.evaluate(entry) for entry in shape]
        if len(given) == 1 and isinstance(given[0], Group):
            given = list(given[0].items)
        wanted = [self.wanted(intrinsic, item) for item in given]
        value = as_array(self.context, operand) if isinstance(operand, Literal) else operand
        return reshape(self.context, value, wanted)

    def wanted(self, intrinsic: Intrinsic, item: Operand) -> Wanted:
        """One entry of a shape asked for."""
        match item:
            case TileName(axis=axis):
                return Tile(axis=axis)
            case Literal(value=-1):
                return Rest()
            case Literal(value=value) if type(value) is int and value >= 0:
                return as_affine(value)
            case IndexTerm(expression=expression, positions=()) if not expression.axes():
                return expression
            case _:
                bad_call(self.context, intrinsic, f"{kind_name(item)} is no extent and no tile")

    # Arguments of special kinds

    def target(self, intrinsic: Intrinsic, node: ast.expr) -> tuple[int, ast.expr]:
        """The tensor and the subscript of `x[...]` as an argument."""
        if isinstance(node, ast.Subscript):
            tensor = self.evaluate(node.value)
            if isinstance(tensor, TensorName):
                return tensor.parameter, node.slice
        bad_call(self.context, intrinsic, "the first argument is no place in a tensor")

    def element_type(self, intrinsic: Intrinsic, node: ast.expr) -> DType:
        operand = self.evaluate(node)
        if isinstance(operand, Outside) and isinstance(operand.thing, ElementType):
            return operand.thing.dtype
        bad_call(self.context, intrinsic, f"{kind_name(operand)} is no element type")

    def shape(self, intrinsic: Intrinsic, operand: Operand) -> tuple[int | None, ...]:
        items: Sequence[Operand] = operand.items if isinstance(operand, Group) else (operand,)
        return tuple(self.position(intrinsic, item) for item in items)

    def position(self, intrinsic: Intrinsic, item: Operand) -> int | None:
        """The axis that one entry of a shape asks for."""
        match item:
            case TileName(axis=axis):
                return axis
            case Literal(value=1):
                return None
            case Literal(value=value) if type(value) is int and value >= 0:
                return self.context.draft.new_axis(AxisKind.FULL, as_affine(value), str(value))
            case IndexTerm(expression=expression, positions=()) if not expression.axes():
                name = self.context.text(expression)
                return self.context.draft.new_axis(AxisKind.FULL, expression, name)
            case _:
                bad_call(self.context, intrinsic, f"{kind_name(item)} is no extent and no tile")

    def flag(self, intrinsic: Intrinsic, node: ast.expr) -> bool:
        operand = self.evaluate(node)
        if isinstance(operand, Literal) and isinstance(operand.value, bool):
            return operand.value
        bad_call(self.context, intrinsic, "ordered= is neither True nor False")

    def axis(self, intrinsic: Intrinsic, node: ast.expr) -> tuple[int, ...] | None:
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        operand = self.evaluate(node)
        items: Sequence[Operand] = operand.items if isinstance(operand, Group) else (operand,)
        numbers: list[int] = []
        for item in items:
            if not (isinstance(item, Literal) and type(item.value) is int):
                bad_call(self.context, intrinsic, "axis= is no integer and no tuple of integers")
            numbers.append(item.value)
        return tuple(numbers)


def arguments(
    context: Context,
    intrinsic: Intrinsic,
    node: ast.Call,
    count: int,
    keywords: set[str] | frozenset[str] = frozenset(),
    optional: int = 0,
) -> tuple[list[ast.expr], dict[str, ast.expr]]:
    """Positional and named arguments of a call, checked in number and name.

    Raises: WrongArguments.
    """
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        bad_call(context, intrinsic, "* and ** are outside the language")
    if not count <= len(node.args) <= count + optional:
        bad_call(context, intrinsic, f"{len(node.args)} positional, expected {count}")
    named = {k.arg: k.value for k in node.keywords if k.arg is not None}
    for name in named:
        if name not in keywords:
            allowed = ", ".join(sorted(keywords)) or "none"
            bad_call(context, intrinsic, f"no argument is named {name}; named ones are {allowed}")
    return list(node.args), named


def bad_call(context: Context, intrinsic: Intrinsic, problem: str) -> NoReturn:
    raise WrongArguments(context.place, name=f"at.{intrinsic.name}", problem=problem, usage=intrinsic.usage)


_INSTEAD_OF_NUMPY = {"mean": "write at.sum(x) / N", "power": "write x * x", "matmul": "write at.dot(a, b)"}
_INSTEAD_OF_PYTHON = {
    "min": "write at.minimum(x, y), or at.min(x) over axes",
    "max": "write at.maximum(x, y), or at.max(x) over axes",
    "float": "write at.cast(x, at.f32)",
    "int": "write at.cast(x, at.i32)",
    "bool": "write x != 0",
    "len": "write x.shape[0]",
    "pow": "write x * x",
}


def unknown_function(context: Context, name: str) -> NoReturn:
    """Refuse a call that the language lacks, naming near ones."""
    bare = name.rsplit(".", 1)[-1]
    known = _INSTEAD_OF_PYTHON if bare == name else _INSTEAD_OF_NUMPY
    offered = list(INTRINSICS)
    near = difflib.get_close_matches(bare, offered, n=1, cutoff=0.7)
    hint = known.get(bare) or (f"write at.{near[0]}" if near else "")
    raise UnknownFunction(context.place, name=name, hint=f"; {hint}" if hint else "")
