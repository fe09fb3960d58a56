"""Messages between a session and its worker processes.
Must not know how either side acts on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from autotune.ir.program import Program
from autotune.measure.buffers import ALIGNMENT_BYTES, Layout
from autotune.measure.canary import CanaryTimes
from autotune.measure.cases import Case, Envelope


class Kernel(Protocol):
    """What measuring needs to know of a compiled kernel.

    `entry(args, workspace, first, last)` is exported as `symbol` and runs packets first..last-1 of `packets`.
    """

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
    @property
    def code_bytes(self) -> int: ...
    @property
    def compile_seconds(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a session measures; stored once, where every worker can read it. `envelopes` are those of the cases.

    `cold` holds the numbers of the tensors that are in no cache when a timed call starts, `alignment_bytes` what the
    tensors' addresses are multiples of.
    """

    program: Program
    target: Any
    cases: tuple[Case, ...]
    envelopes: tuple[dict[str, Envelope], ...]
    layout: Layout
    build: str
    seed: int
    l2_bytes: int
    memory_bytes: int
    alignment_bytes: int = ALIGNMENT_BYTES
    cold: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Compile a candidate, with other code of about `padding_bytes` before its entry."""

    candidate: Any
    padding_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """Check a kernel; no single call may take longer than `call_seconds`."""

    kernel: Kernel
    call_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRequest:
    """Race a kernel; log ratios below `margin` say nothing. `canaries` are the run's first."""

    kernel: Kernel
    incumbent: Kernel
    margin: float
    canaries: CanaryTimes
    call_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRequest:
    """Race a kernel against itself under two names."""

    kernel: Kernel
    canaries: CanaryTimes
    call_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRequest:
    kernel: Kernel
    canaries: CanaryTimes
    call_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsRequest:
    """Time several kernels in `rounds` interleaved rounds."""

    kernels: tuple[Kernel, ...]
    rounds: int
    canaries: CanaryTimes
    call_seconds: float


Request: TypeAlias = BuildRequest | GateRequest | RaceRequest | NoiseRequest | TimeRequest | RoundsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The worker begins something that must end within `seconds`; what it is, for the record of a crash."""

    text: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The worker's Python raised; it lives on."""

    text: str
    trace: str
    out_of_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """First message of a worker: where it runs, what its memory is backed by, what canaries take in it.

    A compiling worker has neither memory nor canaries.
    """

    core: int
    huge_page_bytes: int = 0
    canaries: CanaryTimes | None = None


Reply: TypeAlias = Stage | Done | Raised | Hello
