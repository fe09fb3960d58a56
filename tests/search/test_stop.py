"""Stop rules: each at its edge, and how far away each end is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.search.stop import (
    MEASURE_ALL,
    AllMeasured,
    Budget,
    LifeCycle,
    Limits,
    MaxTrials,
    NoPromotion,
    NothingBetter,
    Outlook,
    Progress,
    StopRule,
    limits_for,
    reason_to_stop,
    stop_rules,
    trials_left,
)
from autotune.settings import Effort

EARLY = Progress(elapsed_s=1.0, trials=6, remaining=1000, since_promotion=2, seconds_per_trial=0.5)


@pytest.mark.parametrize(
    ("rule", "before", "after", "left"),
    [
        (Budget(seconds=3.0), {"elapsed_s": 2.99}, {"elapsed_s": 3.0}, 4.0),
        (MaxTrials(count=10), {"trials": 9}, {"trials": 10}, 4),
        (NoPromotion(trials=12), {"trials": 14, "since_promotion": 11}, {"trials": 14, "since_promotion": 12}, 10),
        (NoPromotion(trials=12), {"trials": 60, "since_promotion": 19}, {"trials": 60, "since_promotion": 20}, 10),
        (AllMeasured(count=1006), {"remaining": 1}, {"remaining": 0}, 1000),
    ],
)
def test_a_rule_holds_at_its_edge(
    rule: StopRule, before: dict[str, float], after: dict[str, float], left: float
) -> None:
    assert not rule.holds(replace(EARLY, **before))  # type: ignore[arg-type]
    assert rule.holds(replace(EARLY, **after))  # type: ignore[arg-type]
    assert rule.trials_left(EARLY) == pytest.approx(left)


def test_waiting_for_a_third_of_the_trials_counts_the_trials_still_to_come() -> None:
    progress = Progress(elapsed_s=1.0, trials=60, remaining=1000, since_promotion=10, seconds_per_trial=0.5)
    rule = NoPromotion(trials=12)
    left = rule.trials_left(progress)
    end = replace(progress, trials=progress.trials + round(left), since_promotion=10 + round(left))
    assert left == pytest.approx(15.0) and rule.holds(end)


def test_small_sets_do_not_stop_for_want_of_promotions() -> None:
    rules = stop_rules(MEASURE_ALL, Limits(budget_s=None))
    assert rules == (AllMeasured(count=MEASURE_ALL),)
    assert NoPromotion() in stop_rules(MEASURE_ALL + 1, Limits(budget_s=None))


@pytest.mark.parametrize(("chance", "holds"), [(0.5, False), (0.021, False), (0.02, True), (0.0, True)])
def test_a_search_ends_where_nothing_that_is_left_is_likely_to_be_better(chance: float, holds: bool) -> None:
    rule = NothingBetter(chance=0.02)
    assert not rule.holds(EARLY)  # nothing is known yet
    assert rule.holds(replace(EARLY, outlook=Outlook(best_chance=chance, expected_gain_s=1e-6))) == holds
    assert rule in stop_rules(MEASURE_ALL + 1, Limits()) and rule not in stop_rules(MEASURE_ALL, Limits())


@pytest.mark.parametrize(("calls", "holds"), [(1e3, True), (499_999, True), (500_001, False), (1e9, False)])
def test_a_search_ends_where_the_calls_do_not_pay_for_the_next_trial(calls: float, holds: bool) -> None:
    """A trial takes half a second, and may save a microsecond a call."""
    rule = LifeCycle(calls=calls)
    assert not rule.holds(EARLY)
    assert rule.holds(replace(EARLY, outlook=Outlook(best_chance=0.5, expected_gain_s=1e-6))) == holds
    assert (rule in stop_rules(5000, Limits(calls=calls))) and not any(
        isinstance(r, LifeCycle) for r in stop_rules(5000, Limits())
    )


def test_an_effort_is_limits_that_more_exact_ones_replace() -> None:
    quick, default, full = (limits_for(effort) for effort in Effort)
    assert quick.budget_s < default.budget_s < full.budget_s  # type: ignore[operator]
    assert quick.patience < default.patience < full.patience  # type: ignore[operator]
    assert limits_for(Effort.QUICK, budget_s=5.0, max_trials=3) == replace(quick, budget_s=5.0, max_trials=3)
    assert limits_for(Effort.FULL, budget_s=float("inf")).budget_s is None


def test_the_first_rule_that_holds_is_the_reason() -> None:
    rules = stop_rules(5000, Limits(budget_s=2.0, max_trials=6))
    assert reason_to_stop(rules, EARLY) == MaxTrials(count=6)
    assert reason_to_stop(rules, replace(EARLY, trials=5)) is None
    assert trials_left(rules, replace(EARLY, trials=5)) == 1
