"""Event costs before any calibration: what rank candidates get on a machine nobody has measured.
Must not know programs or candidates."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.realizations.events import EVENT_COUNT, Event
from autotune.realizations.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Nanoseconds an event, in the order of `Event`, and a dependent step of a reduction.

    `line_ns` is the time of a cache line moved into the first level, into the second and into the third, each beyond
    the one before.

    `calibrated` is False for a prior; `source` says where the numbers come from.
    """

    event_ns: tuple[float, ...]
    dependent_step_ns: float
    line_ns: tuple[float, float, float]
    calibrated: bool
    source: str


_CYCLE_NS = 0.27  # one cycle at 3.7 GHz
_GENERIC_CYCLES = {
    Event.ALU: 0.5,
    Event.MUL: 0.75,
    Event.FMA: 0.75,
    Event.DIV_VECTOR: 8.0,
    Event.DIV_SCALAR: 4.0,
    Event.SQRT_VECTOR: 10.0,
    Event.SQRT_SCALAR: 5.0,
    Event.VECTOR_LOAD: 0.75,
    Event.VECTOR_STORE: 1.25,
    Event.MASKED_LOAD: 1.0,
    Event.MASKED_STORE: 2.0,
    Event.SCALAR_LOAD: 0.5,
    Event.SCALAR_STORE: 1.0,
    Event.BROADCAST_LOAD: 0.5,
    Event.GATHER_LANE: 1.5,
    Event.SCATTER_LANE: 2.0,
    Event.SHUFFLE: 1.0,
    Event.MASK: 0.75,
    Event.SCALAR_ALU: 0.5,
    Event.ADDRESS: 0.25,
    Event.LOOP: 1.0,
    Event.BRANCH: 1.0,
    Event.CALL: 40.0,
    Event.PREFETCH: 0.5,
}
_DEPENDENT_STEP_CYCLES = 4.0
_LINE_NS = (0.5, 0.4, 1.5)  # 128 GB/s out of L2, 70 out of L3, 27 out of memory
_WIDE_VECTOR_FACTOR = 1.5  # 64-byte registers: half-width units take two passes for part of the work


def prior(target: Target) -> Prices:
    """Costs of a generic out-of-order core of the last ten years, from its published throughputs, rounded.

    Source: reciprocal throughputs of Zen 3/4 and Skylake to Golden Cove, averaged by class; no measurement of this
    machine is in them.
    """
    wide = {Event.ALU, Event.MUL, Event.FMA, Event.DIV_VECTOR, Event.SQRT_VECTOR, Event.VECTOR_LOAD, Event.VECTOR_STORE}
    scale = _WIDE_VECTOR_FACTOR if target.vector_bytes >= 64 else 1.0
    costs = [0.0] * EVENT_COUNT
    for event in Event:
        costs[event] = _GENERIC_CYCLES[event] * _CYCLE_NS * (scale if event in wide else 1.0)
    return Prices(
        event_ns=tuple(costs),
        line_ns=_LINE_NS,
        dependent_step_ns=_DEPENDENT_STEP_CYCLES * _CYCLE_NS,
        calibrated=False,
        source=f"generic prior for {target.name}",
    )
