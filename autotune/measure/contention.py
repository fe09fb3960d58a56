"""What disturbs a measuring core: lost time slices, time stolen by a hypervisor, and drift of the canaries.
Must not know what is measured or what becomes of a disturbed sample."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from autotune.measure.canary import CanaryTimes

STAT_PATH = "/proc/stat"
STEAL_COLUMN = 8  # of a processor's line: its name, then user, nice, system, idle, iowait, irq, softirq, steal


def stolen_ticks(text: str, core: int) -> int:
    """Clock ticks that a hypervisor took from a core since it started, by the text of /proc/stat; 0 where it has none.

    Units: ticks of usually 10 ms, so that short thefts show only now and then.
    """
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] == f"cpu{core}":
            return int(fields[STEAL_COLUMN]) if len(fields) > STEAL_COLUMN else 0
    return 0


@dataclass(slots=True, kw_only=True, eq=False)
class Contention:
    """Watches one core. `spoiled` counts samples that found no quiet moment, `canaries` reads them now.

    `first` is what the canaries took when the run began; every worker process of the run compares with it.
    """

    core: int
    spoiled: Callable[[], int]
    canaries: Callable[[], CanaryTimes]
    first: CanaryTimes
    read_stat: Callable[[], str]

    def count(self) -> int:
        """Rises with every sample that lost its core and every tick stolen from it."""
        return self.spoiled() + stolen_ticks(self.read_stat(), self.core)

    def drift(self) -> float:
        """How far the canaries are from their first reading, as a fraction."""
        return self.canaries().drift_from(self.first)


def read_stat() -> str:
    """The text of /proc/stat up to the interrupt counters; empty where the system has no such file."""
    try:
        descriptor = os.open(STAT_PATH, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.pread(descriptor, 1 << 16, 0).decode("ascii", errors="replace").partition("\nintr")[0]
    finally:
        os.close(descriptor)
