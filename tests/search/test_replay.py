"""Golden tables read back as they were written, and regret is what its definition says."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.measure.states import State
from autotune.realizations.candidate import Candidate
from autotune.search.recording import Entry, Recording, UnreadableRecording, read_recording, write_recording
from autotune.search.replay import Board, Replay, replay, score
from autotune.search.strategies import STRATEGIES


@pytest.fixture(scope="module")
def recording(candidates: list[Candidate]) -> Recording:
    random = np.random.default_rng(4)
    entries = tuple(
        Entry(
            candidate=candidate,
            prior_ns=float(random.uniform(100, 200)),
            state=State.CRASH if number == 3 else State.MEASURED,
            first_ns=None if number == 3 else float(random.uniform(100, 200)),
            second_ns=None if number == 3 else float(random.uniform(100, 200)),
            compile_seconds=None if number == 3 else 0.1,
            code_bytes=None if number == 3 else 1000,
        )
        for number, candidate in enumerate(candidates[::40])
    )
    return Recording(about={"case": "row:M=5", "only": ["lanes=8"]}, entries=entries, reference=1)


def test_a_table_reads_back_as_it_was_written(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / "row.jsonl.gz"
    write_recording(path, recording)
    found = read_recording(path)
    assert (found.entries, found.about, found.reference) == (recording.entries, recording.about, recording.reference)
    before = path.read_bytes()
    write_recording(path, found)
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["row.jsonl.gz"]


def _damaged(data: bytes, how: str) -> bytes:
    lines = gzip.decompress(data).decode().splitlines()
    head = json.loads(lines[0])
    match how:
        case "cut":
            return data[: len(data) // 2]
        case "not gzip":
            return b"{}"
        case "other format":
            lines[0] = json.dumps({**head, "format": 99})
        case "no such reference":
            lines[0] = json.dumps({**head, "reference": 10**6})
        case "no candidate":
            lines[2] = json.dumps({"prior_ns": 1.0})
    return gzip.compress("\n".join(lines).encode())


@pytest.mark.parametrize("how", ["cut", "not gzip", "other format", "no such reference", "no candidate"])
def test_what_is_no_table_is_an_error_that_names_the_file(recording: Recording, tmp_path: Path, how: str) -> None:
    path = tmp_path / "row.jsonl.gz"
    write_recording(path, recording)
    path.write_bytes(_damaged(path.read_bytes(), how))
    with pytest.raises(UnreadableRecording, match=r"row\.jsonl\.gz is no golden table"):
        read_recording(path)


def test_a_missing_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRecording, match="No such file"):
        read_recording(tmp_path / "none.jsonl.gz")


def _replay(board: Board, rows: list[int]) -> Replay:
    return Replay(board=board, rows=np.array(rows))


def test_regret_is_chosen_by_the_first_pass_and_read_from_the_second(recording: Recording) -> None:
    board = Board.of(recording)
    first = np.full(len(board.matrix), 50.0)
    first[[5, 6, 7]] = 10.0, 12.0, 11.0
    second = np.full(len(board.matrix), 50.0)
    second[[5, 6, 7]] = 20.0, 10.0, 25.0
    board = replace(board, first_ns=first, second_ns=second)
    assert _replay(board, [6, 7, 5]).regret(1) == 0.0
    assert _replay(board, [6, 7, 5]).regret(2) == pytest.approx(25 / 20 - 1)
    assert _replay(board, [6, 7, 5]).regret(3) == 0.0
    assert _replay(board, [6, 7, 5]).measurements_to(0.05) == 3
    assert _replay(board, [6, 7, 5]).measurements_to(0.10) == 2
    assert _replay(board, [1, 2]).measurements_to() == np.inf
    assert score([_replay(board, [6]), _replay(board, [5]), _replay(board, [7])], 1).median == 0.0


def test_a_failed_candidate_is_no_best(recording: Recording) -> None:
    board = Board.of(recording)
    assert np.isinf(board.first_ns[3])
    assert _replay(board, [3]).regret(1) == np.inf
    assert np.isfinite(_replay(board, [3, 4]).regret(2))


@pytest.mark.parametrize("name", ["lcb", "random"])
def test_a_replay_starts_with_the_reference_and_repeats_nothing(recording: Recording, name: str) -> None:
    board = Board.of(recording)
    found = replay(board, STRATEGIES[name], 3, 60)
    assert found.rows[:2].tolist() == [board.reference, int(np.argmin(board.prior_ns))]
    assert len(set(found.rows.tolist())) == 60
    assert np.array_equal(found.rows, replay(board, STRATEGIES[name], 3, 60).rows)
    assert len(replay(board, STRATEGIES[name], 3, 10**6).rows) == len(board.matrix)
