"""What counts as agreement of searches and as a beaten winner, from made-up times."""

from __future__ import annotations

import json

import pytest

from benchmarks import agreement
from benchmarks.agreement import AGREEMENT_CASES, agreement_of

TIMES = {"a": (100.0, 200.0, 300.0), "b": (101.5, 203.0, 304.5), "c": (110.0, 220.0, 330.0), "d": (95.0, 190.0, 285.0)}


def test_pairs_agree_within_two_percent_in_the_same_rounds() -> None:
    found = agreement_of("x", [("a", ()), ("b", ()), ("c", ()), ("a", ())], TIMES)
    assert (found.searches, found.winners, found.pairs) == (4, 3, 6)
    assert found.agreeing == 3  # a and b twice, a and a once
    assert found.worst_pair == pytest.approx(1.10)


def test_a_winner_is_beaten_by_what_its_own_search_measured() -> None:
    found = agreement_of("x", [("a", ("b", "c")), ("c", ("a", "b")), ("a", ("d",)), ("b", ())], TIMES)
    assert found.beaten == 2
    assert found.worst_rival == pytest.approx(100 / 110)


def test_the_document_and_the_rows_say_the_same() -> None:
    found = [agreement_of("x", [("a", ("b",)), ("b", ("a",))], TIMES)]
    assert "| `x` | 2 | 2 | 1 of 1 | 1.015 | 0 | 0.985 |" in agreement.markdown(found, searches=2, trials=8)
    assert json.loads(agreement.to_json(found))[0]["agreeing"] == 1


def test_cases_are_distinct() -> None:
    assert len({case.name for case in AGREEMENT_CASES}) == len(AGREEMENT_CASES) >= 6
