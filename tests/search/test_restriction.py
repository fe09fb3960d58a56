"""Searches without named mechanisms: nothing forbidden is tried, and the store keeps their notes and claims apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune import tune
from autotune.calibration.prior import prior
from autotune.jit import can_run
from autotune.measure.states import State
from autotune.realizations.candidate import Candidate
from autotune.realizations.mechanisms import NAMES, OFF_BY_DEFAULT, uses
from autotune.realizations.targets import named_target
from autotune.search import restriction
from autotune.search.errors import ForbiddenAndAllowed, UnknownMechanism
from autotune.search.join import search_set
from autotune.search.loop import Stopwatch
from autotune.search.notebook import Notebook
from autotune.search.progress import ignore
from autotune.search.restriction import forbidden_mechanisms
from autotune.search.result import SearchResult
from autotune.search.run import run
from autotune.search.space import JoinStatus, SearchSet
from autotune.search.stop import Limits
from autotune.store.database import open_database
from autotune.store.keys import Workload
from autotune.store.records import Rigor
from tests.conformance.cases import bound

_TARGET = named_target("avx512")
_SMALL = (("matmul", "M=16,K=64,N=48"), ("attention", "B=1,Hq=2,Hkv=1,Q=3,K=19,D=16,Dv=8"))
Machine = Callable[..., Any]
Session = Any  # the simulated one of conftest


# ---- what is tried --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("example", "shape"), _SMALL)
@pytest.mark.parametrize("name", NAMES)
def test_no_candidate_but_the_reference_uses_what_is_forbidden(example: str, shape: str, name: str) -> None:
    program = bound(example, shape).program
    space = search_set(program, _TARGET, prior(_TARGET), limit=60, sample=60, forbidden=frozenset({name}))
    others = (c for row, c in enumerate(space.candidates) if row != space.reference)
    assert not any(name in uses(program, candidate, _TARGET) for candidate in others)
    assert space.forbidden == {name}


@pytest.mark.parametrize(("example", "shape"), _SMALL)
def test_much_is_left_without_any_one_mechanism_but_lanes(example: str, shape: str) -> None:
    program = bound(example, shape).program
    for name in sorted(set(NAMES) - {"lanes-over-programs"}):
        assert search_set(program, _TARGET, prior(_TARGET), forbidden=frozenset({name})).legal_count > 10, name


def test_what_is_forbidden_says_nothing_about_the_rest() -> None:
    program = bound(*_SMALL[0]).program
    whole = search_set(program, _TARGET, prior(_TARGET), limit=10_000, sample=0)
    without = search_set(
        program, _TARGET, prior(_TARGET), limit=10_000, sample=0, forbidden=OFF_BY_DEFAULT | {"copies"}
    )
    plain = {c for c in whole.candidates if "copies" not in uses(program, c, _TARGET)}
    assert plain <= set(without.candidates)


@pytest.mark.skipif(not can_run(_TARGET), reason="runs AVX-512 code")
@pytest.mark.parametrize("forbid", [("inline-contractions",), ("mixed-lanes",), ("lanes-over-programs", "copies")])
def test_what_stands_in_for_a_mechanism_is_right(forbid: tuple[str, ...], tmp_path: Path) -> None:
    workload = bound("attention", "B=1,Hq=4,Hkv=2,Q=5,K=19,D=16,Dv=24")
    found = tune.search(
        workload.kernel,
        {**workload.sizes, "scale": 0.25},
        _TARGET,
        budget_s=None,
        max_trials=6,
        database=tmp_path / "store",
        forbid=forbid,
    )
    assert found.forbidden == tuple(sorted({*forbid, *OFF_BY_DEFAULT}))
    states = {entry.state: entry.count for entry in found.counts}
    assert found.trials == 6 and all(failure.state is State.NOISY for failure in found.failures)
    assert states[State.MEASURED] + states.get(State.RACED_OUT, 0) + states.get(State.NOISY, 0) == 6


# ---- names ----------------------------------------------------------------------------------------------------------
def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UnknownMechanism, match=r"'blocks'(.|\n)*register-blocks, two-axis-blocks"):
        forbidden_mechanisms(["blocks"])
    with pytest.raises(UnknownMechanism, match="'bloks'"):
        forbidden_mechanisms(allow=["bloks"])


def test_what_is_off_by_default_may_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restriction, "OFF_BY_DEFAULT", frozenset({"panels", "chains"}))
    assert forbidden_mechanisms() == {"panels", "chains"}
    assert forbidden_mechanisms(["copies"], ["panels"]) == {"copies", "chains"}
    with pytest.raises(ForbiddenAndAllowed, match="'panels'"):
        forbidden_mechanisms(["panels"], ["panels"])


# ---- the store ------------------------------------------------------------------------------------------------------
class Place:
    """One workload on a simulated machine, searched with and without a mechanism."""

    def __init__(
        self, candidates: list[Candidate], machine: Machine, simulated: Session, path: Path, workload: Workload
    ) -> None:
        times, guess = machine(1, model_error=0.1)
        candidates, times, guess = candidates[::40], times[::40], guess[::40]
        self.times = dict(zip((c.id for c in candidates), times.tolist(), strict=True))
        self.session, self.path, self.workload = simulated(self.times), path, workload
        self.space = SearchSet(
            candidates=candidates,
            prior_ns=guess,
            origin=np.zeros(len(candidates), np.int64),
            reference=0,
            legal_count=len(candidates),
            refused=(),
            status=JoinStatus.EXACT,
        )

    def search(self, forbidden: frozenset[str], trials: int, rows: list[int] | None = None) -> SearchResult:
        rows = list(range(len(self.space.candidates))) if rows is None else [0, *rows]
        space = replace(
            self.space,
            candidates=[self.space.candidates[row] for row in rows],
            prior_ns=self.space.prior_ns[rows],
            origin=self.space.origin[rows],
            forbidden=forbidden,
        )
        with open_database(self.path) as store:
            book = Notebook(store, self.workload, legal_count=len(rows), forbidden=forbidden)
            limits = Limits(budget_s=None, max_trials=trials, patience=None)
            return run(space, self.session, book, limits, target="avx512", seed=0, watch=Stopwatch(), on_event=ignore)

    def policy(self) -> Any:
        with open_database(self.path) as store:
            return store.best(self.workload.key.id)


@pytest.fixture
def place(
    candidates: list[Candidate], machine: Machine, simulated: Session, tmp_path: Path, workload: Workload
) -> Place:
    return Place(candidates, machine, simulated, tmp_path / "store", workload)


CHAINS = frozenset({"chains"})


def test_runs_with_other_restrictions_keep_notes_of_their_own(place: Place) -> None:
    first = place.search(OFF_BY_DEFAULT, 6)
    without = place.search(CHAINS, 5)
    assert (first.restored, first.trials, without.restored, without.trials) == (0, 6, 0, 5)
    assert without.forbidden == ("chains",)
    assert place.search(CHAINS, 7).restored == 5
    assert place.search(OFF_BY_DEFAULT, 8).restored == 6


def test_a_settled_restricted_run_stays_settled(place: Place) -> None:
    first = place.search(CHAINS, 12)
    shootouts = len(place.session.shootouts)
    again = place.search(CHAINS, 12)
    assert len(place.session.shootouts) == shootouts
    assert again.winner == first.winner


def test_a_restricted_winner_takes_no_policy_from_a_shoot_out(place: Place) -> None:
    times = list(place.times.values())
    better = sorted((k for k in range(1, len(times)) if times[k] < times[0]), key=lambda k: -times[k])
    little_better = better[: len(better) // 2]
    whole = place.search(OFF_BY_DEFAULT, 8, little_better)
    before = place.policy()
    assert whole.winner is not None and before.rigor >= Rigor.SHOOT_OUT
    restricted = place.search(CHAINS, len(place.times))
    assert restricted.winner is not None and restricted.winner.ns < whole.winner.ns
    assert place.policy() == before


def test_an_unrestricted_shoot_out_takes_the_policy_of_a_restricted_run(place: Place) -> None:
    place.search(CHAINS, 10)
    assert place.policy().rigor is Rigor.RACED
    whole = place.search(OFF_BY_DEFAULT, 10)
    assert whole.winner is not None and place.policy().outcome.candidate == whole.winner.id
