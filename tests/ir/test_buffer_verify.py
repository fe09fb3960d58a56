"""The verifier of buffer programs: correct ones pass, and each rule finds the program that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autotune.ir.affine import as_affine
from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Branch,
    BufferAxis,
    BufferProgram,
    InlineReduction,
    Nest,
    NestLoop,
    Part,
    ReduceInto,
    Role,
    Step,
    StoreBuffer,
    StoreTensor,
    Tail,
    WhileLoop,
)
from autotune.ir.buffer_verify import CHECKS, verify_buffer_program
from autotune.ir.errors import InvalidBufferProgram
from autotune.ir.program import Load, Reindex, bind
from autotune.ir.types import DType
from tests.ir.buffer_programs import ALL, matmul, nest, newton, plan, row_buffer, softmax, swap, tiled
from tests.ir.programs import masked_softmax, outer_product


def body_of(plan: BufferProgram, **change: Any) -> BufferProgram:
    return replace(plan, bodies=(replace(plan.bodies[0], **change),))


def with_step(plan: BufferProgram, position: int, *steps: Step) -> BufferProgram:
    old = plan.bodies[0].steps
    return body_of(plan, steps=(*old[:position], *steps, *old[position + 1 :]))


def nest_at(plan: BufferProgram, position: int) -> Nest:
    step = plan.bodies[0].steps[position]
    assert isinstance(step, Nest)
    return step


def change_nest(plan: BufferProgram, position: int, **change: Any) -> BufferProgram:
    return with_step(plan, position, replace(nest_at(plan, position), **change))


def change_buffer(plan: BufferProgram, number: int, **change: Any) -> BufferProgram:
    buffers = plan.bodies[0].buffers
    return body_of(plan, buffers=tuple(replace(b, **change) if b.id == number else b for b in buffers))


def tile_loop(plan: BufferProgram) -> BlockLoop:
    step = plan.bodies[0].steps[1]
    assert isinstance(step, BlockLoop)
    return step


def change_trip(plan: BufferProgram, body: Sequence[Step]) -> BufferProgram:
    return with_step(plan, 1, replace(tile_loop(plan), body=tuple(body)))


def refused(plan: BufferProgram) -> InvalidBufferProgram:
    with pytest.raises(InvalidBufferProgram) as caught:
        verify_buffer_program(plan)
    return caught.value


def breaks(plan: BufferProgram, check: str, message: str) -> None:
    found = refused(plan)
    assert (found.check, message in found.message) == (check, True), str(found)


@pytest.mark.parametrize("make", [*ALL, lambda: tiled(part=True)])
def test_correct_programs_pass(make: Callable[[], BufferProgram]) -> None:
    verify_buffer_program(make())


def test_a_finding_shows_the_marked_line() -> None:
    found = refused(change_buffer(softmax(), 1, dtype=DType.I32))
    assert str(found).splitlines()[1].endswith("b1 : i32[a1 100 stride 1] workspace @2752 400 bytes holds %6")
    assert set(str(found).splitlines()[2].strip()) == {"^"}


def test_check_packets() -> None:
    good = softmax()
    breaks(replace(good, program=masked_softmax()), "check_packets", "symbolic dimensions")
    breaks(replace(good, blocks=()), "check_packets", "parallel axes")
    breaks(replace(good, blocks=((0, 0),)), "check_packets", "a block of 0")


def test_check_roles() -> None:
    good = matmul()
    body = good.bodies[0]
    whole, rest = replace(body, role=Role.WHOLE), replace(body, role=Role.REST)
    verify_buffer_program(replace(good, bodies=(whole,)))
    breaks(replace(good, bodies=()), "check_roles", "found none")
    breaks(replace(good, bodies=(rest, whole)), "check_roles", "found rest, whole")
    breaks(replace(good, bodies=(whole, rest)), "check_roles", "every packet is whole")
    ragged = replace(good, blocks=((0, 30), (1, 40)))
    verify_buffer_program(replace(ragged, bodies=(whole, rest)))
    breaks(replace(ragged, bodies=(whole,)), "check_roles", "whose block along a0 is not whole")


def test_check_buffers() -> None:
    good = softmax()
    entry = BufferAxis(axis=1, extent=100, stride=1)
    breaks(body_of(good, buffers=good.bodies[0].buffers[::-1]), "check_buffers", "stands at position")
    breaks(change_buffer(good, 1, axes=(entry, entry)), "check_buffers", "an axis twice")
    breaks(change_buffer(good, 1, axes=(replace(entry, axis=9),)), "check_buffers", "does not exist")
    breaks(change_buffer(good, 1, axes=(replace(entry, stride=-1),)), "check_buffers", "negative")
    breaks(change_buffer(good, 1, axes=(replace(entry, stride=0),)), "check_buffers", "same place")
    panels = replace(entry, panel=16, panel_stride=15)
    breaks(change_buffer(good, 1, axes=(panels,)), "check_buffers", "same place")


def test_check_materialized() -> None:
    good = softmax()
    held = good.bodies[0].materialized
    breaks(body_of(good, materialized=(*held, held[0])), "check_materialized", "two buffers")
    breaks(body_of(good, materialized=(*held, (99, 0))), "check_materialized", "no such value")
    breaks(body_of(good, materialized=(*held, (0, 9))), "check_materialized", "no such value or buffer")
    breaks(change_buffer(good, 0, dtype=DType.I64), "check_materialized", "held as i64")
    breaks(change_buffer(good, 1, axes=()), "check_materialized", "varies along a1, which b1 lacks")


def test_check_loops() -> None:
    good = tiled()
    loop = tile_loop(good)
    breaks(with_step(good, 1, replace(loop, axis=7)), "check_loops", "no axis that such a loop walks")
    breaks(with_step(good, 1, replace(loop, axis=0)), "check_loops", "no axis that such a loop walks")
    breaks(with_step(good, 1, loop, loop), "check_loops", "a second loop over a1")
    breaks(change_trip(good, (loop,)), "check_loops", "inside a loop over it")
    breaks(with_step(good, 1, replace(loop, block=0)), "check_loops", "blocks of 0")
    breaks(with_step(good, 1, replace(loop, bound=as_affine(64))), "check_loops", "a split loop has a bound")
    halves = tiled(part=True)
    head = tile_loop(halves)
    breaks(with_step(halves, 1, replace(head, part=Part.ALL, bound=None)), "check_loops", "does not follow its head")
    breaks(with_step(halves, 1), "check_loops", "does not follow its head")
    breaks(with_step(halves, 2), "check_loops", "not followed by its rest")
    breaks(with_step(halves, 2, replace(head, part=Part.REST, bound=as_affine(32))), "check_loops", "its rest")
    breaks(with_step(halves, 1, replace(head, assumed=(0,))), "check_loops", "no value of type bool_")
    trip = swap()
    breaks(with_step(trip, 1, replace(tile_loop(trip), block=2)), "check_loops", "blocks of 2")


def test_check_conditions() -> None:
    good = newton()
    loop, branch = good.bodies[0].steps[1], good.bodies[0].steps[3]
    assert isinstance(loop, WhileLoop) and isinstance(branch, Branch)
    breaks(with_step(good, 1, replace(loop, condition=4)), "check_conditions", "no value of type bool_")
    breaks(with_step(good, 3, replace(branch, condition=99)), "check_conditions", "no value of type bool_")
    wide = bind(masked_softmax(), {"M": 7, "N": 100})
    mask = next(n for n, let in wide.lets().items() if isinstance(let.value, Load) and let.dtype is DType.BOOL)
    steps = softmax().bodies[0].steps
    breaks(
        with_step(softmax(), 2, Branch(condition=mask, then=steps[2:], otherwise=())), "check_conditions", "along a1"
    )


def test_check_sinks() -> None:
    good = softmax()
    breaks(change_nest(good, 2, sinks=()), "check_sinks", "without sinks")
    breaks(change_nest(good, 2, sinks=(StoreTensor(store=1),)), "check_sinks", "no store number 1")
    breaks(change_nest(good, 2, sinks=(StoreBuffer(buffer=7, value=0),)), "check_sinks", "no such value or buffer")
    breaks(change_nest(good, 2, sinks=(StoreBuffer(buffer=1, value=0, source=7),)), "check_sinks", "no such value")
    breaks(change_nest(good, 0, sinks=(ReduceInto(buffer=0, value=3, chains=1),)), "check_sinks", "no reduction")
    breaks(change_nest(good, 0, sinks=(ReduceInto(buffer=0, value=4, chains=0),)), "check_sinks", "0 chains")


def test_check_nest_loops() -> None:
    good = matmul()
    i, j, k = (NestLoop(axis=a) for a in range(3))
    breaks(change_nest(good, 1, loops=(i, j, j)), "check_nest_loops", "two loops over the same axis")
    breaks(change_nest(good, 1, loops=(replace(i, lanes=4), replace(j, lanes=4))), "check_nest_loops", "have lanes")
    breaks(change_nest(good, 1, loops=(i, replace(j, factor=0))), "check_nest_loops", "less than 1")
    breaks(replace(good, blocks=((0, 1), (1, 40))), "check_nest_loops", "a0, which is not walked here")
    outside = tiled()
    breaks(with_step(outside, 1, *tile_loop(outside).body), "check_nest_loops", "a1, which is not walked here")
    sink = ReduceInto(buffer=0, value=3, chains=1)
    breaks(change_nest(good, 1, loops=(k, i, j), sinks=(sink,)), "check_nest_loops", "outside another one")


def test_check_stores() -> None:
    breaks(with_step(swap(), 3), "check_stores", "store number 1 is never executed")


def test_check_values() -> None:
    good = matmul()
    inline = nest_at(good, 1).inline[0]
    breaks(change_nest(good, 1, inline=()), "check_values", "in no buffer and not inline")
    breaks(change_nest(good, 1, inline=(inline, inline)), "check_values", "inline twice")
    breaks(change_nest(good, 1, inline=(replace(inline, loops=()),)), "check_values", "not over the axes")
    breaks(change_nest(good, 1, inline=(replace(inline, group=0),)), "check_values", "at least 1")
    other = InlineReduction(value=0, loops=inline.loops)
    breaks(change_nest(good, 1, inline=(inline, other)), "check_values", "no reduction that this nest computes")
    lost = tiled()
    held = tuple((value, b) for value, b in lost.bodies[0].materialized if value != 3)
    breaks(body_of(lost, materialized=held), "check_values", "%3 is the state of a loop")
    early = softmax()
    both = (*nest_at(early, 1).sinks, StoreTensor(store=0))
    breaks(change_nest(early, 1, sinks=both), "check_values", "%7 is read in the nest that works it out")


def test_check_condition_values() -> None:
    good = newton()
    held = tuple((value, b) for value, b in good.bodies[0].materialized if value not in (7, 8))
    steps = good.bodies[0].steps
    branch = steps[3]
    assert isinstance(branch, Branch)
    kept = (*steps[:2], replace(branch, otherwise=branch.then), steps[4])
    double = replace(nest_at(good, 0), sinks=(StoreBuffer(buffer=3, value=0),))
    arms = replace(branch, then=(double,), otherwise=(double,))
    breaks(body_of(good, materialized=held, steps=(*kept[:2], arms, steps[4])), "check_condition_values", "%7 is")


def test_check_bounds() -> None:
    good = softmax()
    short = BufferAxis(axis=1, extent=99, stride=1)
    breaks(change_buffer(good, 1, axes=(short,)), "check_bounds", "100 coordinates, the buffer has 99")
    panels = BufferAxis(axis=1, extent=100, stride=1, panel=24, panel_stride=24)
    breaks(change_buffer(good, 1, axes=(panels,)), "check_bounds", "a vector of 16 straddles panels of 24")
    wide = BufferAxis(axis=0, extent=7, stride=100)
    layout = (wide, BufferAxis(axis=1, extent=100, stride=1))
    breaks(change_buffer(good, 1, axes=layout), "check_bounds", "no loop walks a0")
    breaks(replace(matmul(), blocks=((0, 32), (1, 64))), "check_bounds", "64 coordinates, the buffer has 40")


def in_place(tail: Tail, value: int) -> BufferProgram:
    """A snapshot of a row that a nest writes again while it reads it."""
    program = bind(outer_product(), {"M": 3, "N": 20})
    i, j = 1, 2
    steps = (
        nest(0, [StoreBuffer(buffer=0, value=0)], NestLoop(axis=i, lanes=4)),
        nest(1, [StoreBuffer(buffer=0, value=value, source=None)], NestLoop(axis=i, lanes=4), tail=tail),
        nest(2, [StoreTensor(store=0)], i, j),
    )
    return plan(program, (row_buffer(0, (i, 20)),), {0: 0}, steps)


def test_check_in_place() -> None:
    good = tiled()
    verify_buffer_program(good)  # the state is read and written by one nest, each element where it is written
    moved = bind(outer_product(), {"M": 3, "N": 20})
    turned = next(n for n, let in moved.lets().items() if isinstance(let.value, Reindex))
    square = replace(in_place(Tail.MASK, turned), program=moved)
    both = (NestLoop(axis=1), NestLoop(axis=2))
    breaks(change_nest(square, 1, loops=both), "check_in_place", "other axes than its own")
    halving = newton()
    loop = halving.bodies[0].steps[1]
    assert isinstance(loop, WhileLoop) and isinstance(loop.body[0], Nest)
    shifted = replace(loop, body=(replace(loop.body[0], tail=Tail.OVERLAP),))
    breaks(with_step(halving, 1, shifted), "check_in_place", "comes back over coordinates")
    total, new = tile_loop(good).body
    assert isinstance(new, Nest)
    repeated = (total, replace(new, loops=(NestLoop(axis=1),)))
    breaks(change_trip(good, repeated), "check_in_place", "written again for every coordinate along a1")


def test_an_inline_reduction_may_not_read_what_its_nest_writes() -> None:
    program = bind(masked_softmax(), {"M": 7, "N": 100})
    n, scores, greatest, exp, total = 1, 3, 4, 6, 7
    inline = tuple(InlineReduction(value=value, loops=(NestLoop(axis=n),)) for value in (greatest, total))
    steps = (
        nest(0, [StoreBuffer(buffer=0, value=scores)], n),
        nest(1, [StoreBuffer(buffer=0, value=exp)], n, inline=inline[:1]),
        nest(2, [StoreTensor(store=0)], n, inline=inline),
    )
    spoiled = plan(program, (row_buffer(0, (n, 100)),), {scores: 0}, steps)
    breaks(spoiled, "check_in_place", "an inline reduction reads it along a1")


def test_check_written_before_read() -> None:
    breaks(with_step(softmax(), 0), "check_written_before_read", "b0 may be read before it is written")
    breaks(with_step(tiled(), 0), "check_written_before_read", "b0 may be read before it is written")


def test_check_contents_finds_a_state_read_after_it_was_updated() -> None:
    good = swap()
    loop = tile_loop(good)
    straight = (
        nest(1, [StoreBuffer(buffer=0, value=3)], 2),
        nest(2, [StoreBuffer(buffer=1, value=2)], 2),
    )
    breaks(change_trip(good, straight), "check_contents", "%2 is read from b0, which may hold state 1")
    breaks(change_trip(good, loop.body[:1]), "check_contents", "a trip over a1 ends with state 0")


def test_check_contents_finds_a_wrong_initial_state_and_a_wrong_arm() -> None:
    good = swap()
    crossed = (StoreBuffer(buffer=0, value=1), StoreBuffer(buffer=1, value=0))
    breaks(change_nest(good, 0, sinks=crossed), "check_contents", "begins with state 0 from b0, which may hold %1")
    halving = newton()
    branch = halving.bodies[0].steps[3]
    assert isinstance(branch, Branch)
    swapped = replace(branch, then=branch.otherwise, otherwise=branch.then)
    breaks(with_step(halving, 3, swapped), "check_contents", "an arm of the branch on %9 ends with result 0")


def test_check_contents_finds_a_value_left_from_another_trip() -> None:
    good = tiled(part=True)
    first, head, rest, last = good.bodies[0].steps
    assert isinstance(rest, BlockLoop)
    start = nest(9, [StoreBuffer(buffer=1, value=0)])
    turned = replace(rest, body=rest.body[::-1])
    spoiled = body_of(good, steps=(first, start, head, turned, last))
    breaks(spoiled, "check_contents", "%2 is read from b1, which may hold %0 or nothing of use")


def test_check_placement() -> None:
    good = softmax()
    breaks(change_buffer(good, 1, offset_bytes=2753), "check_placement", "no multiple of 64")
    breaks(replace(good, workspace_bytes=5504), "check_placement", "of a workspace of 5504")
    breaks(change_buffer(good, 0, offset_bytes=2752), "check_placement", "shares bytes with its buffer")


def test_every_check_is_broken_by_a_test() -> None:
    names = {check.__name__ for check in CHECKS}
    with open(__file__, encoding="utf-8") as source:
        text = source.read()
    assert all(f'"{name}"' in text for name in names)


def test_bodies_are_checked_on_their_own() -> None:
    good = replace(matmul(), blocks=((0, 30), (1, 40)))
    body = good.bodies[0]
    wrong: Body = replace(body, role=Role.REST, steps=body.steps[1:])
    bodies = (replace(body, role=Role.WHOLE), wrong)
    breaks(replace(good, bodies=bodies), "check_written_before_read", "b0 may be read")
