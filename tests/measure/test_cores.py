"""The choice of cores on machines with and without sibling threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.measure.cores import Cores, choose_cores, parse_processor_list, threads_of_core


def alone(core: int) -> frozenset[int]:
    return frozenset({core})


def adjacent(core: int) -> frozenset[int]:
    return frozenset({core & ~1, core | 1})


@pytest.mark.parametrize(
    ("count", "threads", "expected"),
    [
        (1, alone, Cores(measure=0, compile=0, rest=frozenset({0}))),
        (2, alone, Cores(measure=1, compile=0, rest=frozenset({0}))),
        (2, adjacent, Cores(measure=1, compile=0, rest=frozenset({0}))),
        (4, alone, Cores(measure=3, compile=2, rest=frozenset({0, 1, 2}))),
        (4, adjacent, Cores(measure=3, compile=1, rest=frozenset({0, 1}))),
    ],
)
def test_the_measuring_core_is_left_alone_where_there_are_others(
    count: int, threads: Callable[[int], frozenset[int]], expected: Cores
) -> None:
    assert choose_cores(frozenset(range(count)), threads) == expected


def test_processor_lists_are_read_as_the_system_writes_them() -> None:
    assert parse_processor_list("0-2,5,7-7") == {0, 1, 2, 5, 7}
    assert 0 in threads_of_core(0)
