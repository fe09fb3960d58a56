"""Sentences for the enumerations that reports mention.
Must not know where they are printed."""

from __future__ import annotations

from typing import assert_never

from autotune.report.units import seconds_text
from autotune.search.stop import AllMeasured, Budget, MaxTrials, NoPromotion, StopRule


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
        case AllMeasured(count=count):
            return f"all {count} candidates have ended"
    assert_never(rule)
