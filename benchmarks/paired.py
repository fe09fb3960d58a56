"""Ratios of paired rounds, their spread and what they say; lines of Markdown tables.
Must not know what was timed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from autotune.jit import host_target, llvm_version

SMALLEST_EFFECT = 0.01
"""A ratio this near to 1 says nothing, however steady it is."""

UNSURE = 0.05


def spread(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The 5 % quantile, the median and the 95 % quantile."""
    if len(ratios) == 1:
        return ratios[0], ratios[0], ratios[0]
    cuts = statistics.quantiles(ratios, n=20, method="inclusive")
    return cuts[0], statistics.median(ratios), cuts[-1]


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median, by order statistics; the extremes of fewer than six ratios."""
    ordered, count = sorted(ratios), len(ratios)
    skipped, below = 0, 0.5**count
    while below + math.comb(count, skipped + 1) * 0.5**count <= UNSURE / 2:
        skipped += 1
        below += math.comb(count, skipped) * 0.5**count
    return ordered[skipped], ordered[-1 - skipped]


def sign(ratios: Sequence[float]) -> int:
    """1 where the median lies above 1 beyond noise and by more than SMALLEST_EFFECT, -1 where below, else 0."""
    low, high = interval(ratios)
    middle = statistics.median(ratios)
    if low > 1.0 and middle > 1.0 + SMALLEST_EFFECT:
        return 1
    return -1 if high < 1.0 and middle < 1.0 - SMALLEST_EFFECT else 0


def table_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def environment_line() -> str:
    """The machine and compiler that numbers belong to."""
    target = host_target()
    return f"{_model() or target.cpu} ({target.name}), LLVM {llvm_version()}"


def _model() -> str | None:
    """What the system calls the processor."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
