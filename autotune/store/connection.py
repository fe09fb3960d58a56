"""Opening a store file: where it may lie, how it is locked, which schema it has.
Must not know the records in it."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from autotune.store.errors import (
    FullStore,
    LockedStore,
    MissingStore,
    NetworkFileSystem,
    NewerSchema,
    OlderSchema,
    ReadOnlyStore,
    UnusableStore,
)
from autotune.store.schema import MIGRATIONS, Migrations

BUSY_TIMEOUT_MS = 10_000
_PRIMARY = 0xFF  # of an extended result code
_MOUNTS = Path("/proc/self/mountinfo")
_KERNEL_CLIENTS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "pvfs2")
_FUSE_CLIENTS = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone")
NETWORK_FILE_SYSTEMS = frozenset((*_KERNEL_CLIENTS, *_FUSE_CLIENTS))
_log = logging.getLogger(__name__)


class Connection:
    """One SQLite connection with the project's settings; every write runs in `transaction()`."""

    def __init__(self, path: Path, raw: sqlite3.Connection, *, writable: bool, schema: int, known: int) -> None:
        self.path = path
        self.schema = schema
        self._raw = raw
        self._writable = writable
        self._known = known

    @property
    def writable(self) -> bool:
        return self._writable

    def close(self) -> None:
        self._raw.close()

    def rows(self, sql: str, parameters: tuple[object, ...] = ()) -> list[sqlite3.Row]:
        """All rows of a query.

        Raises: UnusableStore.
        """
        with _translated(self.path):
            return self._raw.execute(sql, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction that holds the lock from its first statement; all of it is kept, or nothing.

        Raises: NewerSchema, ReadOnlyStore, UnusableStore.
        """
        if self.schema > self._known:
            raise NewerSchema(path=self.path, found=self.schema, known=self._known)
        if not self._writable:
            raise ReadOnlyStore(path=self.path)
        with _translated(self.path), _immediate(self._raw):
            yield self._raw


def connect(path: Path, *, migrations: Migrations = MIGRATIONS) -> Connection:
    """Open a store for writing; create or migrate it as needed. A newer schema than known opens read-only.

    Raises: NetworkFileSystem, UnusableStore.
    """
    path = path.expanduser().absolute()
    known = migrations[-1].version
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UnusableStore(path=path, detail=str(error)) from error
    _refuse_network(path)
    with _translated(path):
        raw = _connect(f"file:{_quoted(path)}?mode=rwc")
    try:
        with _translated(path):
            found = _version(raw)
            if found > known:
                _log.warning("%s", NewerSchema(path=path, found=found, known=known))
                raw.execute("PRAGMA query_only = ON")
                return Connection(path, raw, writable=False, schema=found, known=known)
            mode = raw.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise UnusableStore(path=path, detail=f"write-ahead logging is refused, the journal mode is {mode}")
            _migrate(path, raw, found, migrations)
        return Connection(path, raw, writable=True, schema=known, known=known)
    except BaseException:
        raw.close()
        raise


def connect_readonly(path: Path, *, migrations: Migrations = MIGRATIONS) -> Connection:
    """Open an existing store for reading; never creates or changes it.

    Raises: MissingStore, OlderSchema, UnusableStore.
    """
    path = path.expanduser().absolute()
    if not path.is_file():
        raise MissingStore(path=path)
    known = migrations[-1].version
    with _translated(path):
        raw = _connect(f"file:{_quoted(path)}?{_readonly_mode(path)}")
    try:
        with _translated(path):
            raw.execute("PRAGMA query_only = ON")
            found = _version(raw)
        if found < known:
            raise OlderSchema(path=path, found=found, known=known)
        return Connection(path, raw, writable=False, schema=found, known=known)
    except BaseException:
        raw.close()
        raise


def file_system_of(path: Path, mounts: str) -> str:
    """Type of the file system that holds `path`, from the text of a `mountinfo` file; empty where it is not listed."""
    best, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].encode().decode("unicode_escape")  # blanks in a mount point are written \040
        if len(point) >= len(best) and path.is_relative_to(point):
            best, kind = point, after.split()[0]
    return kind


def _refuse_network(path: Path) -> None:
    if not _MOUNTS.exists():
        return
    kind = file_system_of(path.parent.resolve(), _MOUNTS.read_text())
    if kind in NETWORK_FILE_SYSTEMS:
        raise NetworkFileSystem(path=path, file_system=kind)


def _readonly_mode(path: Path) -> str:
    # A reader of a write-ahead log creates files beside it. Where it may not, and no log is there, the file is whole.
    alone = not path.with_name(path.name + "-wal").exists()
    return "immutable=1" if alone and not os.access(path.parent, os.W_OK) else "mode=ro"


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _connect(uri: str) -> sqlite3.Connection:
    raw = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
    raw.row_factory = sqlite3.Row
    raw.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    raw.execute("PRAGMA synchronous = NORMAL")
    raw.execute("PRAGMA foreign_keys = ON")
    return raw


def _version(raw: sqlite3.Connection) -> int:
    return int(raw.execute("PRAGMA user_version").fetchone()[0])


def _migrate(path: Path, raw: sqlite3.Connection, found: int, migrations: Migrations) -> None:
    known = migrations[-1].version
    if found == known:
        return
    if found:
        _back_up(path, raw, found)
    with _immediate(raw):
        found = _version(raw)  # another process may have migrated in the meantime
        for migration in migrations:
            if migration.version > found:
                for statement in migration.statements:
                    raw.execute(statement)
        raw.execute(f"PRAGMA user_version = {max(known, found)}")


def _back_up(path: Path, raw: sqlite3.Connection, found: int) -> None:
    copy = path.with_name(f"{path.name}.schema{found}.{time.time_ns()}.backup")
    raw.execute("VACUUM INTO ?", (str(copy),))
    _log.warning("%s is migrated from schema %d; a backup is at %s", path, found, copy)


@contextmanager
def _immediate(raw: sqlite3.Connection) -> Iterator[None]:
    raw.execute("BEGIN IMMEDIATE")
    try:
        yield
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        match getattr(error, "sqlite_errorcode", 0) & _PRIMARY:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                raise LockedStore(path=path, seconds=BUSY_TIMEOUT_MS / 1000) from error
            case sqlite3.SQLITE_FULL:
                raise FullStore(path=path, detail=str(error)) from error
        raise UnusableStore(path=path, detail=str(error)) from error


def integrity(path: Path) -> str:
    """SQLite's verdict on the whole file: `ok`, or what is damaged.

    Raises: MissingStore, OlderSchema, UnusableStore where it is no database at all.
    """
    with closing(connect_readonly(path)) as connection:
        return "; ".join(str(row[0]) for row in connection.rows("PRAGMA integrity_check"))
