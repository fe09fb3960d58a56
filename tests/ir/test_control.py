"""Loops, branches and while loops in the interpreter: what is carried, what is chosen, and what rounding may turn."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.ir import chunks
from autotune.ir import interpret as interpreter
from autotune.ir.affine import coord, dim
from autotune.ir.bounds import Array
from autotune.ir.errors import EndlessLoop, StoreOutside, UndefinedIndex
from autotune.ir.interpret import Interpretation, interpret
from autotune.ir.program import AxisKind, Program, bind
from autotune.ir.types import DType, Op
from autotune.ir.verdict import Correct, check
from autotune.ir.verify import verify
from tests.ir import control_programs
from tests.ir.programs import Builder

F32 = DType.F32


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(program: Program, arguments: dict[str, Array | int | float], **sizes: int) -> Interpretation:
    verify(program)
    return interpret(bind(program, sizes), arguments)


def assert_matches(result: Interpretation, **outputs: Array) -> None:
    verdict = check(outputs, result)
    assert isinstance(verdict, Correct), str(verdict)


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_carries_that_change_places(trips: int) -> None:
    x = numbers(2, 3)
    first, second = (x[0], x[1]) if trips % 2 == 0 else (x[1], x[0])
    third = x[0] + x[1] if trips else np.full(3, -1.0)
    assert_matches(run(control_programs.swapped(), {"x": x}, M=3, T=trips), y=np.stack([first, second, third]))


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_one_carry_read_into_two(trips: int) -> None:
    x = numbers(3)
    second = x + (trips - 1) if trips else np.full(3, 9.0)
    assert_matches(run(control_programs.fanned_out(), {"x": x}, M=3, T=trips), y=np.stack([x + trips, second]))


def test_a_branch_in_a_loop() -> None:
    x = numbers(4, 9)
    x[0], x[1] = np.abs(x[0]), -np.abs(x[1])
    result = run(control_programs.signed_sums(), {"x": x}, M=4, N=9)
    assert_matches(result, up=np.where(x > 0, x, 0).sum(axis=1), down=np.where(x > 0, 0, x).sum(axis=1))
    nothing = run(control_programs.signed_sums(), {"x": numbers(4, 0)}, M=4, N=0)
    assert_matches(nothing, up=np.zeros(4), down=np.zeros(4))


def collatz_steps(number: int) -> int:
    steps = 0
    while number > 1:
        number, steps = (number // 2 if number % 2 == 0 else 3 * number + 1), steps + 1
    return steps


def test_a_while_loop_whose_trips_differ_between_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    start = np.array([1, 27, 2, 7, 97, 1], dtype=np.int64)
    wanted = np.array([collatz_steps(n) for n in start.tolist()])
    assert wanted.max() > 100
    assert_matches(run(control_programs.collatz(), {"start": start}, N=6), y=wanted)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)
    assert_matches(run(control_programs.collatz(), {"start": start}, N=6), y=wanted)


def test_a_while_loop_without_a_trip_keeps_its_initial_state() -> None:
    result = run(control_programs.collatz(), {"start": np.array([1, 0, -5], dtype=np.int64)}, N=3)
    assert_matches(result, y=np.zeros(3, dtype=np.int64))


def endless(inside: bool) -> Program:
    """Runs for ever where x is positive; inside a branch only the rows before `bound` get there."""
    b = Builder("endless", "N")
    x, y, bound = b.tensor("x", F32, "N"), b.tensor("y", F32, "N"), b.scalar("bound", DType.I64)
    row, trips = b.program_axis("N", "row"), b.while_axis("trips")

    def loop(start: int) -> int:
        with b.while_loop(trips, start, axes=[(row,)]) as loop:
            state = loop.carried(0)
            loop.body(b.op(Op.GT, state, b.const(0.0)))
            loop.updated = (b.op(Op.ADD, state, b.const(1.0)),)
        return loop.final(0)

    start = b.load(x, coord(row))
    if not inside:
        b.store(y, loop(start), coord(row))
        return b.build()
    with b.branch(b.op(Op.LT, b.index(coord(row)), b.argument(bound))) as arms:
        after = loop(start)
        arms.otherwise()
        arms.pairs = [(after, start)]
    b.store(y, arms.joined(0), coord(row))
    return b.build()


def test_a_while_loop_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "MAX_TRIPS", 20)
    x = np.array([-1, 1], dtype=np.float32)
    with pytest.raises(EndlessLoop, match="the while loop in line 1 still runs after 20 trips; write a condition"):
        run(endless(False), {"x": x, "bound": 0}, N=2)
    assert_matches(run(endless(False), {"x": -np.abs(x), "bound": 0}, N=2), y=-np.abs(x))


def test_programs_in_the_other_arm_do_not_keep_a_loop_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "MAX_TRIPS", 20)
    x = np.array([-1, 1], dtype=np.float32)
    assert_matches(run(endless(True), {"x": x, "bound": 1}, N=2), y=x)
    with pytest.raises(EndlessLoop):
        run(endless(True), {"x": x, "bound": 2}, N=2)


def test_stores_in_arms_happen_where_the_arm_is_entered() -> None:
    x = numbers(5)
    wanted = np.append(np.float32(1), 2 * x[1:])  # the last row writes to the first place
    result = run(control_programs.stored_in_arms(), {"x": x, "bound": 4}, N=5)
    assert_matches(result, y=wanted)
    with pytest.raises(StoreOutside, match=r"store to 'y' at \[5\]"):
        run(control_programs.stored_in_arms(), {"x": x, "bound": 5}, N=5)
    assert_matches(run(control_programs.stored_in_arms(), {"x": x, "bound": 0}, N=5), y=np.ones(5))


def guarded_division() -> Program:
    """x[n // row] where the row is not 0, else -1: an arm's index divides by zero in the other rows."""
    b = Builder("guarded", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    row = b.program_axis("N", "row")
    with b.branch(b.op(Op.NE, b.index(coord(row)), b.const(0, DType.I64))) as arms:
        found = b.load(x, (dim(0) - 1) // coord(row))
        arms.otherwise()
        arms.pairs = [(found, b.const(-1.0))]
    b.store(y, arms.joined(0), coord(row))
    return b.build()


def test_an_index_divides_by_zero_only_where_its_arm_is_entered() -> None:
    x = numbers(5)
    assert_matches(run(guarded_division(), {"x": x}, N=5), y=np.array([-1, x[4], x[2], x[1], x[1]]))
    b = Builder("unguarded", "N")
    x_tensor, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    row = b.program_axis("N", "row")
    b.store(y, b.load(x_tensor, (dim(0) - 1) // coord(row)), coord(row))
    with pytest.raises(UndefinedIndex):
        run(b.build(), {"x": x}, N=5)


def rounded_choice(*, stores: bool) -> Program:
    """Chooses by whether x·x exceeds the bound: rounding decides where they are close."""
    b = Builder("rounded", "N")
    x, y, bound = b.tensor("x", F32, "N"), b.tensor("y", F32, "N"), b.scalar("bound")
    row = b.program_axis("N", "row")
    v = b.load(x, coord(row))
    with b.branch(b.op(Op.GT, b.op(Op.MUL, v, v), b.argument(bound))) as arms:
        up = b.const(1.0)
        if stores:
            b.store(y, up, coord(row))
        arms.otherwise()
        arms.pairs = [] if stores else [(up, b.const(-1.0))]
    if not stores:
        b.store(y, arms.joined(0), coord(row))
    return b.build()


CLOSE = np.array([1.1, 2.0, 0.5], dtype=np.float32)
BOUND = np.float32(1.1) * np.float32(1.1)


def test_a_condition_that_rounding_may_turn_leaves_either_value() -> None:
    result = run(rounded_choice(stores=False), {"x": CLOSE, "bound": float(BOUND)}, N=3)
    assert list(result["y"].bound) == [2.0, 0.0, 0.0]
    assert list(result["y"].values[1:]) == [1.0, -1.0]


def test_a_store_that_rounding_may_prevent_leaves_unknown_contents() -> None:
    given = np.full(3, 7.0, dtype=np.float32)
    result = run(rounded_choice(stores=True), {"x": CLOSE, "bound": float(BOUND), "y": given}, N=3)
    assert list(result["y"].bound) == [np.inf, 0.0, 0.0]
    assert list(result["y"].values[1:]) == [1.0, 7.0]


def test_after_a_while_condition_that_rounding_may_turn_nothing_is_known() -> None:
    b = Builder("halving", "N")
    x, y, bound = b.tensor("x", F32, "N"), b.tensor("y", F32, "N"), b.scalar("bound")
    row, trips = b.program_axis("N", "row"), b.while_axis("trips")
    with b.while_loop(trips, b.load(x, coord(row)), axes=[(row,)]) as loop:
        state = loop.carried(0)
        loop.body(b.op(Op.GT, b.op(Op.MUL, state, state), b.argument(bound)))
        loop.updated = (b.op(Op.MUL, state, b.const(0.5)),)
    b.store(y, loop.final(0), coord(row))
    start = np.array([4.4, 3.0, 0.25], dtype=np.float32)
    result = run(b.build(), {"x": start, "bound": float(BOUND)}, N=3)
    assert list(np.isinf(result["y"].bound)) == [True, False, False]
    assert_matches(result, y=np.array([1.1, 0.75, 0.25], dtype=np.float32))


def nested() -> Program:
    """For every k before the row's number: adds where the entry is positive, else doubles what a while loop halves."""
    b = Builder("nested", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    row, k, trips = b.program_axis("N", "row"), b.axis(AxisKind.RANGE, coord(0), "k"), b.while_axis("trips")
    with b.loop(k, b.const(1.0), axes=[(row,)]) as loop:
        total, v = loop.carried(0), b.load(x, coord(k))
        condition = b.op(Op.GT, v, b.const(0.0))
        with b.branch(condition) as arms:
            more = b.op(Op.ADD, total, v)
            arms.otherwise()
            with b.while_loop(trips, total, axes=[(row, k)]) as inner:
                state = inner.carried(0)
                inner.body(b.op(Op.GT, state, b.const(2.0)))
                inner.updated = (b.op(Op.MUL, state, b.const(0.5)),)
            arms.pairs = [(more, inner.final(0))]
        loop.updated = (arms.joined(0),)
    b.store(y, loop.final(0), coord(row))
    return b.build()


def nested_reference(x: Array) -> Array:
    result = []
    for row in range(x.size):
        total = 1.0
        for k in range(row):
            if x[k] > 0:
                total += float(x[k])
            else:
                while total > 2:
                    total *= 0.5
        result.append(total)
    return np.array(result)


def test_a_while_loop_in_an_arm_in_a_loop() -> None:
    x = np.array([3, -1, 5, 2.5, -2, -3, 9, 1, -1, 4], dtype=np.float32)
    assert_matches(run(nested(), {"x": x}, N=10), y=nested_reference(x))


def test_an_arm_that_only_ended_programs_would_enter() -> None:
    """Rows past the branch's bound are the only ones whose inner loop still runs."""
    b = Builder("ended", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    row, k = b.program_axis("N", "row"), b.axis(AxisKind.RANGE, coord(0), "k")
    start = b.load(x, coord(row))
    with b.branch(b.op(Op.LT, b.index(coord(row)), b.const(2, DType.I64))) as outer:
        with b.loop(k, start, axes=[(row,)]) as loop:
            state, v = loop.carried(0), b.load(x, coord(k))
            with b.branch(b.op(Op.GT, v, b.const(0.0))) as inner:
                up = b.op(Op.ADD, state, v)
                inner.otherwise()
                inner.pairs = [(up, b.op(Op.SUB, state, v))]
            loop.updated = (inner.joined(0),)
        total = loop.final(0)
        outer.otherwise()
        outer.pairs = [(total, start)]
    b.store(y, outer.joined(0), coord(row))
    x_values = np.array([1, -2, 3, 4], dtype=np.float32)
    assert_matches(run(b.build(), {"x": x_values}, N=4), y=np.array([1, -1, 3, 4]))
