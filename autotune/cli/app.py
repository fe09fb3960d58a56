"""The table of verbs, and the options that come before a verb.
Must not know what any verb does."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.cli.targets import targets

app = typer.Typer(
    help="Finds, checks and remembers the fastest machine code for fused tensor kernels.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"autotune {version('autotune-kernels')}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds, checks and remembers the fastest machine code for fused tensor kernels."""


for _verb in (targets,):
    app.command()(_verb)
