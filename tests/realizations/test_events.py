"""Events are a partition with arithmetic."""

from __future__ import annotations

import numpy as np

from autotune.realizations.events import EVENT_COUNT, Event, Events


def test_events_are_numbered_in_order_and_described() -> None:
    assert [int(event) for event in Event] == list(range(EVENT_COUNT))


def test_counts_add_scale_and_convert() -> None:
    a = Events.of({Event.FMA: 2, Event.LOOP: 1})
    b = Events.of({Event.FMA: 1, Event.CALL: 3})
    total = a + b.scaled(2.0)
    assert total == Events.of({Event.FMA: 4, Event.LOOP: 1, Event.CALL: 6})
    assert total[Event.CALL] == 6
    assert total.total() == 11
    assert total.total((Event.FMA, Event.LOOP)) == 5
    assert total.named() == {"fma": 4, "loop": 1, "call": 6}
    array = total.array()
    assert array.shape == (EVENT_COUNT,)
    assert array.dtype == np.float64
    assert array[Event.FMA] == 4


def test_nothing_is_zero() -> None:
    assert Events() + Events() == Events()
    assert Events().total() == 0
