"""A run on the terminal: the table of rows, the geometric mean and the verdicts on the targets.
Must not measure or judge anything."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.protocol import TimingProtocol
from benchmarks.row import OWN_REFERENCE, Row
from benchmarks.targets import Outcome, Verdict, fastest, geometric_mean


def show(console: Console, rows: Sequence[Row], outcomes: Sequence[Outcome], *, ours: str = "ours") -> None:
    """Print everything that `rows` say; `outcomes` is empty for a suite or a run without targets, and `ours` says
    who stands on our side."""
    console.print(_row_table(rows))
    best = fastest(rows)
    ratios = [row.ratio for row in best.values() if row.ratio is not None]
    if ratios:
        console.print(
            f"{ours} over the fastest peer, geometric mean of {len(ratios)} cases: {geometric_mean(ratios):.3f}"
        )
    for label in dict.fromkeys(row.peer for row in rows if not row.counted):
        apart = [row.ratio for row in rows if row.peer == label and row.ratio is not None]
        if apart:
            console.print(f"{ours} over {label}, geometric mean of {len(apart)} cases: {geometric_mean(apart):.3f}")
    for pages in sorted({row.pages for row in rows}):
        count = len({row.case for row in rows if row.pages == pages})
        console.print(f"buffers on {pages} pages, aligned to 64 bytes: {count} cases")
    presets = sorted({row.protocol for row in rows} - {"", TimingProtocol.ROUNDS.value})
    redone, rounds = sum(row.redone for row in rows), sum(row.rounds for row in rows)
    if presets:
        console.print(f"{rounds} pairs of visits by the protocol {', '.join(presets)}")
    else:
        console.print(f"{rounds} rounds of four samples, {redone} more were disturbed and taken again")
    if outcomes:
        console.print(_target_table(outcomes))


def _row_table(rows: Sequence[Row]) -> Table:
    table = Table(title="ours against each peer, µs a call, one thread, one core")
    for heading in ("case", "peer"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ours", "peer µs", "ratio", "roof", "error", "peer error", "overhead"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("formulation", overflow="fold")
    winners = {id(row) for row in fastest(rows).values()}
    previous = ""
    for row in rows:
        if previous and row.case != previous:
            table.add_section()
        emphasis = "bold" if id(row) in winners else "" if _contends(row) else "dim"
        note = row.formulation if row.failure is None else f"{row.formulation} ({row.failure})".strip()
        numbers = (_number(row.ours_us), _number(row.peer_us), _number(row.ratio), _number(row.roof))
        more = (_number(row.error), _number(row.peer_error), _number(row.overhead_us))
        table.add_row(row.case if row.case != previous else "", row.peer, *numbers, *more, note, style=emphasis)
        previous = row.case
    return table


def _target_table(outcomes: Sequence[Outcome]) -> Table:
    passed = sum(outcome.verdict is Verdict.PASS for outcome in outcomes)
    table = Table(title=f"targets: {passed} of {len(outcomes)} hold")
    for heading in ("case", "against", "at most", "found", "verdict"):
        table.add_column(heading)
    styles = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.NOT_MEASURED: "yellow"}
    for outcome in outcomes:
        target = outcome.target
        table.add_row(
            target.case,
            target.against,
            f"{target.at_most:.2f}",
            _number(outcome.ratio),
            outcome.verdict.value,
            style=styles[outcome.verdict],
        )
    return table


def _contends(row: Row) -> bool:
    return row.counted and row.ratio is not None and row.peer != OWN_REFERENCE


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
