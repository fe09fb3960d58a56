"""What is known of one workload's candidates: the store, the ledger and the track, kept in step.
Must not know how candidates are compiled or timed, nor how the next one is picked."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from autotune.ir.serial import Json, from_json
from autotune.measure import states
from autotune.measure.noise import NoiseFloor
from autotune.measure.protocol import Kernel
from autotune.measure.states import Measured, Noisy, RacedOut, outcome_from_json, outcome_to_json
from autotune.realizations.candidate import Candidate
from autotune.realizations.mechanisms import OFF_BY_DEFAULT
from autotune.search.ledger import Ledger, RefusedRule
from autotune.search.stop import Limits
from autotune.search.track import Track
from autotune.store.database import Database
from autotune.store.keys import Workload
from autotune.store.records import Outcome, PickReason, Rigor, Search, SearchStatus, new_uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A candidate that ended, as it is written down. `kernel` is None where nothing came out of the compiler."""

    candidate: Candidate
    id: str
    picked: PickReason
    predicted_ns: float | None
    end: states.Outcome
    kernel: Kernel | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A trial of an earlier run: its candidate and its time, None where it failed."""

    candidate: Candidate
    time_ns: float | None


class Notebook:
    """Reads what earlier runs left, then writes each end once, durably, before it counts in memory.

    Only runs that forbade the same are read: a race says something about its own incumbent alone, and a
    shoot-out about its own field. What a run that forbade more than the default finds claims no more than a won race,
    so that it takes the place of a policy of equal claim where it is faster, and of none with a stronger one.
    A `fresh` run reads nothing; what was stored before stays.
    """

    def __init__(
        self,
        database: Database,
        workload: Workload,
        *,
        legal_count: int,
        refused: tuple[RefusedRule, ...] = (),
        forbidden: frozenset[str] = OFF_BY_DEFAULT,
        only: tuple[str, ...] = (),
        fresh: bool = False,
    ) -> None:
        self.database, self.workload = database, workload
        self.forbidden = (*sorted(forbidden), *(f"all but {condition}" for condition in sorted(only)))
        self.fresh = fresh
        self.restricted = bool(only) or not forbidden <= OFF_BY_DEFAULT
        self.ledger = Ledger(legal_count=legal_count, refused=refused)
        self.track = Track()
        self.candidates: dict[str, Candidate] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.recalled: tuple[Recalled, ...] = ()
        self.finals: dict[str, Outcome] = {}
        self.search: Search | None = None
        self.noise: NoiseFloor | None = None
        self._champion: str | None = None  # winner of a shoot-out that came after every end
        self._recall()

    # ---- earlier runs ----------------------------------------------------------------------------------------------

    def _recall(self) -> None:
        trials = []
        searches = self._searches()
        alike = {search.uuid for search in searches}
        self.noise = next((noise for search in reversed(searches) if (noise := _noise(search))), None)
        of_searches_alone = self.restricted or self.fresh or any(search.fresh for search in searches)
        for outcome in self.database.outcomes(self.workload.key.id):
            if outcome.search not in alike and (of_searches_alone or outcome.search is not None):
                continue
            if outcome.candidate in self.candidates:
                self._keep_final(outcome)
                continue
            candidate = self.database.candidate(outcome.candidate)
            assert candidate is not None  # a foreign key of the store
            end = outcome_from_json(outcome.reason)
            self.candidates[outcome.candidate] = candidate
            self.outcomes[outcome.candidate] = outcome
            trials.append(Recalled(candidate=candidate, time_ns=self._count(outcome.candidate, end)))
        self.recalled = tuple(trials)

    def _keep_final(self, outcome: Outcome) -> None:
        """Only the last shoot-out is kept; its outcomes stand together and its winner comes last."""
        if any(earlier.search != outcome.search for earlier in self.finals.values()):
            self.finals = {}
        self.finals[outcome.candidate] = outcome
        if outcome.rigor is not None and self.track.time_ns(outcome.candidate) is not None:
            self.track.crown(outcome.candidate)
            self._champion = outcome.candidate

    def covers(self, limits: Limits, seed: int) -> bool:
        """Whether an earlier search with this seed ran to its end under the same or wider limits."""
        return any(
            search.status is SearchStatus.FINISHED
            and search.seed == seed
            and _at_least(search.budget_s, limits.budget_s)
            and _at_least(search.max_trials, limits.max_trials)
            for search in self._searches()
        )

    def _searches(self) -> tuple[Search, ...]:
        """The runs of this workload that forbade what this one forbids, from the last fresh one on."""
        if self.fresh and self.search is None:
            return ()
        found = [s for s in self.database.searches(self.workload.key.id) if s.forbidden == self.forbidden]
        starts = [number for number, search in enumerate(found) if search.fresh]
        return tuple(found[starts[-1] :] if starts else found)

    def neighbours(self, count: int) -> tuple[Candidate, ...]:
        """The policies of the nearest other shapes of this kernel on this target."""
        key = self.workload.key
        near = []
        for policy in self.database.policies():
            stored = self.database.workload(policy.workload)
            assert stored is not None  # a foreign key of the store
            other = stored.key
            if (other.kernel, other.isa) != (key.kernel, key.isa) or other.shape == key.shape:
                continue
            distance = sum(abs(math.log((a + 1) / (b + 1))) for a, b in zip(key.shape, other.shape, strict=True))
            near.append((distance, policy.outcome.candidate))
        found = (self.database.candidate(id) for _, id in sorted(near)[:count])
        return tuple(candidate for candidate in found if candidate is not None)

    # ---- this run --------------------------------------------------------------------------------------------------

    def begin(self, limits: Limits, seed: int, environment: Json) -> None:
        """Record that a search starts."""
        self.search = Search(
            uuid=new_uuid(),
            workload=self.workload.key.id,
            seed=seed,
            budget_s=limits.budget_s,
            max_trials=limits.max_trials,
            environment=environment,
            started=time.time(),
            forbidden=self.forbidden,
            fresh=self.fresh,
        )
        self.database.begin_search(self.workload, self.search)

    def observe(self, noise: NoiseFloor, environment: Json) -> None:
        """Record what the machine's noise is in this run, with the circumstances that it belongs to."""
        assert self.search is not None
        self.noise = noise
        self.database.describe_search(self.search.uuid, environment)

    @property
    def settled(self) -> bool:
        """Whether the incumbent won a shoot-out and no candidate ended after it."""
        return self._champion is not None and self._champion == self.track.incumbent

    def finish(self, status: SearchStatus) -> None:
        """Record how it ended."""
        assert self.search is not None
        self.database.finish_search(self.search.uuid, status, time.time())

    def write(self, finished: Finished) -> float | None:
        """Write down one end; its time on the common scale, None for a failure."""
        promoted = isinstance(finished.end, Measured) and (finished.end.promoted or self.track.incumbent is None)
        self.outcomes[finished.id] = self._store(finished, Rigor.RACED if promoted else None)
        self.candidates[finished.id] = finished.candidate
        return self._count(finished.id, finished.end)

    def write_final(self, finished: Finished, rigor: Rigor | None) -> None:
        """Write down the re-measurement of a finalist; the winner, the one with a rigor, is written last."""
        self._keep_final(self._store(finished, rigor))

    def _count(self, id: str, end: states.Outcome) -> float | None:
        self.ledger.record(id, end)
        self._champion = None
        if isinstance(end, Measured | RacedOut):
            return self.track.add(id, end)
        self.track.add_failure()
        return None

    def _store(self, finished: Finished, rigor: Rigor | None) -> Outcome:
        kernel, end = finished.kernel, finished.end
        outcome = Outcome(
            workload=self.workload.key.id,
            candidate=finished.id,
            search=None if self.search is None else self.search.uuid,
            state=end.state,
            reason=outcome_to_json(end),
            samples_ns=end.samples_ns if isinstance(end, Measured | RacedOut | Noisy) else (),
            compile_seconds=None if kernel is None else kernel.compile_seconds,
            code_bytes=None if kernel is None else kernel.code_bytes,
            workspace_bytes=None if kernel is None else kernel.workspace_bytes,
            object_sha256=None if kernel is None else kernel.sha256,
            picked=finished.picked,
            rigor=rigor,
            predicted_ns=finished.predicted_ns,
            recorded=time.time(),
        )
        self.database.record(self.workload, finished.candidate, outcome)
        return outcome


def _noise(search: Search) -> NoiseFloor | None:
    """The noise floor that a run recorded; None where it recorded none."""
    data = search.environment.get("noise") if isinstance(search.environment, dict) else None
    noise: NoiseFloor | None = from_json(NoiseFloor | None, data)
    return noise


def _at_least(had: float | None, wanted: float | None) -> bool:
    """Whether one limit is as wide as another; None is the widest."""
    return had is None or (wanted is not None and had >= wanted)
