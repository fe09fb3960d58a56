"""The table of verbs.
Must not know what any verb does."""

from __future__ import annotations

import typer

app = typer.Typer()
