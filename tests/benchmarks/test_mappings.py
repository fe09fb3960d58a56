"""Which mappings a case has, how a candidate's is named, and the JSON of a line."""

from __future__ import annotations

import json

import pytest

from autotune.jit import host_target
from autotune.realizations.reference import reference_candidate
from benchmarks.case import Case
from benchmarks.cases import case
from benchmarks.mappings import (
    CASES,
    SCALAR,
    Line,
    candidates_by_mapping,
    lane_axis,
    mapping_name,
    to_json,
)
from benchmarks.ours import kernel_of


@pytest.mark.parametrize("each", [case("column_softmax", 9, 20), case("short_rows", 40, 7)], ids=lambda c: c.kernel)
def test_every_mapping_has_candidates_of_its_own(each: Case) -> None:
    program = kernel_of(each).bind(**each.extents)
    found = candidates_by_mapping(program, 3)
    assert SCALAR in found
    assert any(name.startswith("program axis") for name in found)
    assert any(name.startswith("full axis") for name in found)
    for name, candidates in found.items():
        assert len(candidates) == len(set(candidates)) == 3
        assert {mapping_name(program, lane_axis(program, candidate)) for candidate in candidates} == {name}


def test_the_reference_candidate_takes_the_innermost_axis() -> None:
    each = case("softmax", 5, 33)
    program = kernel_of(each).bind(**each.extents)
    reference = reference_candidate(program, host_target())
    assert mapping_name(program, lane_axis(program, reference)).startswith("full axis")


def test_a_line_is_json() -> None:
    line = Line(case=CASES[0].name, mapping=SCALAR, candidate="0" * 12, us=1.5, ratio=1.0, timed=24, failed=0)
    (read,) = json.loads(to_json([line]))
    assert (read["suite"], read["case"], read["us"]) == ("mappings", "column_softmax:M=129,N=512", 1.5)
