"""Stop rules: each at its edge, and how far away each end is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.search.stop import (
    MEASURE_ALL,
    AllMeasured,
    Budget,
    Limits,
    MaxTrials,
    NoPromotion,
    Progress,
    StopRule,
    reason_to_stop,
    stop_rules,
    trials_left,
)

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


def test_the_first_rule_that_holds_is_the_reason() -> None:
    rules = stop_rules(5000, Limits(budget_s=2.0, max_trials=6))
    assert reason_to_stop(rules, EARLY) == MaxTrials(count=6)
    assert reason_to_stop(rules, replace(EARLY, trials=5)) is None
    assert trials_left(rules, replace(EARLY, trials=5)) == 1
