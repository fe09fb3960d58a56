"""Building: decisions on full clones, equal objects for choices that change nothing, refusal of what is not legal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune import build
from autotune.ir.buffer import Tail
from autotune.realizations.candidate import Candidate, Clones, Compute, Mapping, Schedule, Split, Tile
from autotune.realizations.legality import decision, judge
from autotune.realizations.lower import lower
from autotune.realizations.packet import CloneDecision
from autotune.realizations.predict import count
from autotune.realizations.reference import reference_candidate
from autotune.realizations.targets import named_target
from autotune.realizations.verdict import Refused
from tests.conformance.cases import Workload, bound

_TARGET = named_target("avx512")


@pytest.fixture(scope="module")
def workload() -> Workload:
    return bound("rmsnorm", "M=19,N=67")


@pytest.fixture(scope="module")
def cloned(workload: Workload) -> Candidate:
    """The reference with two rows a packet and a full clone."""
    reference = reference_candidate(workload.program, _TARGET)
    return replace(reference, tiles=(Tile(axis=workload.program.parallel[0], block=2),), packet=Clones.FULL)


def _rules(workload: Workload, candidate: Candidate, **budgets: int) -> set[str]:
    verdict = judge(workload.program, candidate, replace(_TARGET, **budgets))  # type: ignore[arg-type]
    return {reason.rule for reason in verdict.reasons} if isinstance(verdict, Refused) else set()


def test_a_full_clone_within_budget_is_selected(workload: Workload, cloned: Candidate) -> None:
    kernel = build.build(workload.program, cloned, _TARGET)
    assert kernel.decision == CloneDecision.SELECTED.value
    general = build.build(workload.program, replace(cloned, packet=Clones.GENERAL), _TARGET)
    assert general.decision == CloneDecision.NOT_REQUESTED.value
    assert kernel.code_bytes > general.code_bytes
    assert kernel.instructions > general.instructions


def test_a_full_clone_over_budget_is_refused_by_the_budget_it_breaks(workload: Workload, cloned: Candidate) -> None:
    tiny_clone = replace(_TARGET, clone_budget_instructions=50)
    tiny_source = replace(_TARGET, source_budget_instructions=50)
    assert _rules(workload, cloned, clone_budget_instructions=50) == {"over-clone-budget"}
    assert _rules(workload, cloned, source_budget_instructions=50) == {"over-source-budget"}
    plan = lower(workload.program, cloned)
    assert decision(plan, Clones.FULL, tiny_clone) is CloneDecision.OVER_CLONE_BUDGET
    assert decision(plan, Clones.FULL, tiny_source) is CloneDecision.OVER_SOURCE_BUDGET
    assert decision(plan, Clones.GENERAL, tiny_source) is CloneDecision.NOT_REQUESTED
    with pytest.raises(build.IllegalCandidateError, match=r"over-clone-budget: the full clone has \d+ builder"):
        build.build(workload.program, cloned, tiny_clone)


def test_the_budgets_allow_exactly_what_they_say(workload: Workload, cloned: Candidate) -> None:
    plan = lower(workload.program, cloned)
    whole = replace(plan, bodies=tuple(body for body in plan.bodies if body.full))
    size = count(whole, _TARGET).instructions
    assert not _rules(workload, cloned, clone_budget_instructions=size)
    assert _rules(workload, cloned, clone_budget_instructions=size - 1) == {"over-clone-budget"}


def test_a_full_clone_without_partial_packets_is_ineligible(workload: Workload) -> None:
    reference = reference_candidate(workload.program, _TARGET)
    assert _rules(workload, replace(reference, packet=Clones.FULL)) == {"clone-ineligible"}
    plan = lower(workload.program, replace(reference, packet=Clones.FULL))
    assert decision(plan, Clones.FULL, _TARGET) is CloneDecision.INELIGIBLE


def test_choices_that_change_nothing_give_the_same_object(workload: Workload) -> None:
    """The order of program axes spelled out, a grain for one thread, the tail and lanes' axis of scalar nests."""
    reference = reference_candidate(workload.program, _TARGET)
    scalar = replace(
        reference,
        mapping=tuple((phase, Mapping(axis=None, lanes=1)) for phase, _ in reference.mapping),
        compute=tuple((phase, Compute(variants=compute.variants)) for phase, compute in reference.compute),
        tail=tuple((nest, Tail.MASK) for nest, _ in reference.tail),
    )
    for candidate, same in (
        (reference, replace(reference, schedule=Schedule(order=workload.program.parallel, grain=4))),
        (reference, replace(reference, split=Split(parts=1))),
        (scalar, replace(scalar, tail=tuple((nest, Tail.SCALAR) for nest, _ in scalar.tail))),
        (scalar, replace(scalar, mapping=tuple((phase, Mapping(axis=1, lanes=1)) for phase, _ in scalar.mapping))),
    ):
        first, second = (build.build(workload.program, each, _TARGET) for each in (candidate, same))
        assert first.object_bytes == second.object_bytes
    other = build.build(workload.program, scalar, _TARGET)
    assert other.object_bytes != build.build(workload.program, reference, _TARGET).object_bytes


def test_equal_builds_are_equal(workload: Workload) -> None:
    reference = reference_candidate(workload.program, _TARGET)
    first, second = (build.build(workload.program, reference, _TARGET) for _ in range(2))
    assert first.object_bytes == second.object_bytes
    assert first.sha256 == second.sha256
    assert first.packets == 19


def test_an_illegal_candidate_is_refused_with_its_reasons(workload: Workload) -> None:
    reference = reference_candidate(workload.program, _TARGET)
    with pytest.raises(build.IllegalCandidateError, match=r"candidate [0-9a-f]{12} is not legal here: threads-not-"):
        build.plan(workload.program, replace(reference, schedule=Schedule(threads=2)), _TARGET)
    with pytest.raises(build.IllegalCandidateError, match="split-without-merge"):
        build.plan(workload.program, replace(reference, split=Split(parts=2)), _TARGET)


def test_padding_moves_the_entry_and_changes_nothing_else(workload: Workload) -> None:
    reference = reference_candidate(workload.program, _TARGET)
    plain, padded = (build.build(workload.program, reference, _TARGET, padding_bytes=padding) for padding in (0, 1040))
    assert padded.sha256 != plain.sha256
    assert 1040 <= padded.code_bytes - plain.code_bytes < 1040 + 64
    assert (padded.symbol, padded.workspace_bytes, padded.packets, padded.instructions) == (
        plain.symbol,
        plain.workspace_bytes,
        plain.packets,
        plain.instructions,
    )
    assert plain.sha256 == build.build(workload.program, reference, _TARGET).sha256
