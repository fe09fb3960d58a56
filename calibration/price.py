"""From counted events to nanoseconds, with the terms that make up the sum.
Must not know how events are counted."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.calibration.prior import Prices
from autotune.realizations.events import Event, Events


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One summand of a prediction. Units: `count` events, `ns` in all."""

    name: str
    count: float
    ns: float


def price(events: Events, dependent_steps: float, prices: Prices) -> float:
    """Predicted nanoseconds: issued work, or the longest dependent chain where that is longer."""
    issue = sum(count * ns for count, ns in zip(events.counts, prices.event_ns, strict=True))
    return max(issue, dependent_steps * prices.dependent_step_ns)


def terms(events: Events, dependent_steps: float, prices: Prices) -> tuple[Term, ...]:
    """The summands of `price`, largest first; they add up to it."""
    found = [
        Term(name=event.name.lower(), count=events.counts[event], ns=events.counts[event] * prices.event_ns[event])
        for event in Event
        if events.counts[event]
    ]
    issue = sum(term.ns for term in found)
    chain = dependent_steps * prices.dependent_step_ns
    if chain > issue:
        found.append(Term(name="latency_excess", count=dependent_steps, ns=chain - issue))
    return tuple(sorted(found, key=lambda term: -term.ns))
