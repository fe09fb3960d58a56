"""What every strategy owes a search, whatever it prefers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from autotune.search.encode import ChoiceMatrix
from autotune.search.errors import UnknownStrategy
from autotune.search.sampler import Pick, PickStudy, SpaceExhausted
from autotune.search.strategies import DEFAULT_STRATEGY, STRATEGIES, strategy_named
from autotune.store.records import PickReason

Times = NDArray[np.float64]
Machine = Callable[..., tuple[Times, Times]]
every_strategy = pytest.mark.parametrize("name", STRATEGIES)


def _part(matrix: ChoiceMatrix, rows: Sequence[int]) -> ChoiceMatrix:
    codes = matrix.codes[list(rows)]
    return ChoiceMatrix(
        parameters=matrix.parameters, codes=codes, rows={row.tobytes(): k for k, row in enumerate(codes)}
    )


@pytest.fixture
def small(matrix: ChoiceMatrix) -> ChoiceMatrix:
    return _part(matrix, range(0, len(matrix), 47))


@pytest.fixture
def times(small: ChoiceMatrix, matrix: ChoiceMatrix, machine: Machine) -> Times:
    """Of the small set; every ninth candidate fails."""
    found = machine(3, model_error=0.1)[0][::47].copy()
    found[4::9] = np.inf
    return found


@pytest.fixture
def prior(machine: Machine) -> Times:
    return machine(3, model_error=0.1)[1][::47]


def _study(name: str, matrix: ChoiceMatrix, prior: Times, seed: int, seeds: Sequence[Pick] = ()) -> PickStudy:
    return PickStudy(STRATEGIES[name](matrix, prior, np.zeros(len(matrix), np.int64), seed=seed), seeds)


def _value(time_ns: float) -> float | None:
    return None if np.isinf(time_ns) else float(time_ns)


def _rows(study: PickStudy, times: Times, count: int) -> list[int]:
    rows = []
    for _ in range(count):
        pick = study.ask()
        study.tell(pick.row, _value(times[pick.row]))
        rows.append(pick.row)
    return rows


@every_strategy
def test_every_candidate_is_picked_once_and_then_none(
    name: str, small: ChoiceMatrix, times: Times, prior: Times
) -> None:
    study = _study(name, small, prior, 1)
    assert sorted(_rows(study, times, len(small))) == list(range(len(small)))
    assert study.exhausted
    with pytest.raises(SpaceExhausted):
        study.ask()


@every_strategy
def test_seeds_come_first(name: str, small: ChoiceMatrix, times: Times, prior: Times) -> None:
    seeds = [Pick(row=7, reason=PickReason.REFERENCE), Pick(row=3, reason=PickReason.MODEL)]
    study = _study(name, small, prior, 1, seeds)
    assert [study.ask() for _ in range(2)] == seeds
    assert study.ask().row not in (3, 7)


@every_strategy
def test_the_same_seed_and_results_give_the_same_picks(
    name: str, small: ChoiceMatrix, times: Times, prior: Times
) -> None:
    first, second = (_rows(_study(name, small, prior, 5), times, 40) for _ in range(2))
    assert first == second


@every_strategy
def test_a_resumed_search_goes_on_as_the_uninterrupted_one(
    name: str, small: ChoiceMatrix, times: Times, prior: Times
) -> None:
    whole = _rows(_study(name, small, prior, 2), times, 45)
    for cut in (1, 17, 30):
        study = _study(name, small, prior, 2)
        for row in whole[:cut]:
            study.restore(row, _value(times[row]))
        assert _rows(study, times, 45 - cut) == whole[cut:]


@every_strategy
def test_the_end_of_the_trial_before_changes_nothing(
    name: str, small: ChoiceMatrix, times: Times, prior: Times
) -> None:
    whole = _rows(_study(name, small, prior, 2), times, 30)
    other = times.copy()
    other[whole[28]] = np.inf if np.isfinite(times[whole[28]]) else 1.0
    assert _rows(_study(name, small, prior, 2), other, 30) == whole


@every_strategy
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_smallest_sets_work(name: str, count: int, matrix: ChoiceMatrix) -> None:
    tiny = _part(matrix, range(count))
    study = _study(name, tiny, np.ones(count), 0)
    assert sorted(_rows(study, np.full(count, np.inf), count)) == list(range(count))


@pytest.mark.parametrize("name", ["lcb", "tpe", "weighted-tpe", "forest"])
def test_what_learns_does_better_than_chance(name: str, matrix: ChoiceMatrix, machine: Machine) -> None:
    """Over a few machines, by the mean of the best of 48 measurements."""
    part = _part(matrix, range(0, len(matrix), 9))
    best: dict[str, list[float]] = {name: [], "random": []}
    for seed in range(4):
        times, prior = (found[::9] for found in machine(seed, model_error=0.15))
        for each in best:
            rows = _rows(_study(each, part, prior, seed), times, 48)
            best[each].append(float(np.log(times[rows].min() / times.min())))
    assert np.mean(best[name]) < np.mean(best["random"])


def test_model_order_is_the_order_of_the_model(small: ChoiceMatrix, times: Times, prior: Times) -> None:
    for name in ("model-order", "exhaustive"):
        assert _rows(_study(name, small, prior, 0), times, 20) == np.argsort(prior, kind="stable")[:20].tolist()


def test_random_draws_differ_by_seed(small: ChoiceMatrix, times: Times, prior: Times) -> None:
    assert _rows(_study("random", small, prior, 0), times, 20) != _rows(_study("random", small, prior, 1), times, 20)


def test_an_unknown_strategy_lists_the_known() -> None:
    assert strategy_named(DEFAULT_STRATEGY) is STRATEGIES["lcb"]
    with pytest.raises(UnknownStrategy, match="weighted-tpe"):
        strategy_named("greedy")
