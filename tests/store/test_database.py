"""The database: append-only outcomes, derived policies, one transaction an outcome."""

from __future__ import annotations

import random
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.store import connection
from autotune.store.database import Database, open_database, open_readonly
from autotune.store.errors import ConflictingRecord, FullStore, LockedStore, UnreadableRecord
from autotune.store.records import Rigor, SearchStatus, new_uuid
from tests.store.samples import WORKLOAD, candidate, outcome, refusal, search, workload


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "policies.sqlite"


def fill(database: Database, count: int, seed: int = 0) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        what = candidate(lanes=rng.choice((4, 8, 16)))
        where = workload(shape=(129, rng.choice((65, 512))))
        if rng.random() < 0.3:
            database.record(where, what, refusal(where, what))
            continue
        time_ns, rigor = float(rng.randrange(50, 200)), rng.choice((Rigor.RACED, Rigor.SHOOT_OUT))
        database.record(where, what, outcome(where, what, samples_ns=(time_ns,), rigor=rigor))


def test_what_is_recorded_is_read_back(path: Path) -> None:
    started, measured = search(), outcome()
    with open_database(path) as database:
        database.begin_search(WORKLOAD, started)
        assert database.record(WORKLOAD, candidate(), measured)
        refused = replace(refusal(), search=started.uuid)
        assert database.record(WORKLOAD, candidate(), refused)
        database.finish_search(started.uuid, SearchStatus.FINISHED, 1_790_000_060.0)
    with open_readonly(path) as database:
        assert database.outcomes(WORKLOAD.key.id) == (measured, refused)
        assert database.workloads() == (WORKLOAD,)
        assert database.workload(WORKLOAD.key.id) == WORKLOAD
        assert database.candidate(candidate().id) == candidate()
        assert database.candidate("nothing") is None
        assert database.searches(WORKLOAD.key.id) == (
            replace(started, status=SearchStatus.FINISHED, finished=1_790_000_060.0),
        )
        best = database.best(WORKLOAD.key.id)
        assert best is not None
        assert best.outcome == measured
        assert (best.expected_ns, best.rigor) == (105.5, Rigor.RACED)


