"""Expressions of a kernel's source, one method a syntax form.
Must not know statements or loops."""

from __future__ import annotations

import ast
import builtins as python_builtins
import difflib
import types
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TypeAlias

from autotune.errors import (
    BadIndex,
    SourceError,
    UnknownName,
    UnsupportedSyntax,
    WholeTensorUsed,
    WrongType,
)
from autotune.ir.affine import Start, Stop, as_affine, atom, coord
from autotune.ir.types import Op
from autotune.language.annotations import ElementType
from autotune.language.arithmetic import binary, unary
from autotune.language.builtins import Intrinsic
from autotune.language.calls import Calls, unknown_function
from autotune.language.context import Context
from autotune.language.indexing import load, reshaped, spot
from autotune.language.kernel import Function, Kernel
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A name that has no meaning after the loop or branch of `line`; `mistake` is the error of its use."""

    line: int
    mistake: type[SourceError]


Names: TypeAlias = MutableMapping[str, Operand | Gone]
Inline: TypeAlias = Callable[[Function, ast.Call], Operand]

BINARY: Mapping[type[ast.operator], Op] = {
    ast.Add: Op.ADD,
    ast.Sub: Op.SUB,
    ast.Mult: Op.MUL,
    ast.Div: Op.DIV,
    ast.FloorDiv: Op.FLOORDIV,
    ast.Mod: Op.MOD,
    ast.BitAnd: Op.AND,
    ast.BitOr: Op.OR,
    ast.BitXor: Op.XOR,
}
COMPARE: Mapping[type[ast.cmpop], Op] = {
    ast.Eq: Op.EQ,
    ast.NotEq: Op.NE,
    ast.Lt: Op.LT,
    ast.LtE: Op.LE,
    ast.Gt: Op.GT,
    ast.GtE: Op.GE,
}
FEATURES: Mapping[type[ast.AST], tuple[str, str]] = {
    ast.ListComp: ("a comprehension", "write values over axes, or for i in at.range(n):"),
    ast.SetComp: ("a comprehension", "write values over axes, or for i in at.range(n):"),
    ast.DictComp: ("a comprehension", "write values over axes, or for i in at.range(n):"),
    ast.GeneratorExp: ("a comprehension", "write values over axes, or for i in at.range(n):"),
    ast.Lambda: ("a lambda", "write a function under @at.function"),
    ast.BoolOp: ("and/or", "write & and | between comparisons in parentheses"),
    ast.IfExp: ("a conditional expression", "write at.where(condition, x, y)"),
    ast.List: ("a list", "write a tuple for a shape"),
    ast.Dict: ("a dictionary", "write one variable for each value"),
    ast.Set: ("a set", "write one variable for each value"),
    ast.JoinedStr: ("a string", "write numbers and values only"),
    ast.NamedExpr: ("an assignment inside an expression", "assign on a line of its own"),
    ast.Starred: ("a starred expression", "write each item out"),
    ast.Await: ("await", "write plain expressions"),
    ast.Yield: ("yield", "store results with y[...] = value"),
    ast.YieldFrom: ("yield", "store results with y[...] = value"),
    ast.Slice: ("a slice outside a subscript", "write x[a:b]"),
}


class Expressions:
    """Evaluates expressions against the names in force."""

    def __init__(self, context: Context, inline: Inline) -> None:
        self.context = context
        self.names: Names = {}
        self.inline = inline
        self.calls = Calls(context, self.evaluate, self.number)

    def evaluate(self, node: ast.expr) -> Operand:
        """What an expression stands for."""
        with self.context.at(node):
            match node:
                case ast.Constant(value=value):
                    return self.constant(value)
                case ast.Name(id=name):
                    return self.name(name)
                case ast.Tuple(elts=items):
                    return Group(items=tuple(self.evaluate(item) for item in items))
                case ast.BinOp():
                    return self.binary(node)
                case ast.UnaryOp():
                    return self.unary(node)
                case ast.Compare():
                    return self.compare(node)
                case ast.Attribute():
                    return self.attribute(node)
                case ast.Subscript():
                    return self.subscript(node)
                case ast.Call():
                    return self.call(node)
                case _:
                    raise self.unsupported(node)

    def number(self, node: ast.expr) -> Numeric:
        """An expression that must be a number or a value."""
        operand = self.evaluate(node)
        with self.context.at(node):
            return self.numeric(operand)

    def numeric(self, operand: Operand) -> Numeric:
        """An operand as a number; a tile stands for its coordinates.

        Raises: WholeTensorUsed, WrongType.
        """
        match operand:
            case Literal() | IndexTerm() | Array():
                return operand
            case TileName(axis=axis):
                return IndexTerm(expression=coord(axis), positions=(axis,))
            case TensorName(parameter=parameter):
                tensor = self.context.tensor(parameter)
                colons = ", ".join(":" for _ in tensor.shape)
                raise WholeTensorUsed(self.context.place, name=tensor.name, colons=colons)
            case Group() | Outside():
                instead = "expected a number, a value or an index expression"
                raise WrongType(
                    self.context.place, operation="an expression", found=kind_name(operand), instead=instead
                )

    def unsupported(self, node: ast.AST) -> SourceError:
        name, instead = FEATURES.get(type(node), (f"the Python form {type(node).__name__}", "see the language's page"))
        return UnsupportedSyntax(self.context.place, feature=name, instead=instead)

    # Names and constants

    def constant(self, value: object) -> Operand:
        if isinstance(value, bool | int | float):
            return Literal(value=value)
        if value is None:
            raise UnsupportedSyntax(
                self.context.place, feature="None as a value", instead="it only places an axis: [:, None]"
            )
        feature = "a string" if isinstance(value, str | bytes) else f"{value!r}"
        raise UnsupportedSyntax(self.context.place, feature=feature, instead="write numbers and values only")

    def name(self, name: str) -> Operand:
        if name in self.names:
            found = self.names[name]
            if isinstance(found, Gone):
                raise found.mistake(self.context.place, name=name, line=found.line)
            return found
        outside = self.context.source.outside
        if name in outside:
            return self.outside(name, outside[name])
        if hasattr(python_builtins, name):
            return Outside(name=name, thing=getattr(python_builtins, name))
        near = difflib.get_close_matches(name, self.names, n=1)
        raise UnknownName(self.context.place, name=name, hint=f"; did you mean {near[0]}?" if near else "")

    def outside(self, name: str, thing: object) -> Operand:
        """A Python object of the kernel's file: plain numbers become literals."""
        if isinstance(thing, bool | int | float):
            return Literal(value=thing)
        return Outside(name=name, thing=thing)

    # Operators

    def binary(self, node: ast.BinOp) -> Operand:
        op = BINARY.get(type(node.op))
        if op is None:
            forms = {ast.Pow: ("**", "write x * x, or at.exp(y * at.log(x))"), ast.MatMult: ("@", "write at.dot(a, b)")}
            name, instead = forms.get(type(node.op), ("a shift", "write * or // with a power of two"))
            raise UnsupportedSyntax(self.context.place, feature=name, instead=instead)
        left, right = self.number(node.left), self.number(node.right)
        return binary(self.context, op, left, right)

    def unary(self, node: ast.UnaryOp) -> Operand:
        operand = self.number(node.operand)
        match node.op:
            case ast.USub():
                return unary(self.context, Op.NEG, operand)
            case ast.UAdd():
                return operand
            case ast.Invert():
                return unary(self.context, Op.NOT, operand)
            case _:
                raise UnsupportedSyntax(self.context.place, feature="not", instead="write ~ before a truth value")

    def compare(self, node: ast.Compare) -> Operand:
        result: Numeric | None = None
        left = self.number(node.left)
        for form, item in zip(node.ops, node.comparators, strict=True):
            op = COMPARE.get(type(form))
            if op is None:
                feature = "is" if isinstance(form, ast.Is | ast.IsNot) else "in"
                raise UnsupportedSyntax(self.context.place, feature=feature, instead="write == != < <= > >=")
            right = self.number(item)
            one = binary(self.context, op, left, right)
            result = one if result is None else binary(self.context, Op.AND, result, one)
            left = right
        assert result is not None
        return result

    # Attributes, subscripts, calls

    def attribute(self, node: ast.Attribute) -> Operand:
        base, name = self.evaluate(node.value), node.attr
        match base, name:
            case Outside(name=outer, thing=thing), _ if isinstance(thing, types.ModuleType):
                return self.member(f"{outer}.{name}", thing, name)
            case TensorName(parameter=parameter), "shape":
                shape = self.context.tensor(parameter).shape
                return Group(items=tuple(IndexTerm(expression=extent) for extent in shape))
            case TileName(axis=axis), "index":
                return IndexTerm(expression=coord(axis), positions=(axis,))
            case TileName(axis=axis), "start":
                return IndexTerm(expression=atom(Start(axis=axis)))
            case TileName(axis=axis), "stop":
                return IndexTerm(expression=atom(Stop(axis=axis)))
            case (IndexTerm(), "index"):
                return base
            case Array(), "shape":
                return Group(items=tuple(self.extent(p) for p in base.positions))
            case Array(), "T":
                return Array(value=base.value, dtype=base.dtype, positions=base.positions[::-1])
            case IndexTerm(), "T":
                return IndexTerm(expression=base.expression, positions=base.positions[::-1])
        forms = {"tensor": ".shape", "tile": ".index, .start and .stop", "value": ".shape, .T and .reshape(...)"}
        kind = "tensor" if isinstance(base, TensorName) else "tile" if isinstance(base, TileName) else "value"
        feature = f"the attribute .{name} of {kind_name(base)}"
        instead = f"a {kind} has {forms[kind]}; functions are written at.{name}(...)"
        raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)

    def member(self, text: str, module: types.ModuleType, name: str) -> Operand:
        missing = object()
        thing = getattr(module, name, missing)
        if thing is missing:
            unknown_function(self.context, text)
        return self.outside(text, thing)

    def extent(self, position: int | None) -> IndexTerm:
        if position is None:
            return IndexTerm(expression=as_affine(1))
        return IndexTerm(expression=self.context.draft.axis(position).extent)

    def subscript(self, node: ast.Subscript) -> Operand:
        base = self.evaluate(node.value)
        match base:
            case TensorName(parameter=parameter):
                return load(self.context, spot(self.context, parameter, node.slice, self.evaluate))
            case Group(items=items):
                return self.item(items, node.slice)
            case Array() | IndexTerm() | TileName():
                return reshaped(self.context, self.numeric(base), node.slice)
            case _:
                raise UnsupportedSyntax(
                    self.context.place, feature=f"a subscript of {kind_name(base)}", instead="index a tensor or a value"
                )

    def item(self, items: tuple[Operand, ...], node: ast.expr) -> Operand:
        number = self.evaluate(node)
        if isinstance(number, Literal) and type(number.value) is int and -len(items) <= number.value < len(items):
            return items[number.value]
        expected = f"an integer from {-len(items)} to {len(items) - 1}"
        raise BadIndex(self.context.place, found=ast.unparse(node), target="a tuple", expected=expected)

    def call(self, node: ast.Call) -> Operand:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            base = self.evaluate(node.func.value)
            if isinstance(base, Array | IndexTerm | TileName):
                return self.calls.reshaped(self.numeric(base), node)
        function = self.evaluate(node.func)
        match function:
            case Outside(thing=Intrinsic() as intrinsic):
                return self.calls.call(intrinsic, node)
            case Outside(thing=Function() as helper):
                return self.inline(helper, node)
            case Outside(name=name, thing=Kernel()):
                instead = "put shared work into a function under @at.function"
                raise UnsupportedSyntax(self.context.place, feature=f"a call of the kernel {name}", instead=instead)
            case Outside(name=name, thing=ElementType()):
                instead = f"write at.cast(x, {name})"
                raise UnsupportedSyntax(self.context.place, feature=f"a call of {name}", instead=instead)
            case Outside(name=name):
                unknown_function(self.context, name)
            case _:
                unknown_function(self.context, ast.unparse(node.func))
