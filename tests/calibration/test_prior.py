"""The prior prices every event of every target, and ranks what any core of its kind ranks the same way."""

from __future__ import annotations

import pytest

from autotune.calibration.prior import prior
from autotune.realizations.events import EVENT_COUNT, Event
from autotune.realizations.targets import TARGET_NAMES, named_target


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_every_event_has_a_price(name: str) -> None:
    prices = prior(named_target(name))
    assert len(prices.event_ns) == EVENT_COUNT
    assert all(0 < ns < 100 for ns in prices.event_ns)
    assert prices.dependent_step_ns > 0
    assert not prices.calibrated
    assert name in prices.source


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_the_order_of_costs(name: str) -> None:
    ns = prior(named_target(name)).event_ns
    assert ns[Event.DIV_VECTOR] > ns[Event.MUL]
    assert ns[Event.SQRT_VECTOR] > ns[Event.MUL]
    assert ns[Event.CALL] > ns[Event.DIV_VECTOR]
    assert ns[Event.MASKED_STORE] >= ns[Event.VECTOR_STORE] > ns[Event.ALU]
    lanes = named_target(name).vector_bytes // 4
    assert lanes * ns[Event.GATHER_LANE] > ns[Event.VECTOR_LOAD]


def test_wide_registers_cost_more_an_instruction_and_less_an_element() -> None:
    wide, narrow = prior(named_target("avx512")).event_ns, prior(named_target("avx2")).event_ns
    for event in (Event.ALU, Event.FMA, Event.VECTOR_LOAD, Event.VECTOR_STORE):
        assert narrow[event] < wide[event] < 2 * narrow[event]
    assert wide[Event.SCALAR_LOAD] == narrow[Event.SCALAR_LOAD]
