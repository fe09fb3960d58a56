"""Candidates of every example at small shapes compile and match the oracle within its bound."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from autotune import build, jit
from autotune.realizations.candidate import Candidate
from autotune.realizations.target import Target
from autotune.realizations.targets import TARGET_NAMES, named_target
from autotune.search.encode import encode
from tests.conformance.cases import CASES, SHAPES, bound, families, runnable_targets, seed_of_commit
from tests.conformance.covering import greedy_cover, levels_of, pairs_of, share_covered
from tests.conformance.pool import pool
from tests.conformance.running import LEAST_CHECKED, check_candidates

SECONDS = 200.0  # the other instruction sets take the rest of 240
FULL_COUNT = 300
_HOST = runnable_targets()[0]


class Allowance:
    """Wall clock shared by the cases still to come, by their weights."""

    def __init__(self, seconds: float, weight: float) -> None:
        self._left, self._weight = seconds, weight

    def begin(self, weight: float) -> float:
        """The deadline of the next case on the monotonic clock."""
        return time.monotonic() + self._left * weight / self._weight

    def end(self, weight: float, spent_seconds: float) -> None:
        self._left, self._weight = self._left - spent_seconds, self._weight - weight


def _weight(example: str, shape: str) -> float:
    """The largest shape of an example has most structures by far."""
    return (1.0, 4.0, 9.0)[SHAPES[example].index(shape)]


@pytest.fixture(scope="module")
def allowance() -> Allowance:
    return Allowance(SECONDS, sum(_weight(*case) for case in CASES))


@pytest.mark.parametrize(("example", "shape"), CASES)
def test_candidates_match_the_oracle(
    example: str, shape: str, allowance: Allowance, full: bool, record_property: Callable[[str, object], None]
) -> None:
    weight = _weight(example, shape)
    begun, deadline = time.monotonic(), allowance.begin(weight)
    seed = seed_of_commit()
    workload = bound(example, shape)
    candidates = pool(workload, families(workload, _HOST)[0], _HOST, seed)
    pairs = pairs_of(encode(candidates))
    if full:
        rows = [0, *random.Random(seed).sample(range(1, len(candidates)), min(FULL_COUNT, len(candidates) - 1))]
    else:
        rows = [0, *(row for row in greedy_cover(pairs) if row)]
    outcome = check_candidates(
        workload, [candidates[row] for row in rows], _HOST, seed, float("inf") if full else deadline
    )
    allowance.end(weight, time.monotonic() - begun)
    share = share_covered(pairs, rows[: outcome.checked])
    summary = f"seed {seed}: {outcome.checked} of {len(rows)} candidates, {share:.1%} of the pairs of levels"
    record_property("conformance", summary)
    print(f"{example} {shape} {_HOST.name} {summary}")
    assert not outcome.failures, "\n".join([summary, *outcome.failures[:3]])
    assert outcome.checked >= min(len(rows), LEAST_CHECKED)


def _one_of_each_level(example: str, target: Target) -> list[Candidate]:
    workload = bound(example, SHAPES[example][1])
    candidates = pool(workload, families(workload, target)[0], target, seed_of_commit())
    return [candidates[0], *(candidates[row] for row in greedy_cover(levels_of(encode(candidates))) if row)]


@pytest.mark.parametrize("name", [name for name in TARGET_NAMES if name != _HOST.name])
@pytest.mark.parametrize("example", SHAPES)
def test_other_instruction_sets(example: str, name: str) -> None:
    """What can run here runs, every level once; the rest compiles."""
    workload, target = bound(example, SHAPES[example][1]), named_target(name)
    chosen = _one_of_each_level(example, target)
    if jit.can_run(target):
        outcome = check_candidates(workload, chosen, target, seed_of_commit())
        assert not outcome.failures, "\n".join(outcome.failures[:3])
        assert outcome.checked == len(chosen)
    else:
        compiled = {build.build(workload.program, candidate, target).sha256 for candidate in chosen[:4]}
        assert len(compiled) > 1
