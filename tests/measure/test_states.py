"""Outcomes: one class a state, kept through JSON."""

from __future__ import annotations

import json
import math
from typing import get_args

import pytest

from autotune.ir.serial import MalformedJson
from autotune.measure.states import (
    Checks,
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
    outcome_from_json,
    outcome_to_json,
)

CHECKS = Checks(kinds=("normal",), repeated=True, guard_pages=False)
EXAMPLES: tuple[Outcome, ...] = (
    Measured(ns=2.0, samples_ns=(2.0, 3.0), log_ratios=(-0.1,), promoted=True, checks=CHECKS),
    RacedOut(ns=2.0, ratio=1.5, samples_ns=(2.0,), incumbent_samples_ns=(1.0,), log_ratios=(0.4,)),
    Refused(rule="tail", reason="no masks for f64"),
    OverBudget(budget="workspace bytes", value=10, limit=5),
    PrunedByModel(predicted_ns=10.0, threshold_ns=5.0),
    CompileError(text="ValueError: no", trace="line 1"),
    CompileTimeout(seconds=20.0),
    Crash(signal="SIGSEGV", stage="compile", peak_bytes=1 << 30),
    Timeout(seconds=10.0, stage="timing"),
    Wrong(error_over_bound=math.inf, where="guard after y overwritten", kind="normal", memory=True),
    Noisy(redone_rounds=16, samples_ns=(1.0,), checks=CHECKS),
)


def test_every_state_has_exactly_one_class() -> None:
    states = [kind.state for kind in get_args(Outcome)]
    assert sorted(s.value for s in states) == sorted(s.value for s in State)
    assert {type(e) for e in EXAMPLES} == set(get_args(Outcome))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.state.value)
def test_an_outcome_survives_json(example: Outcome) -> None:
    text = json.dumps(outcome_to_json(example))
    assert outcome_from_json(json.loads(text)) == example


def test_records_from_before_a_field_was_added_still_read() -> None:
    data = outcome_to_json(EXAMPLES[0])
    del data["contended"]
    assert outcome_from_json(data) == EXAMPLES[0]
    del data["ns"]
    with pytest.raises(MalformedJson, match="Measured lacks the field ns"):
        outcome_from_json(data)
