"""Programs as text, one statement a line: readable with their names, canonical without them.
Must not know how text is read back; `parse.py` does."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from autotune.ir.affine import (
    Affine,
    Atom,
    Coord,
    Dim,
    Greatest,
    Least,
    Product,
    Quotient,
    Remainder,
    Start,
    Stop,
)
from autotune.ir.program import (
    Axis,
    AxisKind,
    Carried,
    Carry,
    Const,
    Contraction,
    Elementwise,
    Final,
    For,
    If,
    Index,
    IndexValue,
    Indirect,
    Joined,
    Let,
    Load,
    MergeSide,
    Number,
    Parameter,
    Program,
    Reduce,
    Region,
    Reindex,
    Scalar,
    ScalarArgument,
    Statement,
    Store,
    Tensor,
    Value,
    While,
)
from autotune.ir.types import DType, MathPolicy

# Words that stand where a name may stand too; whatever bears one is shown by its letter and number.
RESERVED = frozenset({"min", "max", "init", "ordered", "reassociate", "contract", "max_ulp", "contracting"})

Item: TypeAlias = Parameter | Axis | Statement | Program | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of program text and what it shows; None for the dimensions and for the line between two regions."""

    text: str
    item: Item


def print_program(program: Program) -> str:
    """The program with its names and source lines; `parse` gives an equal program back (NaN constants aside)."""
    return _join(program_lines(program))


def canonical(program: Program) -> str:
    """The program without what is no part of its identity: names, source lines, defaults of scalars."""
    return _join(_Printer(program, named=False).lines())


def fingerprint(program: Program) -> str:
    """SHA-256 of the canonical text, in hexadecimal: equal for programs that differ in names only."""
    return hashlib.sha256(canonical(program).encode()).hexdigest()


def program_lines(program: Program) -> tuple[Line, ...]:
    """The lines of `print_program`, each with the part of the program it shows."""
    return tuple(_Printer(program, named=True).lines())


def show_number(value: Number) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def show_affine(program: Program, expression: Affine) -> str:
    """An index expression as in the canonical text: axes are a0, a1, …, dimensions d0, d1, …"""
    return _Printer(program, named=False).affine(expression)


def zero_of(dtype: DType) -> Number:
    """The zero of an element type, which a load without a written fill value gives outside its tensor."""
    return False if dtype is DType.BOOL else 0.0 if dtype.is_float else 0


def _join(lines: Iterable[Line]) -> str:
    return "".join(f"{line.text}\n" for line in lines)


