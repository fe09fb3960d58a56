"""What races of one object against itself are counted as."""

from __future__ import annotations

import json

import pytest

from autotune.measure.states import Crash, Measured, Noisy, RacedOut
from benchmarks.twins import TwinFailed, most_promoted, to_json, twins_row

QUIET = Measured(ns=10.0, samples_ns=(10.0,), log_ratios=(0.001, -0.002, 0.001), redone_rounds=1)
PROMOTED = Measured(ns=12.0, samples_ns=(12.0,), log_ratios=(-0.01,), promoted=True, contended=True)
SLOWER = RacedOut(ns=14.0, ratio=1.02, samples_ns=(14.0,), incumbent_samples_ns=(13.0,), log_ratios=(0.02,))


def test_promoted_and_raced_out_twins_are_counted_and_so_are_disturbed_races() -> None:
    row = twins_row("c", [QUIET, PROMOTED, SLOWER, Noisy(redone_rounds=16, samples_ns=())], 0.002)
    assert (row.pairs, row.promoted, row.raced_out, row.noisy) == (4, 1, 1, 1)
    assert (row.contended, row.redone_rounds, row.ns, row.noise_floor) == (1, 17, 12.0, 0.002)
    assert row.median_size == pytest.approx(0.01)
    assert json.loads(to_json([row]))[0]["promoted"] == 1


def test_a_twin_that_fails_is_no_race() -> None:
    with pytest.raises(TwinFailed, match="SIGSEGV"):
        twins_row("c", [QUIET, Crash(signal="SIGSEGV", stage="timing", peak_bytes=0)], None)


def test_six_of_two_hundred_may_be_promoted() -> None:
    assert [most_promoted(pairs) for pairs in (200, 100, 10)] == [6, 3, 0]
