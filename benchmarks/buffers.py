"""Memory that ours and every peer share: one mapping a case, huge pages where the system allows, aligned to 64 bytes.
Must not know what is computed in it."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.case import Case

ALIGNMENT_BYTES = 64
HUGE_PAGE_BYTES = 2 << 20
_SCRATCH_BYTES = 16 << 20
_STAGGER_BYTES = 7 * ALIGNMENT_BYTES
"""Kept between neighbours, so that equal offsets in two tensors do not fall on equal low twelve address bits."""


class ArenaFull(MemoryError):
    """More was asked of an arena than it was made for."""

    def __init__(self, asked_bytes: int, left_bytes: int) -> None:
        super().__init__(f"the case's arena has {left_bytes} bytes left and {asked_bytes} were asked: raise its size")


class Arena:
    """A prefaulted anonymous mapping that hands out aligned arrays and is never given back piecemeal."""

    def __init__(self, size_bytes: int) -> None:
        pages = -(-size_bytes // HUGE_PAGE_BYTES) + 1
        self._mapping = mmap.mmap(-1, pages * HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._mapping.madvise(mmap.MADV_HUGEPAGE)
        self._bytes: NDArray[np.uint8] = np.frombuffer(self._mapping, dtype=np.uint8)
        self._bytes.fill(0)
        self._base = self._bytes.ctypes.data
        self._next = -self._base % HUGE_PAGE_BYTES

    def array(self, shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> NDArray[np.generic]:
        """A zeroed array of `shape`, aligned to `ALIGNMENT_BYTES`.

        Raises: ArenaFull.
        """
        kind = np.dtype(dtype)
        size = int(np.prod(shape)) * kind.itemsize
        start = self._next
        if start + size > self._bytes.size:
            raise ArenaFull(size, self._bytes.size - start)
        self._next = -(-(start + size) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + _STAGGER_BYTES
        return self._bytes[start : start + size].view(kind).reshape(shape)

    def pages(self) -> str:
        """`huge`, `small` or `mixed`: what the kernel says backs the mapping."""
        total, huge = _smaps_bytes(self._base)
        if huge == 0:
            return "small"
        return "huge" if huge + HUGE_PAGE_BYTES >= total else "mixed"


def _smaps_bytes(address: int) -> tuple[int, int]:
    """Bytes of the mapping that holds `address`, and how many of them lie in huge pages."""
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        return 0, 0
    inside, total = False, 0
    for line in smaps.read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if "-" in first and not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            inside, total = start <= address < end, end - start
        elif inside and first == "AnonHugePages:":
            return total, int(line.split()[1]) * 1024
    return 0, 0


class Buffers:
    """A case's inputs and output in one arena."""

    def __init__(self, case: Case, seed: int) -> None:
        inputs = case.inputs(seed)
        size = sum(array.nbytes + 4096 for array in inputs.values()) + int(np.prod(case.output)) * 4 + 4096
        self._arena = Arena(size + _SCRATCH_BYTES)
        self.inputs: dict[str, NDArray[np.generic]] = {}
        for name, array in inputs.items():
            self.inputs[name] = self._arena.array(array.shape, array.dtype)
            self.inputs[name][...] = array
        self.y: NDArray[np.float32] = self._arena.array(case.output, np.float32).view(np.float32)
        self.pages = self._arena.pages()

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all inputs and of the output."""
        return sum(array.nbytes for array in self.inputs.values()) + self.y.nbytes

    def scratch(self, size_bytes: int) -> int:
        """The address of `size_bytes` more, for a workspace or an intermediate."""
        return self._arena.array((size_bytes,), np.uint8).ctypes.data

    def poison(self) -> None:
        """Fill the output with NaN, so that an element never written is seen."""
        self.y.fill(np.nan)
