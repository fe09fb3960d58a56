"""What counts as a disturbance: lost slices, stolen ticks, canaries that drift."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.jit import compile_module, host_target, load
from autotune.measure.canary import Canaries, CanaryTimes, least
from autotune.measure.clock import LOOP_SYMBOL, Clock, loop_text
from autotune.measure.contention import Contention, read_stat, stolen_ticks

STAT = """cpu  10 0 10 100 0 0 0 12 0 0
cpu0 5 0 5 50 0 0 0 5 0 0
cpu1 5 0 5 50 0 0 0 7 0 0
intr 1 2 3"""
OLD_STAT = "cpu0 5 0 5 50\ncpu1 5 0 5 50"


def test_stolen_ticks_are_those_of_the_core_and_nothing_where_the_system_counts_none() -> None:
    assert [stolen_ticks(STAT, core) for core in (0, 1, 2)] == [5, 7, 0]
    assert stolen_ticks(OLD_STAT, 1) == 0
    assert stolen_ticks("", 0) == 0


def test_the_system_s_own_file_ends_before_the_interrupts() -> None:
    assert "\nintr" not in read_stat()


def test_lost_samples_and_stolen_ticks_add_up_and_canaries_are_compared_with_the_first_reading() -> None:
    spoiled, stat = [3], [STAT]
    first = CanaryTimes(chain_ns=1000.0, stream_ns=2000.0)
    now = [CanaryTimes(chain_ns=1010.0, stream_ns=1400.0)]
    watch = Contention(
        core=1, spoiled=lambda: spoiled[0], canaries=lambda: now[0], first=first, read_stat=lambda: stat[0]
    )
    assert watch.count() == 10
    stat[0] = STAT.replace("cpu1 5 0 5 50 0 0 0 7", "cpu1 5 0 5 50 0 0 0 8")
    assert watch.count() == 11
    spoiled[0] += 1
    assert watch.count() == 12
    assert watch.drift() == pytest.approx(0.3)
    now[0] = CanaryTimes(chain_ns=1200.0, stream_ns=2000.0)
    assert watch.drift() == pytest.approx(0.2)


def test_a_reading_is_the_least_of_several() -> None:
    assert least([[3.0, 1.0, 2.0], [5.0, 4.0]]) == CanaryTimes(chain_ns=1.0, stream_ns=4.0)


def test_the_canaries_run_their_loops_on_this_machine() -> None:
    clock = Clock(load(compile_module(loop_text(), host_target()).object_bytes, LOOP_SYMBOL), 0)
    canaries = Canaries(clock)
    canaries._memory[:8] = np.frombuffer(np.int64(41).tobytes(), dtype=np.uint8)
    found = canaries.read(2)
    assert found.chain_ns >= 1 and found.stream_ns >= 1
    assert canaries._result.view(np.int64)[0] == 41  # the stream went last: the sum of the lines' first words
