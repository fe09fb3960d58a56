"""Memory that kernels are run on: aligned and guarded arenas, pages that fault at a tensor's ends, shared input data.
Must not know what a kernel computes or how it is timed."""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autotune.ir.program import Program, Tensor
from autotune.ir.types import DType

ALIGNMENT_BYTES = 64
GUARD_BYTES = 1024
HUGE_PAGE_BYTES = 2 * 1024 * 1024
WORKSPACE_SHIFT_BYTES = 512  # keeps the workspace off the cache sets and the 4 KiB offset where the tensors begin
ARGUMENTS_SHIFT_BYTES = 2304
SLOTS_A_LINE = ALIGNMENT_BYTES // 8
NAN_POISON = 0xFF  # every float is NaN, every integer -1
HUGE_POISON = 0x7E  # f32 8.4e37: seen by max and min, which pass over NaN
GUARD_POISON = 0xA5

Bytes: TypeAlias = npt.NDArray[np.uint8]
Array: TypeAlias = npt.NDArray[Any]

MEMORY_TYPES: dict[DType, np.dtype[Any]] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(np.uint16),
    DType.I64: np.dtype(np.int64),
    DType.I32: np.dtype(np.int32),
    DType.I8: np.dtype(np.int8),
    DType.BOOL: np.dtype(np.bool_),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Place of one tensor parameter in an arena; strides in bytes, the first element at `offset_bytes`."""

    parameter: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Places of all tensors of a program in one arena, a guard band before, between and after them."""

    slots: tuple[Slot, ...]
    size_bytes: int

    @property
    def data_bytes(self) -> int:
        """Bytes of the tensors alone: the working set of one call, without its workspace."""
        return sum(s.size_bytes for s in self.slots)


def plan_layout(
    program: Program, parameters: frozenset[int] | None = None, alignment_bytes: int = ALIGNMENT_BYTES
) -> Layout:
    """Place the tensors of a bound program (all, or those named by number) on cache lines of their own.

    Each starts so many bytes after the start of a line that its address is a multiple of `alignment_bytes` (a power of
    two, at most a line) and of no larger power of two below a line: 16 is what arrays of NumPy often have.
    """
    shift = alignment_bytes % ALIGNMENT_BYTES
    slots: list[Slot] = []
    end = 0
    for number, parameter in enumerate(program.parameters):
        if not isinstance(parameter, Tensor) or (parameters is not None and number not in parameters):
            continue
        shape, strides, size = _extent(parameter)
        offset = _round_up(end + GUARD_BYTES, ALIGNMENT_BYTES) + shift
        slots.append(
            Slot(
                parameter=number,
                name=parameter.name,
                dtype=parameter.dtype,
                shape=shape,
                strides_bytes=strides,
                offset_bytes=offset,
                size_bytes=size,
            )
        )
        end = offset + size
    return Layout(slots=tuple(slots), size_bytes=_round_up(end + GUARD_BYTES, ALIGNMENT_BYTES))


