"""Every strategy on every golden table, without a clock: regret by measurements, and who is better than whom.
Must not know how a strategy picks or how a table was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from autotune.search.recording import Recording
from autotune.search.replay import Board, Replay, replay, score
from autotune.search.strategies import DEFAULT_STRATEGY, STRATEGIES
from benchmarks.paired import table_row

MEASUREMENTS = (16, 32, 64)
RIVALS = ("model-order", "tpe", "random")
"""Strategies that the default has to beat at every number of measurements."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """All replays of one strategy on one table, by seed."""

    table: str
    strategy: str
    replays: tuple[Replay, ...]

    def regrets(self, n: int) -> list[float]:
        """Of every seed after `n` measurements, as fractions."""
        return [each.regret(n) for each in self.replays]


def measure(
    recordings: Sequence[Recording], strategies: Sequence[str], *, seeds: int, announce: Callable[[str], None]
) -> Iterator[Played]:
    """Play each strategy on each table with each seed."""
    for recording in recordings:
        board = Board.of(recording)
        for name in strategies:
            announce(f"{recording.name}: {name}")
            made = (replay(board, STRATEGIES[name], seed, max(MEASUREMENTS)) for seed in range(seeds))
            yield Played(table=recording.name, strategy=name, replays=tuple(made))


def to_json(played: Sequence[Played]) -> str:
    """A JSON array, one table, strategy and number of measurements a line of text; regrets as fractions."""
    lines = []
    for each in played:
        for n in MEASUREMENTS:
            found = score(each.replays, n)
            lines.append(
                json.dumps(
                    {
                        "table": each.table,
                        "strategy": each.strategy,
                        "n": n,
                        "regret_median": found.median,
                        "regret_p95": found.p95,
                        "seeds": len(each.replays),
                    }
                )
            )
    return "[\n" + ",\n".join(lines) + "\n]\n"


def p_better(played: Sequence[Played], rival: str, n: int) -> tuple[float, float]:
    """Mean difference of the default strategy's regret to a rival's, table by table and seed by seed, and the one-sided
    p of the hypothesis that it is no smaller (Wilcoxon's signed ranks over the tables' means)."""
    ours = {each.table: each for each in played if each.strategy == DEFAULT_STRATEGY}
    theirs = {each.table: each for each in played if each.strategy == rival}
    pairs = [np.subtract(ours[table].regrets(n), theirs[table].regrets(n)).mean() for table in ours if table in theirs]
    differences = np.array(pairs)
    if not differences.any():
        return 0.0, 1.0
    return float(differences.mean()), float(stats.wilcoxon(differences, alternative="less").pvalue)


def markdown(played: Sequence[Played], *, seeds: int) -> str:
    """By strategy over all tables, the comparisons, and table by table."""
    tables = list(dict.fromkeys(each.table for each in played))
    strategies = list(dict.fromkeys(each.strategy for each in played))
    lines = [
        "# How soon each strategy finds the best",
        "",
        f"Made by `python -m benchmarks search --replay --seeds {seeds} --markdown docs/search.md` from the tables in",
        "`benchmarks/golden/`: every candidate of a declared subspace, compiled once and timed in two passes. Nothing",
        "is measured here; a strategy is told the first pass, its regret is read from the second: how much slower than",
        "the table's best (by the first pass) the best of its first n measurements is. The reference candidate and the",
        "model's first are measured first by all.",
        "",
        f"Over {len(tables)} tables and {seeds} seeds: median, and 95 % quantile in brackets.",
        "",
        table_row(["strategy", *(f"regret at {n}" for n in MEASUREMENTS), "measurements to within 5 %"]),
        table_row(["---", *["---:"] * (len(MEASUREMENTS) + 1)]),
    ]
    for name in strategies:
        replays = [one for each in played if each.strategy == name for one in each.replays]
        cells = [f"{s.median:.1%} ({s.p95:.1%})" for s in (score(replays, n) for n in MEASUREMENTS)]
        needed = float(np.median([one.measurements_to() for one in replays]))
        lines.append(table_row([f"`{name}`", *cells, f"{needed:g}"]))
    lines += [
        "",
        f"`{DEFAULT_STRATEGY}` against the others, mean difference of regret and one-sided p over the tables:",
        "",
    ]
    lines += [
        table_row(["rival", *(f"at {n}" for n in MEASUREMENTS)]),
        table_row(["---", *["---:"] * len(MEASUREMENTS)]),
    ]
    for rival in strategies:
        if rival != DEFAULT_STRATEGY and DEFAULT_STRATEGY in strategies:
            found = [p_better(played, rival, n) for n in MEASUREMENTS]
            lines.append(table_row([f"`{rival}`", *(f"{mean:+.1%} (p {p:.2g})" for mean, p in found)]))
    lines += ["", f"Table by table, `{DEFAULT_STRATEGY}`:", ""]
    lines += [
        table_row(["table", "candidates", *(f"regret at {n}" for n in MEASUREMENTS)]),
        table_row(["---", *["---:"] * (len(MEASUREMENTS) + 1)]),
    ]
    for each in played:
        if each.strategy == DEFAULT_STRATEGY:
            cells = [f"{s.median:.1%} ({s.p95:.1%})" for s in (score(each.replays, n) for n in MEASUREMENTS)]
            lines.append(table_row([f"`{each.table}`", str(len(each.replays[0].board.matrix)), *cells]))
    return "\n".join(lines) + "\n"
