"""The search loop: one candidate compiles ahead while another is checked and raced; every end is written down at once.
Must not know how candidates are enumerated, compiled or timed, nor how anything is shown."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from autotune.ir.serial import to_json
from autotune.measure.environment import Environment
from autotune.measure.gate import Passed
from autotune.measure.noise import NoiseFloor
from autotune.measure.protocol import Kernel
from autotune.measure.race import Standing
from autotune.measure.session import WorkerFailure
from autotune.measure.states import (
    CompileError,
    CompileTimeout,
    Crash,
    Measured,
    Noisy,
    Outcome,
    RacedOut,
    RaceResult,
    RunFailure,
)
from autotune.realizations.candidate import Candidate
from autotune.search.encode import ChoiceMatrix, choices_of
from autotune.search.notebook import Finished, Notebook
from autotune.search.progress import CandidateFinished, OnEvent, SearchStopped, SpaceReady
from autotune.search.result import SecondsSpent
from autotune.search.sampler import Pick, PickStudy, SetSampler
from autotune.search.space import SearchSet, model_first
from autotune.search.stop import Budget, Limits, Progress, StopRule, reason_to_stop, stop_rules, trials_left
from autotune.store.records import PickReason

COMPILED_AHEAD = 2
NEIGHBOURS = 2
FINALS_SHARE = 0.15  # of the budget, kept for the shoot-out
FINALS_SECONDS = 5.0  # and at most this
FIRST_SECONDS_PER_TRIAL = 0.2


Keep: TypeAlias = Callable[[Candidate, Outcome], None]
"""Told of every end, to write down what a failure can be seen again from."""


class Session(Protocol):
    """What the search asks of `autotune.measure.session.Session`."""

    def compile(self, candidate: object) -> Future[Any]: ...
    def gate(self, kernel: Kernel) -> Passed | RunFailure: ...
    def time(self, kernel: Kernel) -> Measured | RunFailure: ...
    def race(self, kernel: Kernel, incumbent: Kernel) -> RaceResult | RunFailure: ...
    def noise_floor(self, kernel: Kernel) -> NoiseFloor | RunFailure: ...
    def shootout(self, kernels: Sequence[Kernel]) -> list[Standing]: ...
    def environment(self) -> Environment: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiling:
    """A picked candidate on its way through the compiler."""

    pick: Pick
    candidate: Candidate
    future: Future[Any]


class Stopwatch:
    """Seconds since the search was called for, and what they were spent on."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.spent = SecondsSpent()

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self.started

    def add(self, kind: str, seconds: float) -> None:
        self.spent = replace(self.spent, **{kind: getattr(self.spent, kind) + seconds}, total=self.elapsed_s)

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        """Count the time of a block as `kind`, a field of SecondsSpent."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(kind, time.perf_counter() - start)


class Loop:
    """One run of one search: `run` it, then ask for the kernel of what was timed."""

    def __init__(
        self,
        space: SearchSet,
        matrix: ChoiceMatrix,
        session: Session,
        book: Notebook,
        limits: Limits,
        watch: Stopwatch,
        on_event: OnEvent,
        *,
        seed: int,
        strategy: type[SetSampler],
        keep: Keep,
    ) -> None:
        self.space, self.matrix, self.session, self.book = space, matrix, session, book
        self.watch, self.on_event = watch, on_event
        self.kernels: dict[str, Kernel] = {}
        self._keep = keep
        self._noise_known = False
        self.reference = space.candidates[space.reference].id
        self._study = _study(space, matrix, book, strategy, seed)
        self.calls = limits.calls
        self._rules = stop_rules(len(space.candidates), _searching(limits))
        self._pipeline: deque[_Compiling] = deque()
        self._trials_here = 0
        self._first = {id for id in (self.reference, model_first(space)) if book.ledger.end_of(id) is None}
        self._remaining = len(space.candidates) - self._study.restored
        self._loop_started_s = watch.elapsed_s

    def run(self) -> StopRule:
        """Measure until a stop rule holds; the rule. The reference and the model's first are measured at any budget.

        Raises: KeyboardInterrupt, with everything that ended before it written down.
        """
        self._loop_started_s = self.watch.elapsed_s
        refused = sum(rule.count for rule in self.book.ledger.refused)
        restored = len(self.book.recalled)
        count = len(self.space.candidates)
        self.on_event(SpaceReady(candidates=count, legal=self.space.legal_count, refused=refused, restored=restored))
        while True:
            rule = reason_to_stop(self._rules, self._progress())
            if rule is not None and not (self._first and isinstance(rule, Budget)):
                self._drop_pipeline()
                self.on_event(SearchStopped(rule=rule, done=len(self.book.ledger)))
                return rule
            self._fill_pipeline()
            self._finish(self._pipeline.popleft())

    def kernel_of(self, id: str) -> Kernel | None:
        """The compiled kernel of a candidate that was timed, in this run or before; None if it compiles no more."""
        if id not in self.kernels:
            with self.watch.timing("compiling"):
                compiled = self.session.compile(self.book.candidates[id]).result()
            if isinstance(compiled, CompileError | CompileTimeout | Crash):
                return None
            self.kernels[id] = compiled
        return self.kernels[id]

    # ---- one candidate ---------------------------------------------------------------------------------------------

    def _fill_pipeline(self) -> None:
        while len(self._pipeline) < COMPILED_AHEAD and not self._study.exhausted:
            pick = self._study.ask()
            candidate = self.space.candidates[pick.row]
            self._pipeline.append(_Compiling(pick=pick, candidate=candidate, future=self.session.compile(candidate)))

    def _drop_pipeline(self) -> None:
        """Leave what was picked ahead: it has no end, and a later run may pick it again."""
        for item in self._pipeline:
            item.future.cancel()
        self._pipeline.clear()

    def _finish(self, item: _Compiling) -> None:
        """Wait for the compiler, check, time, write down, learn, report."""
        compiled = item.future.result()
        kernel: Kernel | None = None
        end: Outcome
        if isinstance(compiled, CompileError | CompileTimeout | Crash):
            end = compiled
        else:
            kernel = compiled
            self.watch.add("compiling", compiled.compile_seconds)
            end = self._judge(compiled)
        id = item.candidate.id
        if kernel is not None and isinstance(end, Measured):
            self.kernels[id] = kernel
        incumbent = self.book.track.incumbent
        finished = Finished(
            candidate=item.candidate,
            id=id,
            picked=item.pick.reason,
            predicted_ns=float(self.space.prior_ns[item.pick.row]),
            end=end,
            kernel=kernel,
        )
        time_ns = self.book.write(finished)
        self._keep(item.candidate, end)
        self._study.tell(item.pick.row, time_ns)
        self._trials_here += 1
        self._remaining -= 1
        self._first.discard(id)
        self._report(finished, time_ns, promoted=self.book.track.incumbent != incumbent)

    def _judge(self, kernel: Kernel) -> Outcome:
        """Gate, then race against the incumbent, or time alone where there is none."""
        incumbent = self._incumbent_kernel()
        try:
            with self.watch.timing("checking"):
                passed = self.session.gate(kernel)
            if not isinstance(passed, Passed):
                return passed
            with self.watch.timing("measuring"):
                if not self._noise_known:
                    self._measure_noise(kernel)
                end = self.session.time(kernel) if incumbent is None else self.session.race(kernel, incumbent)
        except WorkerFailure as failure:
            return Crash(signal="exception in the worker", stage=str(failure).splitlines()[0], peak_bytes=0)
        return replace(end, checks=passed.checks) if isinstance(end, Measured | RacedOut | Noisy) else end

    def _measure_noise(self, kernel: Kernel) -> None:
        """Race the first kernel of this run that is right against itself; the next one where that one fails so."""
        noise = self.session.noise_floor(kernel)
        if isinstance(noise, NoiseFloor):
            self._noise_known = True
            self.book.observe(noise, to_json(replace(self.session.environment(), noise=noise)))

    def _incumbent_kernel(self) -> Kernel | None:
        """The incumbent's kernel; the next best one's, made incumbent, where that compiles no more."""
        track = self.book.track
        for id in track.best(len(self.book.candidates)):
            kernel = self.kernel_of(id)
            if kernel is not None:
                if id != track.incumbent:
                    track.crown(id)
                return kernel
        return None

    # ---- standing --------------------------------------------------------------------------------------------------

    def _progress(self) -> Progress:
        here = self._trials_here
        taken_s = self.watch.elapsed_s - self._loop_started_s
        return Progress(
            elapsed_s=self.watch.elapsed_s,
            trials=len(self.book.ledger),
            remaining=self._remaining,
            since_promotion=self.book.track.since_promotion,
            seconds_per_trial=taken_s / here if here else FIRST_SECONDS_PER_TRIAL,
            outlook=self._study.outlook(),
        )

    def _report(self, finished: Finished, time_ns: float | None, *, promoted: bool) -> None:
        progress = self._progress()
        left = trials_left(self._rules, progress)
        track = self.book.track
        self.on_event(
            CandidateFinished(
                candidate=finished.id,
                state=finished.end.state,
                ns=time_ns,
                promoted=promoted,
                done=progress.trials,
                total=progress.trials + round(left),
                best_ns=track.time_ns(track.incumbent),
                reference_ns=track.time_ns(self.reference),
                eta_s=left * progress.seconds_per_trial,
            )
        )


def _searching(limits: Limits) -> Limits:
    """The limits of the loop: the budget less what the shoot-out needs."""
    if limits.budget_s is None:
        return limits
    return replace(limits, budget_s=limits.budget_s - min(FINALS_SHARE * limits.budget_s, FINALS_SECONDS))


def _study(space: SearchSet, matrix: ChoiceMatrix, book: Notebook, strategy: type[SetSampler], seed: int) -> PickStudy:
    """The study as earlier runs left it, the seeds that were never picked first in line."""
    seeds = [
        Pick(row=space.reference, reason=PickReason.REFERENCE),
        Pick(row=int(np.argmin(space.prior_ns)), reason=PickReason.MODEL),
    ]
    for candidate in book.neighbours(NEIGHBOURS):
        row = _row_of(matrix, candidate)
        if row is not None:
            seeds.append(Pick(row=row, reason=PickReason.NEIGHBOUR))
    study = PickStudy(strategy(matrix, space.prior_ns, space.origin, seed=seed), seeds)
    for trial in book.recalled:
        row = _row_of(matrix, trial.candidate)
        if row is not None:
            study.restore(row, trial.time_ns)
    return study


def _row_of(matrix: ChoiceMatrix, candidate: Candidate) -> int | None:
    try:
        return matrix.row(choices_of(candidate))
    except KeyError:
        return None
