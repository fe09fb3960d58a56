"""Failures make their neighbours, and all that share a choice that always fails, less likely to be tried."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.search.encode import ChoiceMatrix
from autotune.search.feasibility import EXPECTED_FAILURES, failure_probability
from autotune.search.process import Geometry


@pytest.fixture(scope="module")
def geometry(matrix: ChoiceMatrix) -> Geometry:
    return Geometry(matrix, np.arange(len(matrix)))


def _rows_with(matrix: ChoiceMatrix, name: str, level: object) -> np.ndarray:
    number = next(k for k, p in enumerate(matrix.parameters) if p.name == name)
    return np.flatnonzero(matrix.codes[:, number] == matrix.parameters[number].levels.index(level))


def test_without_failures_every_candidate_is_as_likely_to_fail(matrix: ChoiceMatrix, geometry: Geometry) -> None:
    assert (failure_probability(matrix, geometry, [], [3, 5]) == EXPECTED_FAILURES).all()


def test_one_failure_raises_the_nearest_most(matrix: ChoiceMatrix, geometry: Geometry) -> None:
    failed = 17
    sound = [int(row) for row in np.random.default_rng(1).permutation(len(matrix))[:40] if row != failed]
    found = failure_probability(matrix, geometry, [failed], sound)
    near = np.argsort(-geometry.joint(failed))[1:30]
    far = np.argsort(geometry.joint(failed))[:300]
    assert found[failed] == found.max() > 0.25
    assert found[near].mean() > 1.5 * found[far].mean()


def test_a_level_that_always_fails_is_found_out(matrix: ChoiceMatrix, geometry: Geometry) -> None:
    bad = set(_rows_with(matrix, "p0.lanes", 16).tolist())
    tried = np.random.default_rng(2).permutation(len(matrix))[:60].tolist()
    failed, sound = [r for r in tried if r in bad], [r for r in tried if r not in bad]
    assert len(failed) > 10
    found = failure_probability(matrix, geometry, failed, sound)
    untried_bad = sorted(bad - set(tried))
    untried_good = sorted(set(range(len(matrix))) - bad - set(tried))
    assert found[untried_bad].min() > 0.9
    assert np.median(found[untried_good]) < 0.65


def test_successes_outweigh_an_early_failure(matrix: ChoiceMatrix, geometry: Geometry) -> None:
    rows = _rows_with(matrix, "p0.lanes", 16)
    failed, sound = int(rows[0]), [int(row) for row in rows[1:60]]
    one = failure_probability(matrix, geometry, [failed], [])
    many = failure_probability(matrix, geometry, [failed], sound)
    assert (many <= one).all() and np.median(many[rows[60:]]) < 0.5 * np.median(one[rows[60:]])
