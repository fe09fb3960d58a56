"""`autotune doctor`: what on this machine disturbs timings, and what to do about it.
Must not know how anything is read, judged or printed."""

from __future__ import annotations

from autotune.cli.exits import ExitCode
from autotune.cli.options import AsJson, Quiet
from autotune.cli.verb import verb


@verb
def doctor(as_json: AsJson = False, quiet: Quiet = False) -> ExitCode:
    """Look at this machine as a place to measure on.

    One line a reading, with a verdict (good, mind, bad) and what to do. Nothing is stored or changed.
    """
    from autotune.jit import host_target
    from autotune.measure.cores import choose_cores
    from autotune.measure.health import findings
    from autotune.measure.machine import observe_machine
    from autotune.measure.twins import machine_noise
    from autotune.report.doctor import findings_document, print_findings
    from autotune.report.document import print_document
    from autotune.report.screen import output

    state = observe_machine(choose_cores().measure)  # before the races, which are a load themselves
    found = findings(state, host_target(), machine_noise())
    if as_json:
        print_document(findings_document(state, found))
    elif not quiet:
        print_findings(output(), found)
    return ExitCode.IMPROVED
