"""What `verify` found: one row a candidate.
Must not know how candidates are compiled or run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.console import Console

from autotune.measure.gate import Passed
from autotune.measure.states import CompileFailure, RunFailure
from autotune.report.screen import print_table, table
from autotune.search.ledger import failure_sentence

Found: TypeAlias = Passed | CompileFailure | RunFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A candidate and what checking it found; `role` is winner or reference."""

    title: str
    role: str
    candidate: str
    found: Found

    @property
    def right(self) -> bool:
        return isinstance(self.found, Passed)


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    """One row a candidate: its input kinds if it is right, else what happened."""
    made = table("Checked against the oracle", "workload", "candidate", "id", "verdict", "checked on, or what happened")
    for check in checks:
        made.add_row(check.title, check.role, check.candidate, "right" if check.right else "wrong", _what(check.found))
    print_table(console, made)


def checks_document(checks: Sequence[Check]) -> dict[str, Any]:
    return {
        "checks": [
            {
                "title": check.title,
                "role": check.role,
                "candidate": check.candidate,
                "right": check.right,
                "found": check.found,
            }
            for check in checks
        ]
    }


def _what(found: Found) -> str:
    if not isinstance(found, Passed):
        return failure_sentence(found)
    return f"{', '.join(found.checks.kinds)} inputs{'' if found.checks.repeated else ', once'}"
