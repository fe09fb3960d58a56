"""A Gaussian process over the rows of a choice matrix, grown one observation at a time.
Must not know times, cost models or optuna: it sees level numbers and residuals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autotune.search.encode import ChoiceMatrix

# Values of statistics.md §1 (synthetic machines): distances a choice adds, and variances in log time.
ORDINAL_DISTANCE_PER_STEP = 0.4
ORDINAL_STEPS_CAP = 3
CATEGORICAL_DISTANCE = 0.7
SIGNAL_VARIANCE = 0.03
NOISE_DEVIATION = 0.04
MEDIAN_CORRELATION = 0.3  # floor for the median pair of the candidates that the model likes best
_PAIRS = 4000
_FIRST_CAPACITY = 64


class ChoiceProcess:
    """Posterior over every row of a choice matrix.

    The observed rows are a list in a fixed order; changing its end costs only the rows after the common beginning, and
    the same list gives the same numbers to the last bit however it was reached.
    """

    def __init__(self, matrix: ChoiceMatrix, liked: NDArray[np.int64]) -> None:
        """`liked`: the rows among which the median pair keeps at least MEDIAN_CORRELATION."""
        varying = np.flatnonzero((matrix.codes != matrix.codes[:1]).any(axis=0)) if len(matrix) else np.array([], int)
        self._codes = np.ascontiguousarray(matrix.codes[:, varying].T)
        self._tables = [
            _distance_table(len(matrix.parameters[k].levels), matrix.parameters[k].ordinal) for k in varying
        ]
        self.scale = self._distance_scale(liked)
        self._observed: list[int] = []
        self._factor = np.zeros((_FIRST_CAPACITY, _FIRST_CAPACITY))
        self._whitened = np.zeros((_FIRST_CAPACITY, len(matrix)), np.float32)

    def correlation(self, row: int) -> NDArray[np.float64]:
        """Prior correlation of one row with every row."""
        return np.exp(-self.scale * self._distances(row, self._codes))

    def observe(self, rows: Sequence[int]) -> None:
        """Make `rows` the observed rows, in this order."""
        common = 0
        while common < min(len(rows), len(self._observed)) and rows[common] == self._observed[common]:
            common += 1
        del self._observed[common:]
        for row in rows[common:]:
            self._append(row)

    def posterior(self, residuals: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and deviation at every row, given one residual for each observed row."""
        count = len(self._observed)
        weights = np.zeros(count)
        for k in range(count):  # forward substitution
            weights[k] = (residuals[k] - self._factor[k, :k] @ weights[:k]) / self._factor[k, k]
        whitened = self._whitened[:count]
        mean = weights.astype(np.float32) @ whitened
        explained = np.einsum("ij,ij->j", whitened, whitened)
        deviation = np.sqrt(np.maximum(SIGNAL_VARIANCE - explained, 1e-9))
        return mean.astype(np.float64), deviation.astype(np.float64)

    def _append(self, row: int) -> None:
        """One more row of the Cholesky factor, and of the whitened covariances with every row."""
        count = len(self._observed)
        self._reserve(count + 1)
        covariance = SIGNAL_VARIANCE * self.correlation(row)
        factor = np.zeros(count)
        for k in range(count):
            other = self._observed[k]
            factor[k] = (covariance[other] - self._factor[k, :k] @ factor[:k]) / self._factor[k, k]
        pivot = math.sqrt(max(SIGNAL_VARIANCE + NOISE_DEVIATION**2 - float(factor @ factor), 1e-9))
        self._factor[count, :count] = factor
        self._factor[count, count] = pivot
        known = factor.astype(np.float32) @ self._whitened[:count]
        self._whitened[count] = (covariance - known) / pivot
        self._observed.append(row)

    def _reserve(self, count: int) -> None:
        capacity = len(self._factor)
        if count <= capacity:
            return
        self._factor = np.pad(self._factor, ((0, capacity), (0, capacity)))
        self._whitened = np.pad(self._whitened, ((0, capacity), (0, 0)))

    def _distances(self, row: int, codes: NDArray[np.int16]) -> NDArray[np.float64]:
        total = np.zeros(codes.shape[1])
        for table, levels, level in zip(self._tables, codes, self._codes[:, row], strict=True):
            total += table[level][levels]
        return total

    def _distance_scale(self, liked: NDArray[np.int64]) -> float:
        if len(liked) < 2:
            return 1.0
        pairs = liked[np.random.default_rng(0).integers(len(liked), size=(2, _PAIRS))]
        pairs = pairs[:, pairs[0] != pairs[1]]
        total = np.zeros(pairs.shape[1])
        for table, levels in zip(self._tables, self._codes, strict=True):
            total += table[levels[pairs[0]], levels[pairs[1]]]
        median = float(np.median(total))
        return min(1.0, -math.log(MEDIAN_CORRELATION) / median) if median > 0 else 1.0


def _distance_table(levels: int, ordinal: bool) -> NDArray[np.float64]:
    """Distance of every pair of levels of one parameter; level 0 (inactive) is a category of its own."""
    number = np.arange(levels)
    table: NDArray[np.float64] = CATEGORICAL_DISTANCE * (number[:, None] != number[None, :]).astype(np.float64)
    if ordinal:
        steps = np.abs(number[1:, None] - number[None, 1:])
        table[1:, 1:] = ORDINAL_DISTANCE_PER_STEP * np.minimum(steps, ORDINAL_STEPS_CAP)
    return table
