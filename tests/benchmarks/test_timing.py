"""The timing loops call what they are given as often as they say, and comparisons keep their books."""

import ctypes
import random

from benchmarks.timing import NativeCall, PythonCall, compare, count_for, interleaved, nothing, repeater


def test_the_python_loop_calls_as_often_as_it_is_told() -> None:
    calls: list[int] = []
    assert repeater(PythonCall(function=lambda: calls.append(1)))(7) > 0
    assert len(calls) == 7


def test_the_native_loop_passes_the_arguments_and_calls_as_often_as_it_is_told() -> None:
    seen: list[tuple[int, int, int]] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(lambda *a: seen.append(a))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    repeater(NativeCall(address=address, arguments=(3, -5, 1 << 40)))(4)
    assert seen == [(3, -5, 1 << 40)] * 4


def test_the_count_grows_until_a_sample_is_long_enough() -> None:
    def repeat(count: int) -> int:
        return 100 * count

    assert count_for(repeat, sample_ns=50_000) == 500


def test_a_call_longer_than_a_sample_is_made_once() -> None:
    assert count_for(lambda count: 10_000_000 * count, sample_ns=50_000) == 1


def test_a_comparison_of_a_call_with_itself_is_near_one() -> None:
    call = nothing(4)
    found = compare(call, call, rounds=3, rng=random.Random(0))
    assert found.rounds == 3
    assert found.redone <= 6
    assert 0.1 < found.ratio < 10
    assert found.ours_us > 0


def test_a_round_alternates_and_its_ratio_is_ours_over_peer() -> None:
    order: list[str] = []
    ours = PythonCall(function=lambda: (order.append("a"), sum(range(20_000))))
    peer = PythonCall(function=lambda: (order.append("b"), sum(range(2_000))))
    found = compare(ours, peer, rounds=1, rng=random.Random(0))
    assert {"a", "b"} == set(order)
    assert found.ratio > 2
    assert found.ours_us > found.peer_us


def test_every_round_times_every_call_once_and_the_slow_one_is_slow() -> None:
    fast = PythonCall(function=lambda: sum(range(1_000)))
    slow = PythonCall(function=lambda: sum(range(20_000)))
    columns = interleaved([slow, fast], rounds=3, rng=random.Random(0))
    assert [len(column) for column in columns] == [3, 3]
    assert min(columns[0]) > max(columns[1]) > 0
