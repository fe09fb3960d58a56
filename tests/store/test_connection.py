"""Opening a store: schema versions, damage, network file systems, read-only places."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from autotune.store import connection
from autotune.store.connection import file_system_of, integrity
from autotune.store.database import open_database, open_readonly
from autotune.store.errors import (
    MissingStore,
    NetworkFileSystem,
    NewerSchema,
    OlderSchema,
    ReadOnlyStore,
    UnusableStore,
)
from autotune.store.schema import MIGRATIONS, Migration
from tests.store.samples import WORKLOAD, candidate, outcome

NEXT = Migration(
    version=MIGRATIONS[-1].version + 1,
    statements=("ALTER TABLE searches ADD COLUMN host TEXT", "CREATE TABLE extra (id INTEGER PRIMARY KEY)"),
)
BROKEN = Migration(version=NEXT.version, statements=(*NEXT.statements, "SELECT no_such_function()"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "policies.sqlite"
    with open_database(path) as database:
        database.record(WORKLOAD, candidate(), outcome())
    return path


def version(path: Path) -> int:
    raw = sqlite3.connect(path)
    try:
        return int(raw.execute("PRAGMA user_version").fetchone()[0])
    finally:
        raw.close()


def test_migration_versions_are_dense() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_migration_keeps_records_and_a_backup(path: Path) -> None:
    old = version(path)
    with open_database(path, migrations=(*MIGRATIONS, NEXT)) as database:
        assert len(database.outcomes()) == 1
    assert version(path) == NEXT.version
    (backup,) = path.parent.glob("*.backup")
    assert version(backup) == old
    with open_readonly(backup) as database:
        assert len(database.outcomes()) == 1


def test_failed_migration_changes_nothing(path: Path) -> None:
    old = version(path)
    with pytest.raises(UnusableStore, match="no_such_function"):
        open_database(path, migrations=(*MIGRATIONS, BROKEN))
    assert version(path) == old
    with open_database(path, migrations=(*MIGRATIONS, NEXT)) as database:
        assert len(database.outcomes()) == 1


def test_newer_file_is_readable_and_refuses_writes(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_database(path, migrations=(*MIGRATIONS, NEXT)).close()
    with open_database(path) as database:
        assert "it is open for reading only" in caplog.text
        assert not database.writable
        assert len(database.outcomes()) == 1
        with pytest.raises(NewerSchema, match=f"has schema {NEXT.version}, this version of autotune writes"):
            database.record(WORKLOAD, candidate(), outcome())
    with open_readonly(path) as database:
        assert database.best(WORKLOAD.key.id) is not None


def test_reader_asks_for_the_migration_it_may_not_do(path: Path) -> None:
    with pytest.raises(OlderSchema, match="any command that writes to it"):
        open_readonly(path, migrations=(*MIGRATIONS, NEXT))


def test_reader_cannot_write_or_create(path: Path, tmp_path: Path) -> None:
    with open_readonly(path) as database, pytest.raises(ReadOnlyStore):
        database.record(WORKLOAD, candidate(), outcome())
    absent = tmp_path / "absent.sqlite"
    with pytest.raises(MissingStore, match="`autotune search FILE` creates it"):
        open_readonly(absent)
    assert not absent.exists()


@pytest.mark.parametrize("content", [b"this is no database, whatever its name says\n" * 40, b"\0" * 4096])
def test_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(content)
    for opened in (open_database, open_readonly):
        with pytest.raises(UnusableStore, match="cannot be used"):
            opened(path)
    assert path.read_bytes() == content


def test_truncated_file_is_an_error_and_no_crash(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:8192])
    with pytest.raises(UnusableStore), open_readonly(path) as database:
        database.outcomes()


def test_odd_file_names(tmp_path: Path) -> None:
    path = tmp_path / "a?b#c%d e.sqlite"
    open_database(path).close()
    assert path.exists()
    assert integrity(path) == "ok"


def test_directory_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "policies.sqlite"
    open_database(path).close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_read_only_directory_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with open_readonly(path) as database:
        assert len(database.outcomes()) == 1


MOUNTS = (
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "23 22 0:40 / /home rw,relatime shared:3 - nfs4 server:/home rw\n"
    "24 23 8:2 / /home/local\\040disk rw - xfs /dev/sdb1 rw\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/var/x", "ext4"), ("/home/me", "nfs4"), ("/home/local disk/me", "xfs"), ("/homes", "ext4")],
)
def test_file_system_of_the_deepest_mount(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


def test_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:40 / {tmp_path.resolve()} rw - nfs4 s:/h rw\n")
    monkeypatch.setattr(connection, "_MOUNTS", mounts)
    with pytest.raises(NetworkFileSystem, match=r"network file system \(nfs4\)"):
        open_database(tmp_path / "policies.sqlite")
    assert not (tmp_path / "policies.sqlite").exists()
