"""Small programs built by hand, one for each shape of program that the tests need.
Must not use the front end: what a program means is tested without the language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from autotune.ir.affine import Affine, as_affine, coord, dim
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
    Number,
    Parameter,
    Program,
    Reduce,
    Reindex,
    Scalar,
    ScalarArgument,
    Statement,
    Store,
    Tensor,
    Value,
    While,
)
from autotune.ir.types import COMPARISONS, DEFAULT_MAX_ULP, REASSOCIATING, STRICT, DType, MathPolicy, Op, ReduceOp

F32 = DType.F32


class Builder:
    """Writes a program statement by statement and keeps its numbering dense."""

    def __init__(self, name: str, *dims: str) -> None:
        self.name = name
        self.dims = dims
        self.parameters: list[Parameter] = []
        self.axes: list[Axis] = []
        self.parallel: list[int] = []
        self.bodies: list[list[Statement]] = [[]]
        self.lets: dict[int, Let] = {}
        self.branches = 0

    def tensor(self, name: str, dtype: DType, *shape: str | int | Affine) -> int:
        extents = tuple(self.extent(s) for s in shape)
        self.parameters.append(Tensor(name=name, dtype=dtype, shape=extents))
        return len(self.parameters) - 1

    def scalar(self, name: str, dtype: DType = F32, default: Number | None = None) -> int:
        self.parameters.append(Scalar(name=name, dtype=dtype, default=default))
        return len(self.parameters) - 1

    def extent(self, size: str | int | Affine) -> Affine:
        return dim(self.dims.index(size)) if isinstance(size, str) else as_affine(size)

    def axis(self, kind: AxisKind, extent: str | int | Affine, name: str = "", **more: int | Affine) -> int:
        number = len(self.axes)
        start, step = as_affine(more.get("start", 0)), more.get("step", 1)
        assert isinstance(step, int)
        self.axes.append(
            Axis(id=number, kind=kind, extent=self.extent(extent), name=name or f"a{number}", start=start, step=step)
        )
        if kind in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE):
            self.parallel.append(number)
        return number

    def program_axis(self, extent: str | int | Affine, name: str = "") -> int:
        return self.axis(AxisKind.PROGRAM, extent, name)

    def full(self, extent: str | int | Affine, name: str = "") -> int:
        return self.axis(AxisKind.FULL, extent, name)

    def while_axis(self, name: str = "") -> int:
        return self.axis(AxisKind.WHILE, Affine(), name)

    def let(self, value: Value, dtype: DType, axes: Sequence[int] = ()) -> int:
        number = len(self.lets)
        self.lets[number] = Let(id=number, value=value, dtype=dtype, axes=tuple(sorted(axes)), line=number + 2)
        self.bodies[-1].append(self.lets[number])
        return number

    def const(self, value: Number, dtype: DType = F32) -> int:
        return self.let(Const(value=value), dtype)

    def argument(self, parameter: int) -> int:
        return self.let(ScalarArgument(parameter=parameter), self.parameters[parameter].dtype)

    def index(self, expression: Affine) -> int:
        return self.let(IndexValue(expression=expression), DType.I64, expression.axes())

    def load(self, tensor: int, *index: Affine | Indirect | int, fill: Number = 0) -> int:
        entries: list[Index] = [as_affine(i) if isinstance(i, int) else i for i in index]
        axes: set[int] = set()
        for entry in entries:
            axes |= set(self.lets[entry.value].axes) if isinstance(entry, Indirect) else entry.axes()
        dtype = self.parameters[tensor].dtype
        typed_fill = float(fill) if dtype.is_float else bool(fill) if dtype is DType.BOOL else int(fill)
        return self.let(Load(tensor=tensor, index=tuple(entries), fill=typed_fill), dtype, axes)

    def op(self, op: Op, *args: int, dtype: DType | None = None, math: MathPolicy | None = None) -> int:
        axes = {a for arg in args for a in self.lets[arg].axes}
        result = dtype or (DType.BOOL if op in COMPARISONS else self.lets[args[-1]].dtype)
        policy = math or (MathPolicy(max_ulp=DEFAULT_MAX_ULP[op]) if op in DEFAULT_MAX_ULP else STRICT)
        return self.let(Elementwise(op=op, args=args, math=policy), result, axes)

    def cast(self, value: int, dtype: DType) -> int:
        return self.op(Op.CAST, value, dtype=dtype)

    def reduce(self, op: ReduceOp, body: int, *axes: int, init: int | None = None, ordered: bool = False) -> int:
        left = set(self.lets[body].axes) - set(axes)
        dtype = DType.I64 if op is ReduceOp.ARGMAX else self.lets[body].dtype
        math = REASSOCIATING if op in (ReduceOp.SUM, ReduceOp.PROD) and not ordered else STRICT
        return self.let(Reduce(op=op, body=body, axes=axes, init=init, ordered=ordered, math=math), dtype, left)

    def reindex(self, value: int, source: int, target: int) -> int:
        axes = {target if a == source else a for a in self.lets[value].axes}
        return self.let(Reindex(value=value, source=source, target=target), self.lets[value].dtype, axes)

    def dot(self, lhs: int, rhs: int, *k: int, init: int | None = None, ordered: bool = False) -> int:
        """A contraction over the axes `k`."""
        left, right = set(self.lets[lhs].axes), set(self.lets[rhs].axes)
        body = self.op(Op.MUL, lhs, rhs)
        contraction = Contraction(
            lhs=lhs,
            rhs=rhs,
            batch=tuple(sorted((left & right) - set(k))),
            m=tuple(sorted(left - right)),
            n=tuple(sorted(right - left)),
            k=tuple(sorted(k)),
            accumulator=self.lets[body].dtype,
        )
        value = Reduce(
            op=ReduceOp.SUM,
            body=body,
            axes=k,
            init=init,
            ordered=ordered,
            math=STRICT if ordered else REASSOCIATING,
            contraction=contraction,
        )
        return self.let(value, self.lets[body].dtype, (left | right) - set(k))

    @contextmanager
    def loop(self, axis: int, *initial: int, axes: Sequence[Sequence[int]] | None = None) -> Iterator[Loop]:
        """A loop; assign `updated` before it closes, read `final(slot)` afterwards."""
        state_axes = [tuple(a) for a in axes] if axes else [self.lets[i].axes for i in initial]
        dtypes = [self.lets[i].dtype for i in initial]
        self.bodies.append([])
        loop = Loop(self, axis, state_axes, dtypes)
        yield loop
        body, carries = tuple(self.bodies.pop()), self.carries(loop, initial)
        merge = None if loop.rule is None else self.merge(loop, loop.rule)
        self.bodies[-1].append(For(axis=axis, carries=carries, body=body, merge=merge, line=1))

    def carries(self, loop: Loop, initial: Sequence[int]) -> tuple[Carry, ...]:
        return tuple(
            Carry(initial=i, updated=u, dtype=t, axes=a)
            for i, u, t, a in zip(initial, loop.updated, loop.dtypes, loop.axes, strict=True)
        )

    def merge(self, loop: Loop, rule: Rule) -> Merge:
        self.bodies.append([])
        earlier, later = (
            [
                self.let(MergeSide(axis=loop.axis, side=side, slot=slot), dtype, axes)
                for slot, (dtype, axes) in enumerate(zip(loop.dtypes, loop.axes, strict=True))
            ]
            for side in (0, 1)
        )
        merged = tuple(rule(earlier, later))
        return Merge(body=tuple(self.bodies.pop()), merged=merged)

    @contextmanager
    def while_loop(self, axis: int, *initial: int, axes: Sequence[Sequence[int]] | None = None) -> Iterator[WhileTrip]:
        """A while loop; the test comes first, `body(condition)` ends it, `updated` is assigned before it closes."""
        state_axes = [tuple(a) for a in axes] if axes else [self.lets[i].axes for i in initial]
        self.bodies.append([])
        loop = WhileTrip(self, axis, state_axes, [self.lets[i].dtype for i in initial])
        yield loop
        body, test = tuple(self.bodies.pop()), tuple(self.bodies.pop())
        carries = self.carries(loop, initial)
        self.bodies[-1].append(
            While(axis=axis, carries=carries, test=test, condition=loop.condition, body=body, line=1)
        )

    @contextmanager
    def branch(self, condition: int) -> Iterator[Arms]:
        """An if; the first arm comes first, `otherwise()` ends it; `pairs` name what the two arms leave behind."""
        arms = Arms(self, self.branches)
        self.branches += 1
        self.bodies.append([])
        yield arms
        otherwise, then = tuple(self.bodies.pop()), tuple(self.bodies.pop())
        arms.choices = tuple(self.choice(condition, a, b) for a, b in arms.pairs)
        self.bodies[-1].append(
            If(
                branch=arms.number,
                condition=condition,
                choices=arms.choices,
                then=then,
                otherwise=otherwise,
                line=1,
            )
        )

    def choice(self, condition: int, then: int, otherwise: int) -> Choice:
        axes = {a for v in (condition, then, otherwise) for a in self.lets[v].axes}
        return Choice(then=then, otherwise=otherwise, dtype=self.lets[then].dtype, axes=tuple(sorted(axes)))

    def store(self, tensor: int, value: int, *index: Affine | int, mask: int | None = None) -> None:
        entries = tuple(as_affine(i) for i in index)
        self.bodies[-1].append(Store(tensor=tensor, index=entries, value=value, mask=mask, line=len(self.lets) + 2))

    def build(self) -> Program:
        (body,) = self.bodies
        return Program(
            name=self.name,
            dims=self.dims,
            parameters=tuple(self.parameters),
            axes=tuple(self.axes),
            parallel=tuple(self.parallel),
            body=tuple(body),
        )


class Loop:
    """State of a loop under construction."""

    def __init__(self, builder: Builder, axis: int, axes: list[tuple[int, ...]], dtypes: list[DType]) -> None:
        self.builder, self.axis, self.axes, self.dtypes = builder, axis, axes, dtypes
        self.updated: tuple[int, ...] = ()
        self.rule: Rule | None = None

    def carried(self, slot: int) -> int:
        return self.builder.let(Carried(axis=self.axis, slot=slot), self.dtypes[slot], self.axes[slot])

    def final(self, slot: int) -> int:
        return self.builder.let(Final(axis=self.axis, slot=slot), self.dtypes[slot], self.axes[slot])


Rule: TypeAlias = Callable[[list[int], list[int]], Sequence[int]]
"""Writes a merge rule: the states of both sides to the merged state."""


class WhileTrip(Loop):
    """State of a while loop under construction."""

    condition = -1

    def body(self, condition: int) -> None:
        self.condition = condition
        self.builder.bodies.append([])


class Arms:
    """A branch under construction."""

    def __init__(self, builder: Builder, number: int) -> None:
        self.builder, self.number = builder, number
        self.pairs: list[tuple[int, int]] = []
        self.choices: tuple[Choice, ...] = ()

    def otherwise(self) -> None:
        self.builder.bodies.append([])

    def joined(self, slot: int) -> int:
        choice = self.choices[slot]
        return self.builder.let(Joined(branch=self.number, slot=slot), choice.dtype, choice.axes)


def masked_softmax() -> Program:
    b = Builder("masked_softmax", "M", "N")
    x, mask, y = b.tensor("x", F32, "M", "N"), b.tensor("mask", DType.BOOL, "M", "N"), b.tensor("y", F32, "M", "N")
    row, n = b.program_axis("M", "row"), b.full("N", "n")
    s = b.op(Op.WHERE, b.load(mask, coord(row), coord(n)), b.load(x, coord(row), coord(n)), b.const(float("-inf")))
    e = b.op(Op.EXP, b.op(Op.SUB, s, b.reduce(ReduceOp.MAX, s, n)))
    b.store(y, b.op(Op.DIV, e, b.reduce(ReduceOp.SUM, e, n)), coord(row), coord(n))
    return b.build()


def rmsnorm() -> Program:
    b = Builder("rmsnorm", "M", "N")
    x, w, y = b.tensor("x", F32, "M", "N"), b.tensor("w", F32, "N"), b.tensor("y", F32, "M", "N")
    eps = b.scalar("eps", default=1e-5)
    row, n = b.program_axis("M", "row"), b.full("N", "n")
    v = b.load(x, coord(row), coord(n))
    total = b.reduce(ReduceOp.SUM, b.op(Op.MUL, v, v), n)
    mean = b.op(Op.DIV, total, b.cast(b.index(dim(1)), F32))
    scale = b.op(Op.RSQRT, b.op(Op.ADD, mean, b.argument(eps)))
    b.store(y, b.op(Op.MUL, b.op(Op.MUL, v, scale), b.load(w, coord(n))), coord(row), coord(n))
    return b.build()


def tiled_sum() -> Program:
    """Sum of every row, tile by tile, into a carried accumulator."""
    b = Builder("tiled_sum", "M", "N")
    x, y = b.tensor("x", F32, "M", "N"), b.tensor("y", F32, "M")
    row, j = b.program_axis("M", "row"), b.axis(AxisKind.TILE, "N", "j")
    with b.loop(j, b.const(0.0), axes=[(row,)]) as loop:
        part = b.reduce(ReduceOp.SUM, b.load(x, coord(row), coord(j)), j)
        loop.updated = (b.op(Op.ADD, loop.carried(0), part),)
    b.store(y, loop.final(0), coord(row))
    return b.build()


def shifted() -> Program:
    """Difference of neighbours; past the end stands the fill value 2."""
    b = Builder("shifted", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    i = b.axis(AxisKind.PROGRAM_TILE, "N", "i")
    b.store(y, b.op(Op.SUB, b.load(x, coord(i) + 1, fill=2), b.load(x, coord(i))), coord(i))
    return b.build()


def rope() -> Program:
    """Rotation of the two halves of every row by tabulated angles."""
    b = Builder("rope", "H", "T", "D")
    x, angle, y = (
        b.tensor("x", F32, "H", "T", "D"),
        b.tensor("angle", F32, "T", dim(2) // 2),
        b.tensor("y", F32, "H", "T", "D"),
    )
    h, t = b.program_axis("H", "h"), b.program_axis("T", "t")
    d, half = b.full(dim(2) // 2, "d"), dim(2) // 2
    low, high = b.load(x, coord(h), coord(t), coord(d)), b.load(x, coord(h), coord(t), coord(d) + half)
    a = b.load(angle, coord(t), coord(d))
    c, s = b.op(Op.COS, a), b.op(Op.SIN, a)
    b.store(y, b.op(Op.SUB, b.op(Op.MUL, low, c), b.op(Op.MUL, high, s)), coord(h), coord(t), coord(d))
    b.store(y, b.op(Op.ADD, b.op(Op.MUL, high, c), b.op(Op.MUL, low, s)), coord(h), coord(t), coord(d) + half)
    return b.build()


def gather() -> Program:
    """One entry of every row, chosen by an integer tensor; -1 where the label leaves the row."""
    b = Builder("gather", "M", "N")
    x, label, y = b.tensor("x", F32, "M", "N"), b.tensor("label", DType.I32, "M"), b.tensor("y", F32, "M")
    row = b.program_axis("M", "row")
    chosen = Indirect(value=b.load(label, coord(row)))
    b.store(y, b.load(x, coord(row), chosen, fill=-1), coord(row))
    return b.build()


def column_softmax() -> Program:
    b = Builder("column_softmax", "M", "N")
    x, y = b.tensor("x", F32, "M", "N"), b.tensor("y", F32, "M", "N")
    column, m = b.axis(AxisKind.PROGRAM_TILE, "N", "column"), b.full("M", "m")
    v = b.load(x, coord(m), coord(column))
    e = b.op(Op.EXP, b.op(Op.SUB, v, b.reduce(ReduceOp.MAX, v, m)))
    b.store(y, b.op(Op.DIV, e, b.reduce(ReduceOp.SUM, e, m)), coord(m), coord(column))
    return b.build()


def outer_product() -> Program:
    """v vᵀ of every row: the row meets itself on a fresh axis."""
    b = Builder("outer_product", "M", "N")
    x, y = b.tensor("x", F32, "M", "N"), b.tensor("y", F32, "M", "N", "N")
    row, i, j = b.program_axis("M", "row"), b.full("N", "i"), b.full("N", "j")
    v = b.load(x, coord(row), coord(i))
    b.store(y, b.op(Op.MUL, v, b.reindex(v, i, j)), coord(row), coord(i), coord(j))
    return b.build()


def prefix_sum() -> Program:
    """Sum of the entries up to the row's own number: a range loop whose length differs between programs."""
    b = Builder("prefix_sum", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    row = b.program_axis("N", "row")
    k = b.axis(AxisKind.RANGE, coord(row) + 1, "k")
    with b.loop(k, b.const(0.0), axes=[(row,)]) as loop:
        loop.updated = (b.op(Op.ADD, loop.carried(0), b.load(x, coord(k))),)
    b.store(y, loop.final(0), coord(row))
    return b.build()


def block_dependent() -> Program:
    """Keeps the maximum of the last tile only: the answer depends on the block size."""
    b = Builder("block_dependent", "M", "N")
    x, y = b.tensor("x", F32, "M", "N"), b.tensor("y", F32, "M")
    row, j = b.program_axis("M", "row"), b.axis(AxisKind.TILE, "N", "j")
    with b.loop(j, b.const(0.0), axes=[(row,)]) as loop:
        loop.updated = (b.reduce(ReduceOp.MAX, b.load(x, coord(row), coord(j)), j),)
    b.store(y, loop.final(0), coord(row))
    return b.build()


def row_argmax() -> Program:
    b = Builder("row_argmax", "M", "N")
    x, y = b.tensor("x", F32, "M", "N"), b.tensor("y", DType.I64, "M")
    row, n = b.program_axis("M", "row"), b.full("N", "n")
    b.store(y, b.reduce(ReduceOp.ARGMAX, b.load(x, coord(row), coord(n)), n), coord(row))
    return b.build()


ALL = (
    masked_softmax,
    rmsnorm,
    tiled_sum,
    shifted,
    rope,
    gather,
    column_softmax,
    outer_product,
    prefix_sum,
    block_dependent,
    row_argmax,
)
