"""The verbs that read, with an empty store."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import networkx
import pytest

from autotune import __version__
from autotune.cli.exits import ExitCode
from autotune.realizations.targets import TARGET_NAMES

from .conftest import Command


def test_the_version_is_that_of_the_package(command: Command) -> None:
    ran = command("--version")
    assert (ran.code, ran.out) == (ExitCode.IMPROVED, f"autotune {__version__}\n")


def test_targets_lists_every_target_and_marks_one_as_default(command: Command) -> None:
    ran = command("targets")
    assert ran.code == ExitCode.IMPROVED
    assert [line.split()[0] for line in ran.out.splitlines() if line.startswith("simd")] == [
        f"simd:{name}" for name in TARGET_NAMES
    ]
    assert ran.out.count("default") == 1


def test_targets_as_json(command: Command) -> None:
    document = json.loads(command("targets", "--json").out)
    assert [target["name"] for target in document["targets"]] == list(TARGET_NAMES)
    runs_here = {target["name"] for target in document["targets"] if target["runs_here"]}
    assert document["default"] in runs_here


def test_best_says_why_there_is_no_policy(command: Command, row_sum: Path, tmp_path: Path) -> None:
    ran = command("best", row_sum)
    assert ran.code == ExitCode.NOTHING_STORED
    assert "row_sum:M=3,N=5 on simd:" in ran.out
    assert f"no policy: there is no database at {tmp_path / 'policies.sqlite'}" in ran.out


def test_best_as_json_says_the_same(command: Command, row_sum: Path) -> None:
    ran = command("best", row_sum, "--json")
    assert ran.code == ExitCode.NOTHING_STORED
    (policy,) = json.loads(ran.out)["policies"]
    assert policy["answer"]["type"] == "NoPolicy"
    assert "there is no database" in policy["answer"]["why"]


@pytest.mark.parametrize("verb", ["show", "explain", "verify"])
def test_a_winner_that_is_not_stored_ends_with_its_own_code(command: Command, row_sum: Path, verb: str) -> None:
    ran = command(verb, row_sum)
    assert ran.code == ExitCode.NOTHING_STORED
    assert "error: no policy for row_sum:M=3,N=5 on simd:" in ran.err
    assert f"write autotune search {row_sum} --shape M=3,N=5" in ran.err


def test_reading_creates_no_store(command: Command, row_sum: Path, tmp_path: Path) -> None:
    command("best", row_sum)
    assert list(tmp_path.glob("*.sqlite*")) == []


def test_the_program_is_symbolic_until_a_shape_is_given(command: Command, row_sum: Path) -> None:
    symbolic = command("show", row_sum, "--as", "program")
    bound = command("show", row_sum, "--as", "program", "--shape", "M=3,N=5")
    assert "f32[M, N]" in symbolic.out
    assert "f32[3, 5]" in bound.out


def test_the_graph_has_text_and_json(command: Command, row_sum: Path) -> None:
    text = command("graph", row_sum)
    assert "reduction sum" in text.out
    graph = networkx.node_link_graph(json.loads(command("graph", row_sum, "--json").out), edges="edges")
    assert graph.number_of_nodes() == len([line for line in text.out.splitlines() if line.startswith("p")])
    assert command("show", row_sum, "--as", "graph").out == text.out


def test_the_graph_of_a_bound_program_has_sizes(command: Command, row_sum: Path) -> None:
    assert "20 bytes" in command("graph", row_sum, "--shape", "M=3,N=5").out


@pytest.mark.parametrize("verb", ["search", "best", "show", "explain", "space", "graph", "verify", "targets"])
def test_every_verb_explains_itself(command: Command, verb: str) -> None:
    ran = command(verb, "--help")
    assert ran.code == ExitCode.IMPROVED
    assert f"Usage: autotune {verb}" in ran.out
    assert "--json" in ran.out


def test_the_graph_can_be_drawn(command: Command, row_sum: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ran = command("graph", row_sum, "--out", "graph.svg")
    assert (ran.code, ran.out) == (ExitCode.IMPROVED, "drawn to graph.svg\n")
    assert "<svg" in (tmp_path / "graph.svg").read_text()


def test_drawing_without_matplotlib_says_what_to_install(
    command: Command, row_sum: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = command("graph", row_sum, "--out", "graph.svg")
    assert ran.code == ExitCode.BAD_INPUT
    assert "write pip install 'autotune-kernels[plot]', or leave --out away for the text form" in ran.err
