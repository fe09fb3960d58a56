"""The file of counted nests: content-addressed, per target and code version, ignored where it cannot be trusted.
Must not know what a nest is or when it is counted."""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from autotune.ir.serial import to_json
from autotune.realizations.builder import LoopName, Steps
from autotune.realizations.events import EVENT_COUNT, Event
from autotune.realizations.tally import Part, Tally
from autotune.realizations.target import Target

COUNT_VERSION = 2  # raised whenever a nest is written or counted in another way
MAX_ENTRIES = 500_000
BUSY_TIMEOUT_S = 0.5
_APPLICATION = 0x61_74_63_74
_log = logging.getLogger(__name__)


def fingerprint(target: Target) -> bytes:
    """What a count holds for beside its nest: the target, the events and how they are counted."""
    text = json.dumps([COUNT_VERSION, [event.name for event in Event], to_json(target)], sort_keys=True)
    return blake2b(text.encode(), digest_size=16).digest()


class TallyFile:
    """Reads single counts as they are asked for and adds new ones at the end, in one transaction.

    Only data is read. A file of another program or with a damaged page is left alone, with a note; an entry whose check
    sum is wrong is counted again.
    """

    def __init__(self, path: Path, target: Target) -> None:
        self.path = path
        self._prefix = fingerprint(target)
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
                _log.warning("%s is not used: it is not a file of counts", self.path)
                return None
            if not tables:
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS tally (key BLOB PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID"
                )
            connection.execute("PRAGMA synchronous = OFF")
            return connection
        return None

    def find(self, name: bytes) -> Tally | None:
        """The count of that name, if the file has it and it is whole."""
        if self._connection is None:
            return None
        key = self._key(name)
        with self._noted("is not used any more"):
            row = self._connection.execute("SELECT data FROM tally WHERE key = ?", (key,)).fetchone()
            return None if row is None else _decoded(key, row[0])
        self._connection = None
        return None

    def add(self, name: bytes, made: Tally) -> None:
        """Keep a count until `save`."""
        key = self._key(name)
        self._new[key] = _encoded(key, made)

    def save(self) -> None:
        """Write the new counts; another process that writes at the same time writes equal ones."""
        if self._connection is None or not self._new:
            return
        with self._noted("was not written"):
            self._connection.execute("BEGIN IMMEDIATE")
            kept = int(self._connection.execute("SELECT count(*) FROM tally").fetchone()[0])
            if kept + len(self._new) > MAX_ENTRIES:
                self._connection.execute("DELETE FROM tally")
            self._connection.executemany("INSERT OR REPLACE INTO tally VALUES (?, ?)", self._new.items())
            self._connection.execute("COMMIT")
            self._new.clear()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _key(self, name: bytes) -> bytes:
        return blake2b(self._prefix + name, digest_size=16).digest()

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """A file that fails costs time, never a search."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            _log.warning("the file of counts %s %s: %s", self.path, what, error)


@contextmanager
def counted(path: Path | None, target: Target) -> Iterator[TallyFile | None]:
    """The file of counts at a path, saved and closed at the end; None without a path."""
    if path is None:
        yield None
        return
    file = TallyFile(path, target)
    try:
        yield file
        file.save()
    finally:
        file.close()


def _sum(key: bytes, text: bytes) -> bytes:
    return blake2b(key + text, digest_size=8).digest()


def _encoded(key: bytes, made: Tally) -> bytes:
    parts = [
        [
            part.level,
            [[name.axis, name.steps.value, name.factor, name.lanes] for name in part.loops],
            [[event, times] for event, times in enumerate(part.counts) if times],
        ]
        for part in made.parts
    ]
    text = json.dumps([made.instructions, parts], separators=(",", ":")).encode()
    return _sum(key, text) + text


def _decoded(key: bytes, data: object) -> Tally | None:
    """The count in an entry, None where it is not what was written under its key."""
    if not isinstance(data, bytes) or data[:8] != _sum(key, data[8:]):
        return None
    try:
        instructions, parts = json.loads(data[8:])
        return Tally(parts=tuple(_part(part) for part in parts), instructions=int(instructions))
    except (ValueError, TypeError, IndexError):
        return None


def _part(data: list[list[list[float]]]) -> Part:
    level, loops, sparse = data
    counts = [0.0] * EVENT_COUNT
    for event, times in sparse:
        counts[int(event)] = float(times)
        if not math.isfinite(counts[int(event)]):
            raise ValueError(times)
    names = tuple(LoopName(int(a), Steps(steps), int(factor), int(lanes)) for a, steps, factor, lanes in loops)
    return Part(level=int(level), loops=names, counts=tuple(counts))  # type: ignore[call-overload]
