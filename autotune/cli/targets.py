"""`autotune targets`: the instruction sets, and what can be measured on this machine.
Must not know how the table looks."""

from __future__ import annotations

from autotune.cli.exits import ExitCode
from autotune.cli.options import AsJson
from autotune.cli.verb import verb


@verb
def targets(as_json: AsJson = False) -> ExitCode:
    """List instruction sets and what runs here."""
    from autotune.jit import can_run, host_target
    from autotune.realizations.targets import TARGET_NAMES
    from autotune.report.document import print_document
    from autotune.report.screen import output, print_table
    from autotune.report.targets import targets_document, targets_table

    known = [host_target(name) for name in TARGET_NAMES]
    runs_here = {target.name: can_run(target) for target in known}
    default = host_target().name
    if as_json:
        print_document(targets_document(known, runs_here, default))
    else:
        print_table(output(), targets_table(known, runs_here, default))
    return ExitCode.IMPROVED
