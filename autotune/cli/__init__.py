"""The `autotune` command: one file a verb, options in one place, everything heavy imported inside the verbs.
Must not know how a verb's work is done."""

from __future__ import annotations

from autotune.cli.app import app


def main() -> None:
    """Run the command with the arguments of this process and exit with an `ExitCode`."""
    app(prog_name="autotune")
