"""`autotune best`: the stored winner of each workload, or why there is none.
Must not know how the table looks."""

from __future__ import annotations

from autotune.cli.exits import ExitCode
from autotune.cli.options import (
    LINE_BYTES,
    Alignment,
    AsJson,
    Cold,
    DatabasePath,
    File,
    KernelName,
    Quiet,
    Shapes,
    TargetName,
    Verbose,
    names,
)
from autotune.cli.question import every_question
from autotune.cli.setup import target_and_store
from autotune.cli.stored import Subject, reference_ns
from autotune.cli.verb import verb


@verb
def best(
    file: File,
    kernel: KernelName = None,
    shape: Shapes = None,
    target: TargetName = None,
    cold: Cold = None,
    alignment: Alignment = LINE_BYTES,
    db: DatabasePath = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Print the stored winner of each workload.

    Where there is none it says why, and the exit code is 6.
    """
    from autotune.planner import Policy
    from autotune.report.document import print_document
    from autotune.report.policies import PolicyRow, policies_document, print_policies
    from autotune.report.screen import output

    chosen, database = target_and_store(target, db, quiet=quiet, verbose=verbose)
    subjects = [
        Subject(question=q, target=chosen, database=database, cold=names(cold), alignment_bytes=alignment)
        for q in every_question(file, kernel, shape)
    ]
    rows = [
        PolicyRow(title=subject.title, answer=subject.answer(), reference_ns=reference_ns(subject.outcomes()))
        for subject in subjects
    ]
    if as_json:
        print_document(policies_document(rows))
    elif not quiet:
        print_policies(output(), rows, verbose=verbose)
    return ExitCode.IMPROVED if all(isinstance(r.answer, Policy) for r in rows) else ExitCode.NOTHING_STORED
