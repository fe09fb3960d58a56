"""Conditions leave exactly the candidates that meet them wherever they have the choice."""

from __future__ import annotations

import itertools

import pytest

from autotune.calibration.prior import prior
from autotune.realizations.candidate import Candidate
from autotune.realizations.targets import named_target
from autotune.search.conditions import parse_conditions
from autotune.search.encode import choices_of
from autotune.search.errors import UnknownChoice
from autotune.search.join import search_set
from autotune.search.space import JoinStatus, SearchSet
from tests.conformance.cases import Workload, bound, families

_TARGET = named_target("avx2")


def _space(workload: Workload, *texts: str) -> SearchSet:
    program = workload.program
    only = parse_conditions(texts, program)
    return search_set(program, _TARGET, prior(_TARGET), limit=20_000, sample=50, only=only)


def _others(space: SearchSet) -> list[Candidate]:
    """All but the reference, which every set holds."""
    return [c for row, c in enumerate(space.candidates) if row != space.reference]


@pytest.mark.parametrize(
    ("example", "shape", "texts"),
    [
        ("rmsnorm", "M=5,N=13", ("lanes=8",)),
        ("rmsnorm", "M=5,N=13", ("chains<=2", "tile.a0=1")),
        ("short_rows", "M=5,N=3", ("mapping=column",)),
        ("short_rows", "M=5,N=3", ("mapping=row", "tail!=mask")),
        ("gemv", "M=5,K=13", ("own_lanes>1",)),
    ],
)
def test_a_restricted_set_holds_exactly_what_meets_the_conditions(
    example: str, shape: str, texts: tuple[str, ...]
) -> None:
    workload = bound(example, shape)
    conditions = parse_conditions(texts, workload.program)
    whole, kept = _space(workload), _space(workload, *texts)
    assert whole.status is JoinStatus.EXACT and kept.status is JoinStatus.EXACT
    column = {c for c in whole.candidates if "mapping=column" in texts or "mapping=row" in texts}
    expected = set()
    for candidate in _others(whole):
        choices = choices_of(candidate)
        named = [c for c in conditions if c.name != "mapping"]
        fits = all(c.allows(choices) and c.holds(choices, frozenset()) for c in named)
        if column:
            lanes_over_programs = any(m.lanes > 1 and m.axis == 0 for _, m in candidate.mapping)
            fits = fits and lanes_over_programs == ("mapping=column" in texts)
        if fits:
            expected.add(candidate)
    assert 0 < len(expected) < len(whole.candidates) - 1
    found = set(_others(kept))
    same_but_for_places = {c for c in found ^ expected if c.planner.value != "linear"}
    assert found ^ expected == same_but_for_places


def test_a_condition_that_nothing_meets_leaves_the_reference_alone() -> None:
    workload = bound("rmsnorm", "M=5,N=13")
    space = _space(workload, "lanes=3")
    assert not _others(space) and space.status is JoinStatus.INFEASIBLE
    assert space.legal_count == 1


def test_an_unknown_choice_is_an_error() -> None:
    with pytest.raises(UnknownChoice, match="lanes"):
        _space(bound("rmsnorm", "M=5,N=13"), "warp=3")


def test_rows_are_judged_by_their_own_phases_alone() -> None:
    """A condition on one phase leaves every other phase as free as it was."""
    workload = bound("softmax", "M=5,N=13")
    found, _ = families(workload, _TARGET)
    phase = next(p for family in found for p, _ in family.structure.nests)
    kept = _space(workload, f"p{phase}.lanes=8")
    free = {dict(c.mapping)[q].lanes for c in _others(kept) for q, _ in c.mapping if q != phase}
    fixed = {dict(c.mapping)[phase].lanes for c in _others(kept)}
    assert fixed == {8} and len(free) > 1


def test_conditions_meet_all_at_once() -> None:
    workload = bound("rmsnorm", "M=5,N=13")
    apart = [set(_others(_space(workload, text))) for text in ("lanes=8", "chains=1")]
    together = set(_others(_space(workload, "lanes=8", "chains=1")))
    planned = {c for c in itertools.chain(*apart, together) if c.planner.value != "linear"}
    assert together - planned == (apart[0] & apart[1]) - planned
