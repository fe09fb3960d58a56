"""Export and import: everything, once, or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.store.database import open_database
from autotune.store.errors import ConflictingRecord, MalformedExport
from autotune.store.exchange import export_lines, import_lines
from autotune.store.records import SearchStatus
from tests.store.samples import WORKLOAD, candidate, outcome, refusal, search, workload


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    started = search()
    with open_database(tmp_path / "source.sqlite") as database:
        database.begin_search(WORKLOAD, started)
        database.record(WORKLOAD, candidate(), outcome(search=started.uuid))
        database.record(WORKLOAD, candidate(8), refusal(what=candidate(8)))
        database.record(workload(threads=2), candidate(), outcome(workload(threads=2), samples_ns=(1.5, 2.5)))
        return list(export_lines(database))


def test_round_trip_keeps_every_record_and_the_policies(lines: list[str], tmp_path: Path) -> None:
    with open_database(tmp_path / "copy.sqlite") as copy, open_database(tmp_path / "source.sqlite") as source:
        assert import_lines(copy, lines) == 3
        assert list(export_lines(copy)) == lines
        assert copy.policies() == source.policies()
        kept = copy.policies()
        copy.rebuild_policies()
        assert copy.policies() == kept


def test_second_import_adds_nothing(lines: list[str], tmp_path: Path) -> None:
    with open_database(tmp_path / "copy.sqlite") as copy:
        import_lines(copy, lines)
        assert import_lines(copy, lines) == 0
        assert list(export_lines(copy)) == lines


def test_import_closes_a_search_that_was_running(lines: list[str], tmp_path: Path) -> None:
    with open_database(tmp_path / "copy.sqlite") as copy:
        import_lines(copy, lines)
        with open_database(tmp_path / "source.sqlite") as source:
            (started,) = source.searches()
            source.finish_search(started.uuid, SearchStatus.FINISHED, 1_790_000_090.0)
            import_lines(copy, export_lines(source))
        assert copy.searches() == (replace(started, status=SearchStatus.FINISHED, finished=1_790_000_090.0),)


def test_conflicting_import_changes_nothing(lines: list[str], tmp_path: Path) -> None:
    changed = [*lines[:-1], lines[-1].replace('"code_bytes":512', '"code_bytes":513')]
    assert changed != lines
    with open_database(tmp_path / "source.sqlite") as source:
        before = source.outcomes()
        with pytest.raises(ConflictingRecord, match="stored already"):
            import_lines(source, changed)
        assert source.outcomes() == before


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda lines: lines[1:], "line 1: the first line names no format"),
        (lambda lines: [lines[0].replace('"version":1', '"version":9')], "has version 9"),
        (lambda lines: [*lines[:-1], lines[-1][:50]], "line {last}: "),
        (lambda lines: [*lines, '{"type":"Secret"}'], "expected one of Workload, Candidate, Search, Outcome"),
        (lambda lines: [*lines, '{"type":"Outcome"}'], "expected the fields uuid"),
        (lambda lines: [*lines, lines[-1].replace('"measured"', '"guessed"')], "'guessed'"),
    ],
)
def test_malformed_file_is_refused_whole(lines: list[str], tmp_path: Path, spoil: object, words: str) -> None:
    spoiled = spoil(lines)  # type: ignore[operator]
    with open_database(tmp_path / "copy.sqlite") as copy:
        with pytest.raises(MalformedExport, match=words.format(last=len(lines))):
            import_lines(copy, spoiled, source="records.jsonl")
        assert copy.outcomes() == ()
