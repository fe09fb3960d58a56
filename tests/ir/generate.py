"""Random well-formed programs for property tests.
Must not promise that they compute anything useful, only that their form is right."""

from __future__ import annotations

from hypothesis import strategies as st

from autotune.ir.affine import Affine, Start, Stop, as_affine, atom, coord, dim, greatest, least
from autotune.ir.program import AxisKind, IndexValue, Indirect, Program
from autotune.ir.types import DType, Op, ReduceOp
from tests.ir.programs import Builder

NAMES = st.sampled_from(["x", "y", "min", "init", "N", "n", "a1", "t0", "", "two words", "π", "final"])
FLOATS = st.floats(allow_nan=False)


@st.composite
def affines(draw: st.DrawFn, leaves: list[Affine], depth: int = 2) -> Affine:
    """Index expressions over the given leaves."""
    total = as_affine(draw(st.integers(-9, 9)))
    for _ in range(draw(st.integers(0, 2))):
        leaf = draw(st.sampled_from(leaves))
        if depth and draw(st.booleans()):
            left, right = draw(affines(leaves, depth - 1)), draw(affines(leaves, depth - 1))
            kinds = [least(left, right), greatest(left, right), left * right]
            kinds += [] if right == as_affine(0) else [left // right, left % right]
            leaf = draw(st.sampled_from(kinds))
        total = total + leaf.scaled(draw(st.integers(-3, 3)))
    return total


class _Writer:
    """One random program: an input of two dimensions, integer labels, a scalar, one output;
    then perhaps a loop, a branch and a while loop."""

    def __init__(self, draw: st.DrawFn, *, control: bool) -> None:
        self.draw, self.control = draw, control
        b = self.b = Builder(draw(NAMES), draw(NAMES), draw(NAMES))
        self.x = b.tensor(draw(NAMES), draw(st.sampled_from([DType.F32, DType.F64])), dim(0), dim(1))
        self.dtype = b.parameters[self.x].dtype
        self.label = b.tensor(draw(NAMES), DType.I32, dim(0))
        self.s = b.scalar(draw(NAMES), self.dtype, draw(st.none() | FLOATS))
        self.y = b.tensor(draw(NAMES), self.dtype, dim(0))
        self.row = b.axis(draw(st.sampled_from([AxisKind.PROGRAM, AxisKind.PROGRAM_TILE])), dim(0), draw(NAMES))
        self.column = b.full(dim(1), draw(NAMES))
        block = [atom(Start(axis=self.row)), atom(Stop(axis=self.row))]
        self.leaves = [dim(0), dim(1), coord(self.row), coord(self.column), *block]
        self.rows: list[int] = []
        self.planes: list[int] = []

    def write(self) -> Program:
        self.rows = [self.b.argument(self.s), self.b.const(self.draw(FLOATS), self.dtype)]
        self.load(self.column, self.leaves)
        for _ in range(self.draw(st.integers(1, 6))):
            self.step(self.column, self.leaves)
        if self.draw(st.booleans()):
            self.loop()
        for part in (self.branch, self.while_loop):
            if self.control and self.draw(st.booleans()):
                part()
        result = self.b.op(Op.ADD, self.draw(st.sampled_from(self.rows)), self.rows[0])
        mask = self.b.op(Op.LT, result, self.rows[0]) if self.draw(st.booleans()) else None
        self.b.store(self.y, result, coord(self.row), mask=mask)
        return self.b.build()

    def load(self, axis: int, leaves: list[Affine]) -> None:
        first = (
            Indirect(value=self.b.load(self.label, coord(self.row))) if self.draw(st.booleans()) else coord(self.row)
        )
        second = coord(axis) + self.draw(affines([a for a in leaves if a != coord(self.column) or axis == self.column]))
        if second.coefficient(axis) != 0:
            self.planes.append(self.b.load(self.x, first, second, fill=self.draw(FLOATS)))

    def step(self, axis: int, leaves: list[Affine]) -> None:
        draw, b = self.draw, self.b
        match draw(st.sampled_from(["load", "unary", "binary", "where", "reduce", "dot"])):
            case "load":
                self.load(axis, leaves)
            case "unary":
                self.add(b.op(draw(st.sampled_from([Op.NEG, Op.EXP, Op.SQRT, Op.TANH])), self.any()), axis)
            case "binary":
                self.add(
                    b.op(draw(st.sampled_from([Op.ADD, Op.MUL, Op.DIV, Op.MAXIMUM])), self.any(), self.any()), axis
                )
            case "where":
                a, c = self.any(), self.any()
                self.add(b.op(Op.WHERE, b.op(Op.LT, a, c), c, a), axis)
            case "reduce":
                plane = [p for p in self.planes if axis in b.lets[p].axes]
                if plane:
                    init = draw(st.none() | st.just(self.rows[0]))
                    op, ordered = draw(st.sampled_from([ReduceOp.SUM, ReduceOp.MAX])), draw(st.booleans())
                    self.rows.append(b.reduce(op, draw(st.sampled_from(plane)), axis, init=init, ordered=ordered))

            case "dot":
                plane = [p for p in self.planes if axis in b.lets[p].axes]
                if plane:
                    left, right = draw(st.sampled_from(plane)), draw(st.sampled_from(plane))
                    init, ordered = draw(st.none() | st.just(self.rows[0])), draw(st.booleans())
                    self.rows.append(b.dot(left, right, axis, init=init, ordered=ordered))

    def any(self) -> int:
        return self.draw(st.sampled_from([*self.rows, *self.planes]))

    def add(self, value: int, axis: int) -> None:
        (self.planes if axis in self.b.lets[value].axes else self.rows).append(value)

    def loop(self) -> None:
        kind = self.draw(st.sampled_from([AxisKind.TILE, AxisKind.RANGE]))
        start = self.draw(affines([dim(0)])) if kind is AxisKind.RANGE else 0
        step = self.draw(st.sampled_from([1, 2, -1])) if kind is AxisKind.RANGE else 1
        extent = self.draw(affines([dim(0), dim(1), atom(Stop(axis=self.row))]))
        axis = self.b.axis(kind, extent, self.draw(NAMES), start=start, step=step)
        outside = list(self.rows), list(self.planes)
        initial = self.draw(st.sampled_from(self.rows))
        self.planes = []
        with self.b.loop(axis, initial, axes=[(self.row,)]) as loop:
            self.rows.append(loop.carried(0))
            for _ in range(self.draw(st.integers(1, 4)) if kind is AxisKind.TILE else 0):
                self.step(axis, [*self.leaves, coord(axis), atom(Start(axis=axis))])
            loop.updated = (self.b.op(Op.ADD, self.rows[-1], self.draw(st.sampled_from(self.rows))),)
            if self.control and self.draw(st.booleans()):
                loop.rule = lambda earlier, later: [self.b.op(Op.MAXIMUM, earlier[0], later[0])]
        self.rows, self.planes = outside
        self.rows.append(loop.final(0))

    def condition(self) -> int:
        """A truth value of a program; a tile of programs has one where the index of a block decides."""
        b = self.b
        if b.axes[self.row].kind is AxisKind.PROGRAM_TILE:
            first = b.let(IndexValue(expression=atom(Start(axis=self.row))), DType.I64)
            return b.op(Op.LT, first, b.index(dim(0)))
        return b.op(Op.LT, self.draw(st.sampled_from(self.rows)), self.rows[0])

    def branch(self) -> None:
        outside = list(self.rows), list(self.planes)
        with self.b.branch(self.condition()) as arms:
            first = self.any_row_after_steps()
            arms.otherwise()
            self.rows, self.planes = list(outside[0]), list(outside[1])
            arms.pairs = [(first, self.any_row_after_steps())]
        self.rows, self.planes = outside
        self.rows.append(arms.joined(0))

    def any_row_after_steps(self) -> int:
        for _ in range(self.draw(st.integers(0, 3))):
            self.step(self.column, self.leaves)
        return self.draw(st.sampled_from(self.rows))

    def while_loop(self) -> None:
        outside = list(self.rows), list(self.planes)
        initial = self.draw(st.sampled_from(self.rows))
        with self.b.while_loop(self.b.while_axis(self.draw(NAMES)), initial, axes=[(self.row,)]) as loop:
            loop.body(self.condition())
            self.rows.append(loop.carried(0))
            loop.updated = (self.any_row_after_steps(),)
        self.rows, self.planes = outside
        self.rows.append(loop.final(0))


@st.composite
def whole_programs(draw: st.DrawFn, *, control: bool = True) -> Program:
    """A program that passes the verifier; without `control` it has no branches, while loops and merge rules."""
    return _Writer(draw, control=control).write()
