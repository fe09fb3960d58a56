"""The size of a search space and what its rules refused.
Must not know how a space is enumerated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from autotune.report.screen import print_table, table
from autotune.report.units import count_text, seconds_text, time_text
from autotune.search.ledger import RefusedRule
from autotune.search.space import JoinStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceSize:
    """The search space of one workload.

    `candidates` are those in the search set, `join` says what they are of all legal ones.
    `best_ns` and `reference_ns` are predictions.

    Units: nanoseconds a call; `seconds` of wall clock for enumerating and scoring.
    """

    title: str
    legal: int
    candidates: int
    join: JoinStatus
    reference: str
    reference_ns: float
    best_ns: float
    refused: tuple[RefusedRule, ...]
    seconds: float


def print_space(console: Console, size: SpaceSize) -> None:
    """Counts, predictions, and one row a rule, the most frequent first."""
    console.print(size.title, style="bold", soft_wrap=True)
    found = f"search set: {count_text(size.candidates)}, {size.join.value}"
    console.print(f"{count_text(size.legal)} legal candidates; {found}", soft_wrap=True)
    console.print(
        f"predicted: reference {size.reference} {time_text(size.reference_ns)}, best {time_text(size.best_ns)} a call",
        soft_wrap=True,
    )
    console.print(f"enumerated and scored in {seconds_text(size.seconds)}", soft_wrap=True)
    if size.refused:
        made = table("Refused by rule", "rule", "count", "for example", numbers=("count",))
        for rule in sorted(size.refused, key=lambda rule: (-rule.count, rule.rule)):
            made.add_row(rule.rule, count_text(rule.count), rule.sentence)
        console.print()
        print_table(console, made)


def space_document(sizes: list[SpaceSize]) -> dict[str, Any]:
    """Units: nanoseconds a call, seconds."""
    return {"spaces": sizes}
