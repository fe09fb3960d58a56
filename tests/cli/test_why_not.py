"""`autotune why-not` names what stopped a choice, before a search and after one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.cli.exits import ExitCode

from .conftest import Command

ELSEWHERE = ("--target", "simd:avx2")
"""Enumerated alike on every machine."""


def _answer(command: Command, *arguments: object) -> tuple[str, dict[str, object]]:
    ran = command("why-not", *arguments, "--json")
    assert ran.code == ExitCode.IMPROVED, ran.err
    document = json.loads(ran.out)
    return document["verdict"], document["answer"]


def test_a_level_that_nothing_has_lists_the_levels_and_the_nearest(command: Command, row_sum: Path) -> None:
    ran = command("why-not", row_sum, "lanes=3", *ELSEWHERE)
    assert "no legal candidate has it" in ran.out
    assert "lanes can be 1, 4, 8, 16" in ran.out
    assert "the nearest that is legal: lanes=1 or lanes=4" in ran.out


def test_what_a_rule_refuses_is_told_with_the_rule(command: Command, row_sum: Path) -> None:
    ran = command("why-not", row_sum, "lanes=16", "--target", "simd:sse2")
    assert "no legal candidate has it" in ran.out
    assert "lanes-too-wide" in ran.out and "16 lanes of f32 take 4 vector registers" in ran.out


def test_what_is_legal_before_any_search_is_counted_and_predicted(command: Command, row_sum: Path) -> None:
    verdict, answer = _answer(command, row_sum, "lanes=8", *ELSEWHERE)
    assert verdict == "nothing with it was picked: the search ended before"
    assert answer["legal"] >= answer["in_set"] > 0  # type: ignore[operator]
    assert answer["predicted_ns"] > 0 and answer["winner"] is None  # type: ignore[operator]


def test_what_is_off_by_default_is_said(command: Command, row_sum: Path) -> None:
    assert _answer(command, row_sum, "uses=panels", *ELSEWHERE)[0] == "off by default: panels (--allow tries it)"


def test_after_a_search_the_clock_answers(command: Command, row_sum: Path) -> None:
    assert command("search", row_sum, "--max-trials", 12, "--quiet").code in (0, 3)
    best = json.loads(command("show", row_sum, "--json").out)
    column = any(mapping["lanes"] > 1 and mapping["axis"] == 0 for _, mapping in best["content"]["mapping"])
    here, there = ("column", "row") if column else ("row", "column")
    verdict, answer = _answer(command, row_sum, f"mapping={here}")
    assert verdict == f"the winner {best['id']} has it" and answer["winner"] == best["id"]
    verdict, answer = _answer(command, row_sum, f"mapping={there}")
    assert not answer["has_it"] and (answer["tried"] is not None) == verdict.startswith("measured: the fastest")


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("lanes", "the condition 'lanes' cannot be read"),
        ("warps=4", "no candidate has a choice called 'warps'"),
        ("uses=magic", "no mechanism is called 'magic'"),
    ],
)
def test_what_cannot_be_asked_is_bad_input(command: Command, row_sum: Path, condition: str, said: str) -> None:
    ran = command("why-not", row_sum, condition)
    assert ran.code == ExitCode.BAD_INPUT and said in ran.err
