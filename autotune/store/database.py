"""The policy store: append outcomes, ask what is best and what was tried.
Must not know how candidates are chosen, compiled or timed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from autotune.ir.serial import Json
from autotune.realizations.candidate import Candidate
from autotune.store.connection import Connection, connect, connect_readonly
from autotune.store.errors import ConflictingRecord, UnreadableRecord
from autotune.store.keys import Workload
from autotune.store.records import (
    Outcome,
    Search,
    SearchStatus,
    StoredPolicy,
    policy_of,
    supersedes,
)
from autotune.store.rows import (
    Columns,
    Row,
    candidate_columns,
    candidate_from,
    dump_json,
    outcome_columns,
    outcome_from,
    search_columns,
    search_from,
    workload_columns,
    workload_from,
)
from autotune.store.schema import MIGRATIONS, Migrations

Record = TypeVar("Record")
_BEST = "SELECT o.* FROM policies p JOIN outcomes o ON o.uuid = p.outcome"


def open_database(path: Path, *, migrations: Migrations = MIGRATIONS) -> Database:
    """Open a store for writing; create or migrate it as needed. A newer schema than known opens read-only.

    Raises: NetworkFileSystem, UnusableStore.
    """
    return Database(connect(path, migrations=migrations))


def open_readonly(path: Path, *, migrations: Migrations = MIGRATIONS) -> Database:
    """Open an existing store for reading.

    Raises: MissingStore, OlderSchema, UnusableStore.
    """
    return Database(connect_readonly(path, migrations=migrations))


class Database:
    """A store file. Use it from the thread that opened it; other threads and processes open their own.

    Every method raises UnusableStore where SQLite fails, those that read UnreadableRecord for a row of another form.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def path(self) -> Path:
        return self._connection.path

    @property
    def writable(self) -> bool:
        return self._connection.writable

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Writing

    def begin_search(self, workload: Workload, search: Search) -> None:
        """Record that a search starts; searches of the workload that were killed before count as interrupted.

        Raises: StoreError; ConflictingRecord where the uuid is taken.
        """
        with self._connection.transaction() as raw:
            _insert_named(raw, "workload", "workloads", "id", workload_columns(workload), loose=("kernel_name", "dims"))
            raw.execute(
                "UPDATE searches SET status = ? WHERE workload = ? AND status = ?",
                (SearchStatus.INTERRUPTED.value, search.workload, SearchStatus.RUNNING.value),
            )
            _insert_named(raw, "search", "searches", "uuid", search_columns(search))

    def describe_search(self, uuid: str, environment: Json) -> None:
        """Replace what a search says about the machine's state, once more is known than at its start."""
        with self._connection.transaction() as raw:
            raw.execute("UPDATE searches SET environment = ? WHERE uuid = ?", (dump_json(environment), uuid))

    def finish_search(self, uuid: str, status: SearchStatus, finished: float) -> None:
        """Record how a search ended.

        Units: `finished` seconds since 1970 in UTC.
        """
        with self._connection.transaction() as raw:
            raw.execute("UPDATE searches SET status = ?, finished = ? WHERE uuid = ?", (status.value, finished, uuid))

    def record(self, workload: Workload, candidate: Candidate, outcome: Outcome) -> bool:
        """Append one outcome with its workload, candidate and policy, in one transaction; False if it is there already.

        Raises: StoreError; ConflictingRecord where a record of the same identity differs; ValueError where the outcome
        names another workload or candidate.
        """
        if (outcome.workload, outcome.candidate) != (workload.key.id, candidate.id):
            raise ValueError(f"outcome {outcome.uuid} names another workload or candidate than it is recorded with")
        with self._connection.transaction() as raw:
            _insert_named(raw, "workload", "workloads", "id", workload_columns(workload), loose=("kernel_name", "dims"))
            _insert_named(raw, "candidate", "candidates", "id", candidate_columns(candidate))
            added = _insert_named(raw, "outcome", "outcomes", "uuid", outcome_columns(outcome))
            if added:
                _raise_policy(raw, outcome)
        return added

    def merge(
        self,
        workloads: Iterable[Workload],
        candidates: Iterable[Candidate],
        searches: Iterable[Search],
        outcomes: Iterable[Outcome],
    ) -> int:
        """Add the records of another store that are missing here, in one transaction; the number of outcomes added.

        Raises: StoreError; ConflictingRecord.
        """
        added = 0
        with self._connection.transaction() as raw:
            for workload in workloads:
                columns = workload_columns(workload)
                _insert_named(raw, "workload", "workloads", "id", columns, loose=("kernel_name", "dims"))
            for candidate in candidates:
                _insert_named(raw, "candidate", "candidates", "id", candidate_columns(candidate))
            for search in searches:
                columns = search_columns(search)
                _insert_named(raw, "search", "searches", "uuid", columns, loose=("status", "finished", "environment"))
                raw.execute(
                    "UPDATE searches SET status = ?, finished = ?, environment = ? WHERE uuid = ? AND status = ?",
                    (
                        *(columns[name] for name in ("status", "finished", "environment", "uuid")),
                        SearchStatus.RUNNING.value,
                    ),
                )
            for outcome in outcomes:
                if _insert_named(raw, "outcome", "outcomes", "uuid", outcome_columns(outcome)):
                    _raise_policy(raw, outcome)
                    added += 1
        return added

    def rebuild_policies(self) -> int:
        """Derive every policy anew from the outcomes; the number of policies."""
        with self._connection.transaction() as raw:
            raw.execute("DELETE FROM policies")
            best: dict[str, StoredPolicy] = {}
            for row in raw.execute("SELECT * FROM outcomes WHERE rigor IS NOT NULL ORDER BY sequence"):
                policy = policy_of(outcome_from(row))
                if policy is not None and supersedes(policy, best.get(policy.workload)):
                    best[policy.workload] = policy
            for policy in best.values():
                _write_policy(raw, policy)
        return len(best)

    # Reading

    def best(self, workload: str) -> StoredPolicy | None:
        """The policy of the workload with this key id."""
        rows = self._connection.rows(f"{_BEST} WHERE p.workload = ?", (workload,))
        return policy_of(self._decode(outcome_from, rows[0])) if rows else None

    def policies(self) -> tuple[StoredPolicy, ...]:
        """All policies, by workload id."""
        rows = self._connection.rows(f"{_BEST} ORDER BY p.workload")
        found = (policy_of(self._decode(outcome_from, row)) for row in rows)
        return tuple(policy for policy in found if policy is not None)

    def outcomes(self, workload: str | None = None) -> tuple[Outcome, ...]:
        """Every outcome of a workload (of all workloads without one), in the order they were recorded."""
        if workload is None:
            rows = self._connection.rows("SELECT * FROM outcomes ORDER BY sequence")
        else:
            rows = self._connection.rows("SELECT * FROM outcomes WHERE workload = ? ORDER BY sequence", (workload,))
        return tuple(self._decode(outcome_from, row) for row in rows)

    def candidate(self, id: str) -> Candidate | None:
        """The candidate with this id."""
        rows = self._connection.rows("SELECT * FROM candidates WHERE id = ?", (id,))
        return self._decode(candidate_from, rows[0]) if rows else None

    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate that has an outcome, by id."""
        rows = self._connection.rows("SELECT * FROM candidates ORDER BY id")
        return tuple(self._decode(candidate_from, row) for row in rows)

    def searches(self, workload: str | None = None) -> tuple[Search, ...]:
        """The searches of a workload (of all workloads without one), oldest first."""
        where, parameters = ("", ()) if workload is None else (" WHERE workload = ?", (workload,))
        rows = self._connection.rows(f"SELECT * FROM searches{where} ORDER BY started, uuid", parameters)
        return tuple(self._decode(search_from, row) for row in rows)

    def workload(self, id: str) -> Workload | None:
        """The workload with this key id."""
        rows = self._connection.rows("SELECT * FROM workloads WHERE id = ?", (id,))
        return self._decode(workload_from, rows[0]) if rows else None

    def workloads(self, *, kernel: str | None = None, name: str | None = None) -> tuple[Workload, ...]:
        """Workloads of a kernel fingerprint, of a kernel name, or all, in a stable order."""
        wanted = [(column, value) for column, value in (("kernel", kernel), ("kernel_name", name)) if value is not None]
        where = f" WHERE {' AND '.join(f'{column} = ?' for column, _ in wanted)}" if wanted else ""
        rows = self._connection.rows(
            f"SELECT * FROM workloads{where} ORDER BY kernel_name, shape, id", tuple(value for _, value in wanted)
        )
        return tuple(self._decode(workload_from, row) for row in rows)

    def _decode(self, decode: Callable[[Row], Record], row: Row) -> Record:
        try:
            return decode(row)
        except (ValueError, TypeError) as error:
            kind = decode.__name__.removesuffix("_from")
            raise UnreadableRecord(kind=kind, path=self.path, detail=str(error)) from error


def _insert_named(
    raw: sqlite3.Connection, kind: str, table: str, identity: str, columns: Columns, loose: tuple[str, ...] = ()
) -> bool:
    """Insert a row unless its identity is there; True if it was inserted. Columns in `loose` may differ.

    Raises: ConflictingRecord where the row that is there differs otherwise.
    """
    found = raw.execute(f"SELECT * FROM {table} WHERE {identity} = ?", (columns[identity],)).fetchone()
    if found is None:
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        raw.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))
        return True
    if any(found[name] != value for name, value in columns.items() if name not in loose):
        raise ConflictingRecord(kind=kind, id=str(columns[identity]))
    return False


def _raise_policy(raw: sqlite3.Connection, outcome: Outcome) -> None:
    new = policy_of(outcome)
    if new is None:
        return
    row = raw.execute(f"{_BEST} WHERE p.workload = ?", (outcome.workload,)).fetchone()
    if supersedes(new, None if row is None else policy_of(outcome_from(row))):
        _write_policy(raw, new)


def _write_policy(raw: sqlite3.Connection, policy: StoredPolicy) -> None:
    raw.execute(
        "INSERT INTO policies (workload, outcome, rigor, expected_ns) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (workload) DO UPDATE SET outcome = excluded.outcome, rigor = excluded.rigor, "
        "expected_ns = excluded.expected_ns",
        (policy.workload, policy.outcome.uuid, int(policy.rigor), policy.expected_ns),
    )
