"""Gains of ablations, edges of interactions and what counts as noise, from made-up times."""

from __future__ import annotations

import json

import pytest

from autotune.realizations.mechanisms import NAMES
from benchmarks import ablations, interactions
from benchmarks.ablations import ABLATION_CASES, NO_GAIN, Ablation, largest_gain
from benchmarks.field import Best
from benchmarks.interactions import CELLS, INTERACTION_CASES, WITHOUT_NATIVE, Cell, Table, candidates_of, edges, flips
from benchmarks.ours import kernel_of
from benchmarks.paired import interval, sign


def _ablation(case: str, mechanism: str, ratio: float | None) -> Ablation:
    used = ratio is not None
    return Ablation(
        case=case, mechanism=mechanism, best_uses=used, top_uses=used, best="b", best_us=1.0, without="w", ratio=ratio
    )


def test_there_are_eight_rows_and_six_cases() -> None:
    assert len({case.name for case in ABLATION_CASES}) == 8
    assert len({case.name for _, case in INTERACTION_CASES}) == 6
    assert set(NAMES) >= WITHOUT_NATIVE


def test_a_mechanism_without_two_percent_anywhere_is_marked() -> None:
    ratios = {"copies": (1.019, None), "chains": (0.98, 1.031)}
    found = [_ablation(c, name, ratios.get(name, (None, None))[k]) for k, c in enumerate("xy") for name in NAMES]
    assert largest_gain(found, "chains") == pytest.approx(0.031)
    assert largest_gain(found, "panels") == 0.0
    lines = ablations.markdown(found, budget_s=1.0, rounds=3).splitlines()
    (copies,), (chains,) = ([line for line in lines if line.startswith(f"| `{n}`")] for n in ("copies", "chains"))
    assert NO_GAIN in copies and "1.019" in copies and "1.9%" in copies
    assert NO_GAIN not in chains and "3.1%" in chains
    assert json.loads(ablations.to_json(found))[0]["suite"] == "ablations"


def test_noise_is_what_the_median_may_be() -> None:
    assert interval([1.0, 3.0, 2.0]) == (1.0, 3.0)
    assert interval([float(k) for k in range(15)]) == (3.0, 11.0)
    assert sign([1.02] * 12 + [0.5] * 3) == 1
    assert sign([1.002] * 15) == 0
    assert sign([0.9] * 8 + [1.1] * 7) == 0
    assert sign([0.9] * 15) == -1


def _table(times: dict[tuple[bool, bool, bool], float]) -> Table:
    cells = tuple(
        Cell(flags=flags, best=Best(candidate="c", ns=(times[flags],) * 9) if flags in times else None, rule="r: no")
        for flags in CELLS
    )
    return Table(label="t", case="attention:K=1", cells=cells)


def test_an_edge_flips_where_it_helps_in_one_place_and_hurts_in_another() -> None:
    times = dict.fromkeys(CELLS, 100.0)
    times[False, True, False] = times[False, True, True] = 150.0  # a copy hurts without native contractions
    times[True, True, False] = times[True, True, True] = 50.0
    table = _table(times)
    assert len(edges(table)) == 12
    flipped = {(helps.choice, helps.off[0], hurts.off[0]) for helps, hurts in flips(table)}
    assert (1, True, False) in flipped
    text = interactions.markdown([table], count=1, rounds=9)
    assert "copy helps with native, no specialization, hurts with no native, specialization" in text


def test_a_cell_without_a_candidate_says_its_rule_and_has_no_edges() -> None:
    table = _table({CELLS[0]: 1.0, CELLS[1]: 2.0})
    assert [edge.choice for edge in edges(table)] == [2]
    assert "r: no" in interactions.markdown([table], count=1, rounds=9)
    assert len(json.loads(interactions.to_json([table]))) == len(CELLS)


def test_a_combination_that_no_structure_has_says_so() -> None:
    _, case = INTERACTION_CASES[0]
    program = kernel_of(case).bind(**{**case.extents, "K": 19, "Q": 3, "Hq": 2, "Hkv": 1})
    for flags in ((True, True, False), (False, True, False)):
        found, rule = candidates_of(program, flags, 2)
        assert len(found) == 2 and not rule
    found, rule = candidates_of(program, (True, False, True), 2)
    assert not found and rule.startswith("no structure has it")
