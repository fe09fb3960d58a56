"""Times of one workload's candidates on one scale, and which of them is the incumbent.
Must not know how they were timed or which were picked next."""

from __future__ import annotations

import math
from statistics import median

from autotune.measure.states import Measured, RacedOut


class Track:
    """Chains races into times that compare: a candidate's time is its incumbent's times the ratio of their race.

    A machine that slows down over minutes shifts raw times, not ratios. Adding the same results in the same order
    gives the same times.
    Units: nanoseconds a call.
    """

    def __init__(self) -> None:
        self.incumbent: str | None = None
        self.since_promotion = 0
        self._times_ns: dict[str, float] = {}
        self._raced_out: set[str] = set()

    def add(self, candidate: str, result: Measured | RacedOut) -> float:
        """The time of a candidate that was raced against the incumbent, or timed alone where there was none."""
        time_ns = result.ns
        if self.incumbent is not None and result.log_ratios:
            time_ns = self._times_ns[self.incumbent] * math.exp(median(result.log_ratios))
        self._times_ns[candidate] = time_ns
        if isinstance(result, RacedOut):
            self._raced_out.add(candidate)
        if isinstance(result, Measured) and (result.promoted or self.incumbent is None):
            self.crown(candidate)
        else:
            self.since_promotion += 1
        return time_ns

    def add_failure(self) -> None:
        self.since_promotion += 1

    def crown(self, candidate: str) -> None:
        """Make a timed candidate the incumbent."""
        assert candidate in self._times_ns
        self.incumbent = candidate
        self.since_promotion = 0

    def time_ns(self, candidate: str | None) -> float | None:
        """None for a candidate without a time."""
        return None if candidate is None else self._times_ns.get(candidate)

    def best(self, count: int) -> tuple[str, ...]:
        """The incumbent and the fastest candidates that no race put out, best first."""
        rest = sorted((t, id) for id, t in self._times_ns.items() if id not in self._raced_out and id != self.incumbent)
        leaders = () if self.incumbent is None else (self.incumbent,)
        return (*leaders, *(id for _, id in rest))[:count]
