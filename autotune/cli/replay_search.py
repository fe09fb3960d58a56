"""`autotune replay-search`: play a search strategy on golden tables, without a clock.
Must not know how a strategy picks or how tables are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.exits import ExitCode
from autotune.cli.options import AsJson, Quiet
from autotune.cli.verb import verb

MEASUREMENTS = (16, 32, 64)


@verb
def replay_search(
    table: Annotated[list[Path], typer.Argument(help="Golden tables (.jsonl.gz).", show_default=False)],
    strategy: Annotated[
        list[str] | None, typer.Option("--strategy", help="A strategy by name; may be repeated; lcb if left out.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Replays of each table.")] = 20,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Play strategies on recorded tables.

    Prints how far the best of the first 16, 32 and 64 measurements is from the table's best, and how many measurements
    it takes to one within 5 %.
    """
    from autotune.report.document import print_document
    from autotune.report.replay import PlayedTable, print_replays, replay_document
    from autotune.report.screen import output
    from autotune.search.recording import read_recording
    from autotune.search.replay import Board, replay
    from autotune.search.strategies import DEFAULT_STRATEGY, strategy_named

    chosen = {name: strategy_named(name) for name in (strategy or [DEFAULT_STRATEGY])}
    played = []
    for path in table:
        board = Board.of(read_recording(path))
        for name, made in chosen.items():
            replays = [replay(board, made, seed, max(MEASUREMENTS)) for seed in range(seeds)]
            played.append(PlayedTable.of(name, replays, MEASUREMENTS))
    if as_json:
        print_document(replay_document(played))
    elif not quiet:
        print_replays(output(), played)
    return ExitCode.IMPROVED
