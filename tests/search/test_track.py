"""Times on one scale: chained ratios, promotions, and independence from a machine that slows down."""

from __future__ import annotations

import math

import pytest

from autotune.measure.states import Measured, RacedOut
from autotune.search.track import Track


def measured(ns: float, ratio: float | None = None, *, promoted: bool = False) -> Measured:
    ratios = () if ratio is None else (math.log(ratio),) * 8
    return Measured(ns=ns, samples_ns=(ns,), log_ratios=ratios, promoted=promoted)


def raced_out(ns: float, ratio: float) -> RacedOut:
    return RacedOut(
        ns=ns, ratio=ratio, samples_ns=(ns,), incumbent_samples_ns=(ns / ratio,), log_ratios=(math.log(ratio),) * 2
    )


def test_a_time_is_the_incumbent_s_times_the_ratio() -> None:
    track = Track()
    assert track.add("reference", measured(1000.0)) == 1000.0
    assert track.add("a", measured(790.0, 0.8, promoted=True)) == pytest.approx(800.0)
    assert track.add("b", raced_out(1190.0, 1.5)) == pytest.approx(1200.0)
    assert track.incumbent == "a" and track.since_promotion == 1


def test_a_machine_that_slows_down_changes_no_time() -> None:
    quick, slow = Track(), Track()
    quick.add("reference", measured(1000.0))
    slow.add("reference", measured(1000.0))
    assert quick.add("a", measured(900.0, 0.9)) == slow.add("a", measured(1800.0, 0.9))


def test_the_first_timed_candidate_is_the_incumbent() -> None:
    track = Track()
    track.add_failure()
    track.add("a", measured(10.0))
    assert track.incumbent == "a" and track.since_promotion == 0
    assert track.time_ns("b") is None and track.time_ns(None) is None


def test_the_best_are_the_incumbent_and_what_no_race_put_out() -> None:
    track = Track()
    track.add("reference", measured(1000.0))
    track.add("a", measured(500.0, 0.5, promoted=True))
    track.add("b", measured(495.0, 0.99))
    track.add("c", raced_out(600.0, 1.2))
    assert track.best(8) == ("a", "b", "reference")
    assert track.best(2) == ("a", "b")
