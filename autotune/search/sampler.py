"""Which candidate of an enumerated set to measure next: an optuna sampler over rows of a choice matrix.
Must not know how candidates are compiled, checked or timed, nor what their choices mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from scipy.special import ndtr

from autotune.search.encode import ChoiceMatrix
from autotune.search.feasibility import failure_probability
from autotune.search.process import ENOUGH_RESIDUALS, ChoiceProcess, Geometry, Strengths, likeliest_strengths
from autotune.search.stop import Outlook
from autotune.store.records import PickReason

CONFIDENCE = 2.0  # κ of the lower confidence bound
AUDIT_SHARE = 0.05
BETTER = 0.01  # by so much a candidate must be faster to count as better
LIKED = 1000  # candidates of the model whose median pair sets the distance scale


class SpaceExhausted(RuntimeError):
    """Every candidate of the set has been picked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A candidate to compile and measure next, by its row in the search set."""

    row: int
    reason: PickReason


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Belief:
    """Normal belief about the log time of every row, and how likely each is to fail.

    Shapes: float64[candidates]. Units: log nanoseconds a call.
    """

    log_ns: NDArray[np.float64]
    deviation: NDArray[np.float64]
    doubt: NDArray[np.float64]

    @property
    def bound(self) -> NDArray[np.float64]:
        """Lower confidence bound of the log time, raised where a failure is to be feared."""
        bound: NDArray[np.float64] = self.log_ns - CONFIDENCE * self.deviation - np.log1p(-self.doubt)
        return bound


class EnumeratedSampler(BaseSampler):
    """Lowest confidence bound of `model time · exp(Gaussian process on the log residual)` over the whole set.

    Pick n depends on the seed, n and the ends of the trials up to n - 2 only: the one before it counts as running even
    where its end is known, as in a search that resumes. Running and waiting trials count as zero residuals; failed ones
    are never picked again, and make what is like them less worth a trial.
    Units: `prior_ns` and the values of the study are nanoseconds; only their ratios matter.
    """

    def __init__(
        self, matrix: ChoiceMatrix, prior_ns: NDArray[np.float64], origin: NDArray[np.int64], *, seed: int
    ) -> None:
        self.matrix = matrix
        self._log_prior = np.log(prior_ns)
        self._seed = seed
        self.geometry = Geometry(matrix, np.argsort(prior_ns, kind="stable")[:LIKED])
        self._processes: dict[Strengths, ChoiceProcess] = {}
        uniform = np.flatnonzero(origin == 1)
        self._audited = uniform if len(uniform) else np.arange(len(matrix))
        self._space = {p.name: CategoricalDistribution(p.levels) for p in matrix.parameters}
        self._rows: dict[int, int] = {}
        self._reasons: dict[int, PickReason] = {}

    @property
    def space(self) -> dict[str, CategoricalDistribution]:
        """Every parameter of the set; the same for the whole study."""
        return self._space

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return dict(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The active parameters of the next candidate; nothing where the trial's parameters are fixed already.

        Raises: SpaceExhausted.
        """
        if _fixed(trial):
            return {}
        others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        pick = self.pick(others, trial.number)
        self._reasons[trial.number] = pick.reason
        return dict(self.matrix.choices(pick.row))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        raise RuntimeError(
            f"{param_name} is not a choice of trial {trial.number}: every trial takes all its choices from one "
            "candidate of the enumerated set"
        )

    def reason(self, number: int) -> PickReason:
        """Why trial `number` was picked: AUDIT or ACQUISITION.

        Raises: KeyError for a trial that this sampler did not pick.
        """
        return self._reasons[number]

    def row_of(self, trial: FrozenTrial) -> int:
        """The candidate of a trial, by its row."""
        row = self._rows.get(trial.number)
        if row is None:
            row = self._rows[trial.number] = self.matrix.row(_fixed(trial) or trial.params)
        return row

    def pick(self, trials: Sequence[FrozenTrial], number: int) -> Pick:
        """The candidate of trial `number`, given every other trial of the study.

        Raises: SpaceExhausted.
        """
        rows = [self.row_of(trial) for trial in trials]
        free = np.ones(len(self.matrix), bool)
        free[rows] = False
        if not free.any():
            raise SpaceExhausted(f"all {len(self.matrix)} candidates of the set have been picked")
        random = np.random.default_rng((self._seed, number))
        if random.random() < AUDIT_SHARE:
            pool = self._audited[free[self._audited]]
            if len(pool):
                return Pick(row=int(random.choice(pool)), reason=PickReason.AUDIT)
        states = [TrialState.RUNNING if trial.number == number - 1 else trial.state for trial in trials]
        bound = np.where(free, self._believed(trials, rows, states).bound, np.inf)
        return Pick(row=int(np.argmin(bound)), reason=PickReason.ACQUISITION)

    def outlook(self, trials: Sequence[FrozenTrial]) -> Outlook | None:
        """What the rows that no trial has promise against the best that was timed; None before enough were."""
        rows = [self.row_of(trial) for trial in trials]
        free = np.ones(len(self.matrix), bool)
        free[rows] = False
        values = [trial.values[0] for trial in trials if trial.state is TrialState.COMPLETE]
        if len(values) < ENOUGH_RESIDUALS or not free.any():
            return None
        believed = self._believed(trials, rows, [trial.state for trial in trials])
        mean, deviation, sound = believed.log_ns[free], believed.deviation[free], 1.0 - believed.doubt[free]
        best_ns = min(values)
        chance = sound * ndtr((math.log(best_ns * (1.0 - BETTER)) - mean) / deviation)
        distance = (math.log(best_ns) - mean) / deviation
        gain = best_ns * ndtr(distance) - np.exp(mean + deviation**2 / 2) * ndtr(distance - deviation)
        return Outlook(best_chance=float(chance.max()), expected_gain_s=float((sound * gain).max()) * 1e-9)

    def _believed(self, trials: Sequence[FrozenTrial], rows: Sequence[int], states: Sequence[TrialState]) -> _Belief:
        """What is believed of every row after these trials."""
        together = list(zip(trials, rows, states, strict=True))
        failed = [row for _, row, state in together if state is TrialState.FAIL]
        known = [(trial, row, state) for trial, row, state in together if state is not TrialState.FAIL]
        residuals = (
            np.array([np.log(t.values[0]) if state is TrialState.COMPLETE else np.nan for t, _, state in known])
            - self._log_prior[[row for _, row, _ in known]]
        )
        finished = ~np.isnan(residuals)
        offset = float(np.median(residuals[finished])) if finished.any() else 0.0
        done = [row for (_, row, _), ended in zip(known, finished, strict=True) if ended]
        strengths = likeliest_strengths(self.geometry, done, residuals[finished] - offset)
        if strengths not in self._processes:
            self._processes[strengths] = ChoiceProcess(self.geometry, strengths)
        process = self._processes[strengths]
        process.observe([row for _, row, _ in known])
        mean, deviation = process.posterior(np.where(finished, residuals - offset, 0.0))
        doubt = failure_probability(self.matrix, self.geometry, failed, done)
        return _Belief(log_ns=self._log_prior + offset + mean, deviation=deviation, doubt=doubt)


