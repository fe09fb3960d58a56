"""The state of the measuring machine, read from the system: what may disturb timings and what is lacking.
Must not know what is good or bad about a reading; every reading is a function of texts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotune.measure.contention import stolen_ticks
from autotune.measure.cores import parse_processor_list

ReadText = Callable[[str], str | None]
"""The text of a system file, None where the system does not have it."""

CPUFREQ = "/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"
NO_TURBO = "/sys/devices/system/cpu/intel_pstate/no_turbo"
BOOST = "/sys/devices/system/cpu/cpufreq/boost"
SIBLINGS = "/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
NODES = "/sys/devices/system/node/online"
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
CACHES = "/sys/devices/system/cpu/cpu{core}/cache/index{index}/{part}"
QUOTA_V2 = "/sys/fs/cgroup{group}/cpu.max"
QUOTA_V1 = "/sys/fs/cgroup/cpu{group}/cpu.cfs_{part}_us"
MOST_CACHES = 8


def read_system(path: str) -> str | None:
    """A file of the running system, stripped."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineState:
    """What was read; None where the system does not tell.

    Units: `load_average` in runnable processes over the last minute; `steal` the part of a core's time since it
    started that a hypervisor gave to others, from 0 to 1; `quota_cores` processors' worth of time that the process
    group may use; `caches_bytes` by level, instruction caches left out; `array_alignments` the largest powers of two
    that addresses of fresh arrays are multiples of; `timer_ns` the least difference of two readings of the clock.
    """

    core: int
    cores: int
    governor: str | None
    turbo: bool | None
    load_average: float
    steal: float | None
    quota_cores: float | None
    siblings: frozenset[int]
    nodes: int
    caches_bytes: tuple[tuple[int, int], ...]
    huge_pages: str | None
    array_alignments: tuple[int, ...]
    timer_ns: int


def observe_machine(core: int, read: ReadText = read_system) -> MachineState:
    """The machine now, as seen from the core that measures."""
    return MachineState(
        core=core,
        cores=os.cpu_count() or 1,
        governor=read(CPUFREQ.format(core=core)),
        turbo=turbo(read(NO_TURBO), read(BOOST)),
        load_average=round(os.getloadavg()[0], 2),
        steal=steal_share(read("/proc/stat") or "", core),
        quota_cores=quota_cores(read),
        siblings=siblings(read(SIBLINGS.format(core=core)), core),
        nodes=node_count(read(NODES)),
        caches_bytes=cache_sizes(read, core),
        huge_pages=chosen_word(read(HUGE_PAGES)),
        array_alignments=tuple(array_alignment() for _ in range(16)),
        timer_ns=timer_resolution_ns(),
    )


def turbo(no_turbo: str | None, boost: str | None) -> bool | None:
    """Whether a core may run above its base clock, by the files of either driver."""
    if no_turbo is not None:
        return no_turbo == "0"
    return None if boost is None else boost == "1"


def steal_share(stat: str, core: int) -> float | None:
    """The stolen part of a core's time, by the text of /proc/stat."""
    for line in stat.splitlines():
        name, *ticks = line.split() or [""]
        if name == f"cpu{core}" and len(ticks) >= 8:
            total = sum(map(int, ticks[:8]))  # guest time, which follows, is part of user time
            return stolen_ticks(stat, core) / total if total else 0.0
    return None


def quota_cores(read: ReadText) -> float | None:
    """Processors' worth of time that the control group allows, version 2 or 1; None where there is no limit."""
    for group in control_groups(read("/proc/self/cgroup") or ""):
        limit = parse_quota(read(QUOTA_V2.format(group=group)))
        if limit is None:
            quota, period = (read(QUOTA_V1.format(group=group, part=part)) for part in ("quota", "period"))
            limit = parse_quota(f"{quota} {period}") if quota and period and not quota.startswith("-") else None
        if limit is not None:
            return limit
    return None


def control_groups(text: str) -> tuple[str, ...]:
    """Paths under which the limits of this process may stand, by /proc/self/cgroup; the root last."""
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2]
    return tuple(dict.fromkeys(["" if path == "/" else path for path in paths] + [""]))


def parse_quota(text: str | None) -> float | None:
    """`200000 100000` is two processors' worth; `max 100000` is no limit."""
    quota, _, period = (text or "max").partition(" ")
    return None if quota == "max" else int(quota) / int(period or 100_000)


def siblings(text: str | None, core: int) -> frozenset[int]:
    """Other logical processors on the same core."""
    return (parse_processor_list(text) if text else frozenset()) - {core}


def node_count(text: str | None) -> int:
    """Memory nodes, by the list of those online; 1 where the system has no such list."""
    return len(parse_processor_list(text)) if text else 1


def cache_sizes(read: ReadText, core: int) -> tuple[tuple[int, int], ...]:
    """Level and bytes of each cache that holds data."""
    found: dict[int, int] = {}
    for index in range(MOST_CACHES):
        kind, level, size = (
            read(CACHES.format(core=core, index=index, part=part)) for part in ("type", "level", "size")
        )
        if kind in ("Data", "Unified") and level and size:
            found[int(level)] = parse_size(size)
    return tuple(sorted(found.items()))


def parse_size(text: str) -> int:
    """`32K`, `1M` or plain bytes."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * scale


def chosen_word(text: str | None) -> str | None:
    """The word in brackets: `always [madvise] never` is `madvise`."""
    if text is None or "[" not in text:
        return None
    return text.partition("[")[2].partition("]")[0]


def array_alignment(elements: int = 4096) -> int:
    """The largest power of two that the address of a fresh array is a multiple of."""
    address = int(np.empty(elements, dtype=np.float32).ctypes.data)
    return address & -address


def timer_resolution_ns(now_ns: Callable[[], int] = time.perf_counter_ns, readings: int = 1000) -> int:
    """The least difference above zero between readings of the clock that follow each other.

    Units: nanoseconds.
    """
    return least_step([now_ns() for _ in range(readings)])


def least_step(readings_ns: Sequence[int]) -> int:
    """The least difference above zero between neighbours; 0 where there is none."""
    steps = np.diff(np.asarray(readings_ns, dtype=np.int64))
    return int(steps[steps > 0].min(initial=np.iinfo(np.int64).max)) if (steps > 0).any() else 0
