"""What a search hands back: the winner against the reference, where every candidate ended, where the time went.
Must not know how any of it was found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from autotune.ir.serial import Json, to_json
from autotune.measure.noise import NoiseFloor
from autotune.realizations.candidate import Candidate
from autotune.search.ledger import FailureCause, RefusedRule, StateCount
from autotune.search.space import JoinStatus
from autotune.search.stop import StopRule


class Ending(Enum):
    """How a search ended."""

    IMPROVED = "improved"
    REFERENCE_KEPT = "reference kept"
    NOTHING_LEGAL = "nothing legal"
    NOTHING_CORRECT = "nothing correct"
    COMPILED = "compiled, not measured"  # for a target that this machine cannot run; there is no winner
    NOTHING_COMPILED = "nothing compiled"  # for such a target, every candidate that was tried failed in the compiler
    INTERRUPTED = "interrupted"  # by the user; the winner is the best so far, if any


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A candidate with its time.

    Units: nanoseconds a call; nine in ten samples of the shoot-out lie below `upper_ns`, None where it was only raced.
    """

    id: str
    candidate: Candidate
    ns: float
    upper_ns: float | None
    predicted_ns: float | None
    code_bytes: int | None
    workspace_bytes: int | None
    object_sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """A candidate that was compiled for a target this machine cannot run.

    `failure` is what the compiler said, None where it compiled.
    Units: nanoseconds a call, predicted; seconds of lowering, emission and LLVM together.
    """

    id: str
    candidate: Candidate
    reference: bool
    predicted_ns: float
    compile_seconds: float | None = None
    code_bytes: int | None = None
    workspace_bytes: int | None = None
    object_sha256: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audits:
    """Candidates that were drawn uniformly from all legal ones, whatever the model says of them: `timed` of them, the
    fastest in `best_ratio` times the winner's time (None where none was timed). Below 1, the model's cut was wrong.
    """

    timed: int = 0
    best_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondsSpent:
    """Where the wall-clock time of one run went; compiling overlaps checking and measuring."""

    preparing: float = 0.0
    compiling: float = 0.0
    checking: float = 0.0
    measuring: float = 0.0
    total: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Outcome of searching one workload.

    `trials` counts the candidates that ended, `restored` those of them that earlier runs had ended. `join` says what
    the set is of all legal candidates. `tied` marks a winner that another finalist equals within the tie band. No
    candidate but the reference was allowed a mechanism in `forbidden`, or to depart from a condition in `only`.
    `repro` is the folder under which crashes, wrong results and timeouts can be replayed from, by candidate.
    `noise` is what a kernel raced against itself showed in the last run that measured; None where none did.
    `cold` names the tensors that no cache held when a call started, `alignment_bytes` what addresses were multiples of.
    `compiled` lists what was compiled for a target that this machine cannot run, in order; such a search has no trials,
    for nothing was measured.
    """

    title: str
    workload: str
    target: str
    seed: int
    ending: Ending
    winner: Timed | None
    reference: Timed | None
    model_first: Timed | None
    tied: bool
    candidates: int
    legal: int
    join: JoinStatus
    trials: int
    restored: int
    counts: tuple[StateCount, ...]
    failures: tuple[FailureCause, ...]
    refused: tuple[RefusedRule, ...]
    stopped_by: StopRule | None
    seconds: SecondsSpent
    audits: Audits = Audits()
    repro: str | None = None
    compiled: tuple[Compilation, ...] = ()
    forbidden: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    noise: NoiseFloor | None = None
    cold: tuple[str, ...] = ()
    alignment_bytes: int = 64

    @property
    def speedup(self) -> float | None:
        """How many times shorter a call of the winner is; None without a winner or a time of the reference."""
        if self.winner is None or self.reference is None:
            return None
        return self.reference.ns / self.winner.ns

    def to_json(self) -> Json:
        """All fields, and `speedup`."""
        return {**to_json(self), "speedup": self.speedup}
