"""Races and rankings on simulated timings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autotune.measure.race import (
    MAX_DRIFT,
    MAX_DRIFTED_ROUNDS,
    MAX_REDONE_ROUNDS,
    MAX_ROUNDS,
    Contender,
    Finalist,
    Rounds,
    interleave,
    race,
    rank,
    settle_slow,
)
from autotune.measure.states import Measured, Noisy, RacedOut


def simulated(ratio: float, noise: float, seed: int) -> Callable[[Contender], float]:
    rng = np.random.default_rng(seed)
    means = {Contender.A: 1000.0, Contender.B: 1000.0 * ratio}
    return lambda who: means[who] * float(np.exp(abs(rng.normal(0, noise))))


def test_a_hopeless_candidate_is_cut_after_two_rounds() -> None:
    found = race(simulated(1.5, 0.01, 0))
    assert isinstance(found, RacedOut)
    assert len(found.log_ratios) == 2 and found.ratio == pytest.approx(1.5, rel=0.05)


def test_five_percent_slower_is_cut_within_a_few_rounds() -> None:
    results = [race(simulated(1.05, 0.01, seed)) for seed in range(40)]
    cut = [r for r in results if isinstance(r, RacedOut)]
    assert len(cut) >= 38
    assert np.median([len(r.log_ratios) for r in cut]) <= 6


def test_a_faster_candidate_is_never_cut_and_soon_promoted() -> None:
    results = [race(simulated(0.95, 0.01, seed)) for seed in range(40)]
    assert all(isinstance(r, Measured) and r.promoted for r in results)
    assert all(len(r.log_ratios) >= 8 for r in results if isinstance(r, Measured))


def test_equal_twins_are_rarely_promoted() -> None:
    results = [race(simulated(1.0, 0.02, seed)) for seed in range(200)]
    promoted = [r for r in results if isinstance(r, Measured) and r.promoted]
    assert len(promoted) <= 2


def test_rounds_alternate_between_abba_and_baab() -> None:
    order: list[Contender] = []

    def sample(who: Contender) -> float:
        order.append(who)
        return 1000.0 + len(order) % 3

    found = race(sample)
    a, b = Contender.A, Contender.B
    assert order[:8] == [a, b, b, a, b, a, a, b]
    assert isinstance(found, Measured) and len(found.log_ratios) == MAX_ROUNDS


def test_a_round_is_redone_when_the_process_was_descheduled() -> None:
    counts = iter([0, 1, 1, 1] + [1] * 100)
    found = race(simulated(1.5, 0.001, 3), interruptions=lambda: next(counts))
    assert isinstance(found, RacedOut)
    assert found.redone_rounds == 1 and len(found.samples_ns) == 4


def test_an_incumbent_that_disagrees_with_itself_for_good_is_noisy() -> None:
    rng = np.random.default_rng(1)
    found = race(lambda who: float(rng.choice([1000.0, 1500.0])) if who is Contender.A else 1000.0 * rng.uniform(1, 2))
    assert isinstance(found, Noisy | RacedOut | Measured)
    always = iter(range(10_000))
    noisy = race(simulated(1.0, 0.001, 2), interruptions=lambda: next(always))
    assert noisy == Noisy(redone_rounds=MAX_REDONE_ROUNDS + 1, samples_ns=())


def test_slow_phases_of_the_machine_favour_neither_side() -> None:
    """Twins on a machine that is slower in phases of a few samples are promoted and put out alike: rarely."""
    promoted = out = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        state = {"slow": False}

        def sample(who: Contender, rng: np.random.Generator = rng, state: dict[str, bool] = state) -> float:
            if rng.random() < 0.3:
                state["slow"] = not state["slow"]
            return float((1400.0 if state["slow"] else 1000.0) * (1 + 0.003 * abs(rng.standard_normal())))

        found = race(sample)
        promoted += isinstance(found, Measured) and found.promoted
        out += isinstance(found, RacedOut)
    assert promoted <= 3 and out <= 6


def test_identical_times_decide_nothing() -> None:
    found = race(lambda who: 500.0)
    assert isinstance(found, Measured) and not found.promoted


def test_beyond_l2_the_median_counts_instead_of_the_minimum() -> None:
    times = {Contender.A: [1000.0, 1000.0], Contender.B: [1000.0, 1090.0]}
    seen = {Contender.A: 0, Contender.B: 0}

    def sample(who: Contender) -> float:
        seen[who] += 1
        return times[who][seen[who] % 2]

    by_minimum, by_median = race(sample), race(sample, scattered=True)
    assert isinstance(by_minimum, Measured)
    assert isinstance(by_median, RacedOut) and by_median.ratio == pytest.approx(1.045)


def test_very_slow_kernels_are_settled_by_one_call() -> None:
    assert settle_slow(1e6, 2e6) is None
    assert isinstance(settle_slow(1e6, 2e8), RacedOut)
    faster = settle_slow(3e9, 1e9 * 1.5)
    assert isinstance(faster, Measured) and faster.promoted and faster.few_calls
    close = settle_slow(2e9, 2e9)
    assert isinstance(close, Measured) and not close.promoted


def finalist(name: str, level: float, seed: int, code_bytes: int = 100, noise: float = 0.002) -> Finalist:
    rng = np.random.default_rng(seed)
    rounds = tuple(tuple(float(v) for v in level * np.exp(rng.normal(0, noise, 10))) for _ in range(2))
    return Finalist(name=name, code_bytes=code_bytes, compile_seconds=0.1, rounds_ns=rounds)


def test_finalists_are_ranked_by_time() -> None:
    placed = rank([finalist("slow", 1200, 1), finalist("fast", 1000, 2), finalist("middle", 1100, 3)])
    assert [s.name for s in placed] == ["fast", "middle", "slow"]
    assert not any(s.tied for s in placed)
    assert placed[0].ns == pytest.approx(1000, rel=0.01) and placed[0].upper_ns >= placed[0].ns


def test_a_tie_goes_to_the_smaller_code() -> None:
    placed = rank([finalist("large", 1000, 1, 900), finalist("small", 1003, 2, 100), finalist("slow", 1100, 3, 10)])
    assert [s.name for s in placed] == ["small", "large", "slow"]
    assert [s.tied for s in placed] == [True, True, False]


def test_slow_phases_of_the_machine_cancel() -> None:
    phases = np.linspace(1, 2, 10)
    a = Finalist(name="a", code_bytes=1, compile_seconds=0, rounds_ns=(tuple(1000 * phases), tuple(1000 * phases)))
    b = Finalist(name="b", code_bytes=1, compile_seconds=0, rounds_ns=(tuple(1050 * phases), tuple(1050 * phases)))
    placed = rank([b, a])
    assert [s.name for s in placed] == ["a", "b"]
    assert placed[0].upper_ns == pytest.approx(placed[0].ns)


def test_a_round_is_redone_when_the_canaries_drift_and_marked_when_that_does_not_help() -> None:
    once = iter([0.5] + [0.0] * 100)
    found = race(simulated(1.5, 0.001, 3), drift=lambda: next(once))
    assert isinstance(found, RacedOut)
    assert (found.redone_rounds, found.contended) == (1, False)
    for_good = race(simulated(1.5, 0.001, 3), drift=lambda: MAX_DRIFT * 1.01)
    assert isinstance(for_good, RacedOut)
    assert (for_good.redone_rounds, for_good.contended) == (MAX_DRIFTED_ROUNDS, True)


def test_a_margin_above_the_difference_keeps_a_race_open() -> None:
    assert isinstance(race(simulated(1.05, 0.002, 4)), RacedOut)
    open_slower = race(simulated(1.05, 0.002, 4), margin=0.10)
    assert isinstance(open_slower, Measured) and not open_slower.promoted
    faster, held = (race(simulated(0.95, 0.002, 4), margin=margin) for margin in (0.005, 0.10))
    assert isinstance(faster, Measured) and faster.promoted
    assert isinstance(held, Measured) and not held.promoted


def test_interleaved_rounds_start_with_each_kernel_in_turn_and_run_backwards_every_other_time() -> None:
    order: list[int] = []

    def sample(kernel: int) -> float:
        order.append(kernel)
        return 100.0 + kernel

    found = interleave(sample, 3, 3, interruptions=lambda: 0, drift=lambda: 0.0)
    assert order == [0, 1, 2, 0, 2, 1, 2, 0, 1]
    assert found == Rounds(times_ns=((100.0,) * 3, (101.0,) * 3, (102.0,) * 3), redone=0, contended=False)


def test_disturbed_rounds_are_redone_as_often_as_there_are_rounds_then_kept_and_marked() -> None:
    counts = iter([0, 1] + [1] * 100)
    quiet_again = interleave(lambda k: 1.0, 2, 4, interruptions=lambda: next(counts), drift=lambda: 0.0)
    assert (quiet_again.redone, quiet_again.contended, len(quiet_again.times_ns[0])) == (1, False, 4)
    never = interleave(lambda k: 1.0, 2, 4, interruptions=lambda: 0, drift=lambda: 1.0)
    assert (never.redone, never.contended, len(never.times_ns[0])) == (4, True, 4)
