"""The command line: `python -m benchmarks rows|mappings|vector_math` from the repository root.
Must not measure anything itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from benchmarks.environment import restart_with_required_settings

if TYPE_CHECKING:
    from benchmarks.rows import Ours

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def main() -> None:
    """Measure tuned kernels, their mappings and the vector math under them."""


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
) -> None:
    """The row kernels: softmax, RMSNorm and their kin."""
    restart_with_required_settings()
    from benchmarks import peers as known
    from benchmarks.report import show
    from benchmarks.row import Row, to_json
    from benchmarks.rows import Settings, measure
    from benchmarks.selection import select_cases, select_peers
    from benchmarks.targets import judge

    console = Console(width=None if sys.stdout.isatty() else 190)
    try:
        cases = select_cases(case or (), quick=quick)
        chosen = select_peers(peer or known.LABELS)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem
    settings = Settings(rounds=rounds or (5 if quick else 15), peers=chosen)
    measured: list[Row] = []
    try:
        with console.status("starting") as status:
            for row in measure(cases, settings, _ours(peers_only, budget), status.update):
                measured.append(row)
    except KeyboardInterrupt:
        console.print("interrupted: what was measured so far follows")
    finally:
        if measured:
            show(console, measured, () if peers_only else judge(measured))
        if json is not None:
            json.write_text(to_json(measured), encoding="utf-8")


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


def _ours(peers_only: bool, budget_s: float) -> Ours:
    if peers_only:
        from benchmarks.rows import NumpyInOurPlace

        return NumpyInOurPlace()
    from benchmarks.ours import WinnerAndReference

    return WinnerAndReference(budget_s)


if __name__ == "__main__":
    app()
