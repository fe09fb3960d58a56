"""`autotune search`: search every workload of a file in turn, show progress, end with what was found.
Must not know how a search works or how its result looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from autotune.cli.exits import ExitCode, most_serious
from autotune.cli.options import AsJson, DatabasePath, File, KernelName, Quiet, Shapes, TargetName, Verbose
from autotune.cli.question import Question, every_question
from autotune.cli.setup import settings_for
from autotune.cli.verb import verb

if TYPE_CHECKING:
    from autotune.realizations.target import Target
    from autotune.search.result import Ending, SearchResult
    from autotune.settings import Settings


@verb
def search(
    file: File,
    kernel: KernelName = None,
    shape: Shapes = None,
    target: TargetName = None,
    budget: Annotated[str | None, typer.Option("--budget", help="Time for each workload: 500ms, 60s, 10m, 1h.")] = None,
    max_trials: Annotated[
        int | None, typer.Option("--max-trials", help="Candidates to try for each workload, earlier runs included.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Start of the random numbers.")] = None,
    db: DatabasePath = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Find the fastest correct candidate of each workload.

    Everything that is tried is stored. Ctrl-C ends with the best so far; the same command continues.
    """
    from autotune.jit import parse_target

    settings = settings_for(
        database=db,
        target=target,
        budget=budget,
        max_trials=max_trials,
        seed=seed,
        verbose=verbose,
        quiet=quiet,
    )
    chosen = parse_target(settings.target)
    results = _search_each(
        every_question(file, kernel, shape), chosen, settings, quiet=quiet or as_json, verbose=verbose
    )
    _report(results, as_json=as_json, quiet=quiet, verbose=verbose)
    return most_serious(exit_code(result.ending) for result in results)


def exit_code(ending: Ending) -> ExitCode:
    """The exit code of one search."""
    from autotune.search.result import Ending

    match ending:
        case Ending.IMPROVED:
            return ExitCode.IMPROVED
        case Ending.REFERENCE_KEPT:
            return ExitCode.REFERENCE_KEPT
        case Ending.NOTHING_LEGAL:
            return ExitCode.NOTHING_LEGAL
        case Ending.NOTHING_CORRECT:
            return ExitCode.NOTHING_CORRECT
        case Ending.INTERRUPTED:
            return ExitCode.INTERRUPTED
    assert_never(ending)


def _search_each(
    questions: list[Question], target: Target, settings: Settings, *, quiet: bool, verbose: bool
) -> list[SearchResult]:
    """Results in order, up to the first search that the user ended."""
    from autotune import tune
    from autotune.report.progress import progress
    from autotune.search.result import Ending

    results = []
    for question in questions:
        with progress(quiet=quiet, verbose=verbose) as listener:
            result = tune.search(
                question.kernel,
                question.shape,
                target,
                budget_s=settings.budget_s,
                max_trials=settings.max_trials,
                seed=settings.seed,
                database=settings.database,
                on_event=listener,
            )
        results.append(result)
        if result.ending is Ending.INTERRUPTED:
            break
    return results


def _report(results: list[SearchResult], *, as_json: bool, quiet: bool, verbose: bool) -> None:
    from autotune.report.document import print_document
    from autotune.report.outcome import print_results
    from autotune.report.screen import output

    if as_json:
        print_document({"results": [result.to_json() for result in results]})
    elif not quiet:
        print_results(output(), results, verbose=verbose)
