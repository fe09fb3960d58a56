"""Where every candidate of a search ended: exactly one state each, counts, and failures by cause.
Must not know why a candidate was picked or how its state was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from autotune.measure.states import (
    CompileError,
    CompileTimeout,
    Crash,
    Measured,
    Noisy,
    Outcome,
    OverBudget,
    PrunedByModel,
    RacedOut,
    Refused,
    State,
    Timeout,
    Wrong,
)


class AlreadyEnded(RuntimeError):
    """A second end state for one candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCount:
    """How many candidates ended in one state."""

    state: State
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCause:
    """Candidates that failed alike: the common cause, how many, and one of them with its own sentence."""

    state: State
    cause: str
    count: int
    example: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRule:
    """Candidates that one rule kept out of the set, with one sentence of it."""

    rule: str
    count: int
    sentence: str


def refused_rules(table: Iterable[tuple[str, int, str]]) -> tuple[RefusedRule, ...]:
    """The rules of a search set: rule, count and an example sentence each."""
    return tuple(RefusedRule(rule=rule, count=count, sentence=sentence) for rule, count, sentence in table)


class Ledger:
    """End states of the candidates of one workload, by id; a legal one that is not recorded was pruned by the model."""

    def __init__(self, *, legal_count: int, refused: tuple[RefusedRule, ...] = ()) -> None:
        """`legal_count`: size of the whole legal family, which the search set may be a part of."""
        self._legal_count = legal_count
        self._ends: dict[str, Outcome] = {}
        self.refused = refused

    def __len__(self) -> int:
        """Candidates that ended so far."""
        return len(self._ends)

    def record(self, candidate: str, outcome: Outcome) -> None:
        """Raises: AlreadyEnded."""
        if candidate in self._ends:
            raise AlreadyEnded(f"candidate {candidate} ended as {self._ends[candidate].state.value} already")
        self._ends[candidate] = outcome

    def end_of(self, candidate: str) -> Outcome | None:
        """None while a candidate is only enumerated: if the search ends now, the model has pruned it."""
        return self._ends.get(candidate)

    def counts(self) -> tuple[StateCount, ...]:
        """Candidates by state, states in the order of their list, those with none left out."""
        found = Counter(outcome.state for outcome in self._ends.values())
        found[State.PRUNED] += max(0, self._legal_count - len(self._ends))
        found[State.REFUSED] += sum(rule.count for rule in self.refused)
        return tuple(StateCount(state=state, count=found[state]) for state in State if found[state])

    def failures(self) -> tuple[FailureCause, ...]:
        """Failures by cause, the most frequent first."""
        groups: dict[tuple[State, str], list[str]] = {}
        for id, outcome in self._ends.items():
            cause = failure_cause(outcome)
            if cause is not None:
                groups.setdefault((outcome.state, cause), []).append(id)
        causes = [
            FailureCause(
                state=state,
                cause=cause,
                count=len(ids),
                example=ids[0],
                sentence=failure_sentence(self._ends[ids[0]]),
            )
            for (state, cause), ids in groups.items()
        ]
        return tuple(sorted(causes, key=lambda c: (-c.count, c.state.value, c.cause)))


def failure_cause(outcome: Outcome) -> str | None:
    """What candidates that failed alike have in common; None where nothing failed."""
    match outcome:
        case Measured() | RacedOut() | PrunedByModel():
            return None
        case Refused(rule=rule):
            return rule
        case OverBudget(budget=budget):
            return budget
        case CompileError(text=text):
            return text.splitlines()[0] if text else "no message"
        case CompileTimeout():
            return "compiler still busy at the deadline"
        case Crash(signal=signal, stage=stage):
            return f"{signal} while at {stage}"
        case Timeout(stage=stage):
            return f"no end while at {stage}"
        case Wrong(kind=kind):
            return f"wrong on {kind} inputs"
        case Noisy():
            return "machine never quiet"
    assert_never(outcome)


def failure_sentence(outcome: Outcome) -> str:
    """What happened to one candidate, with its own numbers."""
    match outcome:
        case Measured(ns=ns):
            return f"measured at {ns:.0f} ns a call"
        case RacedOut(ns=ns, ratio=ratio):
            return f"raced out at {ns:.0f} ns a call, {ratio:.2f} times the incumbent"
        case Refused(rule=rule, reason=reason):
            return f"refused by {rule}: {reason}"
        case OverBudget(budget=budget, value=value, limit=limit):
            return f"{value} is over the budget {budget} of {limit}"
        case PrunedByModel(predicted_ns=predicted, threshold_ns=threshold):
            return f"predicted at {predicted:.0f} ns a call, cut at {threshold:.0f}"
        case CompileError(text=text):
            return text
        case CompileTimeout(seconds=seconds):
            return f"not compiled after {seconds:.1f} s"
        case Crash(signal=signal, stage=stage, peak_bytes=peak):
            return f"died of {signal} while at {stage}, {peak / 2**20:.0f} MiB resident"
        case Timeout(seconds=seconds, stage=stage):
            return f"still running after {seconds:.1f} s at {stage}"
        case Wrong(error_over_bound=error, where=where, kind=kind):
            return f"{error:.3g} times the error bound at {where} on {kind} inputs"
        case Noisy(redone_rounds=rounds):
            return f"{rounds} rounds thrown away"
    assert_never(outcome)
