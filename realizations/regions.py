"""Which phases of a bound program write something, region by region: the sinks that nests are made of.
Must not know targets or how a sink is emitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from autotune.ir.phases import Phase, PhaseGraph, PhaseKind
from autotune.ir.program import For, If, Let, Program, Region, Store, While, statements
from autotune.realizations.candidate import Buffered, Candidate

WRITTEN = frozenset({PhaseKind.REDUCTION, PhaseKind.CONDITION, PhaseKind.CARRY, PhaseKind.JOINED, PhaseKind.STORE})
"""Phases that write whatever is chosen, reductions that are computed inside nests apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Consecutive sink phases between two loops or branches of one region, in program order."""

    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A sequential loop and the items of its body. `carries` are the phases of its carried values."""

    statement: For
    carries: tuple[Phase, ...]
    body: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trips:
    """A while loop with the items of its test and of its body. `carries` are the phases of its carried values."""

    statement: While
    carries: tuple[Phase, ...]
    test: tuple[Item, ...]
    body: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A branch and the items of its arms. `joined` are the phases of what it leaves behind."""

    statement: If
    joined: tuple[Phase, ...]
    then: tuple[Item, ...]
    otherwise: tuple[Item, ...]


Item: TypeAlias = Block | Loop | Trips | Fork


def sink_regions(program: Program, graph: PhaseGraph, candidate: Candidate) -> tuple[Item, ...]:
    """The phases of a candidate that write: those that always do, and values that are buffered."""
    storage = dict(candidate.storage)
    inside = {phase for phase, _ in candidate.contribution}

    def writes(phase: Phase) -> bool:
        always = phase.kind in WRITTEN and phase.number not in inside
        return always or isinstance(storage.get(phase.number), Buffered)

    return _Walk(program, graph, writes).items(program.body)


def possible_sinks(program: Program, graph: PhaseGraph) -> tuple[Item, ...]:
    """Every phase that some candidate may make a sink: also loads and shared or expensive elementwise values."""
    return _Walk(program, graph, lambda phase: True).items(program.body)


class _Walk:
    def __init__(self, program: Program, graph: PhaseGraph, keep: Callable[[Phase], bool]) -> None:
        self.keep = keep
        self.by_value = {p.value: p for p in graph.phases if p.value is not None}
        self.carries: dict[int, list[Phase]] = {}
        self.joined: dict[int, list[Phase]] = {}
        for phase in graph.phases:
            if phase.carry is not None:
                self.carries.setdefault(phase.carry[0], []).append(phase)
            if phase.joined is not None:
                self.joined.setdefault(phase.joined[0], []).append(phase)
        stores = (s for s in statements(program.body) if isinstance(s, Store))
        by_number = {p.store: p for p in graph.phases if p.store is not None}
        self.by_store = {id(store): by_number[number] for number, store in enumerate(stores)}

    def items(self, region: Region) -> tuple[Item, ...]:
        return tuple(self._items(region))

    def _items(self, region: Region) -> Iterator[Item]:
        pending: list[Phase] = []
        for statement in region:
            match statement:
                case Let(id=number):
                    phase = self.by_value.get(number)
                case Store():
                    phase = self.by_store[id(statement)]
                case For() | While() | If():
                    if pending:
                        yield Block(phases=tuple(pending))
                        pending = []
                    yield self.compound(statement)
                    continue
                case _:
                    assert_never(statement)
            if phase is not None and self.keep(phase):
                pending.append(phase)
        if pending:
            yield Block(phases=tuple(pending))

    def compound(self, statement: For | While | If) -> Loop | Trips | Fork:
        match statement:
            case For(axis=axis, body=body):
                return Loop(statement=statement, carries=tuple(self.carries.get(axis, ())), body=self.items(body))
            case While(axis=axis, test=test, body=body):
                carries = tuple(self.carries.get(axis, ()))
                return Trips(statement=statement, carries=carries, test=self.items(test), body=self.items(body))
            case If(branch=branch, then=then, otherwise=otherwise):
                return Fork(
                    statement=statement,
                    joined=tuple(self.joined.get(branch, ())),
                    then=self.items(then),
                    otherwise=self.items(otherwise),
                )
            case _:
                assert_never(statement)
