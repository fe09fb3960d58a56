"""A kernel called from Python: arguments in, the best known code run in place on them.
Must not know how candidates are chosen, and learns machine code only through its backend."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from autotune.call_arguments import Array, Signature, address
from autotune.call_entry import Backend, Entry, Kernel, Note, Workspaces, prepare

ShapeClass: TypeAlias = tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]

_READABLE = 0x0101  # the flags C_CONTIGUOUS and ALIGNED of an array, as numbers
_WRITEABLE = 0x0400
_USER_FRAME = 3  # warnings name the caller of `Kernel.__call__`, which calls `call`


class Dispatcher:
    """Calls of one kernel on one target: what was prepared for each shape class, and the short way to it."""

    def __init__(self, kernel: Kernel, backend: Backend, lock: threading.Lock | None = None) -> None:
        self.kernel = kernel
        self.entries: dict[ShapeClass, Entry | None] = {}
        self._backend = backend
        self._signature = Signature.of(kernel.name, kernel.program)
        self._tensors = self._signature.tensors
        self._packers = self._signature.scalar_packers()
        self._count = len(kernel.program.parameters)
        outputs = self._signature.outputs
        self._flags = tuple(_READABLE | (_WRITEABLE if k in outputs else 0) for k in self._tensors)
        places = {position: place for place, position in enumerate(self._tensors)}
        self._outputs = tuple(places[position] for position in outputs)
        self._slots = ctypes.c_uint64 * max(1, len(self._tensors) + len(self._packers))
        self._workspaces = Workspaces()
        self._lock = lock or threading.Lock()

    def __call__(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Note, ...]:
        """Run the kernel; the warnings that this call is the first to cause.

        Raises: CallError and its subclasses; what preparing code raises.
        """
        values = args if not kwargs and len(args) == self._count else self._signature.order(args, kwargs)
        arrays: list[Any] = [values[position] for position in self._tensors]
        for array in arrays:
            if type(array) is not np.ndarray:
                arrays = self._signature.arrays(values)
                break
        key = tuple([(array.dtype, array.shape) for array in arrays])
        addresses = [address(array) for array in arrays]
        notes: tuple[Note, ...] = ()
        if key not in self.entries:
            notes = self._first(key, arrays, values)
        elif not self._fits(arrays, addresses):
            self._signature.check(arrays)
        entry = self.entries[key]
        if entry is None:
            return notes
        slots = self._slots(*addresses, *[pack(values[position]) for position, pack in self._packers])
        entry.function(slots, self._workspaces.at_least(entry.workspace_bytes), 0, entry.packets)
        return notes

    def _fits(self, arrays: list[Array], addresses: list[int]) -> bool:
        """Whether arrays of a known shape class lie in memory as they have to; `Signature.check` says what does not."""
        for array, flags in zip(arrays, self._flags, strict=True):
            if array.flags.num & flags != flags:
                return False
        ends = [start + array.nbytes for array, start in zip(arrays, addresses, strict=True)]
        for place in self._outputs:
            start, stop = addresses[place], ends[place]
            for other, begin in enumerate(addresses):
                if begin < stop and start < ends[other] and other != place:
                    return False
        return True

    def _first(self, key: ShapeClass, arrays: list[Array], values: Sequence[object]) -> tuple[Note, ...]:
        """Prepare code for a shape class that is new here; one thread does, others wait for it."""
        sizes = self._signature.check(arrays)
        scalars: dict[str, Any] = {}
        for position, pack in self._packers:
            pack(values[position])
            scalars[self.kernel.program.parameters[position].name] = values[position]
        with self._lock:
            if key in self.entries:
                return ()
            if all(arrays[place].size == 0 for place in self._outputs):
                self.entries[key] = None  # nothing to write
                return ()
            entry, notes = prepare(self.kernel, sizes, scalars, self._backend)
            self.entries[key] = entry
            return notes


class Calls:
    """Every kernel called through one backend, prepared once; preparing happens in one thread at a time."""

    def __init__(self, make_backend: Callable[[], Backend]) -> None:
        self._make_backend = make_backend
        self._backend: Backend | None = None
        self._dispatchers: dict[int, Dispatcher] = {}
        self._lock = threading.Lock()

    def dispatcher(self, kernel: Kernel) -> Dispatcher:
        """The dispatcher of a kernel; it keeps the kernel, so that no other object gets its identity."""
        found = self._dispatchers.get(id(kernel))
        if found is not None:
            return found
        with self._lock:
            if self._backend is None:
                self._backend = self._make_backend()
            if id(kernel) not in self._dispatchers:
                self._dispatchers[id(kernel)] = Dispatcher(kernel, self._backend, self._lock)
            return self._dispatchers[id(kernel)]


def _backend_of_settings() -> Backend:
    from autotune.call_backend import default_backend  # the first compile loads LLVM and the emitter

    return default_backend()


_CALLS = Calls(_backend_of_settings)


def call(kernel: Kernel, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Run the best known code of a kernel in place on its arguments.

    NumPy arrays and objects that export DLPack are used without a copy. The first call of a shape class looks up its
    policy and compiles; without a policy the reference candidate runs and one warning says how to tune it.

    Raises: CallError and its subclasses for arguments that do not fit; what binding and compiling raise.
    """
    for note in _CALLS.dispatcher(kernel)(args, kwargs):
        warnings.warn(note.text, note.category, stacklevel=_USER_FRAME)
