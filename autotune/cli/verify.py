"""`autotune verify`: the stored winner and the reference candidate against the oracle, in a process of their own.
Must not know how a check works or how its result looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotune.cli.exits import ExitCode
from autotune.cli.options import AsJson, DatabasePath, File, KernelName, Quiet, Shapes, TargetName, Verbose
from autotune.cli.question import every_question
from autotune.cli.setup import target_and_store
from autotune.cli.stored import Subject
from autotune.cli.verb import verb

if TYPE_CHECKING:
    from autotune.measure.server import ForkServer
    from autotune.measure.session import Session
    from autotune.realizations.candidate import Candidate
    from autotune.report.checks import Check, Found


@verb
def verify(
    file: File,
    kernel: KernelName = None,
    shape: Shapes = None,
    target: TargetName = None,
    db: DatabasePath = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Check winner and reference against the oracle.

    Both are compiled anew and run in a process of their own. A disagreement ends with exit code 7.
    """
    from autotune.jit import can_run
    from autotune.measure.server import ForkServer
    from autotune.report.checks import checks_document, print_checks
    from autotune.report.document import print_document
    from autotune.report.screen import output
    from autotune.search.errors import CannotRunHere

    chosen, database = target_and_store(target, db, quiet=quiet, verbose=verbose)
    if not can_run(chosen):
        raise CannotRunHere(target=chosen.name)
    subjects = [Subject(question=q, target=chosen, database=database) for q in every_question(file, kernel, shape)]
    named = [(subject, _candidates(subject)) for subject in subjects]
    with ForkServer() as server:
        checks = [check for subject, candidates in named for check in _check_all(server, subject, candidates)]
    if as_json:
        print_document(checks_document(checks))
    elif not quiet:
        print_checks(output(), checks)
    return ExitCode.IMPROVED if all(check.right for check in checks) else ExitCode.WRONG_RESULT


def _candidates(subject: Subject) -> list[tuple[str, Candidate]]:
    """What to check, by role; a winner that is the reference candidate is checked once."""
    winner, reference = subject.policy().candidate, subject.reference()
    others = [] if winner.id == reference.id else [("reference", reference)]
    return [("winner", winner), *others]


def _check_all(server: ForkServer, subject: Subject, candidates: list[tuple[str, Candidate]]) -> list[Check]:
    from autotune.measure.cases import make_cases
    from autotune.measure.session import Session
    from autotune.report.checks import Check

    question = subject.question
    scalars = {name: value for name, value in question.shape.items() if name not in question.sizes}
    program, generator = question.program, question.kernel.inputs_function
    cases = make_cases(program, 0, sizes=question.sizes, scalars=scalars, generator=generator)
    with Session(server, program, subject.target, cases) as session:
        return [
            Check(title=question.title, role=role, candidate=candidate.id, found=_check(session, candidate))
            for role, candidate in candidates
        ]


def _check(session: Session, candidate: Candidate) -> Found:
    from autotune.measure.states import CompileError, CompileTimeout, Crash

    compiled: Any = session.compile(candidate).result()
    if isinstance(compiled, CompileError | CompileTimeout | Crash):
        return compiled
    return session.gate(compiled)