def _fixed(trial: FrozenTrial) -> dict[str, Any]:
    fixed: dict[str, Any] = trial.system_attrs.get("fixed_params", {})
    return fixed


class PickStudy:
    """An in-memory optuna study of picks: `ask` for a candidate, `tell` its time or its failure."""

    def __init__(self, sampler: EnumeratedSampler, seeds: Iterable[Pick] = ()) -> None:
        """`seeds`: what to pick first, in order, leaving out what was picked already."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sampler = sampler
        self.study = optuna.create_study(direction="minimize", sampler=sampler)
        self._seeds = list(seeds)
        self._picked: set[int] = set()
        self._running: dict[int, Trial] = {}
        self.restored = 0

    @property
    def exhausted(self) -> bool:
        return len(self._picked) == len(self._sampler.matrix)

    def outlook(self) -> Outlook | None:
        """What the candidates that were not picked promise; None before enough were timed."""
        return self._sampler.outlook(self.study.get_trials(deepcopy=False))

    def restore(self, row: int, value_ns: float | None) -> None:
        """Add a pick whose outcome is known already: its time, or None for a failure."""
        choices = self._sampler.matrix.choices(row)
        trial = create_trial(
            state=TrialState.FAIL if value_ns is None else TrialState.COMPLETE,
            value=value_ns,
            params=choices,
            distributions={name: self._sampler.space[name] for name in choices},
        )
        self.study.add_trial(trial)
        self.restored += 1
        self._picked.add(row)

    def ask(self) -> Pick:
        """The next candidate; it counts as in flight until told.

        Raises: SpaceExhausted.
        """
        if self.exhausted:
            raise SpaceExhausted(f"all {len(self._picked)} candidates of the set have been picked")
        seed = self._next_seed()
        if seed is not None:
            self.study.enqueue_trial(self._sampler.matrix.choices(seed.row))
        trial = self.study.ask()
        choices = trial.relative_params if seed is None else self._sampler.matrix.choices(seed.row)
        for name in choices:
            trial.suggest_categorical(name, self._sampler.space[name].choices)
        pick = seed or Pick(row=self._sampler.matrix.row(choices), reason=self._sampler.reason(trial.number))
        self._picked.add(pick.row)
        self._running[pick.row] = trial
        return pick

    def tell(self, row: int, value_ns: float | None) -> None:
        """The time of an asked candidate, or None for a failure."""
        trial = self._running.pop(row)
        if value_ns is None:
            self.study.tell(trial, state=TrialState.FAIL)
        else:
            self.study.tell(trial, value_ns)

    def _next_seed(self) -> Pick | None:
        while self._seeds:
            seed = self._seeds.pop(0)
            if seed.row not in self._picked:
                return seed
        return None
