"""When buffers are needed: straight lines, loops whose content survives a trip, conditions and branches."""

from __future__ import annotations

from dataclasses import replace

from autotune.ir.buffer import Body, Branch, BufferProgram, StoreBuffer, WhileLoop
from autotune.ir.lifetimes import lifetimes, timeline
from tests.ir.buffer_programs import newton, softmax, swap, tiled


def spans(plan: BufferProgram, body: Body | None = None) -> dict[int, tuple[int, int]]:
    found = lifetimes(plan.program, body or plan.bodies[0])
    return {life.buffer: (life.first, life.last) for life in found}


def test_a_buffer_lives_from_its_first_write_to_its_last_read() -> None:
    assert spans(softmax()) == {0: (0, 1), 1: (1, 2), 2: (1, 2)}


def test_loop_state_lives_from_before_the_loop_to_its_last_read_after_it() -> None:
    assert spans(tiled())[0] == (0, 3)


def test_a_buffer_written_before_it_is_read_in_every_trip_lives_inside_the_trip() -> None:
    assert spans(tiled())[1] == (1, 2)
    assert spans(swap())[2] == spans(swap())[3] == (1, 2)


def test_content_read_before_it_is_written_in_a_trip_survives_the_whole_loop() -> None:
    plan = swap()
    body = plan.bodies[0]
    before, loop, *after = body.steps
    late = replace(before, sinks=(*before.sinks, StoreBuffer(buffer=2, value=0)))  # type: ignore[union-attr]
    turned = replace(loop, body=tuple(reversed(loop.body)))  # type: ignore[union-attr]
    assert spans(plan, replace(body, steps=(late, turned, *after)))[2] == (0, 2)
    assert timeline(plan.program, replace(body, steps=(before, turned, *after))).unwritten == {2, 3}


def test_conditions_read_what_they_are_computed_from() -> None:
    plan = newton()
    found = spans(plan)
    assert found[1] == (1, 2), "the maximum is read by the condition of the while loop, position 2"
    assert found[2] == (4, 5), "the minimum is read by the condition of the branch, position 5"


def test_the_head_of_a_while_loop_follows_its_body_and_is_left_to_what_stands_after_it() -> None:
    follows = timeline(newton().program, newton().bodies[0]).follows
    assert {(0, 1), (1, 2), (2, 3), (3, 1), (2, 4)} <= follows
    assert (3, 4) not in follows


def test_either_arm_of_a_branch_may_be_taken() -> None:
    plan = newton()
    body = plan.bodies[0]
    only = tuple(replace(s, otherwise=()) if isinstance(s, Branch) else s for s in body.steps)
    assert timeline(plan.program, body).unwritten == frozenset()
    assert timeline(plan.program, replace(body, steps=only)).unwritten == {3}


def test_a_loop_may_make_no_trip() -> None:
    plan = newton()
    body = plan.bodies[0]
    loop = next(s for s in body.steps if isinstance(s, WhileLoop))
    first = body.steps[0]
    assert timeline(plan.program, replace(body, steps=(replace(loop, body=(first,)), *body.steps[2:]))).unwritten == {0}
