"""How likely each candidate is to fail, from the candidates that failed and those that did not.
Must not know why a candidate failed: a crash, a wrong result and a compiler that did not end count alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autotune.search.encode import ChoiceMatrix
from autotune.search.process import Geometry

EXPECTED_FAILURES = 0.02  # of candidates nobody has tried
SHARPNESS = 4  # what fails is nearer to what failed than times are alike
PSEUDO_TRIALS = 1.0  # weight of that expectation against trials


def failure_probability(
    matrix: ChoiceMatrix, geometry: Geometry, failed: Sequence[int], sound: Sequence[int]
) -> NDArray[np.float64]:
    """How likely every row is to fail: by the smoothed share of failures among its neighbours and, apart from that,
    among all that share one of its choices.

    One failure raises its near neighbours; a level that every trial with it failed raises all that have it. Rows in
    `failed` and `sound` were tried once each.

    Shapes: float64[candidates].
    """
    if not failed:
        return np.full(len(matrix), EXPECTED_FAILURES)
    fails, trials = np.zeros(len(matrix)), np.zeros(len(matrix))
    for row in (*failed, *sound):
        trials += geometry.joint(row) ** SHARPNESS
    for row in failed:
        fails += geometry.joint(row) ** SHARPNESS
    by_choice = _worst_level(matrix, np.array(failed), np.array(sound, np.int64))
    return 1.0 - (1.0 - _smoothed(fails, trials)) * (1.0 - by_choice)


def _worst_level(matrix: ChoiceMatrix, failed: NDArray[np.int64], sound: NDArray[np.int64]) -> NDArray[np.float64]:
    """The largest smoothed share of failures among the trials that have a level with the row in common."""
    worst = np.zeros(len(matrix))
    for number, parameter in enumerate(matrix.parameters):
        codes = matrix.codes[:, number]
        fails = np.bincount(codes[failed], minlength=len(parameter.levels)).astype(np.float64)
        trials = fails + np.bincount(codes[sound], minlength=len(parameter.levels))
        worst = np.maximum(worst, _smoothed(fails, trials)[codes])
    return worst


def _smoothed(fails: NDArray[np.float64], trials: NDArray[np.float64]) -> NDArray[np.float64]:
    smoothed: NDArray[np.float64] = (fails + PSEUDO_TRIALS * EXPECTED_FAILURES) / (trials + PSEUDO_TRIALS)
    return smoothed
