"""Lowered candidates: nests in program order, buffers where they must be, states that do not spoil each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from autotune import jit
from autotune.ir.buffer import BlockLoop, Body, Nest, Part, ReduceInto, Role, StorageClass, StoreBuffer, StoreTensor
from autotune.ir.program import AxisKind
from autotune.realizations.candidate import Block, Clones, Mapping, Tile
from autotune.realizations.lower import lower
from autotune.realizations.places import nests_of, nests_with_places
from autotune.realizations.reference import reference_candidate
from tests.realizations import cases

TARGET = jit.host_target("avx2")


def _body(name: str, shape: tuple[int, int] = (5, 17)) -> Body:
    program = cases.bound(name, shape)
    return lower(program, reference_candidate(program, TARGET)).bodies[-1]


def test_reduced_axes_stand_innermost() -> None:
    program = cases.bound("last_axis_then_first", (5, 17))
    lets = program.lets()
    for nest in nests_of(_body("last_axis_then_first").steps):
        reduced = {a for s in nest.sinks if isinstance(s, ReduceInto) for a in lets[s.value].value.axes}  # type: ignore[union-attr]
        order = [loop.axis in reduced for loop in nest.loops]
        assert order == sorted(order)


def test_a_row_reduction_is_one_nest_and_its_users_another() -> None:
    sinks = [nest.sinks for nest in nests_of(_body("in_place").steps)]
    assert [type(s[0]) for s in sinks] == [ReduceInto, StoreTensor]


def test_a_load_used_after_its_tensor_was_overwritten_is_copied_first() -> None:
    first = next(iter(nests_of(_body("in_place_twice").steps)))
    assert isinstance(first.sinks[0], StoreBuffer)


def test_loops_hold_their_initial_state_and_commit_at_the_end() -> None:
    body = _body("swapped")
    loop = next(step for step in body.steps if isinstance(step, BlockLoop))
    before = body.steps[: body.steps.index(loop)]
    assert sum(isinstance(s, Nest) and isinstance(s.sinks[0], StoreBuffer) for s in before) == 2
    written = [s.sinks[0].buffer for s in loop.body if isinstance(s, Nest) and isinstance(s.sinks[0], StoreBuffer)]
    assert len(written) == 4  # two set aside, two states
    assert set(written[-2:]) == {s.sinks[0].buffer for s in before if isinstance(s, Nest)}  # type: ignore[union-attr]


def test_exchanged_states_are_set_aside_before_any_is_written() -> None:
    loop = next(step for step in _body("rotated").steps if isinstance(step, BlockLoop))
    sinks = [s.sinks[0] for s in loop.body if isinstance(s, Nest)]
    assert all(isinstance(s, StoreBuffer) for s in sinks)
    sources = [s.source for s in sinks if isinstance(s, StoreBuffer)]
    assert sources[:3] == [None] * 3
    assert sources[3:] == [s.buffer for s in sinks[:3] if isinstance(s, StoreBuffer)]


def test_loops_around_nests_are_known() -> None:
    program = cases.bound("nested", (5, 300))
    inner = next(a.id for a in program.axes if a.kind is AxisKind.TILE)
    outer = next(a.id for a in program.axes if a.kind is AxisKind.RANGE)
    depths = {around for around, _ in nests_with_places(_body("nested", (5, 300)).steps)}
    assert {(), ((outer, Part.ALL),), ((outer, Part.ALL), (inner, Part.ALL))} == depths


def test_bodies_follow_the_requested_clones() -> None:
    program = cases.bound("in_place", (5, 17))
    reference = reference_candidate(program, TARGET)
    packed = replace(reference, tiles=(Tile(axis=0, block=2),))
    assert [b.role for b in lower(program, packed).bodies] == [Role.ANY]
    assert [b.role for b in lower(program, replace(packed, packet=Clones.FULL)).bodies] == [
        Role.WHOLE,
        Role.REST,
    ]
    assert [b.role for b in lower(program, reference).bodies] == [Role.WHOLE]


def test_buffers_at_fixed_places_are_registers() -> None:
    """A reduction's result over one program is one place; over a packet walked in steps it is not."""
    program = cases.bound("in_place", (16, 16))
    reference = reference_candidate(program, TARGET)
    assert {b.storage for b in lower(program, reference).bodies[0].buffers} == {StorageClass.REGISTER}
    packed = replace(reference, tiles=(Tile(axis=0, block=8),))
    assert {b.storage for b in lower(program, packed).bodies[0].buffers} == {StorageClass.WORKSPACE}
    lanes = Mapping(axis=0, lanes=8)
    across = replace(
        packed,
        mapping=tuple((p, lanes) for p, _ in packed.mapping),
        compute=tuple((p, replace(c, blocks=(Block(axis=1, factor=1),))) for p, c in packed.compute),
    )
    assert {b.storage for b in lower(program, across).bodies[0].buffers} == {StorageClass.REGISTER}


def test_workspace_is_planned_without_overlap() -> None:
    program = cases.bound("row_state", (5, 65))
    plan = lower(program, reference_candidate(program, TARGET))
    for body in plan.bodies:
        placed = [b for b in body.buffers if b.storage is StorageClass.WORKSPACE]
        spans = sorted((b.offset_bytes, b.offset_bytes + b.size_bytes) for b in placed)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(end <= plan.workspace_bytes for _, end in spans)
