"""The command on a target that this machine cannot run: what can be seen without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.cli.exits import ExitCode
from autotune.jit import can_run
from autotune.realizations.targets import TARGET_NAMES, named_target

from .conftest import Command

FOREIGN = next(name for name in TARGET_NAMES if not can_run(named_target(name)))
TARGET = ("--target", f"simd:{FOREIGN}")


def test_a_search_compiles_and_says_why_nothing_was_measured(command: Command, row_sum: Path, tmp_path: Path) -> None:
    ran = command("search", row_sum, *TARGET)
    assert ran.code == ExitCode.COMPILED
    assert f"compiled, not measured: this machine cannot run code for simd:{FOREIGN}, so nothing was run" in ran.out
    assert "row_sum:M=3,N=5: compile" in ran.err
    assert not (tmp_path / "policies.sqlite").exists()


def test_what_a_search_lists_can_be_shown_and_explained(command: Command, row_sum: Path) -> None:
    (result,) = json.loads(command("search", row_sum, *TARGET, "--max-trials", 2, "--json").out)["results"]
    assert (result["ending"], result["winner"]) == ("compiled, not measured", None)
    reference, best = result["compiled"]
    assert reference["reference"] and best["code_bytes"] > 0 and best["compile_seconds"] > 0

    shown = command("show", row_sum, best["id"], *TARGET, "--as", "asm")
    assert shown.code == ExitCode.IMPROVED
    assert "entry:" in shown.out
    explained = command("explain", row_sum, best["id"], *TARGET)
    assert explained.code == ExitCode.IMPROVED
    assert best["id"] in explained.out and "tried:     never" in explained.out


def test_the_space_is_counted(command: Command, row_sum: Path) -> None:
    ran = command("space", row_sum, *TARGET)
    assert ran.code == ExitCode.IMPROVED
    assert f"row_sum:M=3,N=5 on simd:{FOREIGN}" in ran.out


@pytest.mark.parametrize("verb", ["show", "explain"])
def test_without_a_candidate_it_is_said_that_there_can_be_no_winner(command: Command, row_sum: Path, verb: str) -> None:
    ran = command(verb, row_sum, *TARGET)
    assert ran.code == ExitCode.NOTHING_STORED
    assert "this machine cannot run its code, so nothing was measured" in ran.err
    assert "name `reference`, or an id that autotune search" in ran.err


def test_an_id_that_no_candidate_of_the_set_has_is_refused(command: Command, row_sum: Path) -> None:
    ran = command("show", row_sum, "0123456789ab", *TARGET)
    assert ran.code == ExitCode.BAD_INPUT
    assert "candidate '0123456789ab': no candidate" in ran.err
