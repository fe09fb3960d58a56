"""The noise floor: what races of a kernel against itself show on a machine, and the smallest margin that follows.
Must not know which kernel was raced or which clock was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from autotune.measure.race import EVEN_ROUND, MARGIN, MAX_ROUNDS
from autotune.measure.states import Measured, Noisy, RacedOut, RaceResult

NOISE_SECONDS = 0.15  # no race begins that would end later; repeated rounds can double what one takes
MAX_RACES = 3
FEWEST_ROUNDS = 3
SAMPLES_A_ROUND = len(EVEN_ROUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """What a kernel raced against itself under two names shows: any difference found there is noise.

    Units: log ratios as fractions: `median` and `p95` of their absolute values over `rounds` rounds of `races` races,
    None where there was no round. `false_calls` counts the races that named a winner or a loser, `redone_rounds` the
    rounds that a busy machine spoiled.
    """

    median: float | None
    p95: float | None
    rounds: int
    races: int
    false_calls: int
    redone_rounds: int

    @property
    def margin(self) -> float:
        """The log ratio below which a race says nothing: the usual one, or the floor where that is higher."""
        return max(MARGIN, self.median or 0.0)


def noise_of(results: list[RaceResult]) -> NoiseFloor:
    """The floor that races of a kernel against itself show."""
    ratios = [value for result in results if not isinstance(result, Noisy) for value in result.log_ratios]
    sizes = np.abs(ratios)
    return NoiseFloor(
        median=float(np.median(sizes)) if ratios else None,
        p95=float(np.quantile(sizes, 0.95)) if ratios else None,
        rounds=len(ratios),
        races=len(results),
        false_calls=sum(_names_one(result) for result in results),
        redone_rounds=sum(result.redone_rounds for result in results),
    )


def race_twins(
    race: Callable[[int], RaceResult], sample_s: float, *, now: Callable[[], float] = perf_counter
) -> NoiseFloor:
    """Race a kernel against itself a few times; fewer, shorter or no races where a sample takes long.

    `race(rounds)` is a race of at most so many rounds.
    Units: `sample_s` seconds that one sample takes; `now` seconds.
    """
    end, round_s = now() + NOISE_SECONDS, SAMPLES_A_ROUND * sample_s
    rounds = min(MAX_ROUNDS, int(NOISE_SECONDS / round_s))
    results: list[RaceResult] = []
    while rounds >= FEWEST_ROUNDS and len(results) < MAX_RACES and (not results or now() + rounds * round_s <= end):
        results.append(race(rounds))
    return noise_of(results)


def _names_one(result: RaceResult) -> bool:
    match result:
        case Measured(promoted=promoted):
            return promoted
        case RacedOut():
            return True
        case Noisy():
            return False
