"""What is believed of every candidate of a set after some trials: log time, deviation and doubt.
Must not know which candidate is picked on the strength of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from autotune.search.encode import ChoiceMatrix
from autotune.search.feasibility import failure_probability
from autotune.search.process import ENOUGH_RESIDUALS, ChoiceProcess, Geometry, Strengths, likeliest_strengths
from autotune.search.stop import Outlook

BETTER = 0.01  # by so much a candidate must be faster to count as better
LIKED = 1000  # candidates of the model whose median pair sets the distance scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One trial of a row: its time, or that it failed, or neither while it runs.

    Units: nanoseconds a call.
    """

    row: int
    time_ns: float | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Belief:
    """Normal belief about the log time of every row, and how likely each is to fail.

    Shapes: float64[candidates]. Units: log nanoseconds a call.
    """

    log_ns: NDArray[np.float64]
    deviation: NDArray[np.float64]
    doubt: NDArray[np.float64]

    def lower(self, confidence: float) -> NDArray[np.float64]:
        """Lower confidence bound of the log time, raised where a failure is to be feared."""
        bound: NDArray[np.float64] = self.log_ns - confidence * self.deviation - np.log1p(-self.doubt)
        return bound


class Believer:
    """Model time times a Gaussian process on the log residual. The same trials give the same belief to the last bit.

    Units: `prior_ns` and times of trials are nanoseconds a call; only their ratios matter.
    """

    def __init__(self, matrix: ChoiceMatrix, prior_ns: NDArray[np.float64]) -> None:
        self.matrix = matrix
        self.log_prior = np.log(prior_ns)
        self.geometry = Geometry(matrix, np.argsort(prior_ns, kind="stable")[:LIKED])
        self._processes: dict[Strengths, ChoiceProcess] = {}

    def after(self, trials: Sequence[Known]) -> Belief:
        """What is believed after these trials; running ones count as zero residuals."""
        known = [trial for trial in trials if not trial.failed]
        rows = [trial.row for trial in known]
        times = np.array([np.nan if trial.time_ns is None else trial.time_ns for trial in known], np.float64)
        residuals = np.log(times) - self.log_prior[rows]
        finished = ~np.isnan(residuals)
        offset = float(np.median(residuals[finished])) if finished.any() else 0.0
        done = [row for row, ended in zip(rows, finished, strict=True) if ended]
        strengths = likeliest_strengths(self.geometry, done, residuals[finished] - offset)
        if strengths not in self._processes:
            self._processes[strengths] = ChoiceProcess(self.geometry, strengths)
        process = self._processes[strengths]
        process.observe(rows)
        mean, deviation = process.posterior(np.where(finished, residuals - offset, 0.0))
        failed = [trial.row for trial in trials if trial.failed]
        doubt = failure_probability(self.matrix, self.geometry, failed, done)
        return Belief(log_ns=self.log_prior + offset + mean, deviation=deviation, doubt=doubt)

    def outlook(self, trials: Sequence[Known]) -> Outlook | None:
        """What the rows that no trial has promise against the best that was timed; None before enough were."""
        free = np.ones(len(self.matrix), bool)
        free[[trial.row for trial in trials]] = False
        times = [trial.time_ns for trial in trials if trial.time_ns is not None]
        if len(times) < ENOUGH_RESIDUALS or not free.any():
            return None
        belief = self.after(trials)
        mean, deviation, sound = belief.log_ns[free], belief.deviation[free], 1.0 - belief.doubt[free]
        best_ns = min(times)
        chance = sound * ndtr((math.log(best_ns * (1.0 - BETTER)) - mean) / deviation)
        distance = (math.log(best_ns) - mean) / deviation
        gain = best_ns * ndtr(distance) - np.exp(mean + deviation**2 / 2) * ndtr(distance - deviation)
        return Outlook(best_chance=float(chance.max()), expected_gain_s=float((sound * gain).max()) * 1e-9)
