"""Stored policies as a table.
Must not know the store's file or its queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from autotune.planner import Answer, NoPolicy, Policy
from autotune.report.screen import print_table, table
from autotune.report.units import interval_text, speedup_text, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """What the store answers for one workload.

    Units: `reference_ns` nanoseconds a call, None where the reference candidate was not timed.
    """

    title: str
    answer: Answer
    reference_ns: float | None


def print_policies(console: Console, rows: Sequence[PolicyRow], *, verbose: bool) -> None:
    """One row a policy, then one line for each workload without; `verbose` says why each is believed."""
    numbers = ("time a call", "reference", "speed-up")
    made = table(
        "Policies", "workload", "candidate", *numbers, "9 of 10 samples", "rigor", numbers=numbers, whole=("candidate",)
    )
    found = [(row, row.answer) for row in rows if isinstance(row.answer, Policy)]
    for row, policy in found:
        made.add_row(
            row.title,
            policy.candidate.id,
            time_text(policy.expected_ns),
            time_text(row.reference_ns),
            speedup_text(row.reference_ns, policy.expected_ns),
            interval_text(policy.interval_ns),
            policy.rigor.name.lower().replace("_", "-"),
        )
    if found:
        print_table(console, made)
    for row, policy in found if verbose else ():
        console.print(f"{row.title}: {policy.why}", soft_wrap=True)
    for row in rows:
        if isinstance(row.answer, NoPolicy):
            console.print(f"{row.title}: no policy: {row.answer.why}", soft_wrap=True)


def policies_document(rows: Sequence[PolicyRow]) -> dict[str, Any]:
    """Units: nanoseconds a call."""
    return {"policies": [{"title": row.title, "answer": row.answer, "reference_ns": row.reference_ns} for row in rows]}
