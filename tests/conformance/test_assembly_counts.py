"""Event counts of real kernels agree with LLVM's assembly text for fixed CPUs, loops not unrolled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from autotune import build, jit
from autotune.ir.buffer import Tail, Transfer
from autotune.realizations import assembly
from autotune.realizations.candidate import Candidate
from autotune.realizations.events import Event, Events
from autotune.realizations.lower import lower
from autotune.realizations.predict import count
from autotune.realizations.reference import reference_candidate
from autotune.realizations.target import Target
from autotune.realizations.targets import named_target
from autotune.search.families import Family
from autotune.search.tables import Row
from tests.conformance.cases import Workload, bound, families

_WITH_TAIL, _WHOLE = "M=32,N=525", "M=32,N=512"
_EXACT = {
    "fma": (Event.FMA,),
    "division and root": (Event.DIV_VECTOR, Event.DIV_SCALAR, Event.SQRT_VECTOR, Event.SQRT_SCALAR),
    "vector load": (Event.VECTOR_LOAD, Event.MASKED_LOAD),
    "vector store": (Event.VECTOR_STORE, Event.MASKED_STORE),
    "gathered lane": (Event.GATHER_LANE,),
    "shuffle": (Event.SHUFFLE,),
}
_ALU = (Event.ALU, Event.MUL, Event.SCALAR_ALU)


def _rows_cheapest(found: list[Family], keep: Callable[[Family, Row], bool]) -> Iterator[Candidate]:
    """The cheapest candidate all of whose nests' rows are kept."""
    best: tuple[float, Candidate] | None = None
    for family in found:
        kept = [[k for k, row in enumerate(table) if keep(family, row)] for table in family.tables]
        if all(kept):
            picks = tuple(rows[0] for rows in kept)  # tables are sorted by predicted time
            ns = sum(row.ns for row in family.rows(picks))
            if best is None or ns < best[0]:
                best = ns, family.candidate(picks)
    if best is not None:
        yield best[1]


def _team(family: Family) -> bool:
    """Lanes inside a program, and one program a packet."""
    return bool(family.structure.lanes) and all(tile.block == 1 for tile in family.structure.tiles)


def _subjects(example: str, target: Target) -> Iterator[tuple[str, Workload, Candidate]]:
    ragged, whole = bound(example, _WITH_TAIL), bound(example, _WHOLE)
    with_tail, without = families(ragged, target)[0], families(whole, target)[0]
    yield "reference", ragged, reference_candidate(ragged.program, target)
    for name, workload, found, keep in (
        ("cheapest", whole, without, lambda family, row: True),
        ("masked tail", ragged, with_tail, lambda f, row: _team(f) and row.choice.tail is Tail.MASK),
        ("scalar tail", ragged, with_tail, lambda f, row: _team(f) and row.choice.tail is Tail.SCALAR),
        (
            "transposing packet",
            whole,
            without,
            lambda f, row: Transfer.TRANSPOSE in dict(f.structure.transfer).values(),
        ),
    ):
        for candidate in _rows_cheapest(found, keep):
            yield name, workload, candidate


def _difference(counted: Events, written: Events) -> Iterator[str]:
    """What is further apart than 5 % or two instructions, for vector arithmetic than 15 % or two."""
    for name, events, share in [(n, e, 0.05) for n, e in _EXACT.items()] + [("alu", _ALU, 0.15)]:
        ours, theirs = counted.total(events), written.total(events)
        if abs(ours - theirs) > max(2.0, share * theirs):
            yield f"{name}: {ours:g} counted, {theirs:g} in the assembly"


@pytest.mark.parametrize("target_name", ["avx512", "avx2"])
@pytest.mark.parametrize("example", ["softmax", "rmsnorm", "gelu"])
def test_counts_agree_with_the_assembly(example: str, target_name: str) -> None:
    target = named_target(target_name)
    kinds, wrong = set(), []
    for kind, workload, candidate in _subjects(example, target):
        kinds.add(kind)
        plan = lower(workload.program, candidate)
        counted = count(plan, target)
        text, instructions = build.emit_text(plan, target)
        written = assembly.count(jit.assembly(text, target))
        wrong += [f"{kind}: {difference}" for difference in _difference(counted.static, written)]
        if counted.instructions != instructions:
            wrong.append(f"{kind}: {counted.instructions} builder instructions counted, {instructions} written")
    assert {"reference", "cheapest", "scalar tail", "transposing packet"} <= kinds
    assert "masked tail" in kinds or (example, target_name) == ("softmax", "avx2"), "bytes have no masked access there"
    assert not wrong, "\n".join(wrong)
