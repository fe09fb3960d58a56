"""Races of a kernel against itself: the floor that follows, and how long they may take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from autotune.ir.serial import from_json, to_json
from autotune.measure.noise import MAX_RACES, NOISE_SECONDS, NoiseFloor, noise_of, race_twins
from autotune.measure.race import MARGIN, race
from autotune.measure.states import Measured, Noisy, RacedOut, RaceResult


def twins(noise: float, seed: int) -> RaceResult:
    random = np.random.default_rng(seed)
    return race(lambda _: 1000.0 * float(np.exp(abs(random.normal(0, noise)))))


def test_the_floor_is_the_median_size_of_what_rounds_of_twins_show() -> None:
    loser = RacedOut(
        ns=1.0, ratio=1.1, samples_ns=(1.0,), incumbent_samples_ns=(1.0,), log_ratios=(0.1, -0.3), redone_rounds=2
    )
    found = noise_of([Measured(ns=1.0, samples_ns=(1.0,), log_ratios=(0.01, -0.02, 0.0)), loser])
    assert found.median == pytest.approx(0.02)
    assert found.p95 == pytest.approx(np.quantile([0.01, 0.02, 0.0, 0.1, 0.3], 0.95))
    assert (found.rounds, found.races, found.false_calls, found.redone_rounds) == (5, 2, 1, 2)


def test_a_noisier_machine_has_a_higher_floor_and_never_a_margin_below_the_usual_one() -> None:
    quiet, loud = (noise_of([twins(noise, seed) for seed in range(3)]) for noise in (0.0005, 0.05))
    assert quiet.median is not None and loud.median is not None
    assert quiet.median < MARGIN < loud.median
    assert quiet.margin == MARGIN and loud.margin == loud.median


def test_a_machine_that_never_was_quiet_has_no_floor_and_the_usual_margin() -> None:
    found = noise_of([Noisy(redone_rounds=16, samples_ns=())])
    assert (found.median, found.p95, found.rounds, found.redone_rounds) == (None, None, 0, 16)
    assert found.margin == MARGIN


def clock(step_s: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += step_s


def test_slower_kernels_are_raced_for_fewer_rounds_and_very_slow_ones_not_at_all() -> None:
    for sample_s, rounds in ((3e-4, 15), (NOISE_SECONDS / 4 / 7.5, 7), (NOISE_SECONDS / 4 / 3.1, 3)):
        still, asked = clock(0.0), []

        def race_for(wanted: int, asked: list[int] = asked) -> RaceResult:
            asked.append(wanted)
            return twins(0.01, 0)

        found = race_twins(race_for, sample_s, now=lambda still=still: next(still))
        assert asked == [rounds] * MAX_RACES and found.races == MAX_RACES
    assert race_twins(lambda _: twins(0.01, 0), NOISE_SECONDS / 4 / 2.9) == noise_of([])


def test_no_further_race_begins_that_would_end_too_late() -> None:
    ticking = clock(NOISE_SECONDS * 0.5)
    assert race_twins(lambda _: twins(0.01, 0), 3e-4, now=lambda: next(ticking)).races == 2


def test_a_floor_survives_json() -> None:
    found = noise_of([twins(0.01, 1)])
    assert from_json(NoiseFloor, to_json(found)) == found
