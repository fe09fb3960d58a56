"""The process a benchmark runs in: one thread by every library's own option, one core, huge pages for malloc too.
Must not know what is measured."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

REQUIRED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # Peers that allocate their results get them from memory as good as the shared buffers.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0",
}


def restart_with_required_settings() -> None:
    """Replace this process by the same command with `REQUIRED` set, unless it is set already.

    The libraries read these when they are loaded, malloc even before Python starts.
    """
    if any(os.environ.get(name) != value for name, value in REQUIRED.items()):
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], {**os.environ, **REQUIRED})


@contextmanager
def pinned() -> Iterator[int]:
    """Run the block on the last core that this process may use, and say which."""
    allowed = os.sched_getaffinity(0)
    core = max(allowed)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, allowed)
