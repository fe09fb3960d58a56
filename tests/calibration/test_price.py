"""Prices add up: issued work, or the dependent chain where that is longer, with every term named once."""

from __future__ import annotations

import pytest

from autotune.calibration.price import movement_ns, price, terms
from autotune.calibration.prior import prior
from autotune.realizations.events import Event, Events
from autotune.realizations.targets import named_target
from autotune.realizations.traffic import Traffic

_PRICES = prior(named_target("avx2"))
_EVENTS = Events.of({Event.FMA: 10, Event.VECTOR_LOAD: 4, Event.LOOP: 2})


def test_issued_work_is_a_sum() -> None:
    by_hand = sum(_EVENTS[event] * _PRICES.event_ns[event] for event in Event)
    assert price(_EVENTS, 0.0, _PRICES) == pytest.approx(by_hand)
    assert price(_EVENTS.scaled(3.0), 0.0, _PRICES) == pytest.approx(3 * by_hand)
    assert price(Events(), 0.0, _PRICES) == 0.0


def test_a_long_chain_hides_the_work() -> None:
    chain = 1000 * _PRICES.dependent_step_ns
    assert price(_EVENTS, 1000.0, _PRICES) == pytest.approx(chain)
    (latency,) = (term for term in terms(_EVENTS, 1000.0, _PRICES) if term.name == "latency_excess")
    assert latency.ns == pytest.approx(chain - price(_EVENTS, 0.0, _PRICES))


@pytest.mark.parametrize("steps", [0.0, 3.0, 1e4])
def test_terms_add_up_largest_first(steps: float) -> None:
    found = terms(_EVENTS, steps, _PRICES)
    assert sum(term.ns for term in found) == pytest.approx(price(_EVENTS, steps, _PRICES))
    assert [term.ns for term in found] == sorted((term.ns for term in found), reverse=True)
    assert {term.name for term in found} - {"latency_excess"} == {"fma", "vector_load", "loop"}


@pytest.mark.parametrize("lines", [10.0, 1e4])
def test_lines_asked_for_ahead_overlap_whole(lines: float) -> None:
    work = price(_EVENTS, 0.0, _PRICES)
    waited = Traffic(into_l2=lines, into_l3=lines)
    ahead = Traffic(into_l2=lines, into_l3=lines, ahead_l2=lines, ahead_l3=lines)
    longest = max(work, movement_ns(waited, _PRICES))
    assert price(_EVENTS, 0.0, _PRICES, ahead) == pytest.approx(longest)
    assert longest < price(_EVENTS, 0.0, _PRICES, waited) < work + movement_ns(waited, _PRICES)
    (moved,) = (term for term in terms(_EVENTS, 0.0, _PRICES, waited) if term.name == "lines_moved")
    assert moved.ns == pytest.approx(price(_EVENTS, 0.0, _PRICES, waited) - work)
