"""Sentences for the enumerations that reports mention.
Must not know where they are printed."""

from __future__ import annotations

from typing import assert_never

from autotune.measure.noise import NoiseFloor
from autotune.report.units import seconds_text
from autotune.search.stop import AllMeasured, Budget, LifeCycle, MaxTrials, NoPromotion, NothingBetter, StopRule


def stop_text(rule: StopRule | None) -> str:
    """Why a search ended."""
    match rule:
        case None:
            return "interrupted"
        case Budget(seconds=seconds):
            return f"the budget of {seconds_text(seconds)} is spent"
        case MaxTrials(count=count):
            return f"the limit of {count} trials is reached"
        case NoPromotion():
            return "nothing better turned up for a third of the trials"
        case NothingBetter(chance=chance):
            return f"no candidate that is left has a {chance:.0%} chance of being more than 1 % faster"
        case LifeCycle(calls=calls):
            return f"another trial takes longer than it is expected to save in {calls:g} calls"
        case AllMeasured(count=count):
            return f"all {count} candidates have ended"
    assert_never(rule)


def noise_text(noise: NoiseFloor) -> str:
    """What a kernel raced against itself showed, in one line."""
    if noise.median is None or noise.p95 is None:
        return "noise floor not measured: a call takes too long, or the machine never was quiet"
    called = f", {noise.false_calls} of {noise.races} races of a kernel against itself named a winner or a loser"
    return (
        f"noise floor {100 * noise.median:.2f} % ({100 * noise.p95:.2f} % in 1 of 20 rounds"
        f"{called if noise.false_calls else ''})"
    )
