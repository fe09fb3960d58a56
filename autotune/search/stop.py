"""When a search ends: one small class a rule.
Must not know what is searched or how it is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

from autotune.settings import Effort

MEASURE_ALL = 200  # up to here every candidate is measured
# On synthetic spaces of 4,608 candidates with models wrong by 5 / 10 / 15 % a choice, 12 ended at a mean regret of
# 0.1 / 1.3 / 13.5 %, 32 at 0.1 / 0.03 / 3.2 % after 37 / 48 / 56 trials (tests/search/conftest.py, 8 seeds each).
# RoPE 32x128x128, where the best are within 5 %, still improved after 32 (Zen 4, 2026-11-30); 64 cost 3 s more.
PATIENCE_TRIALS = 64
LEAST_PATIENCE_TRIALS = 12  # of a quick search


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the candidates that are left promise: the best chance that one has of being more than 1 % faster than the
    incumbent, and the most that one may be expected to save a call.

    Units: seconds.
    """

    best_chance: float
    expected_gain_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a search stands. `trials` counts finished candidates, those of earlier runs included.

    `remaining` counts the candidates of the set that have not ended; `seconds_per_trial` is what one has taken so far,
    a guess before the first. `outlook` is None while too little is known to have one.
    """

    elapsed_s: float
    trials: int
    remaining: int
    since_promotion: int
    seconds_per_trial: float
    outlook: Outlook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """So many seconds of this run."""

    seconds: float

    def holds(self, progress: Progress) -> bool:
        return progress.elapsed_s >= self.seconds

    def trials_left(self, progress: Progress) -> float:
        return max(0.0, self.seconds - progress.elapsed_s) / progress.seconds_per_trial


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTrials:
    """So many candidates, those of earlier runs included."""

    count: int

    def holds(self, progress: Progress) -> bool:
        return progress.trials >= self.count

    def trials_left(self, progress: Progress) -> float:
        return max(0, self.count - progress.trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPromotion:
    """No better candidate for a third of the trials, and for at least `trials`."""

    trials: int = PATIENCE_TRIALS

    def holds(self, progress: Progress) -> bool:
        return progress.since_promotion >= max(self.trials, progress.trials / 3)

    def trials_left(self, progress: Progress) -> float:
        waited = progress.since_promotion
        return max(0.0, self.trials - waited, (progress.trials / 3 - waited) * 3 / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllMeasured:
    """Every one of the `count` candidates of the set has ended."""

    count: int

    def holds(self, progress: Progress) -> bool:
        return progress.remaining <= 0

    def trials_left(self, progress: Progress) -> float:
        return progress.remaining


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingBetter:
    """No candidate that is left has a chance above `chance` of being more than 1 % faster than the incumbent."""

    chance: float = 0.02

    def holds(self, progress: Progress) -> bool:
        return progress.outlook is not None and progress.outlook.best_chance <= self.chance

    def trials_left(self, progress: Progress) -> float:
        return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeCycle:
    """What the next candidate may be expected to save on all `calls` is less than what trying it takes."""

    calls: float

    def holds(self, progress: Progress) -> bool:
        if progress.outlook is None:
            return False
        return progress.outlook.expected_gain_s * self.calls < progress.seconds_per_trial

    def trials_left(self, progress: Progress) -> float:
        return math.inf


StopRule: TypeAlias = Budget | MaxTrials | NoPromotion | AllMeasured | NothingBetter | LifeCycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may take; None is no limit.

    Units: seconds. `max_trials` counts the trials of earlier runs too; `patience` is the least number of trials without
    a better candidate that ends a search of more than MEASURE_ALL candidates. `calls` is how often the winner will be
    called: a search ends where what it may still gain on them all is less than what the next measurement takes.
    """

    budget_s: float | None = 60.0
    max_trials: int | None = None
    patience: int | None = PATIENCE_TRIALS
    calls: float | None = None


LIMITS = {
    Effort.QUICK: Limits(budget_s=15.0, patience=LEAST_PATIENCE_TRIALS),
    Effort.DEFAULT: Limits(),
    Effort.FULL: Limits(budget_s=600.0, patience=4 * PATIENCE_TRIALS),
}


def limits_for(
    effort: Effort, *, budget_s: float | None = None, max_trials: int | None = None, calls: float | None = None
) -> Limits:
    """The limits of an effort, with what is said more exactly in their place; an infinite budget is none."""
    limits = replace(LIMITS[effort], max_trials=max_trials, calls=calls)
    if budget_s is None:
        return limits
    return replace(limits, budget_s=None if math.isinf(budget_s) else budget_s)


def stop_rules(candidates: int, limits: Limits) -> tuple[StopRule, ...]:
    """The rules of one search over so many candidates; small sets are measured whole."""
    rules: list[StopRule] = [AllMeasured(count=candidates)]
    if candidates > MEASURE_ALL and limits.patience is not None:
        rules += [NoPromotion(trials=limits.patience), NothingBetter()]
    if limits.calls is not None:
        rules.append(LifeCycle(calls=limits.calls))
    if limits.max_trials is not None:
        rules.append(MaxTrials(count=limits.max_trials))
    if limits.budget_s is not None:
        rules.append(Budget(seconds=limits.budget_s))
    return tuple(rules)


def reason_to_stop(rules: tuple[StopRule, ...], progress: Progress) -> StopRule | None:
    """The first rule that ends the search now."""
    return next((rule for rule in rules if rule.holds(progress)), None)


def trials_left(rules: tuple[StopRule, ...], progress: Progress) -> float:
    """Trials until the first rule holds, if no better candidate comes."""
    return min((rule.trials_left(progress) for rule in rules), default=0.0)
