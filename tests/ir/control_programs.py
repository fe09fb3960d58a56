"""Small programs built by hand with contractions, branches, while loops and merge rules.
Must not use the front end: what a program means is tested without the language."""

from __future__ import annotations

from autotune.ir.affine import Stop, as_affine, atom, coord, dim, least
from autotune.ir.program import AxisKind, Program
from autotune.ir.types import DType, Op, ReduceOp
from tests.ir.programs import Builder, Rule

F32 = DType.F32
MINUS_INFINITY = float("-inf")


def matmul() -> Program:
    b = Builder("matmul", "M", "K", "N")
    x, w, y = b.tensor("a", F32, "M", "K"), b.tensor("b", F32, "K", "N"), b.tensor("c", F32, "M", "N")
    i, j = b.axis(AxisKind.PROGRAM_TILE, "M", "i"), b.axis(AxisKind.PROGRAM_TILE, "N", "j")
    k = b.axis(AxisKind.TILE, "K", "k")
    with b.loop(k, b.const(0.0), axes=[(i, j)]) as loop:
        part = b.dot(b.load(x, coord(i), coord(k)), b.load(w, coord(k), coord(j)), k)
        loop.updated = (b.op(Op.ADD, loop.carried(0), part),)
    b.store(y, loop.final(0), coord(i), coord(j))
    return b.build()


def batched_strict_dot() -> Program:
    """Ordered contraction over two axes of a batch, starting from a bias."""
    b = Builder("batched_strict_dot", "B", "M", "K", "L")
    x, w = b.tensor("x", F32, "B", "M", "K", "L"), b.tensor("w", F32, "B", "K", "L")
    bias, y = b.tensor("bias", F32, "M"), b.tensor("y", F32, "B", "M")
    row, m, k, n = b.program_axis("B", "row"), b.full("M", "m"), b.full("K", "k"), b.full("L", "l")
    left = b.load(x, coord(row), coord(m), coord(k), coord(n))
    right = b.load(w, coord(row), coord(k), coord(n))
    start = b.load(bias, coord(m))
    b.store(y, b.dot(left, right, k, n, init=start, ordered=True), coord(row), coord(m))
    return b.build()


def online_softmax(b: Builder) -> Rule:
    """The rule for (max, sum, acc) states: the other side where a maximum is -inf, even if the sums are NaN."""

    def rule(earlier: list[int], later: list[int]) -> list[int]:
        top = b.op(Op.MAXIMUM, earlier[0], later[0])
        empty = [b.op(Op.EQ, side[0], b.const(MINUS_INFINITY)) for side in (earlier, later)]
        scale = [b.op(Op.EXP, b.op(Op.SUB, side[0], top)) for side in (earlier, later)]
        merged = [top]
        for first, second in zip(earlier[1:], later[1:], strict=True):
            both = b.op(Op.ADD, b.op(Op.MUL, first, scale[0]), b.op(Op.MUL, second, scale[1]))
            merged.append(b.op(Op.WHERE, empty[0], second, b.op(Op.WHERE, empty[1], first, both)))
        return merged

    return rule


def attention(*, first_max: float = MINUS_INFINITY, wrong_rule: bool = False) -> Program:
    """Causal attention with grouped heads, masked bottom-right."""
    b = Builder("attention", "B", "Hq", "Hkv", "Q", "K", "D", "Dv")
    q, k = b.tensor("q", F32, "B", "Hq", "Q", "D"), b.tensor("k", F32, "B", "Hkv", "K", "D")
    v, out = b.tensor("v", F32, "B", "Hkv", "K", "Dv"), b.tensor("out", F32, "B", "Hq", "Q", "Dv")
    batch, head, i = b.program_axis("B", "b"), b.program_axis("Hq", "h"), b.axis(AxisKind.PROGRAM_TILE, "Q", "i")
    d, dv = b.full("D", "d"), b.full("Dv", "dv")
    past, group = dim(4) - dim(3), dim(1) // dim(2)
    j = b.axis(AxisKind.TILE, least(dim(4), atom(Stop(axis=i)) + past), "j")
    queries, shared = b.load(q, coord(batch), coord(head), coord(i), coord(d)), coord(head) // group
    rows, initial = (batch, head, i), (b.const(first_max), b.const(0.0), b.const(0.0))
    with b.loop(j, *initial, axes=[rows, rows, (*rows, dv)]) as loop:
        m, total, acc = (loop.carried(slot) for slot in range(3))
        s = b.dot(queries, b.load(k, coord(batch), shared, coord(j), coord(d)), d)
        seen = b.op(Op.LE, b.index(coord(j)), b.index(coord(i) + past))
        s = b.op(Op.WHERE, seen, s, b.const(MINUS_INFINITY))
        top = b.op(Op.MAXIMUM, m, b.reduce(ReduceOp.MAX, s, j))
        p, alpha = b.op(Op.EXP, b.op(Op.SUB, s, top)), b.op(Op.EXP, b.op(Op.SUB, m, top))
        total = b.op(Op.ADD, b.op(Op.MUL, total, alpha), b.reduce(ReduceOp.SUM, p, j))
        values = b.load(v, coord(batch), shared, coord(j), coord(dv))
        loop.updated = (top, total, b.op(Op.ADD, b.op(Op.MUL, acc, alpha), b.dot(p, values, j)))
        loop.rule = _plain_sums(b) if wrong_rule else online_softmax(b)
    b.store(out, b.op(Op.DIV, loop.final(2), loop.final(1)), coord(batch), coord(head), coord(i), coord(dv))
    return b.build()


