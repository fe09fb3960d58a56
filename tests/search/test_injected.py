"""A search over candidates that crash, hang, abort the compiler, write where they may not, eat memory or answer
wrongly ends with the right winner, names each with its cause, and keeps what shows it again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from autotune.jit import host_target
from autotune.measure.cases import make_cases
from autotune.measure.server import ForkServer
from autotune.measure.session import Session
from autotune.measure.states import State
from autotune.realizations.candidate import Candidate, Clones, Tile
from autotune.search.loop import Stopwatch
from autotune.search.notebook import Notebook
from autotune.search.progress import ignore
from autotune.search.repro import Inputs, ReproFolder, read_repro
from autotune.search.result import Ending, SearchResult
from autotune.search.run import run
from autotune.search.space import JoinStatus, SearchSet
from autotune.search.stop import Limits
from autotune.store.database import open_database
from autotune.store.keys import Workload
from autotune.store.records import Outcome
from tests.measure.conftest import doubling
from tests.search.injected_names import NAMES

HERE = Path(__file__).parent
ENDS = {
    "null write": {State.CRASH},
    "hang": {State.TIMEOUT},
    "compiler aborts": {State.CRASH},
    "writes past the end": {State.WRONG},
    "eats memory": {State.CRASH, State.TIMEOUT, State.OVER_BUDGET},  # the limit it meets first depends on the machine
    "wrong by 1000 ulp": {State.WRONG},
    "compiler hangs": {State.COMPILE_TIMEOUT},
    "compiler raises": {State.COMPILE_ERROR},
}


def _candidate(number: int) -> Candidate:
    return Candidate(
        tiles=(Tile(axis=0, block=number),),
        mapping=(),
        storage=(),
        nests=(),
        transfer=(),
        compute=(),
        tail=(),
        packet=Clones.GENERAL,
    )


@dataclass(frozen=True)
class Searched:
    result: SearchResult
    ends: dict[str, Outcome]
    """By name of the injected kernel."""
    repro: Path


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    folders = [str(HERE), str(HERE.parent / "measure")]
    sys.path[:0] = folders
    with ForkServer("injected_build") as running:
        yield running
    for folder in folders:
        sys.path.remove(folder)


@pytest.fixture
def searched(server: ForkServer, tmp_path: Path, workload: Workload) -> Searched:
    program = doubling(1003)
    candidates = [_candidate(number) for number in range(len(NAMES))]
    space = SearchSet(
        candidates=candidates,
        prior_ns=np.full(len(candidates), 100.0),
        origin=np.zeros(len(candidates), np.int64),
        reference=0,
        legal_count=len(candidates),
        refused=(),
        status=JoinStatus.EXACT,
    )
    cases = make_cases(program, 1, sizes={}, scalars={})
    inputs = Inputs(sizes={}, scalars={}, seed=1)
    repro = ReproFolder(tmp_path / "repro", program, host_target(), inputs)
    session = Session(
        server,
        program,
        host_target(),
        cases,
        build="injected_build:build",
        memory_bytes=256 << 20,
        compile_seconds=1.0,
        least_call_seconds=0.5,
    )
    with open_database(tmp_path / "policies.sqlite") as database, session:
        book = Notebook(database, workload, legal_count=len(candidates))
        limits = Limits(budget_s=None)
        found = run(
            space,
            session,
            book,
            limits,
            target="host",
            seed=0,
            watch=Stopwatch(),
            on_event=ignore,
            repro=repro,
        )
        ends = {NAMES[book.candidates[id].tiles[0].block]: outcome for id, outcome in book.outcomes.items()}
    return Searched(result=found, ends=ends, repro=tmp_path / "repro")


def test_every_bad_candidate_is_named_with_its_cause_and_the_right_one_wins(searched: Searched) -> None:
    result = searched.result
    assert result.ending is Ending.IMPROVED
    assert result.winner is not None and result.winner.id == _candidate(NAMES.index("right")).id
    assert sum(failure.count for failure in result.failures) == len(ENDS)
    assert result.trials == len(NAMES)
    for name, states in ENDS.items():
        assert searched.ends[name].state in states, name
    said = " ".join(f"{failure.cause} {failure.sentence}" for failure in result.failures)
    assert "SIGSEGV" in said and "SIGABRT" in said and "cannot lower this" in said and "not compiled after" in said


def test_crashes_wrong_results_and_timeouts_are_kept_to_be_seen_again(searched: Searched) -> None:
    kept = {path.name: read_repro(path) for path in searched.repro.iterdir()}
    replayed = (State.CRASH, State.WRONG, State.TIMEOUT)
    expected = {name for name, outcome in searched.ends.items() if outcome.state in replayed}
    assert set(kept) == {_candidate(NAMES.index(name)).id for name in expected} and len(expected) >= 5
    for name in expected:
        found = kept[_candidate(NAMES.index(name)).id]
        assert found.end.state is searched.ends[name].state
        assert found.candidate == _candidate(NAMES.index(name)) and found.inputs.seed == 1
