"""Which buffers a nest or a condition reads and writes, and along which axes.
Must not know offsets, lifetimes or how a nest is emitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Branch,
    Nest,
    ReduceInto,
    Sink,
    Step,
    StoreBuffer,
    StoreTensor,
    WhileLoop,
)
from autotune.ir.program import Program, Reduce, Reindex, Store, operands, statements

Renaming: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of an axis of a value and the axis of the nest along which it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A buffer as a nest reads it for a value; `inside` are the inline reductions around the read, outermost first."""

    buffer: int
    value: int
    renaming: Renaming = ()
    inside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a nest or a condition does with values and buffers.

    `computed` are the values found inside it, `unfinished` the reductions that it would read while it is still
    working them out.
    """

    reads: tuple[Read, ...] = ()
    writes: frozenset[int] = frozenset()
    computed: frozenset[int] = frozenset()
    unfinished: frozenset[int] = frozenset()

    @property
    def buffers_read(self) -> frozenset[int]:
        return frozenset(read.buffer for read in self.reads)


class BodyAccess:
    """The accesses of one body; every value that no buffer holds is computed where it is used."""

    def __init__(self, program: Program, body: Body) -> None:
        self.lets = program.lets()
        self.stores = tuple(s for s in statements(program.body) if isinstance(s, Store))
        self.materialized = dict(body.materialized)

    def nest(self, nest: Nest) -> Access:
        """What all sinks of a nest read, compute and write."""
        produced = produced_by(nest, self.materialized)
        finished = frozenset(s.value for s in nest.sinks if isinstance(s, ReduceInto))
        inline = frozenset(i.value for i in nest.inline)
        closure = _Closure(self, produced, finished - inline)
        for sink in nest.sinks:
            for root in self.roots(sink):
                closure.visit(root, (), ())
            if isinstance(sink, StoreBuffer) and sink.source is not None:
                closure.reads[Read(buffer=sink.source, value=sink.value)] = None
        return closure.access(frozenset(s.buffer for s in nest.sinks if not isinstance(s, StoreTensor)))

    def condition(self, value: int) -> Access:
        """What a branch or a while loop reads to decide."""
        closure = _Closure(self, frozenset(), frozenset())
        closure.visit(value, (), ())
        return closure.access(frozenset())

    def roots(self, sink: Sink) -> tuple[int, ...]:
        """Values that a sink evaluates."""
        match sink:
            case StoreTensor(store=number):
                store = self.stores[number]
                return (store.value,) if store.mask is None else (store.value, store.mask)
            case StoreBuffer(value=value, source=source):
                return (value,) if source is None else ()
            case ReduceInto(value=value):
                return operands(self.lets[value].value)
            case _:
                assert_never(sink)


def produced_by(nest: Nest, materialized: dict[int, int]) -> frozenset[int]:
    """Values that a nest writes to the very buffer they are later read from."""
    written = (s for s in nest.sinks if not isinstance(s, StoreTensor))
    return frozenset(s.value for s in written if materialized.get(s.value) == s.buffer)


def steps_inside(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The lists of steps inside a step, in order."""
    match step:
        case Nest():
            return ()
        case BlockLoop(body=body):
            return (body,)
        case WhileLoop(test=test, body=body):
            return test, body
        case Branch(then=then, otherwise=otherwise):
            return then, otherwise
        case _:
            assert_never(step)


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Every step in order, loops and branches before what is inside them."""
    for step in steps:
        yield step
        for inner in steps_inside(step):
            yield from all_steps(inner)


class _Closure:
    """Values reached from some roots, each once for every way in which its axes are read."""

    def __init__(self, body: BodyAccess, produced: frozenset[int], finished: frozenset[int]) -> None:
        self.body = body
        self.produced = produced
        self.finished = finished
        self.reads: dict[Read, None] = {}
        self.unfinished: set[int] = set()
        self.seen: set[tuple[int, Renaming, tuple[int, ...]]] = set()

    def visit(self, value: int, renaming: Renaming, inside: tuple[int, ...]) -> None:
        body = self.body
        if value in body.materialized and value not in self.produced:
            read = Read(buffer=body.materialized[value], value=value, renaming=renaming, inside=inside)
            self.reads[read] = None
            return
        if value in self.finished:
            self.unfinished.add(value)
            return
        if (value, renaming, inside) in self.seen:
            return
        self.seen.add((value, renaming, inside))
        inner = body.lets[value].value
        if isinstance(inner, Reindex):
            target = dict(renaming).get(inner.target, inner.target)
            renaming = tuple(sorted({**dict(renaming), inner.source: target}.items()))
        for operand in operands(inner):
            contribution = isinstance(inner, Reduce) and operand == inner.body
            self.visit(operand, renaming, (*inside, value) if contribution else inside)

    def access(self, writes: frozenset[int]) -> Access:
        computed = frozenset(value for value, _, _ in self.seen)
        return Access(reads=tuple(self.reads), writes=writes, computed=computed, unfinished=frozenset(self.unfinished))
