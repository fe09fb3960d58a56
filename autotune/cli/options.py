"""The options that several verbs share, each declared once.
Must not know what a verb does with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

File: TypeAlias = Annotated[Path, typer.Argument(help="Python file with the kernel.", show_default=False)]
CandidateName: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[CANDIDATE]",
        help="A candidate id or its first digits, or `reference`; the stored winner if left out.",
        show_default=False,
    ),
]
KernelName: TypeAlias = Annotated[
    str | None, typer.Option("--kernel", help="Name of one kernel of the file; all of them if left out.")
]
Shapes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", help="Sizes, and scalars if any: M=129,N=512. May be repeated; the kernel's workloads if left out."
    ),
]
OneShape: TypeAlias = Annotated[
    str | None,
    typer.Option("--shape", help="Sizes, and scalars if any: M=129,N=512; the kernel's only workload if left out."),
]
TargetName: TypeAlias = Annotated[
    str | None,
    typer.Option("--target", help="simd for this machine, or simd:avx512, simd:avx2, simd:sse2, simd:neon."),
]
Only: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="CONDITION",
        help="Keep what meets it, beside the reference: lanes=8, tile.M>=16, uses=own-lanes. May be repeated.",
    ),
]
DatabasePath: TypeAlias = Annotated[
    str | None, typer.Option("--db", help="The policy store; the one in the user's data folder if left out.")
]
LINE_BYTES = 64
Cold: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cold",
        metavar="TENSORS",
        help="Tensors that are in no cache when a call starts: k,v, or all; hot if left out.",
    ),
]
Alignment: TypeAlias = Annotated[
    int, typer.Option("--alignment", metavar="64|16", help="What the tensors' addresses are multiples of, in bytes.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", "-v", help="Say more: every candidate, every reason.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="No progress and no tables; errors still show.")]


def names(text: str | None) -> tuple[str, ...]:
    """The names in a list with commas between; none for no list."""
    return tuple(name.strip() for name in text.split(",")) if text else ()
