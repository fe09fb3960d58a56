"""Branches and while loops of lowered candidates: what they hang on, what they leave behind, what they compute."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune import build, jit
from autotune.calibration.prior import prior
from autotune.ir.buffer import Body, Branch, BufferProgram, Nest, StorageClass, StoreBuffer, WhileLoop
from autotune.ir.buffer_access import all_steps
from autotune.ir.buffer_text import print_buffer_program
from autotune.ir.buffer_verify import verify_buffer_program
from autotune.ir.interpret import interpret
from autotune.ir.ownership import truth_values
from autotune.ir.phases import PhaseKind
from autotune.ir.program import Carried, Final, Joined
from autotune.ir.serial import from_json, to_json
from autotune.ir.types import DType
from autotune.ir.verify import verify
from autotune.realizations.candidate import Buffered, Candidate, Contribution, Inline, Tile
from autotune.realizations.commit import CommitOrder, commit_order
from autotune.realizations.form import NotWellFormed
from autotune.realizations.legality import judge
from autotune.realizations.lower import lower
from autotune.realizations.mapping import ConditionVaries
from autotune.realizations.predict import count
from autotune.realizations.reference import reference_candidate
from autotune.realizations.targets import TARGET_NAMES
from autotune.realizations.tiled import tiled
from autotune.realizations.verdict import Legal, Refused
from autotune.search.join import search_set
from tests.realizations import cases
from tests.realizations.differential import Arguments, Sampler, difference, run

TARGETS = {name: jit.host_target(name) for name in TARGET_NAMES}
AVX512 = TARGETS["avx512"]
RUNNABLE = [target for target in TARGETS.values() if jit.can_run(target)]
SHAPE = (5, 17)
NAMES = sorted(name for name, kernel in cases.kernels().items() if Path(kernel.file).stem == "branches")


def lowered(name: str, shape: tuple[int, int] = SHAPE) -> BufferProgram:
    program = cases.bound(name, shape)
    return lower(program, reference_candidate(program, AVX512))


def written(steps: Sequence[object]) -> list[StoreBuffer]:
    return [s for step in steps if isinstance(step, Nest) for s in step.sinks if isinstance(s, StoreBuffer)]


def the_branch(body: Body) -> Branch:
    return next(step for step in all_steps(body.steps) if isinstance(step, Branch))


# ---- buffer programs ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_buffer_programs_are_valid_and_survive_json(name: str) -> None:
    program = cases.bound(name, SHAPE)
    sampler = Sampler(program, AVX512, seed=4)
    for candidate in (reference_candidate(program, AVX512), *sampler.enumerated(3), *sampler.free(3)):
        plan = lower(program, candidate)
        verify(plan.program)
        verify_buffer_program(plan)
        assert from_json(BufferProgram, json.loads(json.dumps(to_json(plan)))) == plan
        assert lower(program, candidate) == plan


@pytest.mark.parametrize("name", NAMES)
def test_control_flow_hangs_on_one_bool_in_a_register(name: str) -> None:
    plan = lowered(name)
    for body in plan.bodies:
        held = dict(body.materialized)
        found = [s.condition for s in all_steps(body.steps) if isinstance(s, Branch | WhileLoop)]
        assert found
        for condition in found:
            buffer = body.buffers[held[condition]]
            assert (buffer.dtype, buffer.elements, buffer.storage) == (DType.BOOL, 1, StorageClass.REGISTER)


def test_both_arms_write_what_the_branch_leaves_behind() -> None:
    plan = lowered("joined_into_sums")
    body = plan.bodies[-1]
    branch = the_branch(body)
    lets = plan.program.lets()
    joined = {b for v, b in body.materialized if isinstance(lets[v].value, Joined)}
    assert joined == {s.buffer for s in written(branch.then)} == {s.buffer for s in written(branch.otherwise)}
    numbers = [step.number for arm in (branch.then, branch.otherwise) for step in arm if isinstance(step, Nest)]
    assert len(numbers) == 2 and len(set(numbers)) == 1


def test_an_arm_may_hold_stores_alone_or_nothing() -> None:
    stores = the_branch(lowered("stores_in_arms").bodies[-1])
    assert not written(stores.then) and not written(stores.otherwise) and stores.then and stores.otherwise
    once = [s for s in all_steps(lowered("same_condition_twice").bodies[-1].steps) if isinstance(s, Branch)]
    assert len(once) == 3 and len({branch.condition for branch in once}) == 1


def test_states_of_a_while_loop_are_copied_in_before_it_staged_and_committed() -> None:
    plan = lowered("swapped_while")
    body, lets = plan.bodies[-1], plan.program.lets()
    loop = next(step for step in body.steps if isinstance(step, WhileLoop))
    states = {b for v, b in body.materialized if isinstance(lets[v].value, Carried | Final)}
    assert {s.buffer for s in written(body.steps[: body.steps.index(loop)])} >= states
    last = written(loop.body)
    assert {s.buffer for s in last if s.buffer in states} == states and len(states) == 3
    staged = [s for s in last if s.buffer not in states]
    assert [s.buffer for s in staged] == [s.source for s in last if s.source is not None]
    assert last.index(staged[-1]) < min(k for k, s in enumerate(last) if s.source is not None)


def test_text_shows_branches_and_while_loops() -> None:
    text = print_buffer_program(lowered("steps_to_one")).splitlines()
    kinds = [line.split()[0] for line in text if line.split()[0] in ("while", "do", "if", "else")]
    assert kinds == ["while", "do", "if", "else"]


# ---- order of commits -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ({0: set(), 1: set()}, CommitOrder(aside=(), order=(0, 1))),
        ({0: {(0, False)}, 1: {(0, False)}}, CommitOrder(aside=(), order=(1, 0))),
        ({0: {(1, False)}, 1: {(0, False)}}, CommitOrder(aside=(0, 1), order=(0, 1))),
        ({0: {(0, True)}, 1: {(0, False)}}, CommitOrder(aside=(0,), order=(1, 0))),
        ({0: {(1, False)}, 1: {(2, False)}, 2: {(0, True)}}, CommitOrder(aside=(0, 1, 2), order=(0, 1, 2))),
    ],
    ids=["apart", "fan-out", "swap", "moved", "circle"],
)
def test_commit_order(read: dict[int, set[tuple[int, bool]]], expected: CommitOrder) -> None:
    assert commit_order({slot: frozenset(found) for slot, found in read.items()}) == expected


# ---- results --------------------------------------------------------------------------------------------------------
def results(name: str, target_name: str, **given: object) -> Arguments:
    """Outputs of the reference candidate with some arguments given, after the oracle has agreed."""
    case, target = cases.case(name, SHAPE), TARGETS[target_name]
    arguments: Arguments = {**case.arguments, **given}  # type: ignore[dict-item]
    plan = lower(case.program, reference_candidate(case.program, target))
    assert difference(plan, target, arguments, interpret(case.program, arguments)) is None
    return dict(run(plan, target, arguments))


@pytest.mark.parametrize("target", [target.name for target in RUNNABLE])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_two_tiles_change_places_for_no_odd_and_even_trips(trips: int, target: str) -> None:
    x = np.random.default_rng(trips).standard_normal(SHAPE).astype(np.float32)
    a, b = x, x * np.float32(2)
    for _ in range(trips):
        a, b = b, a + np.float32(1)
    found = results("swapped_while", target, x=x, trips=trips)
    np.testing.assert_array_equal(found["y"], a)
    np.testing.assert_array_equal(found["z"], b)


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_one_state_is_read_into_several(trips: int) -> None:
    x = np.random.default_rng(trips).standard_normal(SHAPE).astype(np.float32)
    a, b, c = x, x * np.float32(2), np.zeros_like(x)
    for _ in range(trips):
        a, b, c = a * np.float32(0.5), a, a + b
    found = results("fanned_out_while", "avx2", x=x, trips=trips)
    np.testing.assert_array_equal(found["y"], a + b)
    np.testing.assert_array_equal(found["z"], c)


def test_every_program_makes_its_own_trips() -> None:
    start = np.array([1, 27, 0, 6, 97], np.int64)
    assert results("steps_to_one", "avx2", start=start)["y"].tolist() == [0, 111, 0, 8, 118]  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_each_arm_of_a_branch_for_all_programs(mode: int) -> None:
    x = np.random.default_rng(mode).standard_normal(SHAPE).astype(np.float32)
    expected = (x, np.tanh(x), x * x.sum(axis=1, keepdims=True))[mode]
    np.testing.assert_allclose(results("branch_for_all", "avx512", x=x, mode=mode)["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["stores_in_arms", "joined_into_sums", "halved_until_small", "tiles_inside_while"])
def test_candidates_of_the_search_set_match_the_oracle(name: str) -> None:
    case = cases.case(name, (7, 33))
    for target in RUNNABLE:
        found = search_set(case.program, target, prior(target), limit=60, sample=20)
        picked = random.Random(name).sample(list(found.candidates), min(4, len(found.candidates)))
        for candidate in (found.candidates[0], *picked):
            plan = lower(case.program, candidate)
            verify_buffer_program(plan)
            assert difference(plan, target, case.arguments, case.expected) is None, (target.name, candidate)


# ---- packing, counts and rules --------------------------------------------------------------------------------------
def packed(candidate: Candidate, axis: int, block: int) -> Candidate:
    tiles = (*(t for t in candidate.tiles if t.axis != axis), Tile(axis=axis, block=block))
    return replace(candidate, tiles=tuple(sorted(tiles, key=lambda t: t.axis)))


def test_packed_programs_that_agree_share_one_condition() -> None:
    case = cases.case("shared_by_a_group", (9, 17))
    candidate = packed(reference_candidate(case.program, AVX512), 1, 4)
    assert judge(case.program, candidate, AVX512) == Legal()
    plan = lower(case.program, candidate)
    verify_buffer_program(plan)
    assert difference(plan, AVX512, case.arguments, case.expected) is None
    axes = {entry.axis for s in written(the_branch(plan.bodies[-1]).then) for entry in _axes(plan, s.buffer)}
    assert 1 in axes


def _axes(plan: BufferProgram, buffer: int) -> Sequence[object]:
    return plan.bodies[-1].buffers[buffer].axes


def test_heads_of_one_group_are_packed_for_their_shared_condition_and_no_more() -> None:
    program = cases.bound("shared_by_a_group", (9, 17))
    reference = reference_candidate(program, AVX512)
    assert judge(program, packed(reference, 0, 2), AVX512) == Legal()
    wider = judge(program, packed(reference, 0, 4), AVX512)
    assert isinstance(wider, Refused) and {type(r) for r in wider.reasons} == {ConditionVaries}


@pytest.mark.parametrize("target", ["avx512", "sse2", "neon"])
def test_counted_instructions_are_those_written(target: str) -> None:
    for name in ("branch_a_row", "halved_until_small", "carried_truth", "branch_in_loop_in_branch"):
        program = cases.bound(name, SHAPE)
        plan = lower(program, reference_candidate(program, TARGETS[target]))
        text, size = build.emit_text(plan, TARGETS[target])
        assert count(plan, TARGETS[target]).instructions == pytest.approx(size, rel=0.01, abs=5)
        assert text.count("br i1") >= 1


def test_a_reduction_that_decides_is_written_somewhere() -> None:
    """`at.any` as a condition: computed inside a nest it would be in no buffer, unless it is one of its results."""
    program = cases.bound("decided_by_any", SHAPE)
    reference = reference_candidate(program, AVX512)
    view = tiled(program, reference.tiles)
    (condition,) = truth_values(view.program)
    phase = view.graph.phase_of(condition)
    assert phase is not None and phase.kind is PhaseKind.REDUCTION
    for storage, legal in ((Inline(), False), (Buffered(layout=phase.axes), True)):
        inside = replace(
            reference,
            storage=tuple(sorted((*reference.storage, (phase.number, storage)))),
            contribution=((phase.number, Contribution()),),
            nests=tuple((p, n) for p, n in reference.nests if legal or p != phase.number),
        )
        verdict = judge(program, inside, AVX512)
        malformed = isinstance(verdict, Refused) and any(isinstance(r, NotWellFormed) for r in verdict.reasons)
        assert malformed is not legal
