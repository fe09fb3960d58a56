"""`autotune search`: search every workload of a file in turn, show progress, end with what was found.
Must not know how a search works or how its result looks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from autotune.cli.exits import ExitCode, most_serious
from autotune.cli.options import (
    LINE_BYTES,
    Alignment,
    AsJson,
    Cold,
    DatabasePath,
    File,
    KernelName,
    Only,
    Quiet,
    Shapes,
    TargetName,
    Verbose,
    names,
)
from autotune.cli.question import Question, every_question
from autotune.cli.setup import settings_for
from autotune.cli.verb import verb

if TYPE_CHECKING:
    from autotune.realizations.target import Target
    from autotune.search.result import Ending, SearchResult
    from autotune.settings import Settings


class Show(Enum):
    """How much a search prints."""

    NOTHING = "nothing"
    JSON = "json"
    TABLES = "tables"
    MORE = "more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a call asks of its searches beside the settings; fields as in `autotune.tune.search`."""

    forbid: tuple[str, ...]
    allow: tuple[str, ...]
    only: tuple[str, ...]
    calls: float | None
    strategy: str
    max_candidates: int
    fresh: bool
    cold: tuple[str, ...]
    alignment_bytes: int


@verb
def search(
    file: File,
    kernel: KernelName = None,
    shape: Shapes = None,
    target: TargetName = None,
    budget: Annotated[str | None, typer.Option("--budget", help="Time for each workload: 500ms, 60s, 10m, 1h.")] = None,
    effort: Annotated[
        str | None, typer.Option("--effort", help="quick, default or full, where no budget says more.")
    ] = None,
    calls: Annotated[
        float | None,
        typer.Option("--calls", help="Calls the winner is for: spend no more than they can bring back.", min=1),
    ] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", help="How the next candidate is picked; a wrong name lists the known.")
    ] = "lcb",
    max_candidates: Annotated[
        int, typer.Option("--max-candidates", help="Size of the search set; an exhaustive search takes no more.", min=1)
    ] = 6000,
    max_trials: Annotated[
        int | None, typer.Option("--max-trials", help="Candidates to try for each workload, earlier runs included.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over: earlier records stay in the store and are not read.")
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Start of the random numbers.")] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            "--forbid",
            metavar="MECHANISM",
            help="Leave out what uses it, but for the reference; a wrong name lists the known. May be repeated.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow", metavar="MECHANISM", help="Try what uses it although it is off by default. May be repeated."
        ),
    ] = None,
    only: Only = None,
    cold: Cold = None,
    alignment: Alignment = LINE_BYTES,
    db: DatabasePath = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Find the fastest correct candidate of each workload.

    Everything that is measured is stored. Ctrl-C ends with the best so far; the same command continues. For a target
    that this machine cannot run, the best candidates are compiled only.
    """
    from autotune.jit import parse_target
    from autotune.search.restriction import forbidden_mechanisms

    forbidden_mechanisms(forbid or (), allow or ())  # a wrong name is told before anything slow starts
    settings = settings_for(
        database=db,
        target=target,
        effort=effort,
        budget=budget,
        max_trials=max_trials,
        seed=seed,
        verbose=verbose,
        quiet=quiet,
    )
    chosen = parse_target(settings.target)
    show = Show.JSON if as_json else Show.NOTHING if quiet else Show.MORE if verbose else Show.TABLES
    request = Request(
        forbid=tuple(forbid or ()),
        allow=tuple(allow or ()),
        only=tuple(only or ()),
        calls=calls,
        strategy=strategy,
        max_candidates=max_candidates,
        fresh=fresh,
        cold=names(cold),
        alignment_bytes=alignment,
    )
    results, interrupted = _search_each(every_question(file, kernel, shape), chosen, settings, request, show)
    _report_all(results, show)
    return most_serious([*(exit_code(r.ending) for r in results), *([ExitCode.INTERRUPTED] if interrupted else [])])


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
        case Ending.COMPILED:
            return ExitCode.COMPILED
        case Ending.NOTHING_COMPILED:
            return ExitCode.NOTHING_COMPILED
        case Ending.INTERRUPTED:
            return ExitCode.INTERRUPTED
    assert_never(ending)


def _search_each(
    questions: list[Question], target: Target, settings: Settings, request: Request, show: Show
) -> tuple[list[SearchResult], bool]:
    """Results in order, each shown when it is there; whether the user ended one of the searches."""
    from autotune import tune
    from autotune.report.progress import progress
    from autotune.search.result import Ending

    results: list[SearchResult] = []
    for question in questions:
        try:
            with progress(quiet=show in (Show.NOTHING, Show.JSON), verbose=show is Show.MORE) as listener:
                result = tune.search(
                    question.kernel,
                    question.shape,
                    target,
                    effort=settings.effort,
                    budget_s=settings.budget_s,
                    calls=request.calls,
                    strategy=request.strategy,
                    max_candidates=request.max_candidates,
                    fresh=request.fresh,
                    max_trials=settings.max_trials,
                    seed=settings.seed,
                    database=settings.database,
                    forbid=request.forbid,
                    allow=request.allow,
                    only=request.only,
                    cold=request.cold,
                    alignment_bytes=request.alignment_bytes,
                    on_event=listener,
                )
        except KeyboardInterrupt:  # before there was anything to keep of this one
            return results, True
        results.append(result)
        _report_one(result, show)
        if result.ending is Ending.INTERRUPTED:
            return results, True
    return results, False


def _report_one(result: SearchResult, show: Show) -> None:
    from autotune.report.outcome import print_result
    from autotune.report.screen import output

    if show in (Show.TABLES, Show.MORE):
        print_result(output(), result, verbose=show is Show.MORE)


def _report_all(results: list[SearchResult], show: Show) -> None:
    from autotune.report.document import print_document
    from autotune.report.outcome import print_overview
    from autotune.report.screen import output

    if show is Show.JSON:
        print_document({"results": [result.to_json() for result in results]})
    elif show is not Show.NOTHING and len(results) > 1:
        print_overview(output(), results)
