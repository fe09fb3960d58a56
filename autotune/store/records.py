"""What the store keeps: searches, outcomes of candidates, and the policies derived from them.
Must not know SQL, nor how anything was measured."""

from __future__ import annotations

import statistics
import uuid
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from autotune.ir.serial import Json
from autotune.measure.states import State


class Rigor(IntEnum):
    """How firmly an outcome claims that its candidate is the best one known."""

    REFERENCE = 0  # always legal, nothing else known
    MODEL = 1  # first by predicted time
    TRANSFER = 2  # the policy of a neighbouring shape
    RACED = 3  # measured and not beaten in its race
    SHOOT_OUT = 4  # winner of the interleaved re-measurement of the finalists
    EXHAUSTIVE = 5  # winner over every legal candidate


class PickReason(Enum):
    """Why a candidate was looked at."""

    REFERENCE = "reference"
    MODEL = "model"
    ACQUISITION = "acquisition"
    AUDIT = "audit"
    NEIGHBOUR = "neighbour"


class SearchStatus(Enum):
    """Where a search stands; one that was killed stays RUNNING until the next search of its workload begins."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


def new_uuid() -> str:
    """A random identity for a record."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One run of the tuner on one workload.

    `forbidden` says what no candidate but the reference might use: mechanisms by name, sorted, and `all but C` for a
    condition C that it had to meet.
    A `fresh` search reads nothing of the ones before it, nor do those that come after.

    Units: `budget_s` seconds; `started` and `finished` seconds since 1970 in UTC. `environment` is JSON data about
    the machine's state (load, governor, quota).
    """

    uuid: str
    workload: str
    seed: int
    budget_s: float | None
    max_trials: int | None
    environment: Json
    started: float
    finished: float | None = None
    status: SearchStatus = SearchStatus.RUNNING
    forbidden: tuple[str, ...] = ()
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one candidate, once. Written once and never changed.

    `state` is where the candidate ended, `reason` the JSON of all that is known about it. `rigor` is None where the
    outcome makes no claim to be the policy: refused, failed, wrong, noisy, or beaten in a race. The losers of a
    shoot-out keep RACED.

    Units: `samples_ns` nanoseconds a call, raw and in order; `recorded` seconds since 1970 in UTC.
    Raises: ValueError for a claim without a time or without the identity of the code that it is about.
    """

    uuid: str = field(default_factory=new_uuid)
    workload: str
    candidate: str
    search: str | None = None
    state: State
    reason: Json = None
    samples_ns: tuple[float, ...] = ()
    compile_seconds: float | None = None
    code_bytes: int | None = None
    workspace_bytes: int | None = None
    object_sha256: str | None = None
    picked: PickReason
    rigor: Rigor | None = None
    environment: Json = None
    predicted_ns: float | None = None
    recorded: float

    def __post_init__(self) -> None:
        if self.rigor is None:
            return
        claim = f"outcome {self.uuid} claims rigor {self.rigor.name}"
        if self.expected_ns is None:
            raise ValueError(f"{claim} and has neither samples nor a prediction")
        if self.rigor < Rigor.RACED:
            return
        if self.state is not State.MEASURED or not self.samples_ns:
            raise ValueError(f"{claim}, its state is {self.state.value!r} with {len(self.samples_ns)} samples")
        if self.object_sha256 is None:
            raise ValueError(f"{claim} without the SHA-256 of the object that was measured")

    @property
    def expected_ns(self) -> float | None:
        """Median of the samples, the prediction where nothing was measured."""
        return statistics.median(self.samples_ns) if self.samples_ns else self.predicted_ns

    @property
    def interval_ns(self) -> tuple[float, float] | None:
        """The 5 % and 95 % quantiles of the samples (inclusive), None where nothing was measured."""
        if not self.samples_ns:
            return None
        if len(self.samples_ns) == 1:
            return self.samples_ns[0], self.samples_ns[0]
        cuts = statistics.quantiles(self.samples_ns, n=20, method="inclusive")
        return cuts[0], cuts[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicy:
    """The best outcome known for a workload. Derived: it can be rebuilt from the outcomes at any time.

    Units: nanoseconds a call.
    """

    workload: str
    outcome: Outcome
    rigor: Rigor
    expected_ns: float
    interval_ns: tuple[float, float] | None


def policy_of(outcome: Outcome) -> StoredPolicy | None:
    """The policy that an outcome alone would make, None where it claims nothing."""
    if outcome.rigor is None or outcome.expected_ns is None:
        return None
    return StoredPolicy(
        workload=outcome.workload,
        outcome=outcome,
        rigor=outcome.rigor,
        expected_ns=outcome.expected_ns,
        interval_ns=outcome.interval_ns,
    )


def supersedes(new: StoredPolicy, old: StoredPolicy | None) -> bool:
    """Whether `new` replaces `old`: by higher rigor, or at equal rigor by a better time.

    The order is total, so the policies do not depend on the order in which outcomes arrive.
    """
    return old is None or _rank(new) < _rank(old)


def _rank(policy: StoredPolicy) -> tuple[float | str, ...]:
    outcome = policy.outcome
    code = float("inf") if outcome.code_bytes is None else outcome.code_bytes
    seconds = float("inf") if outcome.compile_seconds is None else outcome.compile_seconds
    return -int(policy.rigor), policy.expected_ns, code, seconds, outcome.candidate, outcome.uuid
