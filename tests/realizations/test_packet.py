"""The decision on a full clone follows the two budgets, and every decision but two is a refusal or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.realizations.candidate import Clones
from autotune.realizations.packet import CloneDecision, decide, refuse
from autotune.realizations.targets import named_target

_TARGET = replace(named_target("avx2"), clone_budget_instructions=100, source_budget_instructions=200)


@pytest.mark.parametrize(
    ("clones", "partial", "general", "full", "decision", "rules"),
    [
        (Clones.GENERAL, True, 200, 0, CloneDecision.NOT_REQUESTED, []),
        (Clones.GENERAL, True, 201, 0, CloneDecision.NOT_REQUESTED, ["over-source-budget"]),
        (Clones.FULL, False, 10, 10, CloneDecision.INELIGIBLE, ["clone-ineligible"]),
        (Clones.FULL, True, 200, 100, CloneDecision.SELECTED, []),
        (Clones.FULL, True, 200, 101, CloneDecision.OVER_CLONE_BUDGET, ["over-clone-budget"]),
        (Clones.FULL, True, 201, 100, CloneDecision.OVER_SOURCE_BUDGET, ["over-source-budget"]),
        (Clones.FULL, True, 201, 101, CloneDecision.OVER_SOURCE_BUDGET, ["over-source-budget"]),
    ],
)
def test_decisions(
    clones: Clones, partial: bool, general: int, full: int, decision: CloneDecision, rules: list[str]
) -> None:
    assert decide(clones, partial, general, full, _TARGET) is decision
    assert [reason.rule for reason in refuse(clones, partial, general, full, _TARGET)] == rules


def test_sentences_name_the_numbers() -> None:
    (clone,) = refuse(Clones.FULL, True, 1, 101, _TARGET)
    assert clone.sentence == "the full clone has 101 builder instructions; at most 100 may be retained"
    (source,) = refuse(Clones.FULL, True, 201, 1, _TARGET)
    assert source.sentence.startswith("the general body has 201 builder instructions; at most 200")


def test_default_budgets() -> None:
    assert named_target("avx512").clone_budget_instructions == 4096
    assert named_target("avx512").source_budget_instructions == 8192
