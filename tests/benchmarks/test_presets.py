"""Presets of visits on calls whose times are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.presets import ABBA, PERMUTATIONS, Preset, Visit, paired_stats, visits


def calls(order: list[int], times_ns: list[int]) -> list[Callable[[int], int]]:
    def of(arm: int) -> Callable[[int], int]:
        def repeat(count: int) -> int:
            if not order or order[-1] != arm:
                order.append(arm)
            return times_ns[arm] * count

        return repeat

    return [of(arm) for arm in range(len(times_ns))]


def test_abba_visits_two_arms_twelve_times_and_pairs_them_six_times() -> None:
    made = visits(ABBA, calls([], [2000, 1000]))
    assert [visit.arm for visit in made] == [0, 1, 1, 0] * 3 and ABBA.visits == 12
    found = paired_stats(made, 0, 1)
    assert (found.ratio, found.pairs, found.first_ns, found.second_ns) == (2.0, 6, 2000.0, 1000.0)


def test_three_arms_are_visited_in_all_six_orders() -> None:
    order: list[int] = []
    made = visits(PERMUTATIONS, calls(order, [3000, 2000, 1000]))
    blocks = [tuple(v.arm for v in made if v.block == number) for number in range(6)]
    assert PERMUTATIONS.visits == 18 and PERMUTATIONS.arms == 3 and len(set(blocks)) == 6
    assert paired_stats(made, 0, 2).ratio == 3.0 and paired_stats(made, 1, 2).pairs == 6


def test_a_visit_warms_up_then_takes_its_samples() -> None:
    spent: list[int] = []

    def repeat(count: int) -> int:
        spent.append(count)
        return 1000 * count

    preset = Preset(blocks=((0,),), samples=5, warm_up_ns=30_000, sample_ns=10_000)
    (visit,) = visits(preset, [repeat])
    assert spent[-8:] == [10] * 8 and visit.ns == 1000.0  # three fill the warm-up


def test_the_ratio_is_the_median_of_paired_ratios_and_the_time_the_median_of_visits() -> None:
    times = [(0, 0, 10.0), (0, 1, 5.0), (1, 0, 30.0), (1, 1, 10.0), (2, 0, 10.0), (2, 1, 1.0)]
    made = [Visit(block=block, arm=arm, ns=ns) for block, arm, ns in times]
    found = paired_stats(made, 0, 1)
    assert (found.ratio, found.least, found.most) == (3.0, 2.0, 10.0)
    assert found.first_ns / found.second_ns == pytest.approx(2.0)  # a quotient of medians would say this
