"""What `autotune doctor` found, as a table and as a document.
Must not know how a machine is read or judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from autotune.measure.health import Finding, Verdict
from autotune.measure.machine import MachineState
from autotune.report.screen import print_table, table


def print_findings(console: Console, found: Sequence[Finding]) -> None:
    """One line a finding, then how many are not good."""
    made = table("This machine", "what", "verdict", "reading", "what to do", whole=("what", "verdict"))
    for finding in found:
        made.add_row(finding.subject, finding.verdict.value, finding.reading, finding.advice or "-")
    print_table(console, made)
    console.print(_sum(found), soft_wrap=True)


def _sum(found: Sequence[Finding]) -> str:
    bad, mind = (sum(f.verdict is verdict for f in found) for verdict in (Verdict.BAD, Verdict.MIND))
    if not bad and not mind:
        return "nothing here disturbs timings"
    return f"{bad} bad for timings, {mind} to keep in mind"


def findings_document(state: MachineState, found: Sequence[Finding]) -> dict[str, Any]:
    """The raw readings and the findings made of them. Units: see MachineState."""
    return {"state": _listed(state), "findings": list(found)}


def _listed(state: MachineState) -> dict[str, Any]:
    return {
        "core": state.core,
        "cores": state.cores,
        "governor": state.governor,
        "turbo": state.turbo,
        "load_average": state.load_average,
        "steal": state.steal,
        "quota_cores": state.quota_cores,
        "siblings": sorted(state.siblings),
        "nodes": state.nodes,
        "caches_bytes": {f"L{level}": size for level, size in state.caches_bytes},
        "huge_pages": state.huge_pages,
        "array_alignments": list(state.array_alignments),
        "timer_ns": state.timer_ns,
    }
