"""The two consoles and the form of tables: results on standard output, progress and messages on standard error.
Must not know what is written to them."""

from __future__ import annotations

import sys
from typing import Any, Literal, TextIO

from rich.console import Console
from rich.table import Table

PLAIN_WIDTH = 120  # of tables that go to a file or a pipe, where no terminal says how wide it is


def output() -> Console:
    """Standard output, for what a verb was asked to print."""
    return _console(sys.stdout)


def messages() -> Console:
    """Standard error, for progress, warnings and errors."""
    return _console(sys.stderr)


def table(title: str, *columns: str, numbers: tuple[str, ...] = (), whole: tuple[str, ...] = ("id",)) -> Table:
    """An empty table of the house form; columns in `numbers` align right, they and those in `whole` do not wrap."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False
    )
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        made.add_column(column, justify=justify, overflow="fold", no_wrap=column in (*numbers, *whole))
    return made


def print_table(console: Console, made: Table) -> None:
    """Print a table; without trailing blanks where it does not go to a terminal."""
    if console.is_terminal:
        console.print(made)
        return
    with console.capture() as capture:
        console.print(made)
    for line in capture.get().splitlines():
        console.print(line.rstrip(), soft_wrap=True)


def _console(stream: TextIO) -> Console:
    options: dict[str, Any] = {} if stream.isatty() else {"width": PLAIN_WIDTH}
    return Console(file=stream, highlight=False, markup=False, emoji=False, **options)
