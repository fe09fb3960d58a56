"""Small buffer programs built by hand over the programs of `programs.py`, correct until a test spoils them.
Must not use the lowering: what a buffer program means is tested without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.ir.affine import as_affine, coord
from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Branch,
    Buffer,
    BufferAxis,
    BufferProgram,
    InlineReduction,
    Nest,
    NestLoop,
    Part,
    Planner,
    ReduceInto,
    Role,
    Sink,
    Step,
    StorageClass,
    StoreBuffer,
    StoreTensor,
    Tail,
    WhileLoop,
)
from autotune.ir.planners import place
from autotune.ir.program import (
    AxisKind,
    Carried,
    Carry,
    Choice,
    Elementwise,
    Final,
    If,
    Joined,
    Program,
    Reduce,
    Statement,
    While,
    bind,
)
from autotune.ir.types import DType, Op, ReduceOp
from tests.ir.programs import F32, Builder, masked_softmax, tiled_sum


def row_buffer(number: int, *axes: tuple[int, int], dtype: DType = F32) -> Buffer:
    """A row-major workspace buffer over (axis, extent) pairs."""
    entries: list[BufferAxis] = []
    stride = 1
    for axis, extent in reversed(axes):
        entries.insert(0, BufferAxis(axis=axis, extent=extent, stride=stride))
        stride *= extent
    return Buffer(id=number, dtype=dtype, axes=tuple(entries), storage=StorageClass.WORKSPACE)


def nest(number: int, sinks: Sequence[Sink], *loops: NestLoop | int, **more: object) -> Nest:
    made = tuple(NestLoop(axis=loop) if isinstance(loop, int) else loop for loop in loops)
    return replace(Nest(number=number, loops=made, sinks=tuple(sinks), tail=Tail.MASK), **more)  # type: ignore[arg-type]


def plan(
    program: Program,
    buffers: Sequence[Buffer],
    materialized: dict[int, int],
    steps: Sequence[Step],
    blocks: dict[int, int] | None = None,
    planner: Planner = Planner.LINEAR,
) -> BufferProgram:
    """One body for every packet, its buffers placed."""
    body = Body(
        role=Role.ANY, buffers=tuple(buffers), materialized=tuple(sorted(materialized.items())), steps=tuple(steps)
    )
    chosen = tuple((axis, (blocks or {}).get(axis, 1)) for axis in program.parallel)
    placed, used = place(program, body, planner)
    return BufferProgram(program=program, blocks=chosen, bodies=(replace(body, buffers=placed),), workspace_bytes=used)


def value_of(program: Program, kind: type, which: int = 0) -> int:
    """Number of the `which`-th value of a class."""
    return [n for n, let in program.lets().items() if isinstance(let.value, kind)][which]


def softmax(planner: Planner = Planner.LINEAR) -> BufferProgram:
    """Maximum of a row; exp and its sum in one pass; the division."""
    program = bind(masked_softmax(), {"M": 7, "N": 100})
    n = 1
    greatest, total = value_of(program, Reduce), value_of(program, Reduce, 1)
    exp = next(k for k, let in program.lets().items() if isinstance(let.value, Elementwise) and let.value.op is Op.EXP)
    vector = NestLoop(axis=n, lanes=16)
    steps = (
        nest(0, [ReduceInto(buffer=0, value=greatest, chains=2)], NestLoop(axis=n, factor=2, lanes=16)),
        nest(1, [StoreBuffer(buffer=1, value=exp), ReduceInto(buffer=2, value=total, chains=1)], vector),
        nest(2, [StoreTensor(store=0)], vector),
    )
    buffers = (row_buffer(0), row_buffer(1, (n, 100)), row_buffer(2))
    return plan(program, buffers, {greatest: 0, exp: 1, total: 2}, steps, planner=planner)


def matmul_program() -> Program:
    b = Builder("matmul")
    left, right, out = b.tensor("a", F32, 64, 48), b.tensor("b", F32, 48, 40), b.tensor("c", F32, 64, 40)
    i, j = b.axis(AxisKind.PROGRAM_TILE, 64, "i"), b.axis(AxisKind.PROGRAM_TILE, 40, "j")
    k = b.full(48, "k")
    product = b.op(Op.MUL, b.load(left, coord(i), coord(k)), b.load(right, coord(k), coord(j)))
    b.store(out, b.reduce(ReduceOp.SUM, product, k), coord(i), coord(j))
    return b.build()


def matmul() -> BufferProgram:
    """A packed panel of the right operand, then the product with its sum inline."""
    program = matmul_program()
    i, j, k = 0, 1, 2
    right, total = 1, value_of(program, Reduce)
    panels = BufferAxis(axis=j, extent=40, stride=1, panel=16, panel_stride=48 * 16)
    packed = Buffer(
        id=0,
        dtype=F32,
        axes=(BufferAxis(axis=k, extent=48, stride=16), panels),
        storage=StorageClass.WORKSPACE,
    )
    inline = InlineReduction(value=total, loops=(NestLoop(axis=k, factor=4),))
    steps = (
        nest(0, [StoreBuffer(buffer=0, value=right)], k, NestLoop(axis=j, lanes=16)),
        nest(
            1,
            [StoreTensor(store=0)],
            NestLoop(axis=i, factor=4),
            NestLoop(axis=j, factor=2, lanes=16),
            inline=(inline,),
        ),
    )
    return plan(program, (packed,), {right: 0}, steps, {i: 32, j: 40})


def tiled(part: bool = False) -> BufferProgram:
    """A carried sum: initial state, the loop with its partial sum and the new state, the store; split if asked."""
    program = bind(tiled_sum(), {"M": 5, "N": 100})
    j = 1
    initial, total = 0, value_of(program, Reduce)
    carried, final = value_of(program, Carried), value_of(program, Final)
    updated = value_of(program, Elementwise)
    trip = (
        nest(1, [ReduceInto(buffer=1, value=total, chains=1)], NestLoop(axis=j, lanes=16)),
        nest(2, [StoreBuffer(buffer=0, value=updated)]),
    )
    whole = BlockLoop(axis=j, block=32, body=trip)
    head = replace(whole, part=Part.HEAD, bound=as_affine(64))
    rest = replace(head, part=Part.REST)
    loops = (head, rest) if part else (whole,)
    steps = (nest(0, [StoreBuffer(buffer=0, value=initial)]), *loops, nest(3, [StoreTensor(store=0)]))
    return plan(program, (row_buffer(0), row_buffer(1)), {carried: 0, final: 0, total: 1}, steps)


def swap_program() -> Program:
    """Two states of a range loop that change places in every trip."""
    b = Builder("swap")
    x, y = b.tensor("x", F32, 2, 24), b.tensor("y", F32, 2, 24)
    p, t, n = b.program_axis(1, "p"), b.axis(AxisKind.RANGE, 3, "t"), b.full(24, "n")
    first, second = b.load(x, 0, coord(n) + coord(p)), b.load(x, 1, coord(n) + coord(p))
    with b.loop(t, first, second, axes=[(p, n), (p, n)]) as loop:
        one, other = loop.carried(0), loop.carried(1)
        loop.updated = (other, one)
    b.store(y, loop.final(0), coord(p), coord(n))
    b.store(y, loop.final(1), coord(p) + 1, coord(n))
    return b.build()


def swap() -> BufferProgram:
    """Both old states set aside, then both written."""
    program = swap_program()
    t, n = 1, 2
    first, second, one, other, last, end = 0, 1, 2, 3, 4, 5
    trip = (
        nest(1, [StoreBuffer(buffer=2, value=other), StoreBuffer(buffer=3, value=one)], n),
        nest(2, [StoreBuffer(buffer=0, value=other, source=2), StoreBuffer(buffer=1, value=one, source=3)], n),
    )
    steps = (
        nest(0, [StoreBuffer(buffer=0, value=first), StoreBuffer(buffer=1, value=second)], n),
        BlockLoop(axis=t, block=1, body=trip),
        nest(3, [StoreTensor(store=0)], n),
        nest(4, [StoreTensor(store=1)], n),
    )
    buffers = tuple(row_buffer(number, (n, 24)) for number in range(4))
    return plan(program, buffers, {one: 0, other: 1, last: 0, end: 1}, steps)


def newton_program() -> Program:
    """A while loop that halves a row until it is small, and a branch on the sign that is left."""
    b = Builder("halve")
    x, y = b.tensor("x", F32, 24), b.tensor("y", F32, 24)
    p, t, n = b.program_axis(1, "p"), b.axis(AxisKind.WHILE, 0, "t"), b.full(24, "n")
    start = b.load(x, coord(n) + coord(p))
    half, zero = b.const(0.5), b.const(0.0)
    axes = (p, n)
    state = b.let(Carried(axis=t, slot=0), F32, axes)
    size = b.reduce(ReduceOp.MAX, state, n)
    condition = b.op(Op.GT, size, half)
    smaller = b.op(Op.MUL, state, half)
    final = b.let(Final(axis=t, slot=0), F32, axes)
    least = b.reduce(ReduceOp.MIN, final, n)
    negative = b.op(Op.LT, least, zero)
    double = b.op(Op.ADD, final, final)
    joined = b.let(Joined(branch=0, slot=0), F32, axes)
    b.store(y, joined, coord(n) + coord(p))
    program = b.build()
    lets = program.lets()
    body: tuple[Statement, ...] = (
        *(lets[v] for v in (start, half, zero)),
        While(
            axis=t,
            carries=(Carry(initial=start, updated=smaller, dtype=F32, axes=axes),),
            test=(lets[state], lets[size], lets[condition]),
            condition=condition,
            body=(lets[smaller],),
        ),
        *(lets[v] for v in (final, least, negative)),
        If(
            branch=0,
            condition=negative,
            choices=(Choice(then=double, otherwise=final, dtype=F32, axes=axes),),
            then=(lets[double],),
            otherwise=(),
        ),
        lets[joined],
        program.body[-1],
    )
    return replace(program, body=body)


def newton() -> BufferProgram:
    program = newton_program()
    t, n = 1, 2
    start, state, size, condition, smaller, final, least, negative, double, joined = 0, *range(3, 12)
    vector = NestLoop(axis=n, lanes=8)
    loop = WhileLoop(
        axis=t,
        test=(nest(1, [ReduceInto(buffer=1, value=size, chains=1)], vector),),
        condition=condition,
        body=(nest(2, [StoreBuffer(buffer=0, value=smaller)], vector),),
    )
    branch = Branch(
        condition=negative,
        then=(nest(4, [StoreBuffer(buffer=3, value=double)], vector),),
        otherwise=(nest(5, [StoreBuffer(buffer=3, value=final)], vector),),
    )
    steps = (
        nest(0, [StoreBuffer(buffer=0, value=start)], vector),
        loop,
        nest(3, [ReduceInto(buffer=2, value=least, chains=1)], vector),
        branch,
        nest(6, [StoreTensor(store=0)], vector),
    )
    buffers = (row_buffer(0, (n, 24)), row_buffer(1), row_buffer(2), row_buffer(3, (n, 24)))
    held = {state: 0, final: 0, size: 1, least: 2, joined: 3}
    return plan(program, buffers, held, steps)


ALL = (softmax, matmul, tiled, swap, newton)
