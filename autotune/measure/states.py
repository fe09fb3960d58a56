"""The one list of states in which a candidate can end, and what is recorded with each.
Must not know how an outcome is found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

from autotune.ir.serial import Json, from_json, to_json


class State(Enum):
    """Where a candidate ends; every candidate ends in exactly one."""

    MEASURED = "measured"
    RACED_OUT = "correct but raced out"
    REFUSED = "refused"
    OVER_BUDGET = "over budget"
    PRUNED = "pruned by model"
    COMPILE_ERROR = "compile error"
    COMPILE_TIMEOUT = "compile timeout"
    CRASH = "crash"
    TIMEOUT = "timeout"
    WRONG = "wrong"
    NOISY = "noisy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What the gate looked at: input kinds at full shape, whether each ran twice, and against which guard pages."""

    kinds: tuple[str, ...]
    repeated: bool
    guard_pages: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Right, and timed to the end of its race (or alone, when there was no incumbent).

    Units: nanoseconds a call. `log_ratios` holds one log(candidate / incumbent) a round, empty when timed alone.
    `few_calls` marks a kernel so slow that single calls had to do; `contended` samples that a busy machine disturbed
    and that were kept because repeating them had not helped.
    """

    state: ClassVar[State] = State.MEASURED
    ns: float
    samples_ns: tuple[float, ...]
    incumbent_samples_ns: tuple[float, ...] = ()
    log_ratios: tuple[float, ...] = ()
    promoted: bool = False
    redone_rounds: int = 0
    few_calls: bool = False
    contended: bool = False
    checks: Checks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RacedOut:
    """Right, and found slower than the incumbent before the race ended. `ratio` is candidate over incumbent.

    `contended` as in Measured.
    """

    state: ClassVar[State] = State.RACED_OUT
    ns: float
    ratio: float
    samples_ns: tuple[float, ...]
    incumbent_samples_ns: tuple[float, ...]
    log_ratios: tuple[float, ...]
    redone_rounds: int = 0
    contended: bool = False
    checks: Checks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Illegal: the named rule and the sentence with the values that broke it."""

    state: ClassVar[State] = State.REFUSED
    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudget:
    """Legal, but larger than a named budget allows."""

    state: ClassVar[State] = State.OVER_BUDGET
    budget: str
    value: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedByModel:
    """Legal, and left out because its predicted time is too long."""

    state: ClassVar[State] = State.PRUNED
    predicted_ns: float
    threshold_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileError:
    """The compiler raised; `text` is its message, `trace` where it was raised."""

    state: ClassVar[State] = State.COMPILE_ERROR
    text: str
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTimeout:
    """Still compiling at the deadline."""

    state: ClassVar[State] = State.COMPILE_TIMEOUT
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The worker process died of `signal` (or "exit N") while it was at `stage`; its peak resident memory beside.

    `text` is the end of what it had written to its error stream: LLVM says there why it aborts.
    """

    state: ClassVar[State] = State.CRASH
    signal: str
    stage: str
    peak_bytes: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """A run that did not end within `seconds`."""

    state: ClassVar[State] = State.TIMEOUT
    seconds: float
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """An answer outside its bound, or memory touched that is not the kernel's.

    Units: `error_over_bound` is the largest error divided by its bound, infinite where there is no number for it.
    `where` names the tensor and element or the guard, `kind` the run that showed it; `memory` is true where something
    other than an output was written to.
    """

    state: ClassVar[State] = State.WRONG
    error_over_bound: float
    where: str
    kind: str
    memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Noisy:
    """Right, but the machine never was quiet enough to time it: `redone_rounds` rounds were thrown away."""

    state: ClassVar[State] = State.NOISY
    redone_rounds: int
    samples_ns: tuple[float, ...]
    checks: Checks | None = None


CompileFailure: TypeAlias = CompileError | CompileTimeout | Crash
RunFailure: TypeAlias = Wrong | Crash | Timeout | OverBudget | CompileError
RaceResult: TypeAlias = Measured | RacedOut | Noisy
Outcome: TypeAlias = (
    Measured
    | RacedOut
    | Refused
    | OverBudget
    | PrunedByModel
    | CompileError
    | CompileTimeout
    | Crash
    | Timeout
    | Wrong
    | Noisy
)


def outcome_to_json(outcome: Outcome) -> Json:
    return to_json(outcome)


def outcome_from_json(data: Json) -> Outcome:
    """Raises: MalformedJson."""
    outcome: Outcome = from_json(Outcome, data)
    return outcome
