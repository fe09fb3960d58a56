"""Candidates of every kernel in `programs/` compile and match the oracle, between guard pages, on poisoned memory."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from autotune import jit
from autotune.realizations.legality import judge
from autotune.realizations.lower import lower
from autotune.realizations.reference import reference_candidate
from autotune.realizations.target import Target
from autotune.realizations.targets import TARGET_NAMES
from autotune.realizations.verdict import Legal
from tests.realizations import cases
from tests.realizations.differential import Sampler, compile_plan, difference

SEED = 20
ENUMERATED, FREE = 2, 2
TARGETS = {name: jit.host_target(name) for name in TARGET_NAMES}
RUNNABLE = [target for target in TARGETS.values() if jit.can_run(target)]


def _shapes(name: str, count: int) -> list[tuple[int, int]]:
    """Two thirds of the shapes take turns, so that all kernels together see every shape."""
    possible = list(cases.shapes(name))
    return random.Random(f"{SEED}{name}").sample(possible, count)


@pytest.mark.parametrize("name", cases.kernels())
def test_the_reference_candidate_is_legal_everywhere_and_right(name: str) -> None:
    for shape in _shapes(name, 3):
        case = cases.case(name, shape)
        for target in TARGETS.values():
            reference = reference_candidate(case.program, target)
            assert judge(case.program, reference, target) == Legal(), (shape, target.name)
            plan = lower(case.program, reference)
            if target in RUNNABLE:
                assert difference(plan, target, case.arguments, case.expected) is None, (shape, target.name)
            else:
                compile_plan(plan, target)


@pytest.mark.parametrize("name", cases.kernels())
def test_sampled_candidates_match_the_oracle(name: str) -> None:
    for number, shape in enumerate(_shapes(name, 2)):
        case = cases.case(name, shape)
        for target in RUNNABLE:
            _check(case, target, number)


def _check(case: cases.Case, target: Target, number: int) -> None:
    sampler = Sampler(case.program, target, seed=SEED + number)
    for candidate in (*sampler.enumerated(ENUMERATED), *sampler.free(FREE)):
        plan = lower(case.program, candidate)
        wrong = difference(plan, target, case.arguments, case.expected, at_end=number == 0)
        assert wrong is None, f"{case.name} on {target.name}: {wrong}\n{candidate}"


@pytest.mark.parametrize("name", list(cases.kernels())[::4])
def test_sampled_candidates_compile_for_the_other_architecture(name: str) -> None:
    case = cases.case(name, (5, 17))
    target = TARGETS["neon"]
    sampler = Sampler(case.program, target, seed=SEED)
    for candidate in islice(sampler.enumerated(2), 2):
        assert compile_plan(lower(case.program, candidate), target).summary.text_bytes > 0


def test_equal_candidates_give_equal_text() -> None:
    case = cases.case("middle_axis", (5, 17))
    target = TARGETS["avx2"]
    first, second = (
        compile_plan(lower(case.program, reference_candidate(case.program, target)), target) for _ in range(2)
    )
    assert first.sha256 == second.sha256
