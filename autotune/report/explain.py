"""Why a candidate is what it is: its choices, how it was judged, what was predicted and what was measured.
Must not know how any of it is found out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from rich.console import Console
from rich.table import Table

from autotune.calibration.price import Term
from autotune.ir.phases import PhaseGraph
from autotune.ir.program import Program
from autotune.measure.states import Measured, RacedOut, State, outcome_from_json
from autotune.realizations.candidate import Candidate
from autotune.realizations.verdict import Legal, Refused, Verdict
from autotune.report.choices import print_choices
from autotune.report.screen import print_table, table
from autotune.report.units import bytes_text, count_text, interval_text, time_text
from autotune.search.ledger import failure_sentence
from autotune.store.records import Outcome

TRIED_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """All that is known of one candidate of a workload.

    `roles` names what it is: winner, reference, or neither. `clones` is the decision on a full clone, None where the
    candidate is refused; `terms` of the predicted time are empty then. `outcomes` are its records, oldest first;
    `tried` those of all candidates of the workload.

    Units: nanoseconds a call.
    """

    title: str
    program: Program
    graph: PhaseGraph
    candidate: Candidate
    roles: tuple[str, ...]
    verdict: Verdict
    clones: str | None
    terms: tuple[Term, ...]
    outcomes: tuple[Outcome, ...]
    tried: tuple[Outcome, ...]

    @property
    def predicted_ns(self) -> float | None:
        """What the terms add up to."""
        return sum(term.ns for term in self.terms) if self.terms else None


def print_explanation(console: Console, explanation: Explanation, *, with_tried: bool, verbose: bool) -> None:
    """Choices, path and terms of the candidate; `with_tried` adds the fastest others, `verbose` all of them."""
    roles = f" ({', '.join(explanation.roles)})" if explanation.roles else ""
    console.print(f"{explanation.candidate.id}{roles} for {explanation.title}", style="bold", soft_wrap=True)
    console.print()
    print_choices(console, explanation.program, explanation.graph, explanation.candidate)
    console.print()
    for line in path_lines(explanation):
        console.print(line, soft_wrap=True)
    if explanation.terms:
        console.print()
        print_table(console, _terms(explanation))
    if with_tried and explanation.tried:
        console.print()
        print_table(console, _tried(explanation.tried, limit=None if verbose else TRIED_SHOWN))


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """Units: nanoseconds a call."""
    return {
        "title": explanation.title,
        "id": explanation.candidate.id,
        "roles": list(explanation.roles),
        "candidate": explanation.candidate,
        "verdict": _verdict_data(explanation.verdict),
        "clones": explanation.clones,
        "predicted_ns": explanation.predicted_ns,
        "terms": explanation.terms,
        "outcomes": explanation.outcomes,
    }


def path_lines(explanation: Explanation) -> Iterator[str]:
    """What was decided about the candidate, step by step."""
    match explanation.verdict:
        case Legal():
            yield "judged:    legal"
        case Refused(reasons=reasons):
            for reason in reasons:
                yield f"judged:    refused by {reason.rule}: {reason.sentence}"
        case _:
            assert_never(explanation.verdict)
    if explanation.clones is not None:
        yield f"clones:    full clone {explanation.clones}"
    if explanation.predicted_ns is not None:
        yield f"predicted: {time_text(explanation.predicted_ns)} a call, events of the whole program counted"
    if not explanation.outcomes:
        if explanation.tried and isinstance(explanation.verdict, Legal):
            yield f"tried:     never: {State.PRUNED.value}, its predicted time earned it no trial"
        else:
            yield "tried:     never; nothing is recorded for this shape and target"
    for number, outcome in enumerate(explanation.outcomes):
        if number == 0:
            yield from _trial_lines(outcome)
        yield f"{'ended:    ' if number == 0 else 'again:    '} {_end(outcome)}"


def _trial_lines(outcome: Outcome) -> Iterator[str]:
    predicted = f"; the search predicted {time_text(outcome.predicted_ns)}" if outcome.predicted_ns is not None else ""
    yield f"picked:    as {outcome.picked.value}{predicted}"
    if outcome.code_bytes is not None and outcome.workspace_bytes is not None:
        compiling_ns = None if outcome.compile_seconds is None else 1e9 * outcome.compile_seconds
        yield (
            f"compiled:  in {time_text(compiling_ns)} to {bytes_text(outcome.code_bytes)} of code, "
            f"{bytes_text(outcome.workspace_bytes)} of workspace"
        )
    end = outcome_from_json(outcome.reason)
    if isinstance(end, Measured | RacedOut) and end.checks is not None:
        yield f"checked:   right on {', '.join(end.checks.kinds)} inputs"


def _end(outcome: Outcome) -> str:
    rigor = "" if outcome.rigor is None else f", {outcome.rigor.name.lower().replace('_', '-')}"
    samples = f" (9 of 10 samples {interval_text(outcome.interval_ns)}{rigor})"
    match outcome_from_json(outcome.reason):
        case Measured(ns=ns):
            return f"measured at {time_text(ns)} a call{samples}"
        case RacedOut(ns=ns, ratio=ratio):
            return f"raced out at {time_text(ns)} a call, {ratio:.2f} times the incumbent{samples}"
        case end:
            return f"{end.state.value}: {failure_sentence(end)}"


def _terms(explanation: Explanation) -> Table:
    numbers = ("events a call", "time", "share")
    made = table("Predicted terms", "event", *numbers, numbers=numbers)
    total = sum(term.ns for term in explanation.terms) or 1.0
    for term in explanation.terms:
        made.add_row(
            term.name.replace("_", " "),
            count_text(round(term.count)),
            time_text(term.ns),
            f"{100 * term.ns / total:.0f} %",
        )
    return made


def _tried(outcomes: Sequence[Outcome], *, limit: int | None) -> Table:
    """The last record of each candidate, the fastest first."""
    last = {outcome.candidate: outcome for outcome in outcomes}.values()
    ordered = sorted(last, key=lambda outcome: (outcome.state is not State.MEASURED, outcome.expected_ns or 0.0))
    shown = ordered if limit is None else ordered[:limit]
    title = f"Candidates tried ({len(shown)} of {len(ordered)}{', all with -v' if len(shown) < len(ordered) else ''})"
    made = table(title, "id", "state", "picked as", "time a call", "predicted", numbers=("time a call", "predicted"))
    for outcome in shown:
        measured_ns = outcome.expected_ns if outcome.samples_ns else None
        made.add_row(
            outcome.candidate,
            outcome.state.value,
            outcome.picked.value,
            time_text(measured_ns),
            time_text(outcome.predicted_ns),
        )
    return made


def _verdict_data(verdict: Verdict) -> dict[str, Any]:
    match verdict:
        case Legal():
            return {"legal": True, "reasons": []}
        case Refused(reasons=reasons):
            return {"legal": False, "reasons": [{"rule": r.rule, "sentence": r.sentence} for r in reasons]}
    assert_never(verdict)
