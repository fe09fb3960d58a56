"""When a search ends: one small class a rule.
Must not know what is searched or how it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

MEASURE_ALL = 200  # up to here every candidate is measured
PATIENCE_TRIALS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a search stands. `trials` counts finished candidates, those of earlier runs included.

    `remaining` counts the candidates of the set that have not ended; `seconds_per_trial` is what one has taken so far,
    a guess before the first.
    """

    elapsed_s: float
    trials: int
    remaining: int
    since_promotion: int
    seconds_per_trial: float


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


StopRule: TypeAlias = Budget | MaxTrials | NoPromotion | AllMeasured


def stop_rules(candidates: int, *, budget_s: float | None, max_trials: int | None) -> tuple[StopRule, ...]:
    """The rules of one search over so many candidates; small sets are measured whole."""
    rules: list[StopRule] = [AllMeasured(count=candidates)]
    if candidates > MEASURE_ALL:
        rules.append(NoPromotion())
    if budget_s is not None:
        rules.append(Budget(seconds=budget_s))
    if max_trials is not None:
        rules.append(MaxTrials(count=max_trials))
    return tuple(rules)


def reason_to_stop(rules: tuple[StopRule, ...], progress: Progress) -> StopRule | None:
    """The first rule that ends the search now."""
    return next((rule for rule in rules if rule.holds(progress)), None)


def trials_left(rules: tuple[StopRule, ...], progress: Progress) -> float:
    """Trials until the first rule holds, if no better candidate comes."""
    return min((rule.trials_left(progress) for rule in rules), default=0.0)
