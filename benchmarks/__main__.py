"""The command line: `python -m benchmarks rows|contractions|attention|mappings|...` from the repository root.
Must not measure anything itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from benchmarks.environment import restart_with_required_settings
from benchmarks.protocol import TimingProtocol

if TYPE_CHECKING:
    from benchmarks.case import Case
    from benchmarks.row import Row
    from benchmarks.suite import Ours, Settings
    from benchmarks.targets import Outcome

Found = TypeVar("Found")
app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def main() -> None:
    """Measure tuned kernels against peers, their mappings and the vector math under them."""


@app.command()
def rows(
    quick: Annotated[bool, typer.Option("--quick", help="Width 512 only, and fewer rounds.")] = False,
    json: Annotated[Path | None, typer.Option("--json", help="Write the rows as a JSON array.")] = None,
    peers_only: Annotated[bool, typer.Option("--peers-only", help="Put numpy in our place; search nothing.")] = False,
    case: Annotated[
        list[str] | None, typer.Option("--case", help="A case, or a kernel for all of its cases; may be repeated.")
    ] = None,
    peer: Annotated[list[str] | None, typer.Option("--peer", help="A peer by its label; may be repeated.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds a comparison (15, quick: 5).")] = None,
    budget: Annotated[float, typer.Option(help="Seconds a search may take for one case.")] = 60.0,
    protocol: Annotated[
        TimingProtocol,
        typer.Option(help="Short rounds, ABBA, or ours, peer and reference in all six orders."),
    ] = TimingProtocol.ROUNDS,
) -> None:
    """The row kernels: softmax, RMSNorm and their kin."""
    restart_with_required_settings()
    from benchmarks.peers import PEERS
    from benchmarks.selection import select_cases, select_peers
    from benchmarks.suite import Settings
    from benchmarks.targets import judge

    if peers_only and protocol is TimingProtocol.PERMUTATIONS:
        raise typer.BadParameter("three arms need our reference candidate: leave out --peers-only, or choose abba")
    with _usage():
        cases = select_cases(case or (), quick=quick)
        chosen = select_peers(peer or (), PEERS)
    settings = Settings(
        suite="rows", entries=PEERS, rounds=rounds or (5 if quick else 15), peers=chosen, protocol=protocol
    )
    measured = _measured(cases, settings, _ours(peers_only, budget), json)
    if measured:
        _show(measured, peers_only, () if peers_only else judge(measured))


_Json = Annotated[Path | None, typer.Option("--json", help="Write the rows as a JSON array.")]
_PeersOnly = Annotated[bool, typer.Option("--peers-only", help="Put numpy in our place; search nothing.")]
_Only = Annotated[list[str] | None, typer.Option("--only", help="Cases whose names contain this; may be repeated.")]
_Peer = Annotated[list[str] | None, typer.Option("--peer", help="A peer by its label; may be repeated.")]
_Rounds = Annotated[int, typer.Option(min=1, help="Rounds a comparison, fewer where calls are slow.")]
_Budget = Annotated[float, typer.Option(help="Seconds a search may take for one case.")]


@app.command()
def contractions(
    json: _Json = None,
    peers_only: _PeersOnly = False,
    only: _Only = None,
    peer: _Peer = None,
    rounds: _Rounds = 15,
    budget: _Budget = 10.0,
) -> None:
    """Matrix products, matrix-vector products, and layers made of them."""
    restart_with_required_settings()
    from benchmarks.contraction_cases import CONTRACTION_CASES
    from benchmarks.contraction_targets import CONTRACTION_TARGETS
    from benchmarks.peers import CONTRACTION_PEERS
    from benchmarks.selection import cases_containing, select_peers
    from benchmarks.suite import Settings
    from benchmarks.targets import judge

    with _usage():
        cases = cases_containing(CONTRACTION_CASES, only or ())
        chosen = select_peers(peer or (), CONTRACTION_PEERS)
    settings = Settings(suite="contractions", entries=CONTRACTION_PEERS, rounds=rounds, peers=chosen)
    measured = _measured(cases, settings, _ours(peers_only, budget), json)
    if measured:
        _show(measured, peers_only, () if peers_only else judge(measured, CONTRACTION_TARGETS, ()))


@app.command()
def attention(
    json: _Json = None,
    peers_only: _PeersOnly = False,
    only: _Only = None,
    peer: _Peer = None,
    rounds: _Rounds = 15,
    budget: _Budget = 10.0,
) -> None:
    """Attention: prefill and decode, grouped and multi-query heads, causal, full and with a bias."""
    restart_with_required_settings()
    from benchmarks.attention_cases import ATTENTION_CASES
    from benchmarks.contraction_targets import ATTENTION_TARGETS
    from benchmarks.peers import ATTENTION_PEERS
    from benchmarks.selection import cases_containing, select_peers
    from benchmarks.suite import Settings
    from benchmarks.targets import judge

    with _usage():
        cases = cases_containing(ATTENTION_CASES, only or ())
        chosen = select_peers(peer or (), ATTENTION_PEERS)
    settings = Settings(suite="attention", entries=ATTENTION_PEERS, rounds=rounds, peers=chosen)
    measured = _measured(cases, settings, _ours(peers_only, budget), json)
    if measured:
        _show(measured, peers_only, () if peers_only else judge(measured, ATTENTION_TARGETS, ()))


@app.command()
def mappings(
    json: Annotated[Path | None, typer.Option("--json", help="Write the lines as a JSON array.")] = None,
    count: Annotated[int, typer.Option("--candidates", min=1, help="Candidates to time of each mapping.")] = 24,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that pick, and as many that time.")] = 15,
    budget: Annotated[float, typer.Option(help="Seconds a search may take for one case.")] = 60.0,
) -> None:
    """Which axis runs across the lanes: the best candidate of each mapping, and what the search finds."""
    restart_with_required_settings()
    from benchmarks.mappings import CASES, Line, measure, show, to_json

    console = Console(width=None if sys.stdout.isatty() else 160)
    measured: list[Line] = []
    try:
        with console.status("starting") as status:
            for lines in measure(CASES, count=count, rounds=rounds, budget_s=budget, announce=status.update):
                measured.extend(lines)
    except KeyboardInterrupt:
        console.print("interrupted: what was measured so far follows")
    finally:
        if measured:
            show(console, measured)
        if json is not None:
            json.write_text(to_json(measured), encoding="utf-8")


@app.command()
def twins(
    json: _Json = None,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="Races of one loaded object against itself.")] = 200,
    case: Annotated[list[str] | None, typer.Option("--case", help="A row case; may be repeated.")] = None,
) -> None:
    """One loaded object raced under two names: how often the race promotes a twin."""
    from benchmarks import twins as suite
    from benchmarks.selection import select_cases

    with _usage():
        cases = select_cases(case or (suite.DEFAULT_CASE,), quick=False)
    found: list[suite.TwinsRow] = []
    try:
        for row in suite.measure(cases, pairs=pairs, announce=print_progress):
            found.append(row)
    finally:
        if json is not None:
            json.write_text(suite.to_json(found), encoding="utf-8")
    promoted, allowed = sum(row.promoted for row in found), suite.most_promoted(sum(row.pairs for row in found))
    print(f"{promoted} twins promoted, at most {allowed} may be")
    if promoted > allowed:
        raise typer.Exit(1)


_Markdown = Annotated[Path | None, typer.Option("--markdown", help="Write the document.")]


@app.command()
def ablations(
    json: _Json = None,
    markdown: _Markdown = None,
    only: _Only = None,
    rounds: _Rounds = 15,
    budget: Annotated[float, typer.Option(help="Seconds of each search: about a dozen a case.")] = 10.0,
) -> None:
    """What each mechanism is worth on eight rows: the table of docs/ablations.md."""
    restart_with_required_settings()
    from benchmarks import ablations as suite
    from benchmarks.selection import cases_containing

    with _usage():
        cases = cases_containing(suite.ABLATION_CASES, only or ())
    found: list[suite.Ablation] = []
    made = suite.measure(cases, rounds=rounds, budget_s=budget, announce=print_progress)
    _document(
        made,
        found.extend,
        json,
        lambda: suite.to_json(found),
        markdown,
        lambda: suite.markdown(found, budget_s=budget, rounds=rounds),
    )


@app.command()
def interactions(
    json: _Json = None,
    markdown: _Markdown = None,
    only: _Only = None,
    rounds: _Rounds = 15,
    count: Annotated[int, typer.Option("--candidates", min=1, help="Candidates to time of each combination.")] = 12,
) -> None:
    """Contractions inside nests, copies and specialization in every combination: docs/interactions.md."""
    restart_with_required_settings()
    from benchmarks import interactions as suite
    from benchmarks.selection import cases_containing

    labels = {case: label for label, case in suite.INTERACTION_CASES}
    with _usage():
        cases = [(labels[case], case) for case in cases_containing(tuple(labels), only or ())]
    found: list[suite.Table] = []
    made = suite.measure(cases, count=count, rounds=rounds, announce=print_progress)
    _document(
        made,
        found.append,
        json,
        lambda: suite.to_json(found),
        markdown,
        lambda: suite.markdown(found, count=count, rounds=rounds),
    )


@app.command()
def agreement(
    json: _Json = None,
    markdown: _Markdown = None,
    only: _Only = None,
    searches: Annotated[int, typer.Option(min=2, help="Searches of each case.")] = 20,
    trials: Annotated[int, typer.Option(min=2, help="Candidates each search tries.")] = 64,
    rounds: _Rounds = 21,
) -> None:
    """Whether searches of one thing come to one answer: the table of docs/agreement.md."""
    restart_with_required_settings()
    from benchmarks import agreement as suite
    from benchmarks.selection import cases_containing

    with _usage():
        cases = cases_containing(suite.AGREEMENT_CASES, only or ())
    found: list[suite.Agreement] = []
    made = suite.measure(cases, searches=searches, trials=trials, rounds=rounds, announce=print_progress)
    _document(
        made,
        found.append,
        json,
        lambda: suite.to_json(found),
        markdown,
        lambda: suite.markdown(found, searches=searches, trials=trials),
    )


@app.command()
def search(
    record: Annotated[bool, typer.Option("--record", help="Record the golden tables that are missing.")] = False,
    again: Annotated[bool, typer.Option("--again", help="With --record: those that are there too.")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="Play every strategy on the tables.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Replays of each table by each strategy.")] = 20,
    json: _Json = None,
    markdown: _Markdown = None,
    only: _Only = None,
) -> None:
    """Golden tables, and how soon each search strategy finds the best of them: the tables of docs/search.md."""
    restart_with_required_settings()
    from benchmarks.golden import FOLDER
    from benchmarks.golden_cases import GOLDEN_CASES
    from benchmarks.selection import cases_containing

    with _usage():
        wanted = cases_containing(tuple(golden.case for golden in GOLDEN_CASES), only or ())
        if record == replay:
            raise ValueError("write one of --record and --replay")
    chosen = [golden for golden in GOLDEN_CASES if golden.case in wanted]
    if record:
        from benchmarks.golden import record as record_tables

        for path in record_tables(chosen, FOLDER, again=again, announce=print_progress):
            print(path)
        return
    from autotune.search.recording import SUFFIX, read_recording
    from autotune.search.strategies import STRATEGIES
    from benchmarks import replays as suite

    paths = [FOLDER / (golden.file_name + SUFFIX) for golden in chosen]
    found: list[suite.Played] = []
    made = suite.measure(
        [read_recording(path) for path in paths if path.exists()],
        [name for name in STRATEGIES if name != "exhaustive"],
        seeds=seeds,
        announce=print_progress,
    )
    _document(
        made, found.append, json, lambda: suite.to_json(found), markdown, lambda: suite.markdown(found, seeds=seeds)
    )


@app.command(name="vector_math")
def vector_math(
    target: Annotated[
        list[str] | None, typer.Option("--target", help="avx512, avx2, sse2 or neon; may be repeated.")
    ] = None,
) -> None:
    """Cycles and errors of every variant of exp and its kin: the table of docs/vector-math.md."""
    restart_with_required_settings()
    from benchmarks.vector_math import DEFAULT_TARGETS, main

    main(tuple(target or DEFAULT_TARGETS))


def print_progress(text: str) -> None:
    """One line on standard error."""
    print(text, file=sys.stderr, flush=True)


def _document(
    steps: Iterable[Found],
    keep: Callable[[Found], object],
    json: Path | None,
    as_json: Callable[[], str],
    markdown: Path | None,
    as_markdown: Callable[[], str],
) -> None:
    """Take the steps of a measurement; what they found is printed and written however they end."""
    started = time.perf_counter()
    try:
        for step in steps:
            keep(step)
    except KeyboardInterrupt:
        print_progress("interrupted: what was measured so far follows")
    finally:
        print_progress(f"{time.perf_counter() - started:.0f} s")
        print(as_markdown(), end="")
        if json is not None:
            json.write_text(as_json(), encoding="utf-8")
        if markdown is not None:
            markdown.write_text(as_markdown(), encoding="utf-8")


@contextmanager
def _usage() -> Iterator[None]:
    """What the user wrote wrongly, told as the command line tells it."""
    try:
        yield
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 190)


def _measured(cases: Sequence[Case], settings: Settings, ours: Ours, json: Path | None) -> list[Row]:
    """The rows of a suite, written to `json` however the run ends."""
    from benchmarks.row import to_json
    from benchmarks.suite import measure

    console, found = _console(), []
    try:
        with console.status("starting") as status:
            for row in measure(cases, settings, ours, status.update):
                found.append(row)
    except KeyboardInterrupt:
        console.print("interrupted: what was measured so far follows")
    finally:
        if json is not None:
            json.write_text(to_json(found), encoding="utf-8")
    return found


def _show(measured: Sequence[Row], peers_only: bool, outcomes: Sequence[Outcome]) -> None:
    """Print the rows.

    Raises: typer.Exit with 1 where nothing of ours could be timed in some case.
    """
    from benchmarks.report import show

    show(_console(), measured, outcomes, ours="numpy" if peers_only else "ours")
    if any(row.ours_us is None for row in measured):
        raise typer.Exit(1)


def _ours(peers_only: bool, budget_s: float) -> Ours:
    if peers_only:
        from benchmarks.suite import NumpyInOurPlace

        return NumpyInOurPlace()
    from benchmarks.ours import WinnerAndReference

    return WinnerAndReference(budget_s)


if __name__ == "__main__":
    app()
