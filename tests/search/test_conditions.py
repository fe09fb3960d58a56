"""Conditions on choices read as written and hold for the candidates that they describe."""

from __future__ import annotations

import pytest

from autotune.calibration.prior import prior
from autotune.errors import AutotuneError
from autotune.realizations.candidate import Candidate
from autotune.realizations.mechanisms import uses
from autotune.realizations.targets import named_target
from autotune.search.conditions import Condition, all_hold, check_names, levels_of, parse_conditions
from autotune.search.errors import BadCondition, UnknownChoice, UnknownMechanism
from autotune.search.families import families_of
from autotune.search.tables import Tables
from tests.conformance.cases import bound

_TARGET = named_target("avx2")
_PROGRAM = bound("softmax", "M=5,N=13").program


@pytest.fixture(scope="module")
def candidates() -> list[Candidate]:
    families = families_of(_PROGRAM, _TARGET, Tables(_TARGET, prior(_TARGET)))
    return [family.candidate(tuple(0 for _ in family.tables)) for family in families]


def _parsed(text: str) -> Condition:
    (condition,) = parse_conditions([text], _PROGRAM)
    return condition


def _kept(text: str, candidates: list[Candidate]) -> list[Candidate]:
    return [c for c in candidates if all_hold([_parsed(text)], _PROGRAM, c, _TARGET)]


def test_a_choice_without_a_phase_is_that_of_any_phase(candidates: list[Candidate]) -> None:
    kept = _kept("lanes=8", candidates)
    assert 0 < len(kept) < len(candidates)
    assert all(any(m.lanes == 8 for _, m in c.mapping) == (c in kept) for c in candidates)


def test_a_choice_of_one_phase(candidates: list[Candidate]) -> None:
    number = candidates[0].mapping[0][0]
    kept = _kept(f"p{number}.lanes = 8", candidates)
    assert kept and all((dict(c.mapping)[number].lanes == 8) == (c in kept) for c in candidates)


@pytest.mark.parametrize(("text", "holds"), [(">=2", {2, 4, 8}), ("<2", {1}), ("!=4", {1, 2, 8})])
def test_numbers_are_compared_as_numbers(text: str, holds: set[int], candidates: list[Candidate]) -> None:
    condition = _parsed(f"tile.a0{text}")
    assert {n for n in (1, 2, 4, 8) if condition.holds({"tile.a0": n}, frozenset())} == holds


def test_an_axis_may_be_written_by_its_name() -> None:
    named = next(axis for axis in _PROGRAM.axes if [a.name for a in _PROGRAM.axes].count(axis.name) == 1)
    assert _parsed(f"tile.{named.name}=4").name == f"tile.a{named.id}"
    assert _parsed(f"vector_axis={named.name}").level == f"a{named.id}"


def test_mechanisms_and_mappings(candidates: list[Candidate]) -> None:
    column = _kept("mapping=column", candidates)
    assert 0 < len(column) < len(candidates)
    assert column == _kept("uses=lanes-over-programs", candidates)
    assert _kept("mapping=row", candidates) == [c for c in candidates if c not in column]
    assert _kept("mapping!=row", candidates) == column
    assert all("lanes-over-programs" in uses(_PROGRAM, c, _TARGET) for c in column)


@pytest.mark.parametrize("text", ["lanes", "lanes=", "=8", "lanes==8", "mapping=diagonal", "storage>direct"])
def test_what_cannot_be_read_is_an_error_that_shows_how(text: str) -> None:
    with pytest.raises(BadCondition, match="write for example lanes=8"):
        parse_conditions([text], _PROGRAM)


def test_unknown_names_list_the_known_ones(candidates: list[Candidate]) -> None:
    with pytest.raises(UnknownMechanism, match="own-lanes"):
        parse_conditions(["uses=magic"], _PROGRAM)
    with pytest.raises(UnknownChoice, match="vector_axis"):
        check_names([_parsed("warps=4")], candidates)
    check_names([_parsed("lanes=3"), _parsed("uses=chains")], candidates)


def test_levels_of_a_choice(candidates: list[Candidate]) -> None:
    assert {8, 1} <= set(levels_of("lanes", candidates))


def test_errors_are_ones_the_command_line_shows() -> None:
    assert issubclass(BadCondition, AutotuneError) and issubclass(UnknownChoice, AutotuneError)
