"""The table of verbs, and the options that come before a verb.
Must not know what any verb does."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.cli.best import best
from autotune.cli.doctor import doctor
from autotune.cli.explain import explain
from autotune.cli.graph import graph
from autotune.cli.replay import replay
from autotune.cli.replay_search import replay_search
from autotune.cli.search import search
from autotune.cli.show import show
from autotune.cli.space import space
from autotune.cli.targets import targets
from autotune.cli.verify import verify
from autotune.cli.why_not import why_not

app = typer.Typer(
    help="Finds, checks and remembers the fastest machine code for fused tensor kernels.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from autotune import __version__

        typer.echo(f"autotune {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds, checks and remembers the fastest machine code for fused tensor kernels."""


for _verb in (search, best, show, explain, space, graph, verify, targets, doctor):
    app.command()(_verb)
app.command()(replay)
app.command(name="why-not")(why_not)
app.command(name="replay-search")(replay_search)
