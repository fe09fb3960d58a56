"""Along which axes values vary, and which axes a statement needs.
Must not judge whether a program is well formed."""

from __future__ import annotations

from autotune.ir.affine import Affine, Coord
from autotune.ir.program import (
    Carried,
    Const,
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
    Program,
    Reduce,
    Reindex,
    ScalarArgument,
    Statement,
    Store,
    Value,
    While,
    operands,
    statements,
)


def axes_needed(program: Program, statement: Statement) -> set[int]:
    """Axes whose coordinates or blocks a statement needs, extents of those axes included."""
    found: set[int] = set()
    match statement:
        case Let(value=IndexValue(expression=expression)):
            found |= expression.axes()
        case Let(value=Load(index=index)) | Store(index=index):
            found |= {a for i in index if isinstance(i, Affine) for a in i.axes()}
        case Let(value=Reduce(axes=axes)):
            found |= set(axes)
        case For(axis=axis):
            found |= program.axes[axis].extent.axes() | program.axes[axis].start.axes()
    pending = list(found)
    while pending:
        for axis in program.axes[pending.pop()].extent.axes() - found:
            found.add(axis)
            pending.append(axis)
    return found


def varying(program: Program) -> dict[int, frozenset[int]]:
    """Axes along which each value's elements differ; block bounds do not count, they are one number a block."""
    loops = {s.axis: s for s in statements(program.body) if isinstance(s, For | While)}
    branches = {s.branch: s for s in statements(program.body) if isinstance(s, If)}
    known: dict[int, frozenset[int]] = {}
    for number, let in program.lets().items():
        known[number] = _varying_of(let.value, known, loops, branches)
    return known


def _varying_of(
    value: Value, known: dict[int, frozenset[int]], loops: dict[int, For | While], branches: dict[int, If]
) -> frozenset[int]:
    match value:
        case Const() | ScalarArgument():
            return frozenset()
        case IndexValue(expression=expression):
            return coordinates((expression,))
        case Load(index=index):
            return coordinates(index).union(*(known[i.value] for i in index if isinstance(i, Indirect)))
        case Elementwise(args=args):
            return frozenset[int]().union(*(known[a] for a in args))
        case Reduce(body=body, axes=axes, init=init):
            return (known[body] - set(axes)) | (known[init] if init is not None else frozenset())
        case Reindex(value=inner, source=source, target=target):
            return frozenset(target if a == source else a for a in known[inner])
        case Carried(axis=axis, slot=slot) | Final(axis=axis, slot=slot) | MergeSide(axis=axis, slot=slot):
            return frozenset(loops[axis].carries[slot].axes)
        case Joined(branch=branch, slot=slot):
            return frozenset(branches[branch].choices[slot].axes)


def reads(statement: Statement) -> tuple[int, ...]:
    """Value numbers that a statement itself reads, those of the regions inside it apart."""
    match statement:
        case Let(value=value):
            return operands(value)
        case Store(value=stored, mask=mask):
            return (stored,) if mask is None else (stored, mask)
        case For(carries=carries, merge=merge):
            merged = () if merge is None else merge.merged
            return (*(v for c in carries for v in (c.initial, c.updated)), *merged)
        case While(carries=carries, condition=condition):
            return (condition, *(v for c in carries for v in (c.initial, c.updated)))
        case If(condition=condition, choices=choices):
            return (condition, *(v for c in choices for v in (c.then, c.otherwise)))


def bare_products(program: Program) -> frozenset[int]:
    """Products that only contractions read, which sum them without making them."""
    lets = program.lets()
    summed = {n for n, let in lets.items() if isinstance(let.value, Reduce) and let.value.contraction is not None}
    products = {v.body for v in (lets[n].value for n in summed) if isinstance(v, Reduce)}
    read: set[int] = set()
    for statement in statements(program.body):
        used = reads(statement)
        if isinstance(statement, Let) and statement.id in summed:
            assert isinstance(statement.value, Reduce)
            used = () if statement.value.init is None else (statement.value.init,)
        read.update(used)
    return frozenset(products - read)


def coordinates(index: tuple[Index, ...]) -> frozenset[int]:
    return frozenset(a.axis for i in index if isinstance(i, Affine) for a in i.atoms() if isinstance(a, Coord))
