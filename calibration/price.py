"""From counted events to nanoseconds, with the terms that make up the sum.
Must not know how events are counted."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.calibration.prior import Prices
from autotune.realizations.events import Event, Events
from autotune.realizations.traffic import Traffic

LOST_NEAR, LOST_FAR = 0.3, 0.6
"""The part of the shorter of work and movement that does not overlap with the longer: of lines out of the second level,
and of lines from beyond it that the code does not ask for ahead; those it does ask for overlap whole."""
NOTHING_MOVED = Traffic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One summand of a prediction. Units: `count` events, `ns` in all."""

    name: str
    count: float
    ns: float


def price(events: Events, dependent_steps: float, prices: Prices, moved: Traffic = NOTHING_MOVED) -> float:
    """Predicted nanoseconds: issued work, the longest dependent chain or the lines moved, whichever takes longest.

    Work and movement overlap in part: what `not_overlapped_ns` says is added to the longer of them.
    """
    return overlapped(issue_ns(events, prices), dependent_steps, prices, moved)


def issue_ns(events: Events, prices: Prices) -> float:
    """Nanoseconds of issuing every event."""
    return sum(count * ns for count, ns in zip(events.counts, prices.event_ns, strict=True))


def overlapped(issue: float, dependent_steps: float, prices: Prices, moved: Traffic = NOTHING_MOVED) -> float:
    """`price` of events that take `issue` nanoseconds to issue."""
    work, movement = max(issue, dependent_steps * prices.dependent_step_ns), movement_ns(moved, prices)
    return max(work, movement) + not_overlapped_ns(work, moved, prices)


def movement_ns(moved: Traffic, prices: Prices) -> float:
    """Nanoseconds of moving cache lines between memory levels."""
    counts = (moved.into_l1, moved.into_l2, moved.into_l3)
    return sum(count * ns for count, ns in zip(counts, prices.line_ns, strict=True))


def not_overlapped_ns(work_ns: float, moved: Traffic, prices: Prices) -> float:
    """Nanoseconds for which work waits for lines, or lines for work."""
    near, l2, l3 = prices.line_ns
    far = (moved.into_l2 - moved.ahead_l2) * l2 + (moved.into_l3 - moved.ahead_l3) * l3
    movement = movement_ns(moved, prices)
    part = min(1.0, work_ns / movement) if movement else 0.0
    return part * (LOST_NEAR * moved.into_l1 * near + LOST_FAR * far)


def terms(events: Events, dependent_steps: float, prices: Prices, moved: Traffic = NOTHING_MOVED) -> tuple[Term, ...]:
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
    work, movement = max(issue, chain), movement_ns(moved, prices)
    if movement:
        lines = moved.into_l1 + moved.into_l2 + moved.into_l3
        excess = max(movement - work, 0.0) + not_overlapped_ns(work, moved, prices)
        found.append(Term(name="lines_moved", count=lines, ns=excess))
    return tuple(sorted(found, key=lambda term: -term.ns))
