"""One real search of a tiny kernel, and every verb that reads what it stored."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.cli.exits import ExitCode
from autotune.cli.show import Form

from .conftest import ROW_SUM, Command

TRIALS = "4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a kernel file, the store that one search of it left, and what the search printed."""
    path = tmp_path_factory.mktemp("road")
    (path / "row_sum.py").write_text(ROW_SUM)
    root = Path(__file__).resolve().parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from autotune.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "search", "row_sum.py", "--max-trials", TRIALS],
        cwd=path,
        env={**os.environ, "AUTOTUNE_DATABASE": str(path / "policies.sqlite")},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert ran.returncode in (ExitCode.IMPROVED, ExitCode.REFERENCE_KEPT), ran.stderr
    (path / "search.txt").write_text(ran.stdout)
    (path / "progress.txt").write_text(ran.stderr)
    return path


@pytest.fixture
def after(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command beside the store of that search."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("AUTOTUNE_DATABASE", str(folder / "policies.sqlite"))
    return command


def winner(after: Command) -> str:
    (policy,) = json.loads(after("best", "row_sum.py", "--json").out)["policies"]
    assert policy["answer"]["type"] == "Policy"
    return str(policy["answer"]["outcome"]["candidate"])


def test_a_search_ends_with_reference_winner_states_and_seconds(folder: Path) -> None:
    text = (folder / "search.txt").read_text()
    for part in (
        "row_sum:M=3,N=5 on simd:",
        "noise floor",
        "reference",
        "winner",
        "candidates by state",
        "4 trials",
        "measuring",
    ):
        assert part in text


def test_progress_is_plain_lines_on_standard_error(folder: Path) -> None:
    lines = (folder / "progress.txt").read_text().splitlines()
    assert lines[0] == "row_sum:M=3,N=5: trace"
    assert any("the limit of 4 trials is reached" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_the_same_search_again_measures_nothing(after: Command) -> None:
    ran = after("search", "row_sum.py", "--max-trials", TRIALS, "--json")
    (result,) = json.loads(ran.out)["results"]
    assert result["trials"] == result["restored"] == int(TRIALS)
    assert result["winner"]["id"] == winner(after)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flushes lines by an instruction of x86-64")
def test_what_was_measured_cold_is_another_record(after: Command) -> None:
    hot = winner(after)
    assert after("best", "row_sum.py", "--cold", "x").code == ExitCode.NOTHING_STORED
    ran = after("search", "row_sum.py", "--cold", "x", "--alignment", "16", "--max-trials", "2")
    assert ran.code in (ExitCode.IMPROVED, ExitCode.REFERENCE_KEPT), ran.err
    assert "timed with x in no cache when a call starts" in ran.out
    assert "timed with tensors at multiples of 16 bytes only" in ran.out
    assert after("best", "row_sum.py", "--cold", "x").code == ExitCode.NOTHING_STORED  # at the other alignment
    (policy,) = json.loads(after("best", "row_sum.py", "--cold", "x", "--alignment", "16", "--json").out)["policies"]
    assert policy["title"].endswith(", x cold, 16-byte aligned") and policy["answer"]["type"] == "Policy"
    assert winner(after) == hot


def test_best_shows_the_winner_and_its_speed_up(after: Command) -> None:
    ran = after("best", "row_sum.py")
    assert ran.code == ExitCode.IMPROVED
    assert winner(after) in ran.out
    assert "x " in ran.out


@pytest.mark.parametrize("form", list(Form))
def test_every_form_can_be_shown_as_text_and_json(after: Command, form: Form) -> None:
    text = after("show", "row_sum.py", "--as", form.value)
    assert text.code == ExitCode.IMPROVED, text.err
    assert text.out.strip()
    assert json.loads(after("show", "row_sum.py", "--as", form.value, "--json").out)


def test_code_can_be_shown_for_a_target_that_does_not_run_here(after: Command) -> None:
    ran = after("show", "row_sum.py", "reference", "--as", "asm", "--target", "simd:neon")
    assert ran.code == ExitCode.IMPROVED, ran.err
    assert "ret" in ran.out


def test_explain_gives_path_terms_and_time_of_the_winner(after: Command) -> None:
    ran = after("explain", "row_sum.py")
    for part in (f"{winner(after)} (winner", "judged:    legal", "predicted:", "measured at", "Candidates tried"):
        assert part in ran.out


def test_explain_finds_a_candidate_by_its_first_digits(after: Command) -> None:
    document = json.loads(after("explain", "row_sum.py", winner(after)[:6], "--json").out)
    assert document["id"] == winner(after)
    assert "winner" in document["roles"]
    assert document["verdict"] == {"legal": True, "reasons": []}
    assert document["predicted_ns"] == pytest.approx(sum(term["ns"] for term in document["terms"]))
    assert document["outcomes"]


def test_explain_knows_the_reference_by_name(after: Command) -> None:
    ran = after("explain", "row_sum.py", "reference")
    assert "(reference" in ran.out or "reference)" in ran.out


def test_verify_checks_winner_and_reference(after: Command) -> None:
    ran = after("verify", "row_sum.py", "--json")
    checks = json.loads(ran.out)["checks"]
    assert ran.code == ExitCode.IMPROVED
    assert checks[0]["role"] == "winner"
    assert all(check["right"] for check in checks)


def test_space_counts_legal_candidates_and_refusals(after: Command) -> None:
    ran = after("space", "row_sum.py", "--json")
    (space,) = json.loads(ran.out)["spaces"]
    assert space["legal"] >= space["candidates"] > 1
    assert all(rule["count"] > 0 and rule["sentence"] for rule in space["refused"])