def _plain_sums(b: Builder) -> Rule:
    """The larger maximum, but sums that are not brought to it."""

    def rule(earlier: list[int], later: list[int]) -> list[int]:
        top = b.op(Op.MAXIMUM, earlier[0], later[0])
        return [top, *(b.op(Op.ADD, left, right) for left, right in zip(earlier[1:], later[1:], strict=True))]

    return rule


def collatz() -> Program:
    """Steps until each number is one: a while loop whose trips differ between programs."""
    b = Builder("collatz", "N")
    start, y = b.tensor("start", DType.I64, "N"), b.tensor("y", DType.I64, "N")
    row, trips = b.program_axis("N", "row"), b.while_axis("trips")
    with b.while_loop(trips, b.load(start, coord(row)), b.const(0, DType.I64), axes=[(row,), (row,)]) as loop:
        loop.body(b.op(Op.GT, loop.carried(0), b.const(1, DType.I64)))
        number, two = loop.carried(0), b.const(2, DType.I64)
        even = b.op(Op.EQ, b.op(Op.MOD, number, two), b.const(0, DType.I64))
        with b.branch(even) as arms:
            halved = b.op(Op.FLOORDIV, number, two)
            arms.otherwise()
            tripled = b.op(Op.MUL, number, b.const(3, DType.I64))
            arms.pairs = [(halved, b.op(Op.ADD, tripled, b.const(1, DType.I64)))]
        loop.updated = (arms.joined(0), b.op(Op.ADD, loop.carried(1), b.const(1, DType.I64)))
    b.store(y, loop.final(1), coord(row))
    return b.build()


def signed_sums() -> Program:
    """Sums of the positive and of the other entries of every row: a branch inside a loop that writes either carry."""
    b = Builder("signed_sums", "M", "N")
    x, up, down = b.tensor("x", F32, "M", "N"), b.tensor("up", F32, "M"), b.tensor("down", F32, "M")
    row, k = b.program_axis("M", "row"), b.axis(AxisKind.RANGE, "N", "k")
    with b.loop(k, b.const(0.0), b.const(0.0), axes=[(row,), (row,)]) as loop:
        first, second, v = loop.carried(0), loop.carried(1), b.load(x, coord(row), coord(k))
        with b.branch(b.op(Op.GT, v, b.const(0.0))) as arms:
            more = b.op(Op.ADD, first, v)
            arms.otherwise()
            arms.pairs = [(more, first), (second, b.op(Op.ADD, second, v))]
        loop.updated = (arms.joined(0), arms.joined(1))
    b.store(up, loop.final(0), coord(row))
    b.store(down, loop.final(1), coord(row))
    return b.build()


def swapped() -> Program:
    """Two carries change places every trip and a third one receives both: (a, b, c) becomes (b, a, a + b)."""
    b = Builder("swapped", "M", "T")
    x, y = b.tensor("x", F32, 2, "M"), b.tensor("y", F32, 3, "M")
    row, k = b.program_axis("M", "row"), b.axis(AxisKind.RANGE, "T", "k")
    rows = [(row,)] * 3
    with b.loop(k, b.load(x, 0, coord(row)), b.load(x, 1, coord(row)), b.const(-1.0), axes=rows) as loop:
        first, second = loop.carried(0), loop.carried(1)
        loop.updated = (second, first, b.op(Op.ADD, first, second))
    for slot in range(3):
        b.store(y, loop.final(slot), as_affine(slot), coord(row))
    return b.build()


def fanned_out() -> Program:
    """One carry is read into the updates of two: (a, b) becomes (a + 1, a)."""
    b = Builder("fanned_out", "M", "T")
    x, y = b.tensor("x", F32, "M"), b.tensor("y", F32, 2, "M")
    row, k = b.program_axis("M", "row"), b.axis(AxisKind.RANGE, "T", "k")
    with b.loop(k, b.load(x, coord(row)), b.const(9.0), axes=[(row,), (row,)]) as loop:
        first = loop.carried(0)
        loop.updated = (b.op(Op.ADD, first, b.const(1.0)), first)
    b.store(y, loop.final(0), as_affine(0), coord(row))
    b.store(y, loop.final(1), as_affine(1), coord(row))
    return b.build()


def stored_in_arms() -> Program:
    """Rows before the bound get their neighbour's double, the others 1: an arm's own index may leave the tensor."""
    b = Builder("stored_in_arms", "N")
    x, y, bound = b.tensor("x", F32, "N"), b.tensor("y", F32, "N"), b.scalar("bound", DType.I64)
    row = b.program_axis("N", "row")
    with b.branch(b.op(Op.LT, b.index(coord(row)), b.argument(bound))) as arms:
        v = b.load(x, coord(row) + 1)
        b.store(y, b.op(Op.ADD, v, v), coord(row) + 1)
        arms.otherwise()
        b.store(y, b.const(1.0), (coord(row) + 1) % dim(0))
    return b.build()


ALL = (
    matmul,
    batched_strict_dot,
    attention,
    collatz,
    signed_sums,
    swapped,
    fanned_out,
    stored_in_arms,
)
