"""What `autotune search` does with the results of searches: exit codes, order, JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from autotune import tune
from autotune.cli.exits import ExitCode
from autotune.search.result import Ending, SearchResult, SecondsSpent
from autotune.search.space import JoinStatus

from .conftest import Command


@dataclass
class FakeSearch:
    """Stands in for the search: gives the endings in turn and notes what was asked."""

    endings: list[Ending]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, kernel: Any, shape: dict[str, float], target: Any, **options: Any) -> SearchResult:
        if not self.endings:
            raise KeyboardInterrupt
        title = f"{kernel.name}:{','.join(f'{k}={v}' for k, v in shape.items())}"
        self.asked.append({"title": title, "target": target.name, **options})
        return replace(RESULT, title=title, target=target.name, ending=self.endings.pop(0))


RESULT = SearchResult(
    title="",
    workload="w",
    target="",
    seed=0,
    ending=Ending.IMPROVED,
    winner=None,
    reference=None,
    model_first=None,
    tied=False,
    candidates=0,
    legal=0,
    join=JoinStatus.EXACT,
    trials=0,
    restored=0,
    counts=(),
    failures=(),
    refused=(),
    stopped_by=None,
    seconds=SecondsSpent(),
)
CODES = {
    Ending.IMPROVED: ExitCode.IMPROVED,
    Ending.REFERENCE_KEPT: ExitCode.REFERENCE_KEPT,
    Ending.NOTHING_LEGAL: ExitCode.NOTHING_LEGAL,
    Ending.NOTHING_CORRECT: ExitCode.NOTHING_CORRECT,
    Ending.COMPILED: ExitCode.COMPILED,
    Ending.NOTHING_COMPILED: ExitCode.NOTHING_COMPILED,
    Ending.INTERRUPTED: ExitCode.INTERRUPTED,
}


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> FakeSearch:
    fake = FakeSearch(endings=[Ending.IMPROVED] * 8)
    monkeypatch.setattr(tune, "search", fake)
    return fake


@pytest.mark.parametrize("ending", list(Ending))
def test_every_ending_has_an_exit_code(command: Command, row_sum: Path, searched: FakeSearch, ending: Ending) -> None:
    searched.endings = [ending]
    assert command("search", row_sum).code == CODES[ending]


def test_exit_codes_of_endings_are_distinct() -> None:
    assert len(set(CODES.values())) == len(CODES) == len(Ending)


def test_every_kernel_is_searched_at_every_shape_in_turn(
    command: Command, two_kernels: Path, searched: FakeSearch
) -> None:
    two_kernels.write_text(
        two_kernels.read_text().replace("@at.kernel\n", "@at.kernel(workloads=[dict(M=7, scale=2.5)])\n")
    )
    command("search", two_kernels)
    assert [asked["title"] for asked in searched.asked] == ["row_sum:M=3,N=5", "scaled:M=7,scale=2.5"]


def test_shapes_replace_the_workloads(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    command("search", row_sum, "--shape", "M=1,N=2", "--shape", "M=2,N=1")
    assert [asked["title"] for asked in searched.asked] == ["row_sum:M=1,N=2", "row_sum:M=2,N=1"]


def test_options_reach_the_search(command: Command, row_sum: Path, searched: FakeSearch, tmp_path: Path) -> None:
    command(
        "search", row_sum, "--budget", "2m", "--max-trials", 9, "--seed", 3, "--db", "x.db", "--target", "simd:sse2"
    )
    (asked,) = searched.asked
    assert (asked["budget_s"], asked["max_trials"], asked["seed"]) == (120.0, 9, 3)
    assert (asked["database"], asked["target"]) == (tmp_path / "x.db", "sse2")


def test_conditions_reach_the_search(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    command("search", row_sum, "--cold", "x, y", "--alignment", 16)
    command("search", row_sum)
    assert [(asked["cold"], asked["alignment_bytes"]) for asked in searched.asked] == [(("x", "y"), 16), ((), 64)]


def test_mechanisms_are_forbidden_and_allowed(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    command("search", row_sum, "--forbid", "chains", "--forbid", "copies", "--allow", "panels")
    (asked,) = searched.asked
    assert (asked["forbid"], asked["allow"]) == (("chains", "copies"), ("panels",))


def test_an_unknown_mechanism_lists_the_known(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    ran = command("search", row_sum, "--forbid", "magic")
    assert ran.code == ExitCode.BAD_INPUT and not searched.asked
    assert "'magic'" in ran.err and "register-blocks" in ran.err


def test_help_names_the_option(command: Command) -> None:
    assert "--forbid MECHANISM" in command("search", "--help").out


def test_what_was_forbidden_is_said(command: Command, row_sum: Path) -> None:
    ran = command("search", row_sum, "--forbid", "chains", "--max-trials", 2)
    assert "without chains" in ran.out
    document = json.loads(command("search", row_sum, "--forbid", "chains", "--max-trials", 2, "--json").out)
    assert "chains" in document["results"][0]["forbidden"]


def test_one_bad_outcome_decides_the_exit_code(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    searched.endings = [Ending.NOTHING_CORRECT, Ending.IMPROVED]
    ran = command("search", row_sum, "--shape", "M=1,N=2", "--shape", "M=2,N=1")
    assert ran.code == ExitCode.NOTHING_CORRECT
    assert len(searched.asked) == 2


def test_ctrl_c_ends_the_searches_that_follow_too(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    searched.endings = [Ending.INTERRUPTED, Ending.IMPROVED]
    ran = command("search", row_sum, "--shape", "M=1,N=2", "--shape", "M=2,N=1")
    assert ran.code == ExitCode.INTERRUPTED
    assert len(searched.asked) == 1
    assert "the same command continues" in ran.out


def test_ctrl_c_during_a_later_search_keeps_what_the_first_printed(
    command: Command, row_sum: Path, searched: FakeSearch
) -> None:
    searched.endings = [Ending.IMPROVED]
    ran = command("search", row_sum, "--shape", "M=1,N=2", "--shape", "M=2,N=1")
    assert ran.code == ExitCode.INTERRUPTED
    assert "row_sum:M=1,N=2 on simd:" in ran.out
    assert "Traceback" not in ran.err


def test_a_wrong_shape_stops_before_the_first_search(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    ran = command("search", row_sum, "--shape", "M=1,N=2", "--shape", "M=2")
    assert ran.code == ExitCode.BAD_INPUT
    assert searched.asked == []


def test_json_is_one_document_with_every_result(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    ran = command("search", row_sum, "--shape", "M=1,N=2", "--shape", "M=2,N=1", "--json")
    document = json.loads(ran.out)
    assert [result["title"] for result in document["results"]] == ["row_sum:M=1,N=2", "row_sum:M=2,N=1"]
    assert document["results"][0]["speedup"] is None


def test_quiet_prints_nothing(command: Command, row_sum: Path, searched: FakeSearch) -> None:
    ran = command("search", row_sum, "--quiet")
    assert (ran.out, ran.err) == ("", "")
