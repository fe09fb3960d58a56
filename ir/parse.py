"""Reading the text of a program back.
Must not know whether a program makes sense; `verify.py` does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TypeVar

from autotune.ir.affine import (
    Affine,
    Coord,
    Dim,
    Greatest,
    Least,
    Product,
    Quotient,
    Remainder,
    Start,
    Stop,
    atom,
)
from autotune.ir.errors import UnreadableText
from autotune.ir.program import (
    Axis,
    AxisKind,
    Carried,
    Carry,
    Choice,
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
    Merge,
    MergeSide,
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
from autotune.ir.text import zero_of
from autotune.ir.tokens import TextLine
from autotune.ir.types import DType, MathPolicy, Op, ReduceOp

_DTYPES = {dtype.value: dtype for dtype in DType}
_KINDS = {kind.value: kind for kind in AxisKind}
_OPS = {op.value: op for op in Op}
_REDUCTIONS = {op.value: op for op in ReduceOp}

_BETWEEN = frozenset({"merge", "do", "else"})  # lines that stand between two regions of one statement

T = TypeVar("T")


def parse(text: str) -> Program:
    """The program that `print_program` or `canonical` wrote; a canonical text gives its letters as names.

    Raises: UnreadableText with the line and what was expected there.
    """
    return _Parser(
        lines=[TextLine.of(k, line) for k, line in enumerate(text.splitlines(), 1) if line.strip()]
    ).program()


@dataclass(slots=True)
class _Parser:
    lines: list[TextLine]
    at: int = 0
    dims: dict[str, int] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    axes: dict[str, int] = field(default_factory=dict)
    dtypes: list[DType] = field(default_factory=list)

    def program(self) -> Program:
        titles = [json.loads(_whole(line, line.take())) for line in self.block("program")]
        dims = self.declarations(self.block("dim"), self.dims)
        heads = self.block("tensor", "scalar")
        names = self.declarations(heads, self.parameters)
        parameters = [self.parameter(line, name) for line, name in zip(heads, names, strict=True)]
        self.dtypes = [p.dtype for p in parameters]
        heads = self.block("axis")
        names = self.declarations(heads, self.axes)  # an extent may name an axis declared further down
        axes = [self.axis(k, line, name) for k, (line, name) in enumerate(zip(heads, names, strict=True))]
        (parallel,) = self.block("parallel") or [self.missing("a line 'parallel ...'")]
        body_axes = []
        while parallel.next:
            body_axes.append(parallel.one_of(self.axes, "an axis"))
        body = self.region(0)
        if self.at < len(self.lines):
            raise self.lines[self.at].unreadable("a statement no deeper than the one before")
        return Program(
            name=titles[0] if titles else "",
            dims=tuple(dims),
            parameters=tuple(parameters),
            axes=tuple(axes),
            parallel=tuple(body_axes),
            body=body,
        )

    def block(self, *heads: str) -> list[TextLine]:
        """The next lines that start with one of these words; all but `tensor`, `scalar` past that word."""
        start = self.at
        while self.at < len(self.lines) and self.lines[self.at].next in heads:
            self.at += 1
        found = self.lines[start : self.at]
        for line in found:
            line.head = line.take()
        return found

    def missing(self, expected: str) -> TextLine:
        if self.at < len(self.lines):
            raise self.lines[self.at].unreadable(expected)
        raise UnreadableText(line=len(self.lines), text="the end of the text", expected=expected)

    # --- declarations ---------------------------------------------------------------------------------------------

    def declarations(self, lines: list[TextLine], symbols: dict[str, int]) -> list[str]:
        names = []
        for number, line in enumerate(lines):
            symbol, name = line.declared()
            symbols[symbol] = number
            names.append(name)
        return names

    def parameter(self, line: TextLine, name: str) -> Parameter:
        line.expect(":")
        dtype = line.one_of(_DTYPES, "an element type")
        if line.head == "scalar":
            default = line.number_literal() if line.accept("=") else None
            return _whole(line, Scalar(name=name, dtype=dtype, default=default))
        shape = line.listed(lambda: self.affine(line), "[", "]")
        strides = line.listed(line.integer, "[", "]") if line.accept("strides") else None
        return _whole(line, Tensor(name=name, dtype=dtype, shape=shape, strides=strides))

    def axis(self, number: int, line: TextLine, name: str) -> Axis:
        line.expect(":")
        kind = line.one_of(_KINDS, "a kind of axis")
        extent = Affine() if kind is AxisKind.WHILE and not line.next else self.affine(line)
        start = self.affine(line) if line.accept("start") else Affine()
        step = line.integer() if line.accept("step") else 1
        return _whole(line, Axis(id=number, kind=kind, extent=extent, start=start, step=step, name=name))

    # --- statements -----------------------------------------------------------------------------------------------

    def region(self, depth: int) -> Region:
        found: list[Statement] = []
        while self.at < len(self.lines) and self.lines[self.at].depth == depth:
            line = self.lines[self.at]
            if line.next in _BETWEEN:
                break
            self.at += 1
            found.append(self.statement(line))
        return tuple(found)

    def statement(self, line: TextLine) -> Statement:
        if line.next.startswith("%"):
            return self.let(line)
        if line.accept("store"):
            return self.store(line)
        if line.accept("for"):
            return self.loop(line)
        if line.accept("while"):
            return self.while_loop(line)
        if line.accept("if"):
            return self.branch(line)
        raise line.unreadable("a value, 'store', 'for', 'while' or 'if'")

    def let(self, line: TextLine) -> Let:
        number = line.value_number()
        line.expect("=")
        value = self.value(line)
        dtype, axes = self.type(line)
        return _whole(line, Let(id=number, value=value, dtype=dtype, axes=axes, line=line.source_line()))

    def store(self, line: TextLine) -> Store:
        tensor, index = self.place(line)
        entries = tuple(i for i in index if isinstance(i, Affine))
        if len(entries) != len(index):
            raise line.unreadable("no store through an integer tensor")
        value = line.value_number()
        mask = line.value_number() if line.accept("mask") else None
        return _whole(line, Store(tensor=tensor, index=entries, value=value, mask=mask, line=line.source_line()))

    def loop(self, line: TextLine) -> For:
        axis, carries = line.one_of(self.axes, "an axis"), self.carries(line)
        source_line = _whole(line, line.source_line())
        body = self.region(line.depth + 1)
        return For(axis=axis, carries=carries, body=body, merge=self.merge(line.depth), line=source_line)

    def merge(self, depth: int) -> Merge | None:
        """The merge rule of a loop, where the next line starts one."""
        line = self.between(depth, "merge")
        if line is None:
            return None
        merged = []
        while line.next:
            merged.append(line.value_number())
        return Merge(body=self.region(depth + 1), merged=tuple(merged))

    def while_loop(self, line: TextLine) -> While:
        axis, condition = line.one_of(self.axes, "an axis"), line.value_number()
        carries, source_line = self.carries(line), _whole(line, line.source_line())
        test = self.region(line.depth + 1)
        _whole(self.between(line.depth, "do") or self.missing("a line 'do'"), None)
        body = self.region(line.depth + 1)
        return While(axis=axis, carries=carries, test=test, condition=condition, body=body, line=source_line)

    def branch(self, line: TextLine) -> If:
        number, condition, choices = line.integer(), line.value_number(), list[Choice]()
        while line.accept("choice") or (choices and line.accept(",") and line.accept("choice")):
            then, otherwise = line.value_number(), line.value_number()
            dtype, axes = self.type(line)
            choices.append(Choice(then=then, otherwise=otherwise, dtype=dtype, axes=axes))
        source_line = _whole(line, line.source_line())
        first = self.region(line.depth + 1)
        _whole(self.between(line.depth, "else") or self.missing("a line 'else'"), None)
        return If(
            branch=number,
            condition=condition,
            choices=tuple(choices),
            then=first,
            otherwise=self.region(line.depth + 1),
            line=source_line,
        )

    def between(self, depth: int, word: str) -> TextLine | None:
        """The next line, past its first word, where that is `word` at this depth."""
        if self.at == len(self.lines) or self.lines[self.at].depth != depth or not self.lines[self.at].accept(word):
            return None
        self.at += 1
        return self.lines[self.at - 1]

    def carries(self, line: TextLine) -> tuple[Carry, ...]:
        carries: list[Carry] = []
        while line.accept("carry") or (carries and line.accept(",") and line.accept("carry")):
            initial = line.value_number()
            line.expect("->")
            updated = line.value_number()
            dtype, axes = self.type(line)
            carries.append(Carry(initial=initial, updated=updated, dtype=dtype, axes=axes))
        return tuple(carries)

    def type(self, line: TextLine) -> tuple[DType, tuple[int, ...]]:
        line.expect(":")
        dtype = line.one_of(_DTYPES, "an element type")
        return dtype, line.listed(lambda: line.one_of(self.axes, "an axis"), "(", ")")

    def place(self, line: TextLine) -> tuple[int, tuple[Index, ...]]:
        tensor = line.one_of(self.parameters, "a tensor")
        return tensor, line.listed(lambda: self.index(line), "[", "]")

    def index(self, line: TextLine) -> Index:
        return Indirect(value=line.value_number()) if line.next.startswith("%") else self.affine(line)

    # --- values ---------------------------------------------------------------------------------------------------

    def value(self, line: TextLine) -> Value:
        word = line.take()
        match word:
            case "const":
                return Const(value=line.number_literal())
            case "argument":
                return ScalarArgument(parameter=line.one_of(self.parameters, "a scalar"))
            case "index":
                return IndexValue(expression=self.affine(line))
            case "load":
                tensor, index = self.place(line)
                fill = line.number_literal() if line.accept("fill") else zero_of(self.dtypes[tensor])
                return Load(tensor=tensor, index=index, fill=fill)
            case "reduce":
                return self.reduce(line)
            case "reindex":
                value, source = line.value_number(), line.one_of(self.axes, "an axis")
                line.expect("->")
                return Reindex(value=value, source=source, target=line.one_of(self.axes, "an axis"))
            case "carried":
                return Carried(axis=self.slot_axis(line), slot=line.integer())
            case "final":
                return Final(axis=self.slot_axis(line), slot=line.integer())
            case "joined":
                branch = line.integer()
                line.expect("slot")
                return Joined(branch=branch, slot=line.integer())
            case "side":
                side = line.integer()
                line.expect("of")
                return MergeSide(axis=self.slot_axis(line), side=side, slot=line.integer())
            case _ if word in _OPS:
                args = []
                while line.next.startswith("%"):
                    args.append(line.value_number())
                return Elementwise(op=_OPS[word], args=tuple(args), math=self.policy(line))
            case _:
                line.at -= 1
                raise line.unreadable("an operation")

    def slot_axis(self, line: TextLine) -> int:
        axis = line.one_of(self.axes, "an axis")
        line.expect(".")
        return axis

    def reduce(self, line: TextLine) -> Reduce:
        op, body = line.one_of(_REDUCTIONS, "a reduction"), line.value_number()
        line.expect("over")
        axes: list[int] = []
        while line.next in self.axes:
            axes.append(line.one_of(self.axes, "an axis"))
        init = line.value_number() if line.accept("init") else None
        ordered, policy, contraction = line.accept("ordered"), self.policy(line), self.contraction(line)
        return Reduce(
            op=op, body=body, axes=tuple(axes), init=init, ordered=ordered, math=policy, contraction=contraction
        )

    def contraction(self, line: TextLine) -> Contraction | None:
        if not line.accept("contracting"):
            return None
        lhs, rhs = line.value_number(), line.value_number()
        batch, m, n, k = (self.role(line, role) for role in ("batch", "m", "n", "k"))
        line.expect("in")
        accumulator = line.one_of(_DTYPES, "an element type")
        return Contraction(lhs=lhs, rhs=rhs, batch=batch, m=m, n=n, k=k, accumulator=accumulator)

    def role(self, line: TextLine, word: str) -> tuple[int, ...]:
        line.expect(word)
        return line.listed(lambda: line.one_of(self.axes, "an axis"), "(", ")")

    def policy(self, line: TextLine) -> MathPolicy:
        reassociate, contract = line.accept("reassociate"), line.accept("contract")
        max_ulp = float(line.number_literal()) if line.accept("max_ulp") else 0.0
        return MathPolicy(reassociate=reassociate, contract=contract, max_ulp=max_ulp)

    # --- index expressions ----------------------------------------------------------------------------------------

    def affine(self, line: TextLine) -> Affine:
        total = self.term(line, -1 if line.accept("-") else 1)
        while line.next in ("+", "-"):
            total = total + self.term(line, 1 if line.take() == "+" else -1)
        return total

    def term(self, line: TextLine, sign: int) -> Affine:
        if not line.next.isdigit():
            return self.atom(line).scaled(sign)
        number = sign * line.integer()
        return self.atom(line).scaled(number) if line.accept("*") else Affine(constant=number)

    def atom(self, line: TextLine) -> Affine:
        if line.accept("("):
            return self.pair(line)
        word = line.next
        if word in ("min", "max"):
            line.take()
            left, right = line.listed(lambda: self.affine(line), "(", ")")
            return atom(Least(left=left, right=right) if word == "min" else Greatest(left=left, right=right))
        if word in self.dims:
            return atom(Dim(index=self.dims[line.take()]))
        axis = line.one_of(self.axes, "a dimension or an axis")
        if not line.accept("."):
            return atom(Coord(axis=axis))
        if line.accept("start"):
            return atom(Start(axis=axis))
        line.expect("stop")
        return atom(Stop(axis=axis))

    def pair(self, line: TextLine) -> Affine:
        """What stands in parentheses: two expressions and a sign, or one expression beside such a sign."""
        left = self.affine(line)
        if line.accept(")"):
            return left
        sign, right = line.take(), self.affine(line)
        line.expect(")")
        match sign:
            case "//":
                return atom(Quotient(numerator=left, denominator=right))
            case "%":
                return atom(Remainder(numerator=left, denominator=right))
            case "*":
                return atom(Product(left=left, right=right))
            case _:
                raise line.unreadable("'//', '%' or '*' between the two expressions in parentheses")


def _whole(line: TextLine, result: T) -> T:
    """`result`, once nothing is left on the line."""
    line.end()
    return result
