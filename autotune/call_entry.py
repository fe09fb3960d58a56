"""From a kernel at one shape to machine code ready to be called: the stored winner if it can be trusted, else the
reference candidate. Must not know a call's arrays beyond their shapes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from autotune.call_errors import StalePolicyWarning, UntunedWarning
from autotune.ir.program import Number, Program, Scalar
from autotune.planner import Answer, NoPolicy, Policy
from autotune.realizations.candidate import Candidate
from autotune.realizations.target import Target
from autotune.store.errors import StoreError

WORKSPACE_ALIGNMENT_BYTES = 64

Run: TypeAlias = Callable[[Any], None]


class Kernel(Protocol):
    """What a call needs to know of a kernel."""

    @property
    def name(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def program(self) -> Program: ...
    def bind(self, **dims: Number) -> Program: ...


class Compiled(Protocol):
    """Machine code of one candidate; see `autotune.build`."""

    @property
    def object_bytes(self) -> bytes: ...
    @property
    def sha256(self) -> str: ...
    @property
    def symbol(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def packets(self) -> int: ...


class Handle(Protocol):
    """Loaded code; see `autotune.jit`."""

    @property
    def address(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backend:
    """What turns a policy into running code. `refusal` and `fault` give a sentence where something is wrong.

    `fault(kernel, program, sizes, scalars, run)` runs code on its own data, given as argument slots, and compares with
    the oracle.
    """

    target: Target
    lookup: Callable[[Kernel, Mapping[str, int], Target], Answer]
    refusal: Callable[[Program, Candidate, Target], str | None]
    reference: Callable[[Program, Target], Candidate]
    build: Callable[[Program, Candidate, Target], Compiled]
    load: Callable[[bytes, str], Handle]
    fault: Callable[[Kernel, Program, Mapping[str, int], Mapping[str, Number], Run], str | None]


class Origin(Enum):
    """Why this code runs."""

    TUNED = "the stored winner, byte for byte as measured"
    RECHECKED = "the stored winner, compiled to other code and checked again"
    REFERENCE = "the reference candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One warning that a call has to give."""

    category: type[UserWarning]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """Machine code of a kernel at one shape; `handle` keeps it loaded."""

    origin: Origin
    candidate: Candidate
    packets: int
    workspace_bytes: int
    function: Callable[[Any, int, int, int], None]
    handle: Handle

    def run(self, slots: Any, workspace: int) -> None:
        """Run every packet; releases the interpreter lock while it does. `slots` is an array of 64-bit values."""
        self.function(slots, workspace, 0, self.packets)

    def run_alone(self, slots: Any) -> None:
        """Run every packet on a workspace of its own, poisoned with NaN."""
        block = np.full(self.workspace_bytes + WORKSPACE_ALIGNMENT_BYTES, 0xFF, dtype=np.uint8)
        self.run(slots, _aligned(block))


class Workspaces(threading.local):
    """Scratch memory of the calling thread: one block, grown to the largest need so far."""

    def __init__(self) -> None:
        self.size_bytes = -1
        self.address = 0
        self._memory: Any = None

    def at_least(self, size_bytes: int) -> int:
        """Address of a block of that size, aligned to 64 bytes."""
        if size_bytes > self.size_bytes:
            self._memory = np.empty(size_bytes + WORKSPACE_ALIGNMENT_BYTES, dtype=np.uint8)
            self.address = _aligned(self._memory)
            self.size_bytes = size_bytes
        return self.address


def _aligned(block: npt.NDArray[np.uint8]) -> int:
    start = int(block.ctypes.data)
    return start + -start % WORKSPACE_ALIGNMENT_BYTES


# A plain prototype, not PYFUNCTYPE: it drops the interpreter lock around the call.
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def prepare(
    kernel: Kernel, sizes: Mapping[str, int], scalars: Mapping[str, Number], backend: Backend
) -> tuple[Entry, tuple[Note, ...]]:
    """Code for a kernel at one shape, and what the user has to be told about it.

    Raises: what binding the shape, building the reference candidate or loading raises.
    """
    program = kernel.bind(**sizes)
    command = _search_command(kernel, sizes, scalars, backend.target)
    try:
        answer = backend.lookup(kernel, sizes, backend.target)
    except StoreError as error:
        answer = NoPolicy(why=str(error))
    match answer:
        case NoPolicy(why=why):
            text = f"{kernel.name} at {_listed(sizes)} runs the reference candidate: {why}. Tune it with: {command}"
            return _reference(program, backend), (Note(category=UntunedWarning, text=text),)
        case Policy():
            entry, finding = _from_policy(kernel, program, sizes, scalars, answer, backend)
            if finding is None:
                return entry, ()
            advice = f"the stored winner {answer.candidate.id} of {kernel.name} at {_listed(sizes)} {finding}"
            return entry, (Note(category=StalePolicyWarning, text=f"{advice}. Tune it again: {command}"),)


def _from_policy(
    kernel: Kernel,
    program: Program,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Number],
    policy: Policy,
    backend: Backend,
) -> tuple[Entry, str | None]:
    """The winner if it is what was measured or can be shown to be right; what is to be said of it otherwise."""
    refusal = backend.refusal(program, policy.candidate, backend.target)
    if refusal is not None:
        return _reference(program, backend), f"is not legal any more ({refusal}); the reference candidate runs"
    compiled = backend.build(program, policy.candidate, backend.target)
    if compiled.sha256 == policy.object_sha256:
        return _entry(Origin.TUNED, policy.candidate, compiled, backend), None
    change = "was never measured"
    if policy.object_sha256 is not None:
        change = f"compiles to other code than was measured ({compiled.sha256[:12]}, not {policy.object_sha256[:12]})"
    entry = _entry(Origin.RECHECKED, policy.candidate, compiled, backend)
    fault = backend.fault(kernel, program, sizes, scalars, entry.run_alone)
    if fault is not None:
        return _reference(program, backend), f"{change} and is wrong: {fault}; the reference candidate runs"
    return entry, f"{change}; it was checked again and is correct, but its time is not known"


def _reference(program: Program, backend: Backend) -> Entry:
    candidate = backend.reference(program, backend.target)
    return _entry(Origin.REFERENCE, candidate, backend.build(program, candidate, backend.target), backend)


def _entry(origin: Origin, candidate: Candidate, compiled: Compiled, backend: Backend) -> Entry:
    handle = backend.load(compiled.object_bytes, compiled.symbol)
    return Entry(
        origin=origin,
        candidate=candidate,
        packets=compiled.packets,
        workspace_bytes=compiled.workspace_bytes,
        function=_ENTRY(handle.address),
        handle=handle,
    )


def _listed(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in sizes.items()) or "its fixed shape"


def _search_command(kernel: Kernel, sizes: Mapping[str, int], scalars: Mapping[str, Number], target: Target) -> str:
    defaults = {p.name: p.default for p in kernel.program.parameters if isinstance(p, Scalar)}
    needed = {name: value for name, value in scalars.items() if defaults[name] is None}
    shape = ",".join(f"{name}={value}" for name, value in (*sizes.items(), *needed.items()))
    option = f" --shape {shape}" if shape else ""
    return f"autotune search {kernel.file} --kernel {kernel.name}{option} --target simd:{target.name}"
