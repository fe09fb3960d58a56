"""Which phases of a bound program write something, region by region: the sinks that nests are made of.
Must not know targets or how a sink is emitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from autotune.ir.phases import Phase, PhaseGraph, PhaseKind
from autotune.ir.program import For, Let, Program, Region, Store
from autotune.realizations.candidate import Buffered, Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Consecutive sink phases between two loops of one region, in program order."""

    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A sequential loop and the items of its body. `carries` are the phases of its carried values."""

    statement: For
    carries: tuple[Phase, ...]
    body: tuple[Item, ...]


Item: TypeAlias = Block | Loop


def sink_regions(program: Program, graph: PhaseGraph, candidate: Candidate) -> tuple[Item, ...]:
    """The phases of a candidate that write: reductions, stores, and values that are buffered."""
    storage = dict(candidate.storage)
    inside = {phase for phase, _ in candidate.contribution}

    def writes(phase: Phase) -> bool:
        if phase.kind is PhaseKind.REDUCTION and phase.number not in inside:
            return True
        return phase.kind is PhaseKind.STORE or isinstance(storage.get(phase.number), Buffered)

    return _region(program.body, graph, writes, [0])


def possible_sinks(program: Program, graph: PhaseGraph) -> tuple[Item, ...]:
    """Every phase that some candidate may make a sink: also loads and shared or expensive elementwise values."""
    return _region(program.body, graph, lambda phase: phase.kind is not PhaseKind.CARRY, [0])


def _region(region: Region, graph: PhaseGraph, keep: object, stores: list[int]) -> tuple[Item, ...]:
    assert callable(keep)
    items: list[Item] = []
    pending: list[Phase] = []
    by_value = {p.value: p for p in graph.phases if p.value is not None and p.kind is not PhaseKind.CARRY}
    by_store = {p.store: p for p in graph.phases if p.store is not None}

    def flush() -> None:
        if pending:
            items.append(Block(phases=tuple(pending)))
            pending.clear()

    for statement in region:
        match statement:
            case Let(id=number):
                phase = by_value.get(number)
            case Store():
                phase = by_store[stores[0]]
                stores[0] += 1
            case For(axis=axis):
                flush()
                carries = tuple(p for p in graph.phases if p.carry is not None and p.carry[0] == axis)
                body = _region(statement.body, graph, keep, stores)
                items.append(Loop(statement=statement, carries=carries, body=body))
                continue
        if phase is not None and keep(phase):
            pending.append(phase)
    flush()
    return tuple(items)
