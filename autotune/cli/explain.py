"""`autotune explain`: the decision path of a candidate, its predicted terms, its measured time.
Must not know how any of it is found out or printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.cli.exits import ExitCode
from autotune.cli.options import (
    LINE_BYTES,
    Alignment,
    AsJson,
    CandidateName,
    Cold,
    DatabasePath,
    File,
    KernelName,
    OneShape,
    Quiet,
    TargetName,
    Verbose,
    names,
)
from autotune.cli.question import one_question
from autotune.cli.setup import target_and_store
from autotune.cli.stored import Subject
from autotune.cli.verb import verb

if TYPE_CHECKING:
    from autotune.calibration.price import Term
    from autotune.ir.buffer import BufferProgram
    from autotune.realizations.candidate import Candidate
    from autotune.realizations.target import Target
    from autotune.report.explain import Explanation


@verb
def explain(
    file: File,
    candidate: CandidateName = None,
    kernel: KernelName = None,
    shape: OneShape = None,
    target: TargetName = None,
    cold: Cold = None,
    alignment: Alignment = LINE_BYTES,
    db: DatabasePath = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Print how a candidate was decided on.

    Its choices, the verdict, the predicted terms and the measured time; without CANDIDATE those of the winner and the
    candidates that were tried.
    """
    from autotune.report.document import print_document
    from autotune.report.explain import explanation_document, print_explanation
    from autotune.report.screen import output

    chosen, database = target_and_store(target, db, quiet=quiet, verbose=verbose)
    subject = Subject(
        question=one_question(file, kernel, shape),
        target=chosen,
        database=database,
        cold=names(cold),
        alignment_bytes=alignment,
    )
    explanation = explained(subject, subject.candidate(candidate))
    if as_json:
        print_document(explanation_document(explanation))
    elif not quiet:
        print_explanation(output(), explanation, with_tried=candidate is None, verbose=verbose)
    return ExitCode.IMPROVED


def explained(subject: Subject, candidate: Candidate) -> Explanation:
    """Everything known of one candidate."""
    from autotune.planner import Policy
    from autotune.realizations.legality import decision, judge
    from autotune.realizations.lower import lower
    from autotune.realizations.tiled import tiled
    from autotune.realizations.verdict import Legal
    from autotune.report.explain import Explanation

    program = subject.question.program
    view = tiled(program, candidate.tiles)
    verdict = judge(program, candidate, subject.target)
    answer, tried = subject.answer(), subject.outcomes()
    winner = answer.candidate.id if isinstance(answer, Policy) else None
    known = (("winner", winner), ("reference", subject.reference().id))
    plan = lower(program, candidate) if isinstance(verdict, Legal) else None
    return Explanation(
        title=subject.title,
        program=view.program,
        graph=view.graph,
        candidate=candidate,
        roles=tuple(role for role, id in known if id == candidate.id),
        verdict=verdict,
        clones=None if plan is None else decision(plan, candidate.packet, subject.target).value,
        terms=() if plan is None else _terms(plan, subject.target),
        outcomes=tuple(outcome for outcome in tried if outcome.candidate == candidate.id),
        tried=tried,
    )


def _terms(plan: BufferProgram, target: Target) -> tuple[Term, ...]:
    from autotune.calibration.price import terms
    from autotune.calibration.prior import prior
    from autotune.realizations.predict import count

    counted = count(plan, target)
    return terms(counted.events, counted.dependent_steps, prior(target))