class _Printer:
    """Writes one program; a name that is missing, doubled or unreadable is replaced by a letter and a number."""

    def __init__(self, program: Program, *, named: bool) -> None:
        self.program = program
        self.named = named
        taken: set[str] = set(RESERVED)
        self.dims = [_symbol(name if named else "", f"d{k}", taken) for k, name in enumerate(program.dims)]
        letters = ["t" if isinstance(p, Tensor) else "s" for p in program.parameters]
        parameters = enumerate(zip(letters, program.parameters, strict=True))
        self.parameters = [_symbol(p.name if named else "", f"{x}{k}", taken) for k, (x, p) in parameters]
        self.axes = [_symbol(a.name if named else "", f"a{k}", taken) for k, a in enumerate(program.axes)]

    def lines(self) -> Iterator[Line]:
        if self.named:
            yield Line(text=f"program {json.dumps(self.program.name)}", item=self.program)
        for symbol, name in zip(self.dims, self.program.dims, strict=True):
            yield Line(text=f"dim {self.declared(symbol, name)}", item=None)
        for symbol, parameter in zip(self.parameters, self.program.parameters, strict=True):
            yield Line(text=self.parameter(symbol, parameter), item=parameter)
        for symbol, axis in zip(self.axes, self.program.axes, strict=True):
            yield Line(text=self.axis_line(symbol, axis), item=axis)
        yield Line(text=" ".join(["parallel", *map(self.axis, self.program.parallel)]), item=None)
        yield from self.region(self.program.body, "")

    # --- declarations ---------------------------------------------------------------------------------------------

    def declared(self, symbol: str, name: str) -> str:
        return symbol if symbol == name or not self.named else f"{symbol} {json.dumps(name)}"

    def parameter(self, symbol: str, parameter: Parameter) -> str:
        head = f"{self.declared(symbol, parameter.name)} : {parameter.dtype.value}"
        match parameter:
            case Tensor(shape=shape, strides=strides):
                tail = "" if strides is None else f" strides [{', '.join(map(str, strides))}]"
                return f"tensor {head}[{', '.join(map(self.affine, shape))}]{tail}"
            case Scalar(default=default):
                tail = "" if default is None or not self.named else f" = {show_number(default)}"
                return f"scalar {head}{tail}"
            case _:
                assert_never(parameter)

    def axis_line(self, symbol: str, axis: Axis) -> str:
        text = f"axis {self.declared(symbol, axis.name)} : {axis.kind.value}"
        text += "" if axis.kind is AxisKind.WHILE and axis.extent == Affine() else f" {self.affine(axis.extent)}"
        text += "" if axis.start == Affine() else f" start {self.affine(axis.start)}"
        return text + ("" if axis.step == 1 else f" step {axis.step}")

    # --- statements -----------------------------------------------------------------------------------------------

    def region(self, region: Region, indent: str) -> Iterator[Line]:
        for statement in region:
            line = f" @{statement.line}" if self.named and statement.line else ""
            yield Line(text=f"{indent}{self.statement(statement)}{line}", item=statement)
            yield from self.inner(statement, indent)

    def inner(self, statement: Statement, indent: str) -> Iterator[Line]:
        """The regions inside a statement, a line before the second one."""
        deeper = indent + "  "
        match statement:
            case Let() | Store():
                pass
            case For(body=body, merge=merge):
                yield from self.region(body, deeper)
                if merge is not None:
                    yield Line(text=" ".join([f"{indent}merge", *(f"%{v}" for v in merge.merged)]), item=None)
                    yield from self.region(merge.body, deeper)
            case While(test=test, body=body):
                yield from self.region(test, deeper)
                yield Line(text=f"{indent}do", item=None)
                yield from self.region(body, deeper)
            case If(then=then, otherwise=otherwise):
                yield from self.region(then, deeper)
                yield Line(text=f"{indent}else", item=None)
                yield from self.region(otherwise, deeper)
            case _:
                assert_never(statement)

    def statement(self, statement: Statement) -> str:
        match statement:
            case Let(id=number, value=value, dtype=dtype, axes=axes):
                return f"%{number} = {self.value(value)} : {self.type(dtype, axes)}"
            case Store(tensor=tensor, index=index, value=value, mask=mask):
                masked = "" if mask is None else f" mask %{mask}"
                return f"store {self.place(tensor, index)} %{value}{masked}"
            case For(axis=axis, carries=carries):
                return f"for {self.axis(axis)}{self.carries(carries)}"
            case While(axis=axis, carries=carries, condition=condition):
                return f"while {self.axis(axis)} %{condition}{self.carries(carries)}"
            case If(branch=branch, condition=condition, choices=choices):
                joined = [f" choice %{c.then} %{c.otherwise} : {self.type(c.dtype, c.axes)}" for c in choices]
                return f"if {branch} %{condition}{','.join(joined)}"
            case _:
                assert_never(statement)

    def carries(self, carries: tuple[Carry, ...]) -> str:
        return ",".join(f" carry %{c.initial} -> %{c.updated} : {self.type(c.dtype, c.axes)}" for c in carries)

    def value(self, value: Value) -> str:
        match value:
            case Const(value=number):
                return f"const {show_number(number)}"
            case ScalarArgument(parameter=parameter):
                return f"argument {self.symbol(self.parameters, parameter, 's')}"
            case IndexValue(expression=expression):
                return f"index {self.affine(expression)}"
            case Load(tensor=tensor, index=index, fill=fill):
                return f"load {self.place(tensor, index)}{self.fill(tensor, fill)}"
            case Elementwise(op=op, args=args, math=math):
                return " ".join([op.value, *(f"%{a}" for a in args)]) + _policy(math)
            case Reduce(op=op, body=body, axes=axes, init=init, ordered=ordered, math=math, contraction=contraction):
                over = "".join(f" {self.axis(a)}" for a in axes)
                start = "" if init is None else f" init %{init}"
                flags = f"{' ordered' if ordered else ''}{_policy(math)}{self.contraction(contraction)}"
                return f"reduce {op.value} %{body} over{over}{start}{flags}"
            case Reindex(value=source_value, source=source, target=target):
                return f"reindex %{source_value} {self.axis(source)} -> {self.axis(target)}"
            case Carried(axis=axis, slot=slot):
                return f"carried {self.axis(axis)}.{slot}"
            case Final(axis=axis, slot=slot):
                return f"final {self.axis(axis)}.{slot}"
            case Joined(branch=branch, slot=slot):
                return f"joined {branch} slot {slot}"
            case MergeSide(axis=axis, side=side, slot=slot):
                return f"side {side} of {self.axis(axis)}.{slot}"
            case _:
                assert_never(value)

    def contraction(self, contraction: Contraction | None) -> str:
        if contraction is None:
            return ""
        roles = {"batch": contraction.batch, "m": contraction.m, "n": contraction.n, "k": contraction.k}
        parts = " ".join(f"{role} ({', '.join(map(self.axis, axes))})" for role, axes in roles.items())
        return f" contracting %{contraction.lhs} %{contraction.rhs} {parts} in {contraction.accumulator.value}"

    def fill(self, tensor: int, fill: Number) -> str:
        """The fill value where it is not the tensor type's own zero; 0 and 0.0 are one program, but not equal data."""
        parameters = self.program.parameters
        dtype = parameters[tensor].dtype if 0 <= tensor < len(parameters) else DType.I64
        zeros = {show_number(zero_of(dtype))} if self.named else {"0", "0.0", "false"}
        return "" if show_number(fill) in zeros else f" fill {show_number(fill)}"

    def type(self, dtype: DType, axes: tuple[int, ...]) -> str:
        return f"{dtype.value}({', '.join(map(self.axis, axes))})"

    def place(self, tensor: int, index: tuple[Index, ...]) -> str:
        entries = (f"%{i.value}" if isinstance(i, Indirect) else self.affine(i) for i in index)
        return f"{self.symbol(self.parameters, tensor, 't')}[{', '.join(entries)}]"

    # --- index expressions ----------------------------------------------------------------------------------------

    def axis(self, number: int) -> str:
        return self.symbol(self.axes, number, "a")

    def symbol(self, symbols: list[str], number: int, letter: str) -> str:
        """What stands for an entry; a number that has none, which only an invalid program holds, shows as such."""
        return symbols[number] if 0 <= number < len(symbols) else f"{letter}{number}?"

    def affine(self, expression: Affine) -> str:
        text = ""
        for a, coefficient in expression.terms:
            size = "" if abs(coefficient) == 1 else f"{abs(coefficient)}*"
            text += _sign(coefficient, bool(text)) + size + self.atom(a)
        if expression.constant or not text:
            text += _sign(expression.constant, bool(text)) + str(abs(expression.constant))
        return text

    def operand(self, expression: Affine) -> str:
        """An expression beside `//`, `%` or `*`: in parentheses unless it is one atom or a plain number."""
        plain = not expression.constant and [c for _, c in expression.terms] == [1]
        plain = plain or (expression.is_constant and expression.constant >= 0)
        return self.affine(expression) if plain else f"({self.affine(expression)})"

    def atom(self, a: Atom) -> str:
        match a:
            case Dim(index=index):
                return self.symbol(self.dims, index, "d")
            case Coord(axis=axis):
                return self.axis(axis)
            case Start(axis=axis):
                return f"{self.axis(axis)}.start"
            case Stop(axis=axis):
                return f"{self.axis(axis)}.stop"
            case Quotient(numerator=left, denominator=right):
                return f"({self.operand(left)} // {self.operand(right)})"
            case Remainder(numerator=left, denominator=right):
                return f"({self.operand(left)} % {self.operand(right)})"
            case Product(left=left, right=right):
                return f"({self.operand(left)} * {self.operand(right)})"
            case Least(left=left, right=right):
                return f"min({self.affine(left)}, {self.affine(right)})"
            case Greatest(left=left, right=right):
                return f"max({self.affine(left)}, {self.affine(right)})"
            case _:
                assert_never(a)


def _symbol(name: str, fallback: str, taken: set[str]) -> str:
    readable = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    symbol = next((s for s in (name, name.lower()) if readable and s not in taken), fallback)
    while symbol in taken:
        symbol += "_"
    taken.add(symbol)
    return symbol


def _sign(number: int, follows: bool) -> str:
    if follows:
        return " - " if number < 0 else " + "
    return "-" if number < 0 else ""


def _policy(math: MathPolicy) -> str:
    flags = f"{' reassociate' if math.reassociate else ''}{' contract' if math.contract else ''}"
    return flags + (f" max_ulp {math.max_ulp!r}" if math.max_ulp else "")
