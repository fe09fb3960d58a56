"""Numbers as people read them."""

from __future__ import annotations

import pytest

from autotune.report.units import bytes_text, count_text, seconds_text, speedup_text, time_text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0.5, "0.50 ns"),
        (99.96, "100 ns"),
        (999.0, "999 ns"),
        (1500.0, "1.50 µs"),
        (26_512.0, "26.5 µs"),
        (184_000.0, "184 µs"),
        (2.35e6, "2.35 ms"),
        (3e9, "3.00 s"),
        (None, "-"),
        (float("nan"), "-"),
    ],
)
def test_a_time_has_three_digits_and_the_largest_unit_that_fits(ns: float | None, text: str) -> None:
    assert time_text(ns) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (61.2, "1 min 01 s"), (None, "-")])
def test_durations(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


def test_a_speed_up_is_how_many_times_shorter() -> None:
    assert speedup_text(300.0, 100.0) == "3.00x"
    assert speedup_text(None, 100.0) == speedup_text(100.0, None) == "-"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (32 * 1024, "32.0 KiB"), (3 << 20, "3.00 MiB")]
)
def test_sizes(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_counts_have_their_thousands_apart() -> None:
    assert count_text(1234567) == "1,234,567"
