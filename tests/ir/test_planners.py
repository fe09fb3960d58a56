"""Planners against an independent validator, on random bodies and on placements spoiled by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ir.affine import coord
from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Branch,
    Buffer,
    BufferAxis,
    BufferProgram,
    Nest,
    Planner,
    Role,
    Step,
    StorageClass,
    StoreBuffer,
    StoreTensor,
)
from autotune.ir.buffer_access import Access, BodyAccess
from autotune.ir.errors import NoFitFound
from autotune.ir.lifetimes import timeline
from autotune.ir.packing import (
    ALIAS_WINDOW_BYTES,
    PAGE_BYTES,
    STAGGER_BYTES,
    Demand,
    first_fit_offsets,
    linear_offsets,
    packed_offsets,
    peak,
    penalty,
)
from autotune.ir.placement import PlacementRule, validate_placement
from autotune.ir.planners import demands_of, linear, place
from autotune.ir.program import AxisKind, Program
from autotune.ir.types import Op
from tests.ir.buffer_programs import ALL, nest, row_buffer, softmax, tiled
from tests.ir.programs import F32, Builder

OFFSETS = (Planner.LINEAR, Planner.FIRST_FIT, Planner.PACKED)
LOOPS = 3


def chain_program(operands: Sequence[tuple[int, int]]) -> Program:
    """Value number k + 1 is the sum of two earlier ones; the last one is stored."""
    b = Builder("chain")
    x, y = b.tensor("x", F32, 4), b.tensor("y", F32, 4)
    p, n = b.program_axis(1, "p"), b.full(4, "n")
    for k in range(LOOPS):
        b.axis(AxisKind.RANGE, 2, f"t{k}")
    last = b.load(x, coord(n) + coord(p))
    for left, right in operands:
        last = b.op(Op.ADD, left, right)
    b.store(y, last, coord(n) + coord(p))
    return b.build()


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Program, Body]:
    """A chain of nests, each writing one buffer and reading two, some of them in nested loops or a branch."""
    count = draw(st.integers(2, 9))
    operands = [(draw(st.integers(0, k)), draw(st.integers(0, k))) for k in range(count)]
    program = chain_program(operands)
    values = [let.id for let in program.lets().values() if 1 in let.axes]
    sizes = [draw(st.sampled_from((1, 16, 17, 300, 1024, 1100, 5000))) for _ in values]
    buffers = tuple(row_buffer(k, (1, size)) for k, size in enumerate(sizes))
    steps: list[Step] = [nest(k, [StoreBuffer(buffer=k, value=value)], 1) for k, value in enumerate(values)]
    for axis in range(2, 2 + LOOPS):
        first = draw(st.integers(0, len(steps) - 1))
        last = draw(st.integers(first, len(steps)))
        inner = tuple(steps[first:last])
        if inner:
            steps[first:last] = [BlockLoop(axis=axis, block=1, body=inner)]
    if draw(st.booleans()):
        at = draw(st.integers(0, len(steps) - 1))
        steps[at] = Branch(condition=0, then=(steps[at],), otherwise=())
    steps.append(nest(len(values), [StoreTensor(store=0)], 1))
    held = tuple((value, k) for k, value in enumerate(values))
    return program, Body(role=Role.ANY, buffers=buffers, materialized=held, steps=tuple(steps))


@settings(max_examples=60, deadline=None)
@given(bodies(), st.sampled_from(OFFSETS))
def test_every_placement_passes_the_validator(case: tuple[Program, Body], planner: Planner) -> None:
    program, body = case
    buffers, used = place(program, body, planner)
    assert validate_placement(program, replace(body, buffers=buffers), used) == ()


@settings(max_examples=60, deadline=None)
@given(bodies())
def test_first_fit_and_packed_never_take_more_than_linear(case: tuple[Program, Body]) -> None:
    most = place(*case, Planner.LINEAR)[1]
    assert place(*case, Planner.FIRST_FIT)[1] <= most
    assert place(*case, Planner.PACKED)[1] <= most


@settings(max_examples=60, deadline=None)
@given(bodies())
def test_packed_never_pays_more_penalty_than_the_other_planners(case: tuple[Program, Body]) -> None:
    program, body = case
    demands = demands_of(body.buffers, timeline(program, body))
    packed = packed_offsets(demands)
    for other in (linear_offsets(demands), first_fit_offsets(demands)):
        assert (penalty(demands, packed), peak(demands, packed)) <= (penalty(demands, other), peak(demands, other))


@settings(max_examples=40, deadline=None)
@given(bodies(), st.data())
def test_the_validator_agrees_with_memory_followed_byte_by_byte(
    case: tuple[Program, Body], data: st.DataObject
) -> None:
    program, body = case
    places = [64 * data.draw(st.integers(0, 400)) for _ in body.buffers]
    buffers = tuple(replace(b, offset_bytes=at) for b, at in zip(body.buffers, places, strict=True))
    found = validate_placement(program, replace(body, buffers=buffers), 64 * 400 + 20_000)
    access = BodyAccess(program, body)
    runs = [[access.nest(step) for step in run if isinstance(step, Nest)] for run in paths(body.steps)]
    assert bool(found) == any(damaged(buffers, run) for run in runs)


def paths(steps: Sequence[Step]) -> list[list[Step]]:
    """What is executed where every loop makes no trip or two, in all combinations with the arms of branches."""
    runs: list[list[Step]] = [[]]
    for step in steps:
        match step:
            case BlockLoop(body=body):
                trips = paths(body)
                ways = [[], *(first + second for first in trips for second in trips)]
            case Branch(then=then, otherwise=otherwise):
                ways = paths(then) + paths(otherwise)
            case _:
                ways = [[step]]
        runs = [run + way for run in runs for way in ways]
    return runs


def damaged(buffers: Sequence[Buffer], run: Sequence[Access]) -> bool:
    owner = np.full(64 * 400 + 20_000, -1)
    for access in run:
        for number in access.buffers_read:
            held = owner[bytes_of(buffers[number])]
            if np.any((held != -1) & (held != number)):
                return True
        for number in access.writes:
            owner[bytes_of(buffers[number])] = number
        for number in access.writes | access.buffers_read:
            if np.any(np.isin(owner[bytes_of(buffers[number])], list(access.writes - {number}))):
                return True
    return False


def bytes_of(buffer: Buffer) -> slice:
    return slice(buffer.offset_bytes, buffer.offset_bytes + buffer.size_bytes)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("planner", OFFSETS)
def test_hand_written_programs_are_placed(make: Callable[[], BufferProgram], planner: Planner) -> None:
    plan = make()
    body = plan.bodies[0]
    buffers, used = place(plan.program, body, planner)
    assert validate_placement(plan.program, replace(body, buffers=buffers), used) == ()


def test_llvm_places_every_workspace_buffer_on_the_stack() -> None:
    plan = softmax()
    body = replace(
        plan.bodies[0],
        buffers=tuple(
            replace(b, storage=StorageClass.REGISTER, offset_bytes=0) if b.id == 0 else b
            for b in plan.bodies[0].buffers
        ),
    )
    buffers, used = place(plan.program, body, Planner.LLVM)
    assert used == 0
    assert [(b.storage, b.offset_bytes) for b in buffers] == [
        (StorageClass.REGISTER, 0),
        (StorageClass.STACK, 0),
        (StorageClass.STACK, 0),
    ]


def test_linear_staggers_buffers_within_a_page() -> None:
    buffers, used = linear([row_buffer(0, (1, 100)), row_buffer(1, (1, 100))])
    assert [b.offset_bytes for b in buffers] == [0, STAGGER_BYTES]
    assert used == STAGGER_BYTES + 448


def test_first_fit_reuses_memory_that_is_no_longer_needed() -> None:
    demands = [
        Demand(size_bytes=4096, conflicts=frozenset({1})),
        Demand(size_bytes=64, conflicts=frozenset({0, 2})),
        Demand(size_bytes=4096, conflicts=frozenset({1})),
    ]
    assert first_fit_offsets(demands) == (0, 4096, 0)


def test_packed_keeps_clear_of_memory_just_touched_and_reuses_older_memory() -> None:
    near = [Demand(size_bytes=256, touched=frozenset({1})), Demand(size_bytes=256, touched=frozenset({0}))]
    assert first_fit_offsets(near) == (0, 0)
    assert packed_offsets(near) == (0, 256)
    assert packed_offsets([Demand(size_bytes=256), Demand(size_bytes=256)]) == (0, 0)


def test_packed_avoids_aliasing_within_a_page() -> None:
    demands = [
        Demand(size_bytes=4096, conflicts=frozenset({1})),
        Demand(size_bytes=4096, conflicts=frozenset({0}), read_with=frozenset({0})),
    ]
    assert penalty(demands, (0, 4096)) == 1
    offsets = packed_offsets(demands)
    assert penalty(demands, offsets) == 0
    assert (offsets[1] - offsets[0]) % PAGE_BYTES >= ALIAS_WINDOW_BYTES


def test_a_placement_beyond_the_workspace_is_a_failed_search() -> None:
    plan = softmax()
    with pytest.raises(NoFitFound, match=r"no fit found.*takes 5568 bytes.*has 1024.*does not prove"):
        place(plan.program, plan.bodies[0], Planner.LINEAR, capacity_bytes=1024)
    assert place(plan.program, plan.bodies[0], Planner.FIRST_FIT, capacity_bytes=1024)[1] <= 1024


def spoiled(body: Body, number: int, **change: object) -> Body:
    buffers = tuple(replace(b, **change) if b.id == number else b for b in body.buffers)  # type: ignore[arg-type]
    return replace(body, buffers=buffers)


def rules(program: Program, body: Body, workspace_bytes: int) -> set[PlacementRule]:
    return {fault.rule for fault in validate_placement(program, body, workspace_bytes)}


def test_the_validator_names_misaligned_buffers_and_buffers_outside_the_workspace() -> None:
    plan = softmax()
    body = plan.bodies[0]
    assert rules(plan.program, spoiled(body, 1, offset_bytes=2753), 9000) == {PlacementRule.MISALIGNED}
    assert rules(plan.program, body, 5504) == {PlacementRule.OUTSIDE}
    assert rules(plan.program, spoiled(body, 0, offset_bytes=-64), 9000) == {PlacementRule.OUTSIDE}


def test_the_validator_names_offsets_of_buffers_that_are_not_in_the_workspace() -> None:
    plan = softmax()
    body = spoiled(plan.bodies[0], 1, storage=StorageClass.STACK)
    assert rules(plan.program, body, 9000) == {PlacementRule.NOT_PLACED}


def test_the_validator_names_shared_bytes_of_one_nest() -> None:
    plan = softmax()
    body = spoiled(plan.bodies[0], 0, offset_bytes=plan.bodies[0].buffers[1].offset_bytes)
    assert PlacementRule.NEST_OVERLAP in rules(plan.program, body, 9000)


def test_the_validator_names_loop_state_destroyed_in_a_trip() -> None:
    plan = tiled()
    body = spoiled(plan.bodies[0], 1, offset_bytes=0)
    assert PlacementRule.CLOBBERED in rules(plan.program, body, 9000)


def test_partly_shared_bytes_count() -> None:
    plan = softmax()
    body = replace(
        plan.bodies[0],
        buffers=(
            replace(plan.bodies[0].buffers[0], offset_bytes=384),
            replace(plan.bodies[0].buffers[1], offset_bytes=0, axes=(BufferAxis(axis=1, extent=97, stride=1),)),
            plan.bodies[0].buffers[2],
        ),
    )
    assert PlacementRule.NEST_OVERLAP in rules(plan.program, body, 9000)
    clear: Buffer = replace(body.buffers[1], axes=(BufferAxis(axis=1, extent=96, stride=1),))
    assert rules(plan.program, replace(body, buffers=(body.buffers[0], clear, body.buffers[2])), 9000) == set()
