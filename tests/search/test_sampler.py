"""The enumerated-set sampler: its contract with optuna, and how good its picks are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from numpy.typing import NDArray
from optuna.trial import TrialState

from autotune.realizations.candidate import Candidate
from autotune.search.belief import Known
from autotune.search.encode import ChoiceMatrix
from autotune.search.process import (
    MEDIAN_CORRELATION,
    NOISE_DEVIATION,
    TRUSTED,
    ChoiceProcess,
    Geometry,
    Strengths,
    likeliest_strengths,
)
from autotune.search.sampler import Pick, PickStudy, SpaceExhausted
from autotune.search.stop import Outlook
from autotune.search.strategies import LowerBound
from autotune.store.records import PickReason

Machine = Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]]


def picks_of(
    matrix: ChoiceMatrix,
    times: NDArray[np.float64],
    prior: NDArray[np.float64],
    count: int,
    *,
    seed: int = 0,
    seeds: Iterable[Pick] = (),
    restored: Iterable[int] = (),
) -> list[Pick]:
    """The picks of one search; a time of infinity is a failure."""
    study = PickStudy(LowerBound(matrix, prior, np.zeros(len(matrix), np.int64), seed=seed), seeds)
    for row in restored:
        study.restore(row, _value(times[row]))
    picks = []
    for _ in range(count):
        pick = study.ask()
        study.tell(pick.row, _value(times[pick.row]))
        picks.append(pick)
    return picks


def _value(time_ns: float) -> float | None:
    return None if np.isinf(time_ns) else float(time_ns)


@pytest.fixture
def small(matrix: ChoiceMatrix) -> ChoiceMatrix:
    codes = matrix.codes[::97]
    return ChoiceMatrix(
        parameters=matrix.parameters, codes=codes, rows={row.tobytes(): k for k, row in enumerate(codes)}
    )


def test_every_candidate_is_picked_once_and_then_none(small: ChoiceMatrix) -> None:
    prior = np.linspace(1.0, 2.0, len(small))
    study = PickStudy(LowerBound(small, prior, np.zeros(len(small), np.int64), seed=1))
    rows = []
    while not study.exhausted:
        pick = study.ask()
        study.tell(pick.row, prior[pick.row])
        rows.append(pick.row)
    assert sorted(rows) == list(range(len(small)))
    with pytest.raises(SpaceExhausted, match=f"all {len(small)} candidates"):
        study.ask()


def test_a_trial_holds_exactly_the_active_choices_of_its_candidate(small: ChoiceMatrix) -> None:
    prior = np.linspace(1.0, 2.0, len(small))
    study = PickStudy(LowerBound(small, prior, np.zeros(len(small), np.int64), seed=1))
    for _ in range(20):
        pick = study.ask()
        study.tell(pick.row, 1.0)
        assert study.study.trials[-1].params == small.choices(pick.row)


def test_an_independent_sample_is_refused(small: ChoiceMatrix) -> None:
    study = PickStudy(LowerBound(small, np.ones(len(small)), np.zeros(len(small), np.int64), seed=1))
    trial = study.study.ask()
    with pytest.raises(RuntimeError, match="other is not a choice of trial 0"):
        trial.suggest_categorical("other", (1, 2))


def test_seeds_come_first_in_order_and_with_their_reason(small: ChoiceMatrix) -> None:
    prior = np.linspace(1.0, 2.0, len(small))
    seeds = [Pick(row=7, reason=PickReason.REFERENCE), Pick(row=0, reason=PickReason.MODEL)]
    picks = picks_of(small, prior, prior, 3, seeds=[*seeds, seeds[0]])
    assert picks[:2] == seeds
    assert picks[2].row not in (0, 7) and picks[2].reason in (PickReason.ACQUISITION, PickReason.AUDIT)


def test_the_same_seed_and_results_give_the_same_picks(matrix: ChoiceMatrix, machine: Machine) -> None:
    times, prior = machine(3, model_error=0.1)
    assert picks_of(matrix, times, prior, 30, seed=5) == picks_of(matrix, times, prior, 30, seed=5)


def test_a_resumed_search_picks_what_the_uninterrupted_one_would(matrix: ChoiceMatrix, machine: Machine) -> None:
    times, prior = machine(4, model_error=0.1)
    times[::50] = np.inf
    whole = picks_of(matrix, times, prior, 40, seed=2)
    for cut in (1, 13, 27):
        done = [pick.row for pick in whole[:cut]]
        assert picks_of(matrix, times, prior, 40 - cut, seed=2, restored=done) == whole[cut:]


def test_the_end_of_the_trial_before_changes_nothing(matrix: ChoiceMatrix, machine: Machine) -> None:
    times, prior = machine(4, model_error=0.1)
    whole = picks_of(matrix, times, prior, 20, seed=2)
    other = times.copy()
    other[whole[18].row] = np.inf
    assert picks_of(matrix, other, prior, 20, seed=2) == whole
    other[whole[17].row] = 1.0
    assert picks_of(matrix, other, prior, 20, seed=2)[19] != whole[19]


def test_a_failure_is_not_picked_again_and_warns_of_its_neighbours(matrix: ChoiceMatrix, machine: Machine) -> None:
    _, prior = machine(5, model_error=0.1)
    sampler = LowerBound(matrix, prior, np.zeros(len(matrix), np.int64), seed=0)
    study = PickStudy(sampler)
    first = study.ask()
    study.tell(first.row, None)
    assert study.study.trials[0].state is TrialState.FAIL
    untaught = sampler.believer.after([]).lower(2.0)
    warned = sampler.believer.after([Known(row=first.row, failed=True)]).lower(2.0)
    joint = sampler.believer.geometry.joint(first.row)
    near, far = np.argsort(-joint)[1:20], np.argsort(joint)[:200]
    assert (warned >= untaught).all()
    assert (warned - untaught)[near].mean() > (warned - untaught)[far].mean() + 0.1
    assert all(study.ask().row != first.row for _ in range(5))


def test_candidates_in_flight_push_the_next_pick_away_from_them(matrix: ChoiceMatrix) -> None:
    sampler = LowerBound(matrix, np.ones(len(matrix)), np.zeros(len(matrix), np.int64), seed=0)
    study = PickStudy(sampler)
    first = study.ask()
    second = study.ask()
    assert sampler.believer.geometry.joint(first.row)[second.row] < MEDIAN_CORRELATION


def test_only_the_ratios_of_the_model_matter(matrix: ChoiceMatrix, machine: Machine) -> None:
    times, prior = machine(6, model_error=0.1)
    rows = [pick.row for pick in picks_of(matrix, times, prior, 25)]
    assert [pick.row for pick in picks_of(matrix, times, prior * 1024.0, 25)] == rows


def test_one_pick_in_twenty_is_an_audit_of_the_uniform_sample(small: ChoiceMatrix, matrix: ChoiceMatrix) -> None:
    origin = np.zeros(len(matrix), np.int64)
    origin[::40] = 1
    sampler = LowerBound(matrix, np.linspace(1.0, 2.0, len(matrix)), origin, seed=0)
    audits = [pick for pick in (sampler.pick([], number) for number in range(400)) if pick.reason is PickReason.AUDIT]
    assert 8 <= len(audits) <= 34
    assert all(origin[pick.row] == 1 for pick in audits)


@pytest.mark.parametrize("strengths", [TRUSTED, Strengths(joint=0.03, single=0.1)])
def test_the_process_predicts_what_it_saw_and_is_unsure_elsewhere(matrix: ChoiceMatrix, strengths: Strengths) -> None:
    geometry = Geometry(matrix, np.arange(1000))
    process = ChoiceProcess(geometry, strengths)
    rows = [0, 700, 1400, 2100]
    process.observe(rows)
    residuals = np.array([0.2, -0.1, 0.05, -0.3])
    mean, deviation = process.posterior(residuals)
    gram = np.array([[geometry.covariance(a, strengths)[b] for b in rows] for a in rows])
    expected = gram @ np.linalg.solve(gram + NOISE_DEVIATION**2 * np.eye(4), residuals)
    assert mean[rows] == pytest.approx(expected, rel=1e-4)
    assert deviation[rows].max() < NOISE_DEVIATION < deviation.max() <= strengths.variance**0.5


def test_the_process_forgets_exactly(matrix: ChoiceMatrix) -> None:
    geometry = Geometry(matrix, np.arange(1000))
    grown, direct = ChoiceProcess(geometry), ChoiceProcess(geometry)
    grown.observe([5, 6, 7, 8])
    grown.observe([5, 9, 10])
    direct.observe([5, 9, 10])
    residuals = np.array([0.1, 0.2, -0.3])
    for left, right in zip(grown.posterior(residuals), direct.posterior(residuals), strict=True):
        assert np.array_equal(left, right)


def test_a_model_that_is_wrong_by_a_factor_about_one_choice_is_noticed(
    matrix: ChoiceMatrix, candidates: list[Candidate]
) -> None:
    geometry = Geometry(matrix, np.arange(1000))
    rows = list(range(0, len(matrix), 150))
    packed = np.array([candidates[row].tiles[0].block > 1 for row in rows])
    noise = np.random.default_rng(0).normal(0.0, 0.05, len(rows))
    assert likeliest_strengths(geometry, rows, noise) == TRUSTED
    assert likeliest_strengths(geometry, rows, noise + 2.0 * packed).single >= 1.0
    assert likeliest_strengths(geometry, rows[:3], noise[:3] + 2.0 * packed[:3]) == TRUSTED


def test_a_model_in_love_with_a_slow_family_is_overcome(
    matrix: ChoiceMatrix, candidates: list[Candidate], machine: Machine
) -> None:
    """The model thinks packed candidates six times too fast, and puts all of them before all others."""
    packed = np.array([candidate.tiles[0].block > 1 for candidate in candidates])
    for seed in range(3):
        times, prior = machine(seed, model_error=0.1)
        times, prior = np.where(packed, 2.0 * times, times), np.where(packed, prior / 6, prior)
        seeds = [Pick(row=0, reason=PickReason.REFERENCE), Pick(row=int(prior.argmin()), reason=PickReason.MODEL)]
        rows = [pick.row for pick in picks_of(matrix, times, prior, 32, seed=seed, seeds=seeds)]
        assert times[rows].min() <= 1.1 * times.min()


def test_regret_with_a_weak_model_beats_the_model_s_order_and_random(matrix: ChoiceMatrix, machine: Machine) -> None:
    ours, ordered, random = [], [], []
    for seed in range(5):
        times, prior = machine(seed, model_error=0.15)
        seeds = [Pick(row=0, reason=PickReason.REFERENCE), Pick(row=int(prior.argmin()), reason=PickReason.MODEL)]
        rows = [pick.row for pick in picks_of(matrix, times, prior, 32, seed=seed, seeds=seeds)]
        best = times.min()
        ours.append(times[rows].min() / best - 1)
        ordered.append(times[np.argsort(prior)[:32]].min() / best - 1)
        random.append(times[np.random.default_rng(seed).permutation(len(times))[:32]].min() / best - 1)
    assert np.mean(ours) < 0.5 * np.mean(ordered) < np.mean(random)
    assert np.mean(ours) < 0.06


# ---- outlook --------------------------------------------------------------------------------------------------------
def _outlook(matrix: ChoiceMatrix, times: NDArray[np.float64], prior: NDArray[np.float64], count: int) -> Outlook:
    study = PickStudy(LowerBound(matrix, prior, np.zeros(len(matrix), np.int64), seed=0))
    for _ in range(count):
        pick = study.ask()
        study.tell(pick.row, _value(times[pick.row]))
    found = study.outlook()
    assert found is not None
    return found


def test_nothing_is_expected_before_enough_was_timed(matrix: ChoiceMatrix) -> None:
    study = PickStudy(LowerBound(matrix, np.ones(len(matrix)), np.zeros(len(matrix), np.int64), seed=0))
    assert study.outlook() is None
    study.tell(study.ask().row, 1.0)
    assert study.outlook() is None


def test_the_outlook_darkens_where_the_best_is_far_ahead(matrix: ChoiceMatrix, machine: Machine) -> None:
    times, prior = machine(7, model_error=0.05)
    early, late = _outlook(matrix, times, prior, 6), _outlook(matrix, times, prior, 60)
    assert 0 < late.best_chance < early.best_chance <= 1
    assert 0 < late.expected_gain_s < early.expected_gain_s < times.min() * 1e-9
    unreachable = times.copy()
    unreachable[np.argmin(prior)] = times.min() / 50
    assert _outlook(matrix, unreachable, prior, 30).best_chance < 0.02
