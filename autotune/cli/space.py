"""`autotune space`: how many candidates there are, and what the rules refused.
Must not know how a space is enumerated or printed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from autotune.cli.exits import ExitCode
from autotune.cli.options import AsJson, File, KernelName, Only, Quiet, Shapes, TargetName, Verbose
from autotune.cli.question import Question, every_question
from autotune.cli.setup import target_and_store
from autotune.cli.verb import verb

if TYPE_CHECKING:
    from autotune.realizations.target import Target
    from autotune.report.space import SpaceSize


@verb
def space(
    file: File,
    kernel: KernelName = None,
    shape: Shapes = None,
    target: TargetName = None,
    only: Only = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Print the size of the search space.

    Nothing is compiled. Each rule that refused a choice is listed with its count and an example.
    """
    from autotune.report.document import print_document
    from autotune.report.screen import output
    from autotune.report.space import print_space, space_document

    chosen, _ = target_and_store(target, None, quiet=quiet, verbose=verbose)
    sizes = [measured_space(question, chosen, tuple(only or ())) for question in every_question(file, kernel, shape)]
    if as_json:
        print_document(space_document(sizes))
    elif not quiet:
        for number, size in enumerate(sizes):
            if number:
                output().print()
            print_space(output(), size)
    return ExitCode.IMPROVED if all(size.legal for size in sizes) else ExitCode.NOTHING_LEGAL


def measured_space(question: Question, target: Target, only: tuple[str, ...] = ()) -> SpaceSize:
    """The search space of one workload."""
    from autotune.calibration.prior import prior
    from autotune.report.space import SpaceSize
    from autotune.search.conditions import parse_conditions
    from autotune.search.join import search_set
    from autotune.search.ledger import refused_rules

    started = time.perf_counter()
    program = question.program
    found = search_set(program, target, prior(target), only=parse_conditions(only, program))
    return SpaceSize(
        title=f"{question.title} on simd:{target.name}",
        legal=found.legal_count,
        candidates=len(found.candidates),
        join=found.status,
        reference=found.candidates[found.reference].id,
        reference_ns=float(found.prior_ns[found.reference]),
        best_ns=float(found.prior_ns.min()),
        refused=refused_rules(found.refused),
        seconds=time.perf_counter() - started,
    )
