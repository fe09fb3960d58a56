"""Why a choice is not what runs: in one sentence, then with the rules, times and failures behind it.
Must not know how the answer was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from autotune.report.screen import print_table, table
from autotune.report.units import count_text, time_text
from autotune.search.why_not import WhyNot

RULES_SHOWN = 8


def verdict(answer: WhyNot) -> str:
    """What stopped the choice."""
    if answer.has_it:
        return f"the winner {answer.winner} has it"
    if answer.off:
        return f"off by default: {', '.join(answer.off)} (--allow tries it)"
    if not answer.legal:
        return "no legal candidate has it"
    if answer.tried is not None:
        slower = answer.tried.over_winner
        if slower >= 1.0:
            return (
                f"measured: the fastest of {count_text(answer.tried.count)} takes {slower:.2f} times the winner's time"
            )
        return f"measured: the fastest takes {slower:.2f} of the winner's time, by races of other minutes"
    if answer.failures:
        return "every candidate with it that was tried failed"
    if answer.in_set:
        return "nothing with it was picked: the search ended before"
    return "cut by the model: no candidate with it is in the search set"


def print_why_not(console: Console, title: str, answer: WhyNot) -> None:
    """The verdict and what it rests on."""
    console.print(f"{' and '.join(answer.conditions)} for {title}", style="bold", soft_wrap=True)
    console.print(verdict(answer), soft_wrap=True)
    for line in _lines(answer):
        console.print(line, soft_wrap=True)
    if answer.failures:
        made = table("", "failed", "cause", "count", "for example", "with", numbers=("count",))
        for cause in answer.failures:
            made.add_row(cause.state.value, cause.cause, count_text(cause.count), cause.example, cause.sentence)
        console.print()
        print_table(console, made)
    if answer.refused and not answer.legal:
        made = table("", "refused by", "count", "for example", numbers=("count",))
        for rule in answer.refused[:RULES_SHOWN]:
            made.add_row(rule.rule, count_text(rule.count), rule.sentence)
        console.print()
        print_table(console, made)


def _lines(answer: WhyNot) -> Iterator[str]:
    for name, levels in answer.levels:
        yield f"{name} can be {', '.join(map(str, levels))}"
    if answer.nearest:
        yield f"the nearest that is legal: {' or '.join(answer.nearest)}"
    if answer.legal and answer.predicted_ns is not None:
        found = f"{count_text(answer.in_set)} of the search set"
        yield f"{count_text(answer.legal)} or more legal candidates have it, {found}"
        winner = answer.winner_predicted_ns
        beside = "" if winner is None else f", the winner at {time_text(winner)}"
        yield f"the best of them is predicted at {time_text(answer.predicted_ns)}{beside}"
    if answer.tried is not None:
        yield f"fastest measured: {answer.tried.fastest} at {time_text(answer.tried.fastest_ns)}"


def why_not_document(title: str, answer: WhyNot) -> dict[str, Any]:
    """Units: nanoseconds a call."""
    return {"title": title, "verdict": verdict(answer), "answer": answer}
