"""Cold tensors: which lines are flushed, where it is possible, and what a cold sample is."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from autotune.measure.clock import Call, Clock
from autotune.measure.evict import ColdUnavailable, Evictor, Stretch, check_evictable
from autotune.measure.worker import readings_of_a_sample


def test_a_stretch_grows_to_whole_lines() -> None:
    assert Stretch(address=130, size_bytes=10).whole_lines() == Stretch(address=128, size_bytes=64)
    assert Stretch(address=120, size_bytes=10).whole_lines() == Stretch(address=64, size_bytes=128)
    assert Stretch(address=64, size_bytes=64).whole_lines() == Stretch(address=64, size_bytes=64)
    assert Stretch(address=64, size_bytes=0).whole_lines().size_bytes == 0


def test_a_machine_without_a_flush_says_so() -> None:
    check_evictable("x86_64")
    with pytest.raises(ColdUnavailable, match="aarch64"):
        check_evictable("aarch64")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flushes lines by an instruction of x86-64")
def test_flushed_memory_keeps_its_bytes() -> None:
    memory = np.arange(5000, dtype=np.float64)
    Evictor().evict([Stretch(address=memory.ctypes.data + 8, size_bytes=memory.nbytes - 16)])
    assert np.array_equal(memory, np.arange(5000))


def test_a_cold_sample_is_one_call_after_a_refill_and_a_flush() -> None:
    steps: list[str] = []

    class Counting(Clock):
        def __init__(self) -> None:
            pass

        def run(self, call: Call, calls: int) -> int:
            steps.append(f"run {calls}")
            return 250

    call = Call(entry=0, tables=0, copies=4, workspace=0, packets=1)
    clock = Counting()
    assert clock.cold_sample(call, lambda: steps.append("refill"), lambda: steps.append("evict")) == 250.0
    assert steps == ["refill", "evict", "run 1"]
    assert clock.cold_sample(call, None, lambda: steps.append("evict")) == 250.0
    assert steps[3:] == ["evict", "run 1"]


def test_short_cold_calls_are_read_more_often_than_long_ones_and_hot_ones_beyond_the_second_level_thrice() -> None:
    readings = [readings_of_a_sample(ns, cold=True, beyond_l2=False) for ns in (1e3, 60e3, 1e6)]
    assert readings == [9, 5, 3]
    assert readings_of_a_sample(1e3, cold=False, beyond_l2=True) == 3
    assert readings_of_a_sample(1e3, cold=False, beyond_l2=False) == 1
