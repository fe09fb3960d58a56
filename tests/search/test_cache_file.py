"""What was enumerated before is read back as it was, and nothing that cannot be trusted is read."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.calibration.prior import prior
from autotune.realizations.mechanisms import OFF_BY_DEFAULT
from autotune.realizations.targets import named_target
from autotune.search import cache_file, families
from autotune.search.cache_file import CacheFile, cached
from autotune.search.families import Family, all_families, families_of
from autotune.search.join import search_set
from autotune.search.tables import Tables
from tests.conformance.cases import bound

_TARGET = named_target("avx2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "enumerated.sqlite"


def _written(path: Path, name: bytes = b"name", entry: object = 7) -> None:
    with cached(path, _TARGET) as file:
        assert file is not None
        file.add(name, entry)


def _read(path: Path, name: bytes = b"name") -> object:
    file = CacheFile(path, _TARGET)
    try:
        return file.find(name)
    finally:
        file.close()


def _rows(found: list[Family]) -> int:
    return sum(len(table) for family in found for table in family.tables)


def _never(*_: object) -> None:
    raise AssertionError("enumerated again")


def test_families_come_back_as_they_were(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, prices = bound("attention", "B=1,Hq=2,Hkv=1,Q=3,K=17,D=8,Dv=8").program, prior(_TARGET)
    with cached(path, _TARGET) as file:
        made, refused = all_families(program, _TARGET, prices, OFF_BY_DEFAULT, file)
    monkeypatch.setattr(families, "families_of", _never)
    with cached(path, _TARGET) as file:
        again, refused_again = all_families(program, _TARGET, prices, OFF_BY_DEFAULT, file)
    assert again == made and len(made) > 10
    assert refused_again.table() == refused.table()


def test_a_search_set_is_the_same_with_a_file_and_without(path: Path) -> None:
    program, prices = bound("softmax", "M=5,N=13").program, prior(_TARGET)
    without = search_set(program, _TARGET, prices)
    for _ in range(2):
        found = search_set(program, _TARGET, prices, cache=path)
        assert found.candidates == without.candidates
        assert np.array_equal(found.prior_ns, without.prior_ns) and np.array_equal(found.origin, without.origin)
        assert (found.legal_count, found.refused) == (without.legal_count, without.refused)


def test_other_prices_and_other_mechanisms_are_other_questions(path: Path) -> None:
    program, prices = bound("softmax", "M=5,N=13").program, prior(_TARGET)
    dear = replace(prices, event_ns=tuple(2 * ns for ns in prices.event_ns))
    found = []
    for asked, forbidden in ((prices, OFF_BY_DEFAULT), (dear, OFF_BY_DEFAULT), (prices, frozenset({"chains"}))):
        with cached(path, _TARGET) as file:
            found.append(all_families(program, _TARGET, asked, forbidden, file)[0])
        assert found[-1] == list(families_of(program, _TARGET, Tables(_TARGET, asked, forbidden=forbidden)))
    plain, dearer, fewer = found
    assert dearer != plain and _rows(fewer) < _rows(plain)


def test_entries_of_other_code_are_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _written(path)
    assert _read(path) == 7 and _read(path, b"another") is None
    monkeypatch.setattr(cache_file, "code_digest", lambda: b"other code")
    assert _read(path) is None


def test_a_damaged_entry_is_not_read(path: Path) -> None:
    _written(path)
    with sqlite3.connect(path) as connection:
        data = bytearray(connection.execute("SELECT data FROM entry").fetchone()[0])
        data[-1] ^= 1
        connection.execute("UPDATE entry SET data = ?", (bytes(data),))
    assert _read(path) is None


@pytest.mark.parametrize("content", [b"no database at all" * 100, None])
def test_a_file_of_another_kind_is_left_alone_with_a_note(
    path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    if content is None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE theirs (x)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with caplog.at_level(logging.WARNING):
        _written(path)
        assert _read(path) is None
    assert path.read_bytes() == before and "is not used" in caplog.text


def test_a_file_that_grew_too_large_starts_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _written(path)
    monkeypatch.setattr(cache_file, "MAX_BYTES", 1)
    _written(path, b"another", 8)
    assert _read(path) is None and _read(path, b"another") == 8
