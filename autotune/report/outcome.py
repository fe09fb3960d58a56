"""What a search found: reference, winner, speed-up, where candidates ended, where the time went.
Must not know how a search works, only its result."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from autotune.measure.buffers import ALIGNMENT_BYTES
from autotune.measure.states import State
from autotune.realizations.mechanisms import OFF_BY_DEFAULT
from autotune.report.screen import print_table, table
from autotune.report.units import bytes_text, count_text, seconds_text, speedup_text, time_text
from autotune.report.wording import noise_text, stop_text
from autotune.search.result import Ending, SearchResult, Timed

_RULES_SHOWN = 5
REPLAYED = (State.CRASH, State.WRONG, State.TIMEOUT)
_WHY_NOT_RUN = (
    "this machine cannot run code for simd:{target}, so nothing was run, checked or timed, and nothing is stored"
)


def headline(result: SearchResult) -> str:
    """The outcome in one sentence."""
    match result.ending:
        case Ending.IMPROVED:
            tie = ", tied with another finalist" if result.tied else ""
            return f"improved: {speedup_text(*_times(result))} over the reference candidate{tie}"
        case Ending.REFERENCE_KEPT:
            return "reference kept: nothing that was measured beats the reference candidate"
        case Ending.NOTHING_LEGAL:
            return "nothing legal: every candidate was refused"
        case Ending.NOTHING_CORRECT:
            return "nothing correct: no candidate agreed with the oracle"
        case Ending.COMPILED:
            return f"compiled, not measured: {_WHY_NOT_RUN.format(target=result.target)}"
        case Ending.NOTHING_COMPILED:
            why = _WHY_NOT_RUN.format(target=result.target)
            return f"nothing compiled: the compiler refused every candidate that was tried; {why}"
        case Ending.INTERRUPTED:
            best = f"; best so far {speedup_text(*_times(result))} over the reference" if result.winner else ""
            return f"interrupted{best}; the same command continues"


def print_result(console: Console, result: SearchResult, *, verbose: bool) -> None:
    """What one search found; `verbose` lists every rule."""
    console.print()
    console.print(f"{result.title} on simd:{result.target}", style="bold", soft_wrap=True)
    console.print(headline(result), soft_wrap=True)
    if result.only:
        console.print(f"only {', '.join(result.only)} (but for the reference)", soft_wrap=True)
    if without := [name for name in result.forbidden if name not in OFF_BY_DEFAULT]:
        console.print(f"without {', '.join(without)} (but in the reference)", soft_wrap=True)
    for line in _conditions(result):
        console.print(line, soft_wrap=True)
    tables = [_candidates(result)] if result.winner or result.reference else []
    if result.compiled:
        tables.append(_compiled(result))
    tables.append(_states(result))
    if result.refused:
        tables.append(_refused(result, verbose=verbose))
    if result.failures:
        tables.append(_failures(result))
    for made in tables:
        console.print()
        print_table(console, made)
    if result.repro is not None and any(failure.state in REPLAYED for failure in result.failures):
        console.print(f"autotune replay {result.repro}/CANDIDATE shows a crash, wrong result or timeout again")
    console.print()
    console.print(_effort(result), soft_wrap=True)


def _conditions(result: SearchResult) -> list[str]:
    """Under which conditions calls were timed, where they are not the usual ones, and how noisy the machine was."""
    lines = []
    if result.cold:
        lines.append(f"timed with {', '.join(result.cold)} in no cache when a call starts")
    if result.alignment_bytes != ALIGNMENT_BYTES:
        lines.append(f"timed with tensors at multiples of {result.alignment_bytes} bytes only")
    if result.noise is not None:
        lines.append(noise_text(result.noise))
    return lines


def _candidates(result: SearchResult) -> Table:
    made = table("", "candidate", "id", "time", "90 % below", "predicted", "code", "workspace", numbers=_NUMBERS)
    rows = (("reference", result.reference), ("winner", result.winner), ("model's first", result.model_first))
    for name, timed in rows:
        if timed is not None:
            made.add_row(name, *_cells(timed))
    return made


_NUMBERS = ("time", "90 % below", "predicted", "code", "workspace")


def _cells(timed: Timed) -> tuple[str, ...]:
    sizes = (timed.code_bytes, timed.workspace_bytes)
    return (
        timed.id,
        time_text(timed.ns),
        time_text(timed.upper_ns),
        time_text(timed.predicted_ns),
        *("-" if size is None else bytes_text(size) for size in sizes),
    )


def _compiled(result: SearchResult) -> Table:
    made = table("", "compiled", "id", "predicted", "compiled in", "code", "workspace", numbers=_COMPILED_NUMBERS)
    for entry in result.compiled:
        sizes = (entry.code_bytes, entry.workspace_bytes)
        made.add_row(
            "reference" if entry.reference else "by the model",
            entry.id,
            time_text(entry.predicted_ns),
            "failed" if entry.compile_seconds is None else time_text(1e9 * entry.compile_seconds),
            *("-" if size is None else bytes_text(size) for size in sizes),
        )
    return made


_COMPILED_NUMBERS = ("predicted", "compiled in", "code", "workspace")


def _states(result: SearchResult) -> Table:
    made = table("", "candidates by state", "count", numbers=("count",))
    sound = sum(entry.failure is None for entry in result.compiled)
    if sound:
        made.add_row(Ending.COMPILED.value, count_text(sound))
    for entry in result.counts:
        made.add_row(entry.state.value, count_text(entry.count))
    return made


def _refused(result: SearchResult, *, verbose: bool) -> Table:
    made = table("", "refused by rule", "count", "for example", numbers=("count",))
    rules = sorted(result.refused, key=lambda rule: (-rule.count, rule.rule))
    for rule in rules if verbose else rules[:_RULES_SHOWN]:
        made.add_row(rule.rule, count_text(rule.count), rule.sentence)
    if not verbose and len(rules) > _RULES_SHOWN:
        rest = rules[_RULES_SHOWN:]
        made.add_row(f"{len(rest)} more rules", count_text(sum(rule.count for rule in rest)), "shown with -v")
    return made


def _failures(result: SearchResult) -> Table:
    made = table("", "failed", "cause", "count", "for example", "with", numbers=("count",))
    for failure in result.failures:
        made.add_row(failure.state.value, failure.cause, count_text(failure.count), failure.example, failure.sentence)
    return made


def _effort(result: SearchResult) -> str:
    spent = result.seconds
    earlier = f" ({count_text(result.restored)} in earlier runs)" if result.restored else ""
    set_size = f"{count_text(result.candidates)} of {count_text(result.legal)} legal candidates ({result.join.value})"
    if result.compiled:
        cut = f"; {stop_text(result.stopped_by)}" if result.stopped_by is not None else ""
        return (
            f"{count_text(len(result.compiled))} given to the compiler out of {set_size}{cut}.\n"
            f"{seconds_text(spent.total)} in all: preparing {seconds_text(spent.preparing)}, compiling "
            f"{seconds_text(spent.compiling)}."
        )
    return (
        f"{count_text(result.trials)} trials{earlier} out of {set_size}; {stop_text(result.stopped_by)}.\n"
        f"{seconds_text(spent.total)} in all: preparing {seconds_text(spent.preparing)}, compiling "
        f"{seconds_text(spent.compiling)}, checking {seconds_text(spent.checking)}, measuring "
        f"{seconds_text(spent.measuring)} (compiling overlaps the others).{_audits(result)}"
    )


def _audits(result: SearchResult) -> str:
    """What candidates drawn without the model say about its cut; nothing where none was timed."""
    audits = result.audits
    if audits.best_ratio is None:
        return ""
    verdict = "which bears it out" if audits.best_ratio >= 1.0 else "so its cut was wrong"
    drawn = f"{count_text(audits.timed)} drawn without the model"
    return f"\n{drawn}: the fastest takes {audits.best_ratio:.2f} of the winner's time, {verdict}."


def print_overview(console: Console, results: Sequence[SearchResult]) -> None:
    """One row a workload."""
    console.print()
    made = table("All workloads", "workload", "reference", "winner", "speed-up", "outcome", numbers=_OVERVIEW_NUMBERS)
    for result in results:
        before, after = _times(result)
        made.add_row(
            result.title, time_text(before), time_text(after), speedup_text(before, after), result.ending.value
        )
    print_table(console, made)


_OVERVIEW_NUMBERS = ("reference", "winner", "speed-up")


def _times(result: SearchResult) -> tuple[float | None, float | None]:
    return (
        None if result.reference is None else result.reference.ns,
        None if result.winner is None else result.winner.ns,
    )
