"""Numbers as people read them: times, speed-ups, sizes, errors.
Must not know what the numbers describe."""

from __future__ import annotations

import math

_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_SIZE_UNITS = (("MiB", 1024**2), ("KiB", 1024))


def time_text(ns: float | None) -> str:
    """Three significant digits and a unit; a dash for no time.

    Units: nanoseconds in.
    """
    if ns is None or math.isnan(ns):
        return "-"
    unit, scale = next(((u, s) for u, s in _TIME_UNITS if abs(ns) >= s), _TIME_UNITS[-1])
    return f"{_three_digits(ns / scale)} {unit}"


def interval_text(interval_ns: tuple[float, float] | None) -> str:
    """Two times with a dash between; a dash alone for no interval.

    Units: nanoseconds in.
    """
    return "-" if interval_ns is None else f"{time_text(interval_ns[0])} - {time_text(interval_ns[1])}"


def seconds_text(seconds: float | None) -> str:
    """Tenths of a second below a minute, minutes and seconds above; a dash for no duration."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def speedup_text(before_ns: float | None, after_ns: float | None) -> str:
    """How many times shorter `after_ns` is than `before_ns`; a dash where either is unknown."""
    if not before_ns or not after_ns:
        return "-"
    return f"{before_ns / after_ns:.2f}x"


def bytes_text(size_bytes: int) -> str:
    unit = next(((u, s) for u, s in _SIZE_UNITS if size_bytes >= s), None)
    return f"{size_bytes} B" if unit is None else f"{_three_digits(size_bytes / unit[1])} {unit[0]}"


def count_text(count: int) -> str:
    """A count with thousands apart."""
    return f"{count:,}"


def _three_digits(value: float) -> str:
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f}"
