"""The circumstances of a measurement: machine, core, load, page size, alignment, toolchain.
Must not know what was measured."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from autotune.jit import llvm_version
from autotune.measure.buffers import ALIGNMENT_BYTES
from autotune.measure.noise import NoiseFloor

HOT = "hot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Recorded with every measurement.

    `cache` is "hot", or "cold" and the tensors that are in no cache when a timed call starts; `noise` what a kernel
    raced against itself showed.
    Units: `load_average` in runnable processes over the last minute; `huge_page_bytes` of the tensors' memory.
    """

    cpu_model: str
    core: int
    cores: int
    governor: str
    load_average: float
    alignment_bytes: int
    huge_page_bytes: int
    cache: str
    kernel: str
    llvm: str
    llvmlite: str
    noise: NoiseFloor | None = None


def observe(
    *, core: int, huge_page_bytes: int, alignment_bytes: int = ALIGNMENT_BYTES, cache: str = HOT
) -> Environment:
    """The circumstances now, on `core`; `noise` is known only once a kernel was raced against itself."""
    return Environment(
        cpu_model=_cpu_model(),
        core=core,
        cores=os.cpu_count() or 1,
        governor=_text(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"),
        load_average=round(os.getloadavg()[0], 2),
        alignment_bytes=alignment_bytes,
        huge_page_bytes=huge_page_bytes,
        cache=cache,
        kernel=platform.release(),
        llvm=llvm_version(),
        llvmlite=version("llvmlite"),
    )


@cache
def _cpu_model() -> str:
    for line in _text("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _text(path: str) -> str:
    """A system file's text; "unknown" where the system does not have it."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "unknown"
