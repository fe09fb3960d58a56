"""What the store knows about a question: its policy, its outcomes, the candidate a user names.
Must not know how any of it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.errors import NoSuchCandidate, NothingStored
from autotune.cli.question import Question
from autotune.cli.shapes import format_shape

if TYPE_CHECKING:
    from autotune.planner import Answer, Policy
    from autotune.realizations.candidate import Candidate
    from autotune.realizations.target import Target
    from autotune.store.keys import Workload
    from autotune.store.records import Outcome

REFERENCE = "reference"  # the candidate name that needs no store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """A question on a target, with the store that may answer it."""

    question: Question
    target: Target
    database: Path

    @property
    def title(self) -> str:
        return f"{self.question.title} on simd:{self.target.name}"

    def answer(self) -> Answer:
        """The policy, or why there is none."""
        from autotune.planner import lookup

        return lookup(self.question.kernel, self.question.sizes, self.target, database=self.database)

    def policy(self) -> Policy:
        """The policy.

        Raises: NothingStored.
        """
        from autotune.planner import Policy

        answer = self.answer()
        if isinstance(answer, Policy):
            return answer
        raise NothingStored(
            kernel=self.question.kernel.name,
            shape=format_shape(self.question.shape),
            target=f"simd:{self.target.name}",
            why=answer.why,
            path=self.question.path,
        )

    def workload(self) -> Workload:
        """The key under which the store keeps what is known."""
        from autotune.store.keys import workload_of

        return workload_of(self.question.kernel.program, self.question.sizes, self.target)

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

        Raises: NothingStored, NoSuchCandidate.
        """
        from autotune.realizations.candidate import Candidate
        from autotune.store.database import open_readonly

        if name is None:
            return self.policy().candidate
        if name == REFERENCE:
            return self.reference()
        ids = sorted({outcome.candidate for outcome in self.outcomes() if outcome.candidate.startswith(name)})
        if len(ids) != 1:
            listed = f"it fits {', '.join(ids)}" if ids else "no candidate recorded for this shape and target starts so"
            raise NoSuchCandidate(text=name, problem=listed)
        with open_readonly(self.database) as store:
            found = store.candidate(ids[0])
        assert isinstance(found, Candidate)  # a foreign key of the store
        return found

    def reference(self) -> Candidate:
        """The reference candidate of the bound program."""
        from autotune.ir.phases import phase_graph
        from autotune.realizations.reference import reference_candidate

        program = self.question.program
        return reference_candidate(program, phase_graph(program), self.target)


def reference_ns(outcomes: tuple[Outcome, ...]) -> float | None:
    """The last time recorded for the reference candidate; None where there is none.

    Units: nanoseconds a call.
    """
    from autotune.store.records import PickReason

    times = [
        outcome.expected_ns for outcome in outcomes if outcome.picked is PickReason.REFERENCE and outcome.samples_ns
    ]
    return times[-1] if times else None
