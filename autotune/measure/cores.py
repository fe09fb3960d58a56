"""Which processor cores measure, compile and wait.
Must not know what runs on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Logical processors: one measures, one compiles, and the caller waits on `rest` meanwhile.

    Where there are enough, nothing else runs on the measuring core, its sibling threads included.
    """

    measure: int
    compile: int
    rest: frozenset[int]


def threads_of_core(core: int) -> frozenset[int]:
    """Logical processors that share a core with this one, itself included."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return frozenset({core})
    return parse_processor_list(text) | {core}


def parse_processor_list(text: str) -> frozenset[int]:
    """The system's notation: "0-3,8"."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def choose_cores(
    available: frozenset[int] | None = None, threads: Callable[[int], frozenset[int]] = threads_of_core
) -> Cores:
    """The last processor this thread may use measures, the last one on another core compiles."""
    usable = available or frozenset(os.sched_getaffinity(0))
    measure = max(usable)
    for taken in (threads(measure), frozenset({measure}), frozenset[int]()):
        if usable - taken:
            break
    rest = usable - taken
    return Cores(measure=measure, compile=max(rest), rest=rest)