def _extent(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides in bytes and bytes spanned by a bound tensor."""
    shape = tuple(extent.evaluate({}) for extent in tensor.shape)
    strides = tensor.strides
    if strides is None:
        strides = tuple(int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape)))
    elements = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    item = tensor.dtype.size_bytes
    return shape, tuple(s * item for s in strides), elements * item


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _anonymous(size_bytes: int) -> tuple[mmap.mmap, Bytes]:
    """A private mapping that starts on a huge page, with huge pages asked for."""
    size = _round_up(max(size_bytes, 1), HUGE_PAGE_BYTES)
    mapping = mmap.mmap(-1, size + HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    raw: Bytes = np.frombuffer(mapping, dtype=np.uint8)
    start = -raw.ctypes.data % HUGE_PAGE_BYTES
    return mapping, raw[start : start + size]


def huge_page_bytes(memory: Bytes) -> int:
    """How much of a touched mapping the system backs with huge pages; 0 where it does not say."""
    address, inside, total = memory.ctypes.data, False, 0
    try:
        with open("/proc/self/smaps", encoding="ascii", errors="replace") as lines:
            for line in lines:
                head = line.split(None, 1)[0]
                if "-" in head and not head.endswith(":"):
                    low, high = (int(part, 16) for part in head.split("-"))
                    inside = low < address + memory.size and address < high
                elif inside and head == "AnonHugePages:":
                    total += int(line.split()[1]) * 1024
    except OSError:
        return 0
    return total


class Arena:
    """One copy of all tensors of a program in private memory: cache-line aligned, huge pages where there are any."""

    __slots__ = ("_mapping", "layout", "memory")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._mapping, memory = _anonymous(layout.size_bytes)
        self.memory: Bytes = memory[: layout.size_bytes]
        self.memory[:] = GUARD_POISON

    def raw(self, slot: Slot) -> Bytes:
        """All bytes from the first to the last element of a tensor."""
        return self.memory[slot.offset_bytes : slot.offset_bytes + slot.size_bytes]

    def tensor(self, slot: Slot) -> Array:
        return view(self.raw(slot), slot)

    def address(self, slot: Slot) -> int:
        return int(self.memory.ctypes.data) + slot.offset_bytes

    def broken_guard(self) -> str | None:
        """The tensor beside which a guard byte changed, and on which side; None where all are intact."""
        end, previous = 0, ""
        for slot in self.layout.slots:
            changed = np.flatnonzero(self.memory[end : slot.offset_bytes] != GUARD_POISON)
            if changed.size:
                after = end and changed[0] < (slot.offset_bytes - end) // 2
                return f"guard after {previous}" if after else f"guard before {slot.name}"
            end, previous = slot.offset_bytes + slot.size_bytes, slot.name
        if np.any(self.memory[end:] != GUARD_POISON):
            return f"guard after {previous}"
        return None

    def heal(self) -> None:
        """Make all guard bands intact again."""
        end = 0
        for slot in self.layout.slots:
            self.memory[end : slot.offset_bytes] = GUARD_POISON
            end = slot.offset_bytes + slot.size_bytes
        self.memory[end:] = GUARD_POISON


def view(raw: Bytes, slot: Slot) -> Array:
    """The elements of a tensor in its bytes."""
    return np.ndarray(slot.shape, MEMORY_TYPES[slot.dtype], buffer=raw.data, strides=slot.strides_bytes)


class Workspace:
    """Private memory of one worker between guard bands, grown to the largest kernel seen."""

    __slots__ = ("_capacity", "_mapping", "_memory", "_used")

    _START = GUARD_BYTES + WORKSPACE_SHIFT_BYTES

    def __init__(self) -> None:
        self._used = 0
        self._allocate(HUGE_PAGE_BYTES - self._START - GUARD_BYTES)

    def _allocate(self, capacity: int) -> None:
        self._mapping, self._memory = _anonymous(self._START + capacity + GUARD_BYTES)
        self._capacity = self._memory.size - self._START - GUARD_BYTES

    def prepare(self, size_bytes: int, poison: int) -> int:
        """Address of `size_bytes` poisoned bytes between intact guards.

        Raises: MemoryError where the system has not that much.
        """
        if size_bytes > self._capacity:
            try:
                self._allocate(size_bytes)
            except OSError as error:
                raise MemoryError(f"no memory for a workspace of {size_bytes} bytes") from error
        self._used = size_bytes
        end = self._START + size_bytes
        self._memory[self._START - GUARD_BYTES : self._START] = GUARD_POISON
        self._memory[self._START : end] = poison
        self._memory[end : end + GUARD_BYTES] = GUARD_POISON
        return int(self._memory.ctypes.data) + self._START

    def broken_guard(self) -> str | None:
        end = self._START + self._used
        if np.any(self._memory[self._START - GUARD_BYTES : self._START] != GUARD_POISON):
            return "guard before workspace"
        if np.any(self._memory[end : end + GUARD_BYTES] != GUARD_POISON):
            return "guard after workspace"
        return None


class ArgumentBlock:
    """Argument arrays of the call that comes next, at one place for all kernels: its address alone can cost 1 %."""

    __slots__ = ("_mapping", "_memory")

    def __init__(self) -> None:
        self._mapping, self._memory = _anonymous(HUGE_PAGE_BYTES)

    def write(self, rows: list[npt.NDArray[np.uint64]]) -> int:
        """Address of a table with the address of each row of 64-bit slots; holds until the next call."""
        words = self._memory[ARGUMENTS_SHIFT_BYTES:].view(np.uint64)
        base, at = int(words.ctypes.data), _round_up(len(rows), SLOTS_A_LINE)
        for number, row in enumerate(rows):
            words[number] = base + 8 * at
            words[at : at + len(row)] = row
            at = _round_up(at + len(row), SLOTS_A_LINE)
        return base


class Edge(Enum):
    """Which end of a tensor touches the page that faults."""

    END = "end"
    START = "start"


class FencedBuffer:
    """Bytes with an inaccessible page on either side, flush with one of them.

    Flush with the end only as far as `alignment_bytes` allows: the bytes left over are poison, not a fault.
    """

    __slots__ = ("_base", "_mapping", "_size", "raw")

    def __init__(self, size_bytes: int, alignment_bytes: int, edge: Edge) -> None:
        page = mmap.PAGESIZE
        inner = _round_up(max(size_bytes, 1), page)
        self._mapping = mmap.mmap(-1, inner + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory: Bytes = np.frombuffer(self._mapping, dtype=np.uint8)
        self._base, self._size = int(memory.ctypes.data), memory.size
        memory[page : page + inner] = NAN_POISON
        start = page if edge is Edge.START else page + inner - _round_up(size_bytes, alignment_bytes)
        self.raw: Bytes = memory[start : start + size_bytes]
        _protect(self._base, page, accessible=False)
        _protect(self._base + page + inner, page, accessible=False)

    @property
    def address(self) -> int:
        return int(self.raw.__array_interface__["data"][0])

    def close(self) -> None:
        """Make the fences accessible, so that freed addresses carry no surprise for their next owner."""
        _protect(self._base, self._size, accessible=True)


def _protect(address: int, size_bytes: int, *, accessible: bool) -> None:
    flags = mmap.PROT_READ | mmap.PROT_WRITE if accessible else 0
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), ctypes.c_int(flags)):
        number = ctypes.get_errno()
        raise OSError(number, f"mprotect of {size_bytes} bytes: {os.strerror(number)}")


class SharedObject:
    """An object whose arrays lie once in memory that parent and workers map; only the owner can write it.

    The arrays of `load` are read-only views of the mapping, which stays as long as they are used.
    """

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def store(cls, value: object) -> SharedObject:
        """Write `value` into a new nameless file in memory."""
        parts: list[pickle.PickleBuffer] = []
        header = pickle.dumps(value, protocol=5, buffer_callback=parts.append)
        raws = [part.raw() for part in parts]
        spans, end = [], 0
        for raw in raws:
            offset = _round_up(end, ALIGNMENT_BYTES)
            spans.append((offset, raw.nbytes))
            end = offset + raw.nbytes
        index = pickle.dumps((header, tuple(spans)))
        shared = cls(os.memfd_create("autotune-measure", os.MFD_CLOEXEC))
        data = _round_up(8 + len(index), ALIGNMENT_BYTES)
        os.ftruncate(shared.descriptor, data + max(end, 1))
        with mmap.mmap(shared.descriptor, 0) as mapping:
            mapping[:8] = len(index).to_bytes(8, "little")
            mapping[8 : 8 + len(index)] = index
            for (offset, size), raw in zip(spans, raws, strict=True):
                mapping[data + offset : data + offset + size] = bytes(raw) if size < 4096 else raw
        return shared

    def load(self) -> Any:
        """The stored object."""
        mapping = memoryview(mmap.mmap(self.descriptor, 0, prot=mmap.PROT_READ))
        length = int.from_bytes(mapping[:8], "little")
        header, spans = pickle.loads(mapping[8 : 8 + length])
        data = _round_up(8 + length, ALIGNMENT_BYTES)
        return pickle.loads(header, buffers=[mapping[data + o : data + o + n] for o, n in spans])

    def close(self) -> None:
        os.close(self.descriptor)
