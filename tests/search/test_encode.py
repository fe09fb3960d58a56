"""The choice matrix: lossless, fixed levels, ordinal where the choice is a number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.realizations.candidate import Candidate, Clones, Split
from autotune.search.encode import INACTIVE, AmbiguousChoices, ChoiceMatrix, choices_of, encode


def test_a_row_s_choices_lead_back_to_it(matrix: ChoiceMatrix) -> None:
    for row in range(0, len(matrix), 37):
        assert matrix.row(matrix.choices(row)) == row


def test_one_candidate_alone_has_the_choices_of_its_row(matrix: ChoiceMatrix, candidates: list[Candidate]) -> None:
    assert choices_of(candidates[123]) == matrix.choices(123)
    with pytest.raises(KeyError):
        matrix.row(choices_of(replace(candidates[123], split=Split(parts=3))))


def test_choices_no_candidate_takes_are_a_key_error(matrix: ChoiceMatrix) -> None:
    choices = matrix.choices(0)
    assert choices.pop("packet") in ("general", "full")
    with pytest.raises(KeyError):
        matrix.row(choices)


def test_parameters_are_named_by_phase_and_kind(matrix: ChoiceMatrix) -> None:
    parameters = {p.name: p for p in matrix.parameters}
    assert parameters["p0.block.a1"].levels == (INACTIVE, 1, 2, 4, 8) and parameters["p0.block.a1"].ordinal
    assert parameters["tile.a0"].levels == (INACTIVE, 1, 4, 8)
    assert parameters["p0.storage"].levels == (INACTIVE, "buffer[a1]", "direct", "inline")
    assert not parameters["p0.storage"].ordinal
    assert parameters["p0.variant.exp"].levels == (INACTIVE, "long", "short")
    assert parameters["packet"].levels == (INACTIVE, "full", "general")


def test_a_choice_a_candidate_lacks_is_inactive(matrix: ChoiceMatrix, candidates: list[Candidate]) -> None:
    packed = next(row for row, c in enumerate(candidates) if not c.tail)
    assert "p0.tail" not in matrix.choices(packed)


def test_nests_are_named_by_their_first_phase(candidates: list[Candidate]) -> None:
    base = candidates[0]
    compute = base.compute[1][1]
    three = replace(base, compute=(*base.compute, (2, compute)), tail=())
    apart = replace(three, nests=((0, 0), (1, 1), (2, 2)))
    fused = replace(three, nests=((0, 0), (1, 0), (2, 1)))
    matrix = encode([apart, fused])
    assert matrix.choices(0)["p2.nest"] == matrix.choices(1)["p2.nest"] == "p2"
    assert (matrix.choices(0)["p1.nest"], matrix.choices(1)["p1.nest"]) == ("p1", "p0")


def test_another_order_of_nests_is_another_row(candidates: list[Candidate]) -> None:
    base = replace(candidates[0], nests=((0, 0), (1, 1)))
    matrix = encode([base, replace(base, nests=((0, 1), (1, 0)))])
    assert matrix.choices(1)["nests.order"] == "1,0"


def test_equal_candidates_are_named(candidates: list[Candidate]) -> None:
    with pytest.raises(AmbiguousChoices, match="candidates 0 and 2 "):
        encode([candidates[0], candidates[1], candidates[0]])


def test_levels_do_not_depend_on_the_order_of_candidates(candidates: list[Candidate]) -> None:
    assert encode(candidates[:200]).parameters == encode(candidates[:200][::-1]).parameters


def test_one_candidate_and_none() -> None:
    assert len(encode([])) == 0


def test_twenty_thousand_candidates_are_encoded(candidates: list[Candidate]) -> None:
    many = [replace(c, split=replace(c.split, parts=parts)) for parts in (1, 2, 4, 8, 16) for c in candidates][:20_000]
    matrix = encode(many)
    assert len(matrix) == 20_000
    assert Clones.FULL.value in {level for p in matrix.parameters if p.name == "packet" for level in p.levels}
