"""`autotune why-not`: what stopped a whole choice.
Must not know how the answer is found or printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.exits import ExitCode
from autotune.cli.options import AsJson, DatabasePath, File, KernelName, OneShape, Quiet, TargetName, Verbose
from autotune.cli.question import one_question
from autotune.cli.setup import target_and_store
from autotune.cli.stored import Subject
from autotune.cli.verb import verb

if TYPE_CHECKING:
    from autotune.search.why_not import WhyNot


@verb
def why_not(
    file: File,
    condition: Annotated[
        list[str],
        typer.Argument(help="What a candidate would have: lanes=8, uses=copies, mapping=column.", show_default=False),
    ],
    kernel: KernelName = None,
    shape: OneShape = None,
    target: TargetName = None,
    db: DatabasePath = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Say what stopped a choice.

    A rule that refuses it, the model's cut, failures, or slower times with how much. Nothing is compiled.
    """
    from autotune.report.document import print_document
    from autotune.report.screen import output
    from autotune.report.why_not import print_why_not, why_not_document

    chosen, database = target_and_store(target, db, quiet=quiet, verbose=verbose)
    subject = Subject(question=one_question(file, kernel, shape), target=chosen, database=database)
    answer = answered(subject, tuple(condition))
    if as_json:
        print_document(why_not_document(subject.title, answer))
    elif not quiet:
        print_why_not(output(), subject.title, answer)
    return ExitCode.IMPROVED


def answered(subject: Subject, conditions: tuple[str, ...]) -> WhyNot:
    """What stopped the conditions, with what the store knows where there is one."""
    from autotune.calibration.prior import prior
    from autotune.search.conditions import parse_conditions
    from autotune.search.notebook import Notebook
    from autotune.search.why_not import why_not
    from autotune.store.database import open_readonly
    from autotune.store.errors import MissingStore
    from autotune.tune import ENUMERATED_FILE

    program = subject.question.program
    parsed, prices = parse_conditions(conditions, program), prior(subject.target)
    cache = subject.database.with_name(ENUMERATED_FILE)
    try:
        store = open_readonly(subject.database)
    except MissingStore:
        return why_not(parsed, program, subject.target, prices, cache=cache)
    with store:
        book = Notebook(store, subject.workload(), legal_count=0)
        return why_not(parsed, program, subject.target, prices, cache=cache, book=book)