def test_settings_of_the_connection(path: Path) -> None:
    with open_database(path) as database:
        raw = database._connection._raw
        pragmas = {name: raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
        assert pragmas == {"journal_mode": "wal", "synchronous": 1}
        assert raw.execute("PRAGMA busy_timeout").fetchone()[0] == 10_000
        assert raw.execute("PRAGMA foreign_keys").fetchone()[0] == 1


def test_recording_twice_adds_once(path: Path) -> None:
    measured = outcome()
    with open_database(path) as database:
        assert database.record(WORKLOAD, candidate(), measured)
        assert not database.record(WORKLOAD, candidate(), measured)
        assert database.outcomes() == (measured,)


def test_one_identity_cannot_have_two_contents(path: Path) -> None:
    measured = outcome()
    with open_database(path) as database:
        database.record(WORKLOAD, candidate(), measured)
        with pytest.raises(ConflictingRecord, match=f"the outcome {measured.uuid} is stored already"):
            database.record(WORKLOAD, candidate(), replace(measured, code_bytes=1))


def test_outcome_must_name_what_it_is_recorded_with(path: Path) -> None:
    with open_database(path) as database, pytest.raises(ValueError, match="another workload or candidate"):
        database.record(workload(threads=2), candidate(), outcome())


def test_outcomes_cannot_be_changed_or_removed(path: Path) -> None:
    with open_database(path) as database:
        database.record(WORKLOAD, candidate(), outcome())
    raw = sqlite3.connect(path)
    for statement in ("UPDATE outcomes SET code_bytes = 1", "DELETE FROM outcomes"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute(statement)
    raw.close()


def test_a_policy_only_gains_rigor_or_time(path: Path) -> None:
    steps = [
        (Rigor.RACED, 100.0, 100.0),
        (Rigor.RACED, 120.0, 100.0),  # slower: kept
        (Rigor.RACED, 90.0, 90.0),
        (Rigor.SHOOT_OUT, 95.0, 95.0),  # more rigorous: taken although slower
        (Rigor.RACED, 50.0, 95.0),  # less rigorous: kept although faster
        (Rigor.SHOOT_OUT, 94.0, 94.0),
    ]
    with open_database(path) as database:
        for rigor, time_ns, expected in steps:
            database.record(WORKLOAD, candidate(), outcome(rigor=rigor, samples_ns=(time_ns,)))
            best = database.best(WORKLOAD.key.id)
            assert best is not None and best.expected_ns == expected
        with (
            pytest.raises(Exception, match="a policy may only gain rigor or time"),
            database._connection.transaction() as raw,
        ):
            raw.execute("UPDATE policies SET rigor = 0")


@pytest.mark.parametrize("seed", range(3))
def test_policies_are_derived(path: Path, seed: int) -> None:
    with open_database(path) as database:
        fill(database, 40, seed)
        kept = database.policies()
        assert len(kept) == 2
        with database._connection.transaction() as raw:
            raw.execute("DELETE FROM policies")
        assert database.policies() == ()
        assert database.rebuild_policies() == 2
        assert database.policies() == kept


def test_a_killed_search_is_interrupted_when_the_next_begins(path: Path) -> None:
    killed, other, following = search(), search(workload(threads=2)), search(started=1_790_000_500.0)
    with open_database(path) as database:
        database.begin_search(WORKLOAD, killed)
        database.begin_search(workload(threads=2), other)
        database.begin_search(WORKLOAD, following)
        statuses = {found.uuid: found.status for found in database.searches()}
    assert statuses == {
        killed.uuid: SearchStatus.INTERRUPTED,
        other.uuid: SearchStatus.RUNNING,
        following.uuid: SearchStatus.RUNNING,
    }


def test_writers_in_parallel_lose_nothing(path: Path) -> None:
    open_database(path).close()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            with open_database(path) as database:
                for _ in range(20):
                    database.record(WORKLOAD, candidate(), outcome(uuid=new_uuid()))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with open_readonly(path) as database:
        assert len(database.outcomes()) == 80


def test_a_store_that_stays_locked_is_named_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 50)
    with open_database(path) as database:
        database.record(WORKLOAD, candidate(), outcome(uuid=new_uuid()))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LockedStore, match=r"another process .*policies\.sqlite"):
            database.record(WORKLOAD, candidate(), outcome(uuid=new_uuid()))
        assert len(database.outcomes()) == 1
        other.execute("ROLLBACK")
        other.close()
        assert database.record(WORKLOAD, candidate(), outcome(uuid=new_uuid()))
        assert len(database.outcomes()) == 2


def test_a_full_disk_is_named_and_loses_nothing(path: Path) -> None:
    """SQLite answers a page limit as it answers a disk without room."""
    with open_database(path) as database:
        raw = database._connection._raw
        raw.execute(f"PRAGMA max_page_count = {raw.execute('PRAGMA page_count').fetchone()[0] + 2}")
        written = 0
        with pytest.raises(FullStore, match=r"no room to write to .*policies\.sqlite"):
            for _ in range(1000):
                database.record(WORKLOAD, candidate(), outcome(uuid=new_uuid()))
                written += 1
        assert len(database.outcomes()) == written > 0
    assert connection.integrity(path) == "ok"
    with open_database(path) as database:  # with room again
        assert database.record(WORKLOAD, candidate(), outcome(uuid=new_uuid()))
        assert len(database.outcomes()) == written + 1


def test_workloads_are_found_by_fingerprint_and_name(path: Path) -> None:
    with open_database(path) as database:
        fill(database, 10)
        assert len(database.workloads(kernel=WORKLOAD.key.kernel)) == 2
        assert len(database.workloads(name="softmax")) == 2
        assert database.workloads(name="other") == ()


def test_row_of_another_form_is_named(path: Path) -> None:
    with open_database(path) as database:
        database.record(WORKLOAD, candidate(), outcome())
        with database._connection.transaction() as raw:
            raw.execute('UPDATE candidates SET content = \'{"type":"Recipe"}\'')
            raw.execute("UPDATE workloads SET cache = 'lukewarm'")
    with open_readonly(path) as database:
        with pytest.raises(UnreadableRecord, match=r"a candidate in the database .* expected a Candidate"):
            database.candidate(candidate().id)
        with pytest.raises(UnreadableRecord, match=r"a workload in the database .*'lukewarm'"):
            database.workloads()
