"""`autotune graph`: the phase graph as text, as JSON, or drawn.
Must not know how a graph is built or drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.errors import BadOutput, NoDrawing
from autotune.cli.exits import ExitCode
from autotune.cli.options import AsJson, File, KernelName, OneShape, Quiet
from autotune.cli.question import one_kernel, one_question
from autotune.cli.verb import verb


@verb
def graph(
    file: File,
    kernel: KernelName = None,
    shape: OneShape = None,
    out: Annotated[Path | None, typer.Option("--out", help="Draw the graph to this SVG file instead.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Print or draw the phase graph.

    With --shape the program is bound and its edges have sizes. --json prints networkx's node-link form.
    """
    from autotune.ir.phases import phase_graph
    from autotune.report.document import print_document

    bound = shape is not None
    program = one_question(file, kernel, shape).program if bound else one_kernel(file, kernel).program
    made = phase_graph(program)
    if out is not None:
        _check_drawing(out)
        from autotune.report.graph import draw_svg

        draw_svg(made, out)
        if not quiet:
            typer.echo(f"drawn to {out}")
    if as_json:
        print_document(made.node_link())
    elif out is None and not quiet:
        typer.echo(made.text(), nl=False)
    return ExitCode.IMPROVED


def _check_drawing(out: Path) -> None:
    if out.suffix != ".svg":
        raise BadOutput(path=out)
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise NoDrawing() from None
