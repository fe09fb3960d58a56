"""A Gaussian process over the rows of a choice matrix, grown one observation at a time.
Must not know times, cost models or optuna: it sees level numbers and residuals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from autotune.search.encode import ChoiceMatrix

# Values of statistics.md §1 (synthetic machines): distances a choice adds, and variances in log time.
ORDINAL_DISTANCE_PER_STEP = 0.4
ORDINAL_STEPS_CAP = 3
CATEGORICAL_DISTANCE = 0.7
NOISE_DEVIATION = 0.04
MEDIAN_CORRELATION = 0.3  # floor for the median pair of the candidates that the model likes best
_PAIRS = 4000
_FIRST_CAPACITY = 64
_LIKELIHOOD_RESIDUALS = 128  # the latest ones decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Strengths:
    """Prior variances of the log residual: of effects that all choices have together, and that each has by itself."""

    joint: float
    single: float

    @property
    def variance(self) -> float:
        return self.joint + self.single


# The first is that of a model that ranks well. A model may also be wrong by factors about one choice (packing, say, or
# gathers); then the residuals say so, and what one candidate shows must count for all that share the choice.
TRUSTED = Strengths(joint=0.03, single=0.0)
STRENGTHS = (TRUSTED, *(Strengths(joint=joint, single=single) for single in (0.1, 1.0, 10.0) for joint in (0.03, 0.1)))
ENOUGH_RESIDUALS = 4  # before them the model is trusted


class Geometry:
    """Prior correlation of the rows of a choice matrix: the exponential of minus the distance of their choices."""

    def __init__(self, matrix: ChoiceMatrix, liked: NDArray[np.int64]) -> None:
        """`liked`: the rows among which the median pair keeps at least MEDIAN_CORRELATION."""
        varying = np.flatnonzero((matrix.codes != matrix.codes[:1]).any(axis=0)) if len(matrix) else np.array([], int)
        self.rows = len(matrix)
        self._codes = np.ascontiguousarray(matrix.codes[:, varying].T)
        self._tables = [
            _distance_table(len(matrix.parameters[k].levels), matrix.parameters[k].ordinal) for k in varying
        ]
        self._joint: dict[int, NDArray[np.float32]] = {}
        self._single: dict[int, NDArray[np.float32]] = {}
        self.scale = self._distance_scale(liked)

    def joint(self, row: int) -> NDArray[np.float32]:
        """Correlation of one row with every row where all choices act together; computed once."""
        if row not in self._joint:
            total = np.zeros(self.rows)
            for table, levels, level in self._axes(row):
                total += table[level][levels]
            self._joint[row] = np.exp(-self.scale * total).astype(np.float32)
        return self._joint[row]

    def single(self, row: int) -> NDArray[np.float32]:
        """Correlation where each choice acts by itself: the mean over the choices; computed once."""
        if row not in self._single:
            total = np.zeros(self.rows)
            for table, levels, level in self._axes(row):
                total += np.exp(-table[level])[levels]
            self._single[row] = (total / max(1, len(self._tables))).astype(np.float32)
        return self._single[row]

    def covariance(self, row: int, strengths: Strengths) -> NDArray[np.float64]:
        """Prior covariance of one row with every row."""
        total = strengths.joint * self.joint(row).astype(np.float64)
        return total + strengths.single * self.single(row) if strengths.single else total

    def _axes(self, row: int) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int16], int]]:
        for table, levels in zip(self._tables, self._codes, strict=True):
            yield table, levels, int(levels[row])

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


class ChoiceProcess:
    """Posterior over every row of a choice matrix.

    The observed rows are a list in a fixed order; changing its end costs only the rows after the common beginning, and
    the same list gives the same numbers to the last bit however it was reached.
    """

    def __init__(self, geometry: Geometry, strengths: Strengths = TRUSTED) -> None:
        self._geometry, self._strengths = geometry, strengths
        self._observed: list[int] = []
        self._factor = np.zeros((_FIRST_CAPACITY, _FIRST_CAPACITY))
        self._whitened = np.zeros((_FIRST_CAPACITY, geometry.rows), np.float32)

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
        deviation = np.sqrt(np.maximum(self._strengths.variance - explained, 1e-9))
        return mean.astype(np.float64), deviation.astype(np.float64)

    def _append(self, row: int) -> None:
        """One more row of the Cholesky factor, and of the whitened covariances with every row."""
        count = len(self._observed)
        self._reserve(count + 1)
        covariance = self._geometry.covariance(row, self._strengths)
        factor = np.zeros(count)
        for k in range(count):
            other = self._observed[k]
            factor[k] = (covariance[other] - self._factor[k, :k] @ factor[:k]) / self._factor[k, k]
        pivot = math.sqrt(max(self._strengths.variance + NOISE_DEVIATION**2 - float(factor @ factor), 1e-9))
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


def likeliest_strengths(geometry: Geometry, rows: Sequence[int], residuals: NDArray[np.float64]) -> Strengths:
    """The one of STRENGTHS under which the residuals at `rows` are most probable."""
    if len(rows) < ENOUGH_RESIDUALS:
        return TRUSTED
    latest, residuals = np.array(rows[-_LIKELIHOOD_RESIDUALS:]), residuals[-_LIKELIHOOD_RESIDUALS:]
    joint = np.stack([geometry.joint(row)[latest] for row in latest]).astype(np.float64)
    single = np.stack([geometry.single(row)[latest] for row in latest]).astype(np.float64)
    return max(STRENGTHS, key=lambda s: _log_likelihood(s.joint * joint + s.single * single, residuals))


def _log_likelihood(covariance: NDArray[np.float64], residuals: NDArray[np.float64]) -> float:
    """Up to a constant."""
    factor, lower = cho_factor(covariance + NOISE_DEVIATION**2 * np.eye(len(residuals)), lower=True)
    fit = residuals @ cho_solve((factor, lower), residuals)
    return -0.5 * float(fit) - float(np.log(np.diag(factor)).sum())


def _distance_table(levels: int, ordinal: bool) -> NDArray[np.float64]:
    """Distance of every pair of levels of one parameter; level 0 (inactive) is a category of its own."""
    number = np.arange(levels)
    table: NDArray[np.float64] = CATEGORICAL_DISTANCE * (number[:, None] != number[None, :]).astype(np.float64)
    if ordinal:
        steps = np.abs(number[1:, None] - number[None, 1:])
        table[1:, 1:] = ORDINAL_DISTANCE_PER_STEP * np.minimum(steps, ORDINAL_STEPS_CAP)
    return table
