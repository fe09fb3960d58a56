"""What the store knows about a question: its policy, its outcomes, the candidate a user names.
Must not know how any of it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.errors import NoSuchCandidate, NothingMeasured, NothingStored
from autotune.cli.options import LINE_BYTES
from autotune.cli.question import Question
from autotune.cli.shapes import format_shape

if TYPE_CHECKING:
    from autotune.planner import Answer, Policy
    from autotune.realizations.candidate import Candidate
    from autotune.realizations.target import Target
    from autotune.search.space import SearchSet
    from autotune.store.keys import Workload
    from autotune.store.records import Outcome

REFERENCE = "reference"  # the candidate name that needs no store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """A question on a target, with the store that may answer it."""

    question: Question
    target: Target
    database: Path
    cold: tuple[str, ...] = ()
    alignment_bytes: int = LINE_BYTES

    @property
    def title(self) -> str:
        cold = f", {' and '.join(self.cold)} cold" if self.cold else ""
        aligned = f", {self.alignment_bytes}-byte aligned" if self.alignment_bytes != LINE_BYTES else ""
        return f"{self.question.title} on simd:{self.target.name}{cold}{aligned}"

    def answer(self) -> Answer:
        """The policy, or why there is none."""
        from autotune.planner import lookup
        from autotune.store.keys import AlignmentClass

        return lookup(
            self.question.kernel,
            self.question.sizes,
            self.target,
            database=self.database,
            cold=self.cold,
            alignment=AlignmentClass.of(self.alignment_bytes),
        )

    def policy(self) -> Policy:
        """The policy.

        Raises: NothingStored; NothingMeasured on a target that cannot run here.
        """
        from autotune.jit import can_run
        from autotune.planner import Policy

        answer = self.answer()
        if isinstance(answer, Policy):
            return answer
        named = {
            "kernel": self.question.kernel.name,
            "shape": format_shape(self.question.shape),
            "target": f"simd:{self.target.name}",
            "path": self.question.path,
        }
        if not can_run(self.target):
            raise NothingMeasured(**named)
        raise NothingStored(why=answer.why, **named)

    def workload(self) -> Workload:
        """The key under which the store keeps what is known."""
        from autotune.store.keys import AlignmentClass, cache_mode, workload_of

        program = self.question.kernel.program
        return workload_of(
            program,
            self.question.sizes,
            self.target,
            cache=cache_mode(program, self.cold),
            alignment=AlignmentClass.of(self.alignment_bytes),
        )

    def outcomes(self) -> tuple[Outcome, ...]:
        """Everything recorded for exactly this question, oldest first; nothing where there is no store yet."""
        from autotune.store.database import open_readonly
        from autotune.store.errors import MissingStore

        try:
            store = open_readonly(self.database)
        except MissingStore:
            return ()
        with store:
            return store.outcomes(self.workload().key.id)

    def candidate(self, name: str | None) -> Candidate:
        """The candidate a user names: the stored winner for None, `reference`, or the first digits of an id.

        Ids are those of recorded candidates, and where none fits, those of the search set.
        Raises: NothingStored, NothingMeasured, NoSuchCandidate.
        """
        from autotune.realizations.candidate import Candidate
        from autotune.store.database import open_readonly

        if name is None:
            return self.policy().candidate
        if name == REFERENCE:
            return self.reference()
        ids = sorted({outcome.candidate for outcome in self.outcomes() if outcome.candidate.startswith(name)})
        if not ids:
            unmeasured = {c.id: c for c in self.search_set().candidates if c.id.startswith(name)}
            if len(unmeasured) == 1:
                return unmeasured.popitem()[1]
            ids = sorted(unmeasured)
        if len(ids) != 1:
            listed = f"it fits {', '.join(ids)}" if ids else "no candidate of this shape and target starts so"
            raise NoSuchCandidate(text=name, problem=listed)
        with open_readonly(self.database) as store:
            found = store.candidate(ids[0])
        assert isinstance(found, Candidate)  # a foreign key of the store
        return found

    def search_set(self) -> SearchSet:
        """What a search would choose from."""
        from autotune.calibration.prior import prior
        from autotune.search.join import search_set
        from autotune.tune import ENUMERATED_FILE

        program, cache = self.question.program, self.database.with_name(ENUMERATED_FILE)
        return search_set(program, self.target, prior(self.target), cache=cache)

    def reference(self) -> Candidate:
        """The reference candidate of the bound program."""
        from autotune.realizations.reference import reference_candidate

        program = self.question.program
        return reference_candidate(program, self.target)


def reference_ns(outcomes: tuple[Outcome, ...]) -> float | None:
    """The last time recorded for the reference candidate; None where there is none.

    Units: nanoseconds a call.
    """
    from autotune.store.records import PickReason

    times = [
        outcome.expected_ns for outcome in outcomes if outcome.picked is PickReason.REFERENCE and outcome.samples_ns
    ]
    return times[-1] if times else None
