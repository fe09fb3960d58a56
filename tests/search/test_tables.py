"""Tables hold the legal choices of a nest, each priced as its own count would be, and name what they refuse."""

from __future__ import annotations

import random

import pytest

from autotune.calibration.price import issue_ns, movement_ns, price
from autotune.calibration.prior import prior
from autotune.realizations.choices import loop_choices
from autotune.realizations.context import ProgramFacts
from autotune.realizations.legality import contexts, judge
from autotune.realizations.lower import lower
from autotune.realizations.predict import count
from autotune.realizations.structure import assemble
from autotune.realizations.targets import named_target
from autotune.realizations.tiled import tiled
from autotune.realizations.traffic import Traffic, traffic
from autotune.realizations.verdict import Legal, Refusal
from autotune.search.families import families_of
from autotune.search.tables import RefusalCounts, Tables
from tests.conformance.cases import bound, families
from tests.conformance.pool import random_picks

_TARGET = named_target("avx2")


@pytest.mark.parametrize(
    ("example", "shape"), [("softmax", "M=5,N=13"), ("rmsnorm", "M=19,N=67"), ("gelu", "M=19,N=67")]
)
def test_the_sum_over_tables_is_near_the_price_of_the_whole_program(example: str, shape: str) -> None:
    """Near, and never beyond the sum of all work, chains and movement: of each nest the longest of the three counts,
    so nests that different ones of them bound take longer one by one than the whole's longest."""
    workload, prices = bound(example, shape), prior(_TARGET)
    found, _ = families(workload, _TARGET)
    rng, near = random.Random(11), []
    for family in rng.sample(found, min(12, len(found))):
        picks = random_picks(family, rng)
        candidate = family.candidate(picks)
        plan = lower(workload.program, candidate)
        facts = ProgramFacts(tiled(workload.program, candidate.tiles).program, _TARGET)
        around = contexts(facts, plan, plan.bodies[-1], candidate)
        moved = sum((traffic(context, plan) for context in around), Traffic())
        counted = count(plan, _TARGET)
        whole = price(counted.events, counted.dependent_steps, prices, moved)
        chain = counted.dependent_steps * prices.dependent_step_ns
        total = family.overhead.ns + sum(row.ns for row in family.rows(picks))
        assert 0.9 * whole <= total <= 1.1 * (issue_ns(counted.events, prices) + chain + movement_ns(moved, prices))
        near.append(total == pytest.approx(whole, rel=0.1))
    assert sum(near) >= 0.75 * len(near)


@pytest.mark.parametrize("example", ["softmax", "column_softmax"])
def test_rows_are_sorted_and_distinct(example: str) -> None:
    for family in families(bound(example, "M=5,N=13"), _TARGET)[0]:
        for table in family.tables:
            assert [row.ns for row in table] == sorted(row.ns for row in table)
            assert len({row.choice for row in table}) == len(table) > 0


def test_equal_tables_are_built_once() -> None:
    workload = bound("softmax", "M=5,N=13")
    tables = Tables(_TARGET, prior(_TARGET))
    first = list(families_of(workload.program, _TARGET, tables))
    again = list(families_of(workload.program, _TARGET, tables))
    for one, other in zip(first, again, strict=True):
        assert all(a is b for a, b in zip(one.tables, other.tables, strict=True))


@pytest.mark.parametrize("example", ["softmax", "column_softmax", "rmsnorm"])
@pytest.mark.parametrize("name", ["avx512", "avx2", "sse2"])
def test_a_choice_is_in_its_table_exactly_if_the_judge_finds_it_legal(example: str, name: str) -> None:
    workload, target = bound(example, "M=5,N=13"), named_target(name)
    rng, verdicts = random.Random(5), set()
    found = families(workload, target)[0]
    for family in rng.sample(found, min(6, len(found))):
        first = {n: table[0].choice for n, table in zip(family.numbers, family.tables, strict=True)}
        candidate = assemble(family.structure, first)
        facts = ProgramFacts(tiled(workload.program, candidate.tiles).program, target)
        plan = lower(workload.program, candidate)
        for context in contexts(facts, plan, plan.bodies[-1], candidate):
            number = context.nest.number
            kept = {row.choice for row in family.tables[family.numbers.index(number)]}
            offered = list(loop_choices(context, family.structure))
            for choice in rng.sample(offered, min(6, len(offered))):
                changed = assemble(family.structure, {**first, number: choice})
                legal = isinstance(judge(workload.program, changed, target), Legal)
                assert legal == (choice in kept), choice
                verdicts.add(legal)
    assert verdicts == {True, False}


class _Rule(Refusal):
    rule = "some-rule"

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def sentence(self) -> str:
        return f"number {self.number} is not allowed"


def test_refusals_are_counted_by_rule_with_the_first_sentence() -> None:
    refusals = RefusalCounts()
    assert refusals.add([_Rule(1), _Rule(2)])
    assert not refusals.add([])
    assert refusals.table() == (("some-rule", 2, "number 1 is not allowed"),)
