"""Which candidate of an enumerated set to measure next: what every strategy shares, as an optuna sampler.
Must not know how candidates are compiled, checked or timed, nor what their choices mean."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from autotune.search.belief import Believer, Known
from autotune.search.encode import ChoiceMatrix
from autotune.search.space import FROM_SAMPLE
from autotune.search.stop import Outlook
from autotune.store.records import PickReason

AUDIT_SHARE = 0.05


class SpaceExhausted(RuntimeError):
    """Every candidate of the set has been picked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A candidate to compile and measure next, by its row in the search set."""

    row: int
    reason: PickReason


class SetSampler(BaseSampler):
    """Picks rows of an enumerated set: none that is illegal, none twice.

    Pick n depends on the seed, n and the ends of the trials up to n - 2 only: the one before it counts as running even
    where its end is known, as in a search that resumes. Where `audits` holds, one pick in twenty is drawn uniformly
    from what was sampled without the model.
    Units: `prior_ns` and the values of the study are nanoseconds; only their ratios matter.
    """

    audits: ClassVar[bool] = True

    def __init__(
        self, matrix: ChoiceMatrix, prior_ns: NDArray[np.float64], origin: NDArray[np.int64], *, seed: int
    ) -> None:
        self.matrix = matrix
        self.believer = Believer(matrix, prior_ns)
        self.seed = seed
        uniform = np.flatnonzero(origin == FROM_SAMPLE)
        self._audited = uniform if len(uniform) else np.arange(len(matrix))
        self._space = {p.name: CategoricalDistribution(p.levels) for p in matrix.parameters}
        self._rows: dict[int, int] = {}
        self._reasons: dict[int, PickReason] = {}

    @abstractmethod
    def choose(self, trials: Sequence[Known], free: NDArray[np.bool_], random: np.random.Generator) -> int:
        """The row to try next, one of those in `free`; trials are in the order in which they were picked.

        Shapes: `free` bool[candidates], with at least one true.
        """

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
        known = [self._known(trial, running=trial.number == number - 1) for trial in trials]
        free = np.ones(len(self.matrix), bool)
        free[[trial.row for trial in known]] = False
        if not free.any():
            raise SpaceExhausted(f"all {len(self.matrix)} candidates of the set have been picked")
        random = np.random.default_rng((self.seed, number))
        if self.audits and random.random() < AUDIT_SHARE:
            pool = self._audited[free[self._audited]]
            if len(pool):
                return Pick(row=int(random.choice(pool)), reason=PickReason.AUDIT)
        row = self.choose(known, free, random)
        assert free[row], f"row {row} was picked before"
        return Pick(row=row, reason=PickReason.ACQUISITION)

    def outlook(self, trials: Sequence[FrozenTrial]) -> Outlook | None:
        """What the rows that no trial has promise against the best that was timed; None before enough were."""
        return self.believer.outlook([self._known(trial) for trial in trials])

    def _known(self, trial: FrozenTrial, *, running: bool = False) -> Known:
        row = self.row_of(trial)
        if running:
            return Known(row=row)
        time_ns = trial.values[0] if trial.state is TrialState.COMPLETE else None
        return Known(row=row, time_ns=time_ns, failed=trial.state is TrialState.FAIL)


def _fixed(trial: FrozenTrial) -> dict[str, Any]:
    fixed: dict[str, Any] = trial.system_attrs.get("fixed_params", {})
    return fixed


class PickStudy:
    """An in-memory optuna study of picks: `ask` for a candidate, `tell` its time or its failure."""

    def __init__(self, sampler: SetSampler, seeds: Iterable[Pick] = ()) -> None:
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
