"""What strategies reached on golden tables.
Must not know how they were played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console

from autotune.report.screen import print_table, table
from autotune.search.replay import Replay, Score, score


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedTable:
    """One strategy on one table: its regret after several numbers of measurements over all seeds.

    `measurements` is the median number of them to a candidate within 5 % of the best, infinite where it came to none.
    """

    table: str
    strategy: str
    candidates: int
    seeds: int
    scores: tuple[Score, ...]
    measurements: float

    @staticmethod
    def of(strategy: str, replays: Sequence[Replay], at: Sequence[int]) -> PlayedTable:
        """Of replays of one table."""
        return PlayedTable(
            table=replays[0].board.name,
            strategy=strategy,
            candidates=len(replays[0].board.matrix),
            seeds=len(replays),
            scores=tuple(score(replays, n) for n in at),
            measurements=median(each.measurements_to() for each in replays),
        )


def print_replays(console: Console, played: Sequence[PlayedTable]) -> None:
    """One row a table and strategy: median and 95 % quantile of the regret."""
    columns = [f"regret at {each.n}" for each in played[0].scores]
    made = table("", "table", "candidates", "strategy", *columns, "to within 5 %", numbers=("candidates", *columns))
    for each in played:
        cells = (f"{s.median:.1%} ({s.p95:.1%})" for s in each.scores)
        made.add_row(each.table, str(each.candidates), each.strategy, *cells, f"{each.measurements:g}")
    print_table(console, made)
    console.print(f"medians over {played[0].seeds} seeds, 95 % quantiles in brackets", soft_wrap=True)


def replay_document(played: Sequence[PlayedTable]) -> dict[str, Any]:
    """Regrets as fractions."""
    return {"replays": list(played)}
