"""Judgement of outputs: what is accepted, and what a refusal says."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.ir.bounds import Array
from autotune.ir.interpret import Expected, Interpretation
from autotune.ir.program import bind
from autotune.ir.verdict import Correct, Wrong, block_dependence, check
from tests.ir import programs


def expecting(values: list[float], bound: list[float]) -> Interpretation:
    return Interpretation(outputs=(Expected(name="y", values=np.array(values), bound=np.array(bound)),))


def test_the_error_is_the_largest_share_of_its_bound() -> None:
    verdict = check({"y": np.array([1.0, 2.05])}, expecting([1.0, 2.0], [0.1, 0.1]))
    assert isinstance(verdict, Correct) and verdict.error == pytest.approx(0.5)


def test_a_refusal_names_the_worst_element() -> None:
    verdict = check({"y": np.array([1.2, 2.5, 3.0])}, expecting([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]))
    assert isinstance(verdict, Wrong)
    assert (verdict.output, verdict.index, verdict.count) == ("y", (1,), 2)
    assert str(verdict) == "y[1] is 2.5, expected 2.0 ± 0.1 (2 elements wrong)"


@pytest.mark.parametrize(("found", "wanted"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 1e30)])
def test_what_is_not_a_number_must_be_met_by_the_same(found: float, wanted: float) -> None:
    verdict = check({"y": np.array([found])}, expecting([wanted], [1e-3]))
    assert isinstance(verdict, Wrong) and verdict.error_over_bound == np.inf
    assert isinstance(check({"y": np.array([wanted])}, expecting([wanted], [0.0])), Correct)


def test_an_infinite_bound_accepts_anything() -> None:
    assert isinstance(check({"y": np.array([np.nan])}, expecting([1.0], [np.inf])), Correct)


def test_a_zero_bound_accepts_only_the_value() -> None:
    assert isinstance(check({"y": np.array([1.0 + 1e-15])}, expecting([1.0], [0.0])), Wrong)


def test_integers_that_no_float_tells_apart_are_compared_exactly() -> None:
    big = np.array([2**62 + 1])
    expected = Interpretation(outputs=(Expected(name="y", values=big, bound=np.zeros(1)),))
    assert isinstance(check({"y": big}, expected), Correct)
    assert isinstance(check({"y": big - 1}, expected), Wrong)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_a_sum_does_not_depend_on_blocks() -> None:
    assert block_dependence(bind(programs.tiled_sum(), {"M": 3, "N": 10}), {"x": numbers(3, 10)}) == ()


def test_the_maximum_of_the_last_tile_does() -> None:
    found = block_dependence(bind(programs.block_dependent(), {"M": 3, "N": 10}), {"x": numbers(3, 10)})
    assert [d.block for d in found] == [1, 3]
    assert all(d.difference.output == "y" for d in found)
