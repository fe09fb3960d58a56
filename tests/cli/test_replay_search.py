"""`autotune replay-search` plays strategies on tables and says what is wrong with a file that is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.cli.exits import ExitCode
from autotune.measure.states import State
from autotune.realizations.targets import named_target
from autotune.search.recording import Entry, Recording, write_recording
from tests.conformance.cases import bound, families

from .conftest import Command


@pytest.fixture
def table(tmp_path: Path) -> Path:
    found, _ = families(bound("rmsnorm", "M=5,N=13"), named_target("avx2"))
    entries = tuple(
        Entry(
            candidate=family.candidate([0] * len(family.tables)),
            prior_ns=100.0 + number,
            state=State.MEASURED,
            first_ns=100.0 + 7 * number % 50,
            second_ns=100.0 + 7 * number % 50,
            compile_seconds=0.1,
            code_bytes=100,
        )
        for number, family in enumerate(found)
    )
    path = tmp_path / "rmsnorm.jsonl.gz"
    write_recording(path, Recording(about={"case": "rmsnorm:M=5,N=13"}, entries=entries, reference=0))
    return path


def test_strategies_are_played_on_a_table(command: Command, table: Path) -> None:
    ran = command("replay-search", table, "--strategy", "random", "--strategy", "model-order", "--seeds", 3)
    assert ran.code == ExitCode.IMPROVED
    assert all(text in ran.out for text in ("rmsnorm:M=5,N=13", "random", "model-order", "regret at 32", "3 seeds"))
    document = json.loads(command("replay-search", table, "--seeds", 2, "--json").out)
    (played,) = document["replays"]
    assert (played["strategy"], played["seeds"]) == ("lcb", 2)
    assert [each["n"] for each in played["scores"]] == [16, 32, 64]


def test_what_is_wrong_is_bad_input(command: Command, table: Path, tmp_path: Path) -> None:
    ran = command("replay-search", tmp_path / "none.jsonl.gz")
    assert ran.code == ExitCode.BAD_INPUT and "is no golden table" in ran.err
    ran = command("replay-search", table, "--strategy", "greedy")
    assert ran.code == ExitCode.BAD_INPUT and "no search strategy is called 'greedy'" in ran.err
