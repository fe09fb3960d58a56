"""The strategies by name: which of the rows that are left is tried next.
Must not know how rows are compiled or timed, nor keep anything from one pick to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from autotune.search.belief import Known
from autotune.search.errors import UnknownStrategy
from autotune.search.sampler import SetSampler

# κ of the lower confidence bound. On the golden tables (6 to 10 seeds, mean regret at 16, 32 and 64 measurements): 0.7,
# 0.4 and 0.1 % with 2, 0.4, 0.06 and 0.07 % with 3, about the same with 4; simulations (statistics.md) preferred 2.
CONFIDENCE = 3.0
STARTUP_TRIALS = 10  # of the strategies that learn from times alone
MODEL_ERROR = 0.15  # deviation of the model's log times, as a weighted estimator takes it
MODEL_TRIALS = 10.0  # after so many the model counts as much as the trials
FOREST_TREES, FOREST_BATCH, TOP_SHARE = 60, 8, 0.2


class LowerBound(SetSampler):
    """Lowest confidence bound of `model time · exp(Gaussian process on the log residual)`.

    Source: statistics.md §1.
    """

    def choose(self, trials: Sequence[Known], free: NDArray[np.bool_], random: np.random.Generator) -> int:
        bound = self.believer.after(trials).lower(CONFIDENCE)
        return int(np.argmin(np.where(free, bound, np.inf)))


class Parzen(SetSampler):
    """Tree-structured Parzen estimator, a choice at a time: how much more common the choices of a row are among the
    good trials than among the others. Scored over every row that is left.

    Source: Bergstra et al., NeurIPS 2011; the share of good trials is that of optuna's sampler.
    """

    weighted: ClassVar[bool] = False

    def choose(self, trials: Sequence[Known], free: NDArray[np.bool_], random: np.random.Generator) -> int:
        done = sorted((trial for trial in trials if trial.time_ns is not None), key=lambda trial: trial.time_ns or 0.0)
        failed = [trial for trial in trials if trial.failed]
        weight = MODEL_TRIALS / max(1, len(done))
        model = -weight * self.believer.log_prior / MODEL_ERROR if self.weighted else np.zeros(len(free))
        if len(done) < STARTUP_TRIALS:
            if self.weighted:
                return int(np.argmax(np.where(free, model, -np.inf)))
            return int(random.choice(np.flatnonzero(free)))
        count = min(math.ceil(0.1 * len(done)), 25)
        good = self._log_share([trial.row for trial in done[:count]])
        bad = self._log_share([trial.row for trial in (*done[count:], *failed)])
        return int(np.argmax(np.where(free, good - bad + model, -np.inf)))

    def _log_share(self, rows: Sequence[int]) -> NDArray[np.float64]:
        """Sum over the choices of the log share of `rows` that a row has them with, smoothed by one uniform row."""
        total = np.zeros(len(self.matrix))
        for number, parameter in enumerate(self.matrix.parameters):
            levels = len(parameter.levels)
            counts = np.bincount(self.matrix.codes[rows, number], minlength=levels) + 1.0 / levels
            total += np.log(counts / (len(rows) + 1.0))[self.matrix.codes[:, number]]
        return total


class WeightedParzen(Parzen):
    """The same, multiplied by the model's preference to a power that fades with the trials.

    Source: Hvarfner et al., ICLR 2022 (priors in the acquisition).
    """

    weighted: ClassVar[bool] = True


class Random(SetSampler):
    """Any row that is left, with equal probability."""

    audits: ClassVar[bool] = False

    def choose(self, trials: Sequence[Known], free: NDArray[np.bool_], random: np.random.Generator) -> int:
        return int(random.choice(np.flatnonzero(free)))


class ModelOrder(SetSampler):
    """The rows by the model's time, whatever the clock says."""

    audits: ClassVar[bool] = False

    def choose(self, trials: Sequence[Known], free: NDArray[np.bool_], random: np.random.Generator) -> int:
        return int(np.argmin(np.where(free, self.believer.log_prior, np.inf)))


class Exhaustive(ModelOrder):
    """Every row, by the model's time; a search with it ends when all are measured or its budget is spent."""


class Forest(SetSampler):
    """Rows that a random forest takes for members of the fastest fifth, refitted after every eight trials.

    Source: likelihood-free Bayesian optimization with a classifier (Song et al., ICML 2022), as a kernel language uses
    it to tune; without its local search around the best, for the whole set is scored.
    """

    _fitted: tuple[tuple[int, float], ...] = ()
    _chance: NDArray[np.float64] = np.zeros(0)

    def choose(self, trials: Sequence[Known], free: NDArray[np.bool_], random: np.random.Generator) -> int:
        last = max(0, len(trials) // FOREST_BATCH * FOREST_BATCH - 1)
        seen = [trial for trial in trials[:last] if trial.time_ns is not None]
        if len(seen) < STARTUP_TRIALS:
            return int(random.choice(np.flatnonzero(free)))
        known = tuple((trial.row, trial.time_ns or 0.0) for trial in seen)
        if known != self._fitted:
            self._fitted, self._chance = known, self._chances(known)
        return int(np.argmax(np.where(free, self._chance - 1e-6 * self.believer.log_prior, -np.inf)))

    def _chances(self, known: Sequence[tuple[int, float]]) -> NDArray[np.float64]:
        """The forest's probability of every row to be among the fastest fifth."""
        times = np.array([time_ns for _, time_ns in known])
        forest = RandomForestClassifier(FOREST_TREES, random_state=self.seed, n_jobs=1)
        forest.fit(self.matrix.codes[[row for row, _ in known]], times <= np.quantile(times, TOP_SHARE))
        chances = forest.predict_proba(self.matrix.codes)
        return np.asarray(chances[:, -1], np.float64)


STRATEGIES: dict[str, type[SetSampler]] = {
    "lcb": LowerBound,
    "tpe": Parzen,
    "weighted-tpe": WeightedParzen,
    "random": Random,
    "model-order": ModelOrder,
    "forest": Forest,
    "exhaustive": Exhaustive,
}
DEFAULT_STRATEGY = "lcb"


def strategy_named(name: str) -> type[SetSampler]:
    """Raises: UnknownStrategy."""
    if name not in STRATEGIES:
        raise UnknownStrategy(name=name, known=", ".join(STRATEGIES))
    return STRATEGIES[name]
