"""The file of what enumeration worked out before: content-addressed, per code and target, ignored where damaged.
Must not know what an entry means or when it is made."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path

from autotune.ir.serial import Json, to_json
from autotune.realizations.target import Target

MAX_BYTES = 256 << 20
BUSY_TIMEOUT_S = 0.5
_APPLICATION = 0x61_74_65_6E
_COMPRESSION = 1
_DECIDING = ("ir", "realizations", "calibration", "search")
"""Packages beside this one whose code decides what an entry says."""
_log = logging.getLogger(__name__)


@cache
def code_digest() -> bytes:
    """A digest of the source of every package that decides what an entry says."""
    digest = blake2b(digest_size=16)
    for package in _DECIDING:
        for path in sorted((Path(__file__).parent.parent / package).rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.digest()


class CacheFile:
    """Reads single entries as they are asked for and adds new ones at the end, in one transaction.

    Only data is read. A file of another program or with a damaged page is left alone, with a note; an entry whose check
    sum is wrong is made again. Entries of other code are dropped when the file grows beyond MAX_BYTES, with all others.
    """

    def __init__(self, path: Path, target: Target) -> None:
        self.path = path
        self._prefix = code_digest() + json.dumps(to_json(target), sort_keys=True).encode()
        self._new: dict[bytes, bytes] = {}
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection | None:
        with self._noted("is not used"):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
            connection = sqlite3.connect(self.path, isolation_level=None, timeout=BUSY_TIMEOUT_S)
            application = int(connection.execute("PRAGMA application_id").fetchone()[0])
            tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
            if tables and application != _APPLICATION:
                connection.close()
                _log.warning("%s is not used: it is not such a file", self.path)
                return None
            if not tables:
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("CREATE TABLE IF NOT EXISTS entry (key BLOB PRIMARY KEY, data BLOB NOT NULL)")
            connection.execute("PRAGMA synchronous = OFF")
            return connection
        return None

    def find(self, name: bytes) -> Json:
        """The entry of that name, None if the file lacks it or it is not whole."""
        if self._connection is None:
            return None
        key = self._key(name)
        with self._noted("is not used any more"):
            row = self._connection.execute("SELECT data FROM entry WHERE key = ?", (key,)).fetchone()
            return None if row is None else _decoded(key, row[0])
        self._connection = None
        return None

    def add(self, name: bytes, entry: Json) -> None:
        """Keep an entry until `save`."""
        key = self._key(name)
        self._new[key] = _encoded(key, entry)

    def save(self) -> None:
        """Write the new entries; another process that writes at the same time writes equal ones."""
        if self._connection is None or not self._new:
            return
        with self._noted("was not written"):
            self._connection.execute("BEGIN IMMEDIATE")
            if self._bytes() + sum(len(data) for data in self._new.values()) > MAX_BYTES:
                self._connection.execute("DELETE FROM entry")
            self._connection.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?)", self._new.items())
            self._connection.execute("COMMIT")
            self._new.clear()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _bytes(self) -> int:
        """Bytes of the pages in use."""
        assert self._connection is not None
        pages, free, size = (
            int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def _key(self, name: bytes) -> bytes:
        return blake2b(self._prefix + name, digest_size=16).digest()

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """A file that fails costs time, never a search."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            _log.warning("the cache %s %s: %s", self.path, what, error)


@contextmanager
def cached(path: Path | None, target: Target) -> Iterator[CacheFile | None]:
    """The cache at a path, saved and closed at the end; None without a path."""
    if path is None:
        yield None
        return
    file = CacheFile(path, target)
    try:
        yield file
        file.save()
    finally:
        file.close()


def _sum(key: bytes, text: bytes) -> bytes:
    return blake2b(key + text, digest_size=8).digest()


def _encoded(key: bytes, entry: Json) -> bytes:
    text = zlib.compress(json.dumps(entry, separators=(",", ":")).encode(), _COMPRESSION)
    return _sum(key, text) + text


def _decoded(key: bytes, data: object) -> Json:
    """What an entry holds, None where it is not what was written under its key."""
    if not isinstance(data, bytes) or data[:8] != _sum(key, data[8:]):
        return None
    return json.loads(zlib.decompress(data[8:]))
