"""Cases: kinds within the oracle's time, and envelopes that agree with the oracle."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotune.ir import verdict
from autotune.ir.interpret import Expected, Interpretation, interpret
from autotune.ir.program import Program
from autotune.measure.cases import Case, envelopes, make_cases
from autotune.measure.inputs import InputKind


def test_all_kinds_are_made_while_the_oracle_is_quick(program: Program) -> None:
    cases = make_cases(program, 1, sizes={}, scalars={})
    assert [c.kind for c in cases] == list(InputKind)
    assert all(np.isfinite(c.expected["y"].values).all() and not c.untouched for c in cases)


def test_a_slow_oracle_is_asked_about_the_normal_kind_only(program: Program) -> None:
    def slow(program: Program, arguments: Mapping[str, Any]) -> Interpretation:
        time.sleep(0.02)
        return interpret(program, arguments)

    cases = make_cases(program, 1, sizes={}, scalars={}, oracle=slow, oracle_seconds=0.03)
    assert [c.kind for c in cases] == [InputKind.NORMAL]


def with_answer(program: Program, values: list[float], bounds: list[float]) -> Case:
    (case, *_) = make_cases(program, 1, sizes={}, scalars={})
    expected = Expected(name="y", values=np.array(values), bound=np.array(bounds))
    return replace(case, expected=Interpretation(outputs=(expected,)))


@pytest.mark.parametrize(
    ("value", "bound"),
    [(1.0, 1e-7), (1.0, 0.0), (-3.0, 0.5), (0.0, 1e-40), (3.3e38, 1e38), (np.inf, 0.0), (np.nan, 0.0), (1.0, np.inf)],
)
def test_an_envelope_holds_nothing_that_the_oracle_rejects(program: Program, value: float, bound: float) -> None:
    case = with_answer(program, [value], [bound])
    envelope = envelopes(program, case)["y"]
    near = np.float32(value)
    with np.errstate(over="ignore"):
        tries = [np.float32(value + f * bound) for f in (-1.01, -1, -0.99, 0.99, 1, 1.01)]
    tries += [near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))]
    tries += [np.float32(v) for v in (np.inf, -np.inf, np.nan, 0.0)]
    held = [found for found in tries if envelope.holds(np.array([found], dtype=np.float32))]
    for found in held:
        judgement = verdict.check({"y": np.array([found], dtype=np.float32)}, case.expected)
        assert isinstance(judgement, verdict.Correct)
    if np.isfinite(value):
        assert near in held
