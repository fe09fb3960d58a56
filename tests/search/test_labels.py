"""Label setting gives what trying every combination gives, and says when it does not."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from autotune.search.labels import Budgets, Combination, Labels, feasible_count


@dataclass(frozen=True)
class Row:
    ns: float
    general: int
    full: int


Tables = list[list[Row]]
_rows = st.builds(Row, st.integers(0, 20).map(float), st.integers(0, 9), st.integers(0, 9))
_tables = st.lists(st.lists(_rows, min_size=1, max_size=5).map(lambda t: sorted(t, key=lambda r: r.ns)), max_size=4)
_limits = st.one_of(st.none(), st.integers(0, 24))
_budgets = st.builds(Budgets, general=_limits, full=_limits)


def _every(tables: Tables, budgets: Budgets) -> list[tuple[float, tuple[int, ...]]]:
    """Time and picks of every combination within the budgets, by rising time."""
    found = []
    for picks in itertools.product(*(range(len(table)) for table in tables)):
        rows = [table[pick] for table, pick in zip(tables, picks, strict=True)]
        if budgets.allow(sum(row.general for row in rows), sum(row.full for row in rows)):
            found.append((sum(row.ns for row in rows), picks))
    return sorted(found)


@given(_tables, _budgets)
def test_all_combinations_come_out_by_rising_time(tables: Tables, budgets: Budgets) -> None:
    every = _every(tables, budgets)
    labels = Labels(tables, budgets)
    found = list(labels.cheapest())
    assert sorted((c.ns, c.picks) for c in found) == every
    assert [c.ns for c in found] == [ns for ns, _ in every]
    assert not labels.cut
    assert feasible_count(tables, budgets) == len(every)


@given(_tables, _budgets)
def test_the_first_few_do_not_wait_for_the_rest(tables: Tables, budgets: Budgets) -> None:
    """Among labels that no budget stops, fewer are settled for one combination than for all."""
    every = _every(tables, budgets)
    first, all_of_them = Labels(tables, budgets), Labels(tables, budgets)
    found = next(first.cheapest(), None)
    assert (None if found is None else found.ns) == (every[0][0] if every else None)
    assert len(list(all_of_them.cheapest())) == len(every)
    assert first.settled <= all_of_them.settled


def test_fixed_sizes_count() -> None:
    tables = [[Row(1.0, 5, 0), Row(2.0, 1, 0)]]
    found = list(Labels(tables, Budgets(general=10), general=6).cheapest())
    assert found == [Combination(ns=2.0, picks=(1,), general=7, full=0)]
    assert feasible_count(tables, Budgets(general=10), general=6) == 1


def test_over_budget_is_reported_with_the_smallest_sizes() -> None:
    tables = [[Row(1.0, 5, 7), Row(2.0, 4, 9)]]
    labels = Labels(tables, Budgets(full=3))
    assert list(labels.cheapest()) == [] and labels.over_budget == (4, 7)


def test_too_many_labels_cut_the_run() -> None:
    tables = [[Row(float(ns), 1, 1) for ns in range(10)]] * 4
    labels = Labels(tables, Budgets(), most_labels=50)
    found = list(labels.cheapest())
    assert labels.cut and len(found) < 50


def test_an_empty_table_has_no_combination_and_no_table_has_one() -> None:
    assert list(Labels([[Row(1.0, 1, 1)], []], Budgets()).cheapest()) == []
    assert feasible_count([[Row(1.0, 1, 1)], []], Budgets()) == 0
    assert [c.picks for c in Labels([], Budgets()).cheapest()] == [()]
