"""The search loop on a simulated machine: every end recorded once, nothing measured twice, the best one found."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autotune.ir.serial import from_json
from autotune.measure.environment import Environment
from autotune.measure.states import (
    CompileError,
    CompileTimeout,
    Crash,
    Noisy,
    OverBudget,
    State,
    Timeout,
    Wrong,
)
from autotune.realizations.candidate import Candidate
from autotune.search.ledger import RefusedRule
from autotune.search.loop import Stopwatch
from autotune.search.notebook import Notebook
from autotune.search.progress import CandidateFinished, Event, Phase, PhaseStarted, SearchStopped, SpaceReady, ignore
from autotune.search.result import Ending, SearchResult
from autotune.search.run import remembered, run
from autotune.search.space import FROM_SAMPLE, JoinStatus, SearchSet
from autotune.search.stop import AllMeasured, Budget, Limits, MaxTrials, NoPromotion
from autotune.store.database import open_database
from autotune.store.keys import Workload
from autotune.store.records import PickReason, Rigor, SearchStatus

Machine = Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]]
Session = Any  # the simulated one of conftest, or a class of it

REFUSED = (("lane gather", 17, "the target has no gather"),)


class Workplace:
    """A set, its machine and a store, on which searches run one after another."""

    def __init__(
        self,
        candidates: list[Candidate],
        times: NDArray[np.float64],
        prior: NDArray[np.float64],
        path: Path,
        workload: Workload,
    ) -> None:
        self.path, self.workload = path, workload
        self.space = SearchSet(
            candidates=candidates,
            prior_ns=prior,
            origin=np.zeros(len(candidates), np.int64),
            reference=0,
            legal_count=len(candidates) + 100,
            refused=REFUSED,
            status=JoinStatus.EXACT,
        )
        self.ids = [candidate.id for candidate in candidates]
        self.times_ns = dict(zip(self.ids, times.tolist(), strict=True))

    def search(
        self,
        session: Session,
        *,
        seed: int = 0,
        fresh: bool = False,
        on_event: Callable[[Event], None] = ignore,
        **limits: Any,
    ) -> SearchResult:
        refused = tuple(RefusedRule(rule=rule, count=count, sentence=text) for rule, count, text in REFUSED)
        with open_database(self.path) as database:
            book = Notebook(database, self.workload, legal_count=self.space.legal_count, refused=refused, fresh=fresh)
            self.book = book
            chosen = Limits(**{"budget_s": None, "patience": None, **limits})
            if book.covers(chosen, seed):
                return remembered(self.space, book, chosen, target="avx512", seed=seed, watch=Stopwatch())
            return run(
                self.space, session, book, chosen, target="avx512", seed=seed, watch=Stopwatch(), on_event=on_event
            )

    def outcomes(self) -> list[Any]:
        with open_database(self.path) as database:
            return list(database.outcomes(self.workload.key.id))

    def policy(self) -> Any:
        with open_database(self.path) as database:
            return database.best(self.workload.key.id)


@pytest.fixture
def place(candidates: list[Candidate], machine: Machine, tmp_path: Path, workload: Workload) -> Workplace:
    times, prior = machine(1, model_error=0.1)
    return Workplace(candidates[::9], times[::9], prior[::9], tmp_path / "policies.sqlite", workload)


@pytest.fixture
def small(candidates: list[Candidate], machine: Machine, tmp_path: Path, workload: Workload) -> Workplace:
    times, prior = machine(1, model_error=0.1)
    return Workplace(candidates[::40], times[::40], prior[::40], tmp_path / "policies.sqlite", workload)


def test_the_winner_is_faster_than_the_reference_and_near_the_best(place: Workplace, simulated: Session) -> None:
    result = place.search(simulated(place.times_ns), max_trials=48)
    assert result.ending is Ending.IMPROVED
    assert result.winner is not None and result.reference is not None and result.speedup is not None
    best = min(place.times_ns.values())
    assert place.times_ns[result.winner.id] <= 1.05 * best
    true_speedup = place.times_ns[result.reference.id] / place.times_ns[result.winner.id]
    assert result.speedup == pytest.approx(true_speedup, rel=0.01)
    assert result.stopped_by == MaxTrials(count=48) and result.trials == 48
    assert result.candidates == len(place.ids) and result.legal == len(place.ids) + 100


def test_reference_and_model_first_are_measured_first_and_in_the_finals(place: Workplace, simulated: Session) -> None:
    session = simulated(place.times_ns)
    result = place.search(session, max_trials=20)
    first = place.ids[int(np.argmin(place.space.prior_ns))]
    assert session.timed[:2] == [place.ids[0], first]
    assert {place.ids[0], first} <= set(session.shootouts[0]) and len(session.shootouts[0]) <= 8
    assert [outcome.picked for outcome in place.outcomes()[:2]] == [PickReason.REFERENCE, PickReason.MODEL]
    assert result.model_first is not None and result.model_first.id == first
    assert result.winner is not None and set(session.shootouts[1]) == {place.ids[0], result.winner.id}


def test_a_reference_out_of_reach_stays_out_of_the_finals(place: Workplace, simulated: Session) -> None:
    times = {**place.times_ns, place.ids[0]: 20 * max(place.times_ns.values())}
    session = simulated(times)
    result = place.search(session, max_trials=20)
    assert all(place.ids[0] not in field for field in session.shootouts) and session.shootouts
    assert result.winner is not None and result.reference is not None
    assert result.speedup == pytest.approx(times[place.ids[0]] / times[result.winner.id], rel=0.02)


def test_every_fault_ends_in_its_own_state_and_the_search_goes_on(place: Workplace, simulated: Session) -> None:
    order = [place.ids[k] for k in np.argsort(place.space.prior_ns)]
    faults = {
        order[0]: Crash(signal="SIGSEGV", stage="check on normal data", peak_bytes=2**30),
        order[1]: Timeout(seconds=2.0, stage="check on normal data"),
        order[2]: Wrong(error_over_bound=float("inf"), where="y[3]", kind="normal"),
        order[3]: CompileError(text="no such register\nmore"),
        order[4]: CompileTimeout(seconds=20.0),
        order[5]: Crash(signal="SIGABRT", stage="compile", peak_bytes=2**30),
        order[6]: OverBudget(budget="workspace bytes", value=2**40, limit=2**29),
        order[7]: Noisy(redone_rounds=16, samples_ns=(1.0, 2.0)),
    }
    faults = {id: fault for id, fault in faults.items() if id != place.ids[0]}
    place.space = replace(place.space, prior_ns=np.where(np.isin(place.ids, list(faults)), 1.0, place.space.prior_ns))
    result = place.search(simulated(place.times_ns, faults), max_trials=60)
    assert result.ending is Ending.IMPROVED
    recorded = {outcome.candidate: outcome for outcome in place.outcomes()}
    reached = [id for id in faults if id in recorded]
    assert len(reached) == len(faults)
    for id in reached:
        assert recorded[id].state is faults[id].state and recorded[id].rigor is None
    counts = {entry.state: entry.count for entry in result.counts}
    assert counts[State.CRASH] == 2 and counts[State.TIMEOUT] == counts[State.WRONG] == counts[State.NOISY] == 1
    assert counts[State.COMPILE_ERROR] == counts[State.COMPILE_TIMEOUT] == counts[State.OVER_BUDGET] == 1
    causes = {failure.cause: failure for failure in result.failures}
    assert causes["no such register"].count == 1
    assert "infinity" in causes["wrong on normal inputs"].sentence or "inf" in causes["wrong on normal inputs"].sentence


def test_states_count_every_legal_and_refused_candidate_once(place: Workplace, simulated: Session) -> None:
    result = place.search(simulated(place.times_ns), max_trials=30)
    counts = {entry.state: entry.count for entry in result.counts}
    assert counts[State.REFUSED] == 17
    assert sum(counts.values()) == place.space.legal_count + 17
    assert counts[State.MEASURED] + counts[State.RACED_OUT] == 30


def test_no_candidate_is_timed_twice(place: Workplace, simulated: Session) -> None:
    session = simulated(place.times_ns)
    place.search(session, max_trials=60)
    assert max(Counter(session.timed).values()) == 1


def test_small_sets_are_measured_whole(small: Workplace, simulated: Session) -> None:
    result = small.search(simulated(small.times_ns))
    assert result.stopped_by == AllMeasured(count=len(small.ids))
    assert result.trials == len(small.ids)
    best = min(small.times_ns.values())
    assert result.winner is not None and small.times_ns[result.winner.id] <= 1.005 * best
    assert small.policy().rigor is Rigor.SHOOT_OUT  # 100 legal candidates are outside the set


def test_the_winner_over_every_legal_candidate_is_exhaustive(small: Workplace, simulated: Session) -> None:
    small.space = replace(small.space, legal_count=len(small.ids))
    small.search(simulated(small.times_ns))
    assert small.policy().rigor is Rigor.EXHAUSTIVE
    again = small.search(simulated(small.times_ns))
    assert again.stopped_by == AllMeasured(count=len(small.ids))


def test_a_search_without_promotions_stops_by_itself(place: Workplace, simulated: Session) -> None:
    times = dict.fromkeys(place.times_ns, 1000.0) | {place.ids[0]: 500.0}
    result = place.search(simulated(times), patience=12)
    assert result.stopped_by == NoPromotion(trials=12)
    assert result.ending is Ending.REFERENCE_KEPT and result.trials < 30
    assert result.winner is not None and result.winner.id == place.ids[0]


def test_the_budget_ends_a_search(place: Workplace, simulated: Session) -> None:
    result = place.search(simulated(place.times_ns), budget_s=0.2, max_trials=10_000)
    assert isinstance(result.stopped_by, Budget | NoPromotion)
    assert result.winner is not None


def test_the_reference_and_the_model_s_first_are_measured_at_any_budget(place: Workplace, simulated: Session) -> None:
    session = simulated(place.times_ns)
    result = place.search(session, budget_s=1e-9)
    assert len(session.timed) == 2 and len(session.shootouts) == 1
    assert isinstance(result.stopped_by, Budget) and result.winner is not None and result.reference is not None


def test_twins_of_the_winner_are_reported_as_a_tie(small: Workplace, simulated: Session) -> None:
    apart = {id: 1000.0 + 100.0 * k for k, id in enumerate(reversed(small.ids))}
    assert not small.search(simulated(apart)).tied
    small.path = small.path.with_name("twins.sqlite")
    twins = apart | {small.ids[-2]: apart[small.ids[-1]]}
    assert small.search(simulated(twins)).tied


@pytest.mark.parametrize(("calls", "short"), [(1e2, True), (1e9, False)])
def test_few_calls_are_won_by_what_compiles_sooner(
    place: Workplace, simulated: Session, calls: float, short: bool
) -> None:
    """The slow reference compiles ten times sooner than all others."""
    session = simulated(place.times_ns, noise=0.0)
    soon = {place.ids[0]: 0.01}
    session.compile_seconds = lambda id: soon.get(id, 0.1)
    result = place.search(session, max_trials=30, calls=calls)
    assert result.winner is not None
    assert (result.winner.id == place.ids[0]) == short
    assert place.policy().rigor is Rigor.RACED


def test_audits_are_compared_with_the_winner(place: Workplace, simulated: Session) -> None:
    place.space = replace(place.space, origin=np.full(len(place.ids), FROM_SAMPLE))
    result = place.search(simulated(place.times_ns, noise=0.0), max_trials=80)
    drawn = [outcome.candidate for outcome in place.outcomes() if outcome.picked is PickReason.AUDIT]
    assert result.winner is not None and result.audits.timed == len(set(drawn)) > 0
    best = min(place.times_ns[id] for id in drawn) / place.times_ns[result.winner.id]
    assert result.audits.best_ratio == pytest.approx(best, rel=0.05)


def test_ctrl_c_returns_the_best_so_far(place: Workplace, simulated: Session) -> None:
    events: list[Event] = []
    session = simulated(place.times_ns, interrupt_at=10)
    result = place.search(session, on_event=events.append)
    assert result.ending is Ending.INTERRUPTED and result.trials == 10 and result.stopped_by is None
    assert result.winner is not None and place.times_ns[result.winner.id] <= 1.01 * min(
        place.times_ns[id] for id in session.timed
    )
    assert session.shootouts == []
    assert SearchStopped(rule=None, done=10) in events
    with open_database(place.path) as database:
        assert database.searches()[0].status is SearchStatus.INTERRUPTED
    assert place.policy().outcome.candidate == result.winner.id


@pytest.mark.parametrize("kill", [False, True])
def test_an_ended_search_continues_where_it_was(
    place: Workplace, simulated: Session, killed: type[BaseException], kill: bool
) -> None:
    first = simulated(place.times_ns, interrupt_at=15, kill=kill)
    if kill:
        with pytest.raises(killed):
            place.search(first, max_trials=40)
    else:
        place.search(first, max_trials=40)
    second = simulated(place.times_ns)
    result = place.search(second, max_trials=40)
    assert len(first.timed) == 15 and len(second.timed) == 25
    assert not set(first.timed) & set(second.timed)
    assert result.trials == 40 and result.restored == 15


@pytest.mark.parametrize("seed", [0, 1])
def test_a_search_interrupted_twenty_times_measures_what_an_uninterrupted_one_does(
    candidates: list[Candidate],
    machine: Machine,
    tmp_path: Path,
    workload: Workload,
    simulated: Session,
    killed: type[BaseException],
    seed: int,
) -> None:
    """Whether by Ctrl-C or by the end of the process, and failures among the candidates."""
    times, prior = machine(2, model_error=0.1)
    whole = Workplace(candidates[::9], times[::9], prior[::9], tmp_path / "whole.sqlite", workload)
    parts = Workplace(candidates[::9], times[::9], prior[::9], tmp_path / "parts.sqlite", workload)
    faults = {id: Wrong(error_over_bound=9.0, where="y[0]", kind="normal") for id in whole.ids[3::7]}
    uninterrupted = whole.search(simulated(whole.times_ns, faults, noise=0.0), max_trials=60, seed=seed)
    random, timed = np.random.default_rng(seed), []
    for _ in range(20):
        kill, at = bool(random.integers(2)), int(random.integers(4))
        session = simulated(parts.times_ns, faults, noise=0.0, interrupt_at=at, kill=kill)
        with pytest.raises(killed) if kill and len(timed) < 60 else nullcontext():
            parts.search(session, max_trials=60, seed=seed)
        timed += session.timed
    resumed = parts.search(simulated(parts.times_ns, faults, noise=0.0), max_trials=60, seed=seed)
    order = [[outcome.candidate for outcome in place.outcomes()][:60] for place in (whole, parts)]
    assert order[0] == order[1] and len(timed) > 20
    assert resumed.winner is not None and uninterrupted.winner is not None
    assert resumed.winner.id == uninterrupted.winner.id


@pytest.mark.parametrize("limits", [{"max_trials": 25}, {"max_trials": 20}, {"max_trials": 25, "budget_s": 100.0}])
def test_a_repeated_search_measures_nothing(place: Workplace, simulated: Session, limits: dict[str, Any]) -> None:
    before = place.search(simulated(place.times_ns), max_trials=25)
    session = simulated(place.times_ns)
    after = place.search(session, **limits)
    assert session.compiled == session.timed == session.shootouts == []
    assert (after.winner, after.reference, after.ending) == (before.winner, before.reference, before.ending)
    assert after.speedup == before.speedup and after.counts == before.counts
    assert after.stopped_by is not None


def test_a_fresh_search_starts_over_and_keeps_the_old_records(place: Workplace, simulated: Session) -> None:
    place.search(simulated(place.times_ns, noise=0.0), max_trials=25)
    before = place.outcomes()
    again = simulated(place.times_ns, noise=0.0)
    result = place.search(again, max_trials=20, fresh=True)
    assert result.restored == 0 and result.trials == len(again.timed) == 20
    assert place.outcomes()[: len(before)] == before
    later = simulated(place.times_ns, noise=0.0)
    result = place.search(later, max_trials=30)
    assert result.restored == 20 and len(later.timed) == 10


def test_a_wider_search_continues_a_finished_one(place: Workplace, simulated: Session) -> None:
    place.search(simulated(place.times_ns), max_trials=25)
    session = simulated(place.times_ns)
    result = place.search(session, max_trials=35)
    assert len(session.timed) == 10 and result.restored == 25 and result.trials == 35


def test_another_seed_measures_only_other_candidates(place: Workplace, simulated: Session) -> None:
    first, second = simulated(place.times_ns), simulated(place.times_ns)
    place.search(first, max_trials=25, seed=0)
    place.search(second, max_trials=30, seed=9)
    assert len(second.timed) == 5 and not set(first.timed) & set(second.timed)


def test_nothing_correct(small: Workplace, simulated: Session) -> None:
    faults = {id: Wrong(error_over_bound=9.0, where="y[0]", kind="normal") for id in small.ids}
    result = small.search(simulated(small.times_ns, faults))
    assert result.ending is Ending.NOTHING_CORRECT and result.winner is None and result.speedup is None
    assert result.failures[0].count == len(small.ids)
    assert small.policy() is None


def test_a_reference_that_fails_leaves_the_first_correct_candidate_as_incumbent(
    small: Workplace, simulated: Session
) -> None:
    faults = {small.ids[0]: Crash(signal="SIGSEGV", stage="check on normal data", peak_bytes=0)}
    result = small.search(simulated(small.times_ns, faults))
    assert result.ending is Ending.IMPROVED and result.reference is None and result.winner is not None
    assert small.times_ns[result.winner.id] <= 1.005 * min(small.times_ns[id] for id in small.ids[1:])


def test_nothing_legal(small: Workplace, workload: Workload) -> None:
    empty = SearchSet(
        candidates=[],
        prior_ns=np.zeros(0),
        origin=np.zeros(0, np.int64),
        reference=0,
        legal_count=0,
        refused=REFUSED,
        status=JoinStatus.EXACT,
    )
    with open_database(small.path) as database:
        book = Notebook(database, workload, legal_count=0)
        result = remembered(empty, book, Limits(), target="avx512", seed=0, watch=Stopwatch())
    assert result.ending is Ending.NOTHING_LEGAL and result.winner is None


def test_the_stored_policy_is_the_winner(place: Workplace, simulated: Session) -> None:
    result = place.search(simulated(place.times_ns), max_trials=30)
    policy = place.policy()
    assert result.winner is not None
    assert policy.outcome.candidate == result.winner.id and policy.rigor is Rigor.SHOOT_OUT
    assert policy.outcome.object_sha256 == result.winner.object_sha256


def test_a_neighbouring_shape_seeds_the_search(place: Workplace, simulated: Session, workload: Workload) -> None:
    first = place.search(simulated(place.times_ns), max_trials=30)
    place.workload = replace(workload, key=replace(workload.key, shape=(129, 1024)))
    session = simulated(place.times_ns)
    place.search(session, max_trials=10)
    assert first.winner is not None and first.winner.id in session.timed[:3]


def test_events_tell_the_story(place: Workplace, simulated: Session) -> None:
    events: list[Event] = []
    place.search(simulated(place.times_ns), max_trials=12, on_event=events.append)
    phases = [event.phase for event in events if isinstance(event, PhaseStarted)]
    assert phases == [Phase.SEARCH, Phase.FINALS, Phase.DONE]
    ready = next(event for event in events if isinstance(event, SpaceReady))
    assert (ready.candidates, ready.legal, ready.refused, ready.restored) == (
        len(place.ids),
        place.space.legal_count,
        17,
        0,
    )
    ends = [event for event in events if isinstance(event, CandidateFinished)]
    assert [event.done for event in ends] == list(range(1, 13))
    assert ends[-1].total == 12 and ends[-1].eta_s == 0
    assert ends[0].promoted and ends[0].best_ns == ends[0].reference_ns == ends[0].ns
    assert all(a.best_ns >= b.best_ns for a, b in itertools.pairwise(ends) if a.best_ns and b.best_ns)


def test_a_result_is_json(place: Workplace, simulated: Session) -> None:
    result = place.search(simulated(place.times_ns), max_trials=12)
    data = result.to_json()
    assert data.pop("speedup") == result.speedup
    assert from_json(SearchResult, data) == result


def test_the_noise_floor_is_measured_once_a_run_and_kept_with_the_search(
    place: Workplace, simulated: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = simulated(place.times_ns)
    raced: list[str] = []
    measure = session.noise_floor
    monkeypatch.setattr(
        session, "noise_floor", lambda kernel: (raced.append(kernel.object_bytes.decode()), measure(kernel))[1]
    )
    result = place.search(session, max_trials=6)
    assert raced == [place.ids[0]]  # the reference is measured first
    assert result.noise is not None and result.noise.rounds > 0
    with open_database(place.path) as database:
        (search,) = database.searches(place.workload.key.id)
    environment = from_json(Environment, search.environment)
    assert environment.noise == result.noise and environment.cores >= 1
    assert place.search(session, max_trials=6).noise == result.noise  # of a search that the store remembers
    assert len(raced) == 1
    again = place.search(session, max_trials=8)
    assert len(raced) == 2 and again.noise is not None


def test_a_twin_that_fails_leaves_the_floor_to_the_next_candidate(
    place: Workplace, simulated: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = simulated(place.times_ns)
    measure, failures = session.noise_floor, iter([Timeout(seconds=1.0, stage="timing")])
    monkeypatch.setattr(session, "noise_floor", lambda kernel: next(failures, None) or measure(kernel))
    assert place.search(session, max_trials=4).noise is not None
