"""Branches, while loops and merge rules mean what the same Python would."""
# ruff: noqa: F821, F841, E741, SIM108

import numpy as np
import pytest

import autotune as at
from autotune.errors import BlockDependent
from autotune.ir.parse import parse
from autotune.ir.program import AxisKind, For, If, MergeSide, While, statements
from autotune.ir.text import print_program
from autotune.ir.verify import verify

RNG = np.random.default_rng(5)
DEBUG = False


def found(program, kind):
    return [s for s in statements(program.body) if isinstance(s, kind)]


def zeros(*shape):
    return np.zeros(shape, np.float64)


# Branches


@at.kernel
def arms(x: at.f64["M", "N"], y: at.f64["M", "N"], z: at.f64["M"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        first = x[i, 0]
        if first > 0:
            v = v * 2
            kind = 1.0
        elif first < -1:
            v = -v
            kind = at.sum(v)
        else:
            kind = 3.0
        y[i, :] = v
        z[i] = kind


def test_both_arms_leave_a_value_and_a_name_left_alone_keeps_its_own():
    x = RNG.standard_normal((9, 3))
    x[:3, 0] = 0.5, -2.0, -0.5
    y, z = zeros(9, 3), zeros(9)
    for i, row in enumerate(x):
        y[i] = row * 2 if row[0] > 0 else -row if row[0] < -1 else row
        z[i] = 1.0 if row[0] > 0 else (-row).sum() if row[0] < -1 else 3.0
    result = at.interpret(arms, x, zeros(9, 3), zeros(9))
    np.testing.assert_allclose(result["y"].values, y)
    np.testing.assert_allclose(result["z"].values, z)
    outer, inner = found(arms.program, If)
    assert (outer.branch, inner.branch) == (0, 1)
    assert inner in outer.otherwise


@at.kernel
def stores(x: at.f64["M", "N"], y: at.f64["M", "N"], n: at.i32):
    M, N = x.shape
    for i in at.parallel(M):
        y[i, :] = 0
        if i < n:
            for j in at.tile(N):
                if x[i, 0] > 0:
                    y[i, j] = x[i, j]
                else:
                    y[i, j] = 1


@pytest.mark.parametrize("n", [0, 3, 9])
def test_stores_happen_in_the_arm_that_is_taken(n):
    x = RNG.standard_normal((6, 5))
    expected = np.where(np.arange(6)[:, None] < n, np.where(x[:, :1] > 0, x, 1), 0)
    np.testing.assert_allclose(at.interpret(stores, x, zeros(6, 5), n)["y"].values, expected)


@at.kernel
def known(x: at.f64["N"], y: at.f64["N"]):
    for i in at.parallel(x.shape[0]):
        if DEBUG:
            y[i] = at.nothing_of_that_name(x[i])
        elif 1 < 2:
            v = x[i]
        y[i] = v


def test_a_condition_known_at_tracing_leaves_no_branch():
    assert not found(known.program, If)
    assert np.array_equal(at.interpret(known, np.arange(3.0), zeros(3))["y"].values, np.arange(3.0))


@at.kernel
def mixed_arms(x: at.f64["N"], y: at.f64["N"], z: at.i64["N"]):
    for i in at.parallel(x.shape[0]):
        a, b, n = 1.0, x[i], 5
        pair = (a, b)
        if x[i] > 0:
            a, b = b, a
            n = i
            pair = (b, 7.0)
        y[i] = a * 10 + b + pair[0] * 100 + pair[1]
        z[i] = n


def test_swaps_literals_indices_and_tuples_in_an_arm():
    x = np.array([2.0, -2.0, 3.0])
    result = at.interpret(mixed_arms, x, zeros(3), np.zeros(3, np.int64))
    assert result["y"].values.tolist() == [20 + 1 + 100 + 7, 10 - 2 + 100 - 2, 30 + 1 + 100 + 7]
    assert result["z"].values.tolist() == [0, 5, 2]


@at.kernel
def tile_state_in_arms(x: at.f64["M", "N"], y: at.f64["M"], n: at.i32):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        acc = at.zeros((i,), dtype=at.f64)
        for k in at.range(N):
            if k % 2 == 0:
                acc = acc + x[i, k]
            elif k < n:
                for t in at.range(2):
                    if t == k - 1:
                        acc = acc * 0.5
        y[i] = acc


@pytest.mark.parametrize("n", [0, 2, 9])
def test_tile_values_are_carried_through_loops_inside_branches_inside_loops(n):
    x = RNG.standard_normal((3, 5))
    acc = np.zeros(3)
    for k in range(5):
        if k % 2 == 0:
            acc = acc + x[:, k]
        elif k < n:
            for t in range(2):
                if t == k - 1:
                    acc = acc * 0.5
    np.testing.assert_allclose(at.interpret(tile_state_in_arms, x, zeros(3), n)["y"].values, acc)


@at.kernel
def guarded_sum(x: at.f64["M", "N"], y: at.f64["M"], n: at.i32):
    M, N = x.shape
    for i in at.parallel(M):
        total = 0.0
        acc = at.cast(total, at.f64)
        for j in at.tile(N):
            if i < n:
                acc += at.sum(x[i, j])
        y[i] = acc


def test_a_running_sum_may_stand_in_an_arm_that_no_part_of_it_decides():
    x = RNG.standard_normal((4, 7))
    expected = x.sum(axis=1) * (np.arange(4) < 2)
    np.testing.assert_allclose(at.interpret(guarded_sum, x, zeros(4), 2)["y"].values, expected)


@at.kernel
def dead_branch(x: at.f64["N"], y: at.f64["N"]):
    for i in at.parallel(x.shape[0]):
        v, w = x[i], 0.0
        if v > 0:
            w = at.exp(v)
        n = 0
        while n < 3:
            n += 1
        y[i] = v


def test_control_flow_that_no_store_needs_is_dropped():
    assert not found(dead_branch.program, If | While | For)


@at.kernel
def constant_state(x: at.f64["M", "N"], y: at.f64["M"], z: at.f64["M"]):
    M, N = x.shape
    for i in at.parallel(M):
        state, total = at.zeros((N,), dtype=at.f64), at.cast(0.0, at.f64)
        for _k in at.range(3):
            total = total + at.sum(state)
            state = state + 1
        if x[i, 0] > 0:
            row = at.full((N,), 2.0, dtype=at.f64)
        else:
            row = at.full((N,), 3.0, dtype=at.f64)
        y[i], z[i] = total, at.sum(row * 2)


def test_a_state_has_the_axes_of_its_shape_even_where_it_is_constant_along_them():
    x = np.array([[1.0, 0.0], [-1.0, 0.0]])
    result = at.interpret(constant_state, x, zeros(2), zeros(2))
    assert result["y"].values.tolist() == [6, 6]
    assert result["z"].values.tolist() == [8, 12]


# While loops


@at.kernel
def collatz(start: at.i64["N"], y: at.i64["N"]):
    for i in at.parallel(start.shape[0]):
        n, steps = start[i], at.cast(0, at.i64)
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        y[i] = steps


def test_a_while_loop_runs_as_often_as_its_program_needs():
    start = np.array([0, 1, 2, 6, 7, 27])
    result = at.interpret(collatz, start, np.zeros(6, np.int64))["y"].values
    assert result.tolist() == [0, 0, 1, 8, 16, 111]
    (loop,) = found(collatz.program, While)
    assert collatz.program.axes[loop.axis].kind is AxisKind.WHILE


@at.kernel
def fibonacci(x: at.f64["M", "N"], y: at.f64["M", "N"], z: at.f64["M", "N"], n: at.i32):
    for i in at.parallel(at.tile(x.shape[0])):
        a, b, k = x[i, :], x[i, :] * 2, 0
        both = a
        while k < n:
            a, b = b, a + b
            both = b
            k = k + 1
        y[i, :] = a
        z[i, :] = both


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 5])
def test_swaps_are_simultaneous_and_zero_trips_keep_the_initial_value(n):
    x = RNG.standard_normal((3, 2))
    a, b, both = x, x * 2, x
    for _ in range(n):
        a, b = b, a + b
        both = b
    result = at.interpret(fibonacci, x, zeros(3, 2), zeros(3, 2), n)
    np.testing.assert_allclose(result["y"].values, a)
    np.testing.assert_allclose(result["z"].values, both)


@at.kernel
def pure_swap(x: at.f64["M"], trips: at.f64["T"], y: at.f64["M"], z: at.f64["M"]):
    for i in at.parallel(at.tile(x.shape[0])):
        a, b, c = x[i], -x[i], at.zeros((i,), dtype=at.f64)
        for _k in at.range(trips.shape[0]):
            a, b, c = b, a, a
        y[i], z[i] = a * 2 + b, c


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_odd_and_even_swaps_and_fan_out(n):
    x = np.array([1.0, 2.0, 5.0])
    a, b, c = x, -x, np.zeros(3)
    for _ in range(n):
        a, b, c = b, a, a
    result = at.interpret(pure_swap, x, zeros(n), zeros(3), zeros(3))
    assert np.array_equal(result["y"].values, a * 2 + b)
    assert np.array_equal(result["z"].values, c)


@at.kernel
def newton(x: at.f64["N"], y: at.f64["N"]):
    for i in at.parallel(x.shape[0]):
        guess, error, trips = x[i] + 1, at.cast(1.0, at.f64), 0
        while (error > 1e-6) & (trips < 100):
            better = (guess + x[i] / guess) / 2
            error = at.abs(better - guess)
            guess = better
            trips += 1
        y[i] = guess


def test_a_condition_may_read_several_states():
    x = np.array([1.0, 2.0, 9.0, 1e4])
    np.testing.assert_allclose(at.interpret(newton, x, zeros(4))["y"].values, np.sqrt(x), rtol=1e-9)


@at.kernel
def while_around_tiles(x: at.f64["M", "N"], y: at.f64["M"], n: at.i32):
    M, N = x.shape
    for i in at.parallel(M):
        k, total = 0, at.cast(0.0, at.f64)
        while k < n:
            part = at.cast(0.0, at.f64)
            for j in at.tile(N):
                part += at.sum(x[i, j])
            if part > 0:
                total = total + part
            k += 1
        y[i] = total


def test_loops_and_branches_inside_a_while_loop():
    x = RNG.standard_normal((4, 5))
    expected = 3 * np.maximum(x.sum(axis=1), 0)
    np.testing.assert_allclose(at.interpret(while_around_tiles, x, zeros(4), 3)["y"].values, expected)


@at.function
def clipped(v, limit):
    """The value halved until it is below a limit."""
    while v > limit:
        v = v / 2
    if v < 0:
        v = 0.0
    return v


@at.kernel
def uses_helper(x: at.f64["N"], y: at.f64["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = clipped(x[i], 1.0) + clipped(-x[i], 2.0)


def test_helpers_may_branch_and_loop():
    x = np.array([5.0, -7.0, 0.5])
    expected = [0.625 + 0, 0 + 1.75, 0.5 + 0]
    np.testing.assert_allclose(at.interpret(uses_helper, x, zeros(3))["y"].values, expected)


# Merge rules


@at.function
def combine(a, b):
    """States (low, total) of two parts."""
    (low, total), (other_low, other_total) = a, b
    return at.minimum(low, other_low), total + other_total


@at.function
def larger(a, b):
    return at.maximum(a, b)


@at.kernel
def ruled(x: at.f64["M", "N"], y: at.f64["M"], z: at.f64["M"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        low, total = at.full((i,), at.inf, dtype=at.f64), at.zeros((i,), dtype=at.f64)
        for j in at.tile(N, merge=combine):
            v = x[i, j]
            total = total + at.sum(v, axis=1)
            low = at.minimum(low, at.min(v, axis=1))
        m = at.full((i,), -at.inf, dtype=at.f64)
        for j in at.tile(N, merge=larger):
            m = at.maximum(m, at.max(x[i, j], axis=1))
        y[i] = low + total
        z[i] = m


def test_a_rule_is_inlined_over_the_states_of_two_sides_in_the_order_of_first_assignment():
    x = RNG.standard_normal((3, 7))
    result = at.interpret(ruled, x, zeros(3), zeros(3))
    np.testing.assert_allclose(result["y"].values, x.min(axis=1) + x.sum(axis=1))
    np.testing.assert_allclose(result["z"].values, x.max(axis=1))
    first, second = found(ruled.program, For)
    assert len(first.carries) == len(first.merge.merged) == 2
    assert len(second.carries) == len(second.merge.merged) == 1
    lets = ruled.program.lets()
    assert [lets[c.initial].value.value for c in first.carries] == [np.inf, 0.0]
    sides = [s.value for s in first.merge.body if isinstance(s.value, MergeSide)]
    assert [(s.side, s.slot) for s in sides] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@at.kernel
def softmax_sum(x: at.f64["M", "N"], v: at.f64["N", "D"], y: at.f64["M", "D"]):
    (M, N), D = x.shape, v.shape[1]
    for i in at.parallel(at.tile(M)):
        m, l, acc = (
            at.full((i,), -at.inf, dtype=at.f64),
            at.zeros((i,), dtype=at.f64),
            at.zeros((i, D), dtype=at.f64),
        )
        for j in at.tile(N, merge=at.online_softmax):
            s = x[i, j]
            m_new = at.maximum(m, at.max(s, axis=1))
            p = at.exp(s - m_new[:, None])
            alpha = at.exp(m - m_new)
            l = l * alpha + at.sum(p, axis=1)
            acc = acc * alpha[:, None] + at.dot(p, v[j, :])
            m = m_new
        y[i, :] = acc / l[:, None]


@pytest.mark.parametrize("block", [None, 1, 2, 7])
def test_online_softmax(block):
    x, v = RNG.standard_normal((3, 7)), RNG.standard_normal((7, 2))
    blocks = None if block is None else {a.id: block for a in softmax_sum.program.axes if a.kind is AxisKind.TILE}
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    expected = weights @ v / weights.sum(axis=1, keepdims=True)
    found = at.interpret(softmax_sum, x, v, zeros(3, 2), blocks=blocks)["y"].values
    np.testing.assert_allclose(found, expected)


@at.kernel
def one_state(x: at.f64["M", "N"], y: at.f64["M"]):
    M, N = x.shape
    for i in at.parallel(M):
        m, l, acc = -at.inf, 0.0, 0.0
        m, l, acc = at.cast(m, at.f64), at.cast(l, at.f64), at.cast(acc, at.f64)
        for j in at.tile(N, merge=at.online_softmax):
            m_new = at.maximum(m, at.max(x[i, j]))
            p = at.exp(x[i, j] - m_new)
            l = l * at.exp(m - m_new) + at.sum(p)
            acc = acc * at.exp(m - m_new) + at.sum(p * p)
            m = m_new
        y[i] = l


def test_what_no_store_needs_is_dropped_from_a_rule_too():
    (loop,) = found(one_state.program, For)
    assert len(loop.carries) == len(loop.merge.merged) == 2
    x = RNG.standard_normal((2, 5))
    expected = np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1)
    np.testing.assert_allclose(at.interpret(one_state, x, zeros(2))["y"].values, expected)


@at.kernel
def unruled(x: at.f64["M", "N"], y: at.f64["M"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        m, l = at.full((i,), -at.inf, dtype=at.f64), at.zeros((i,), dtype=at.f64)
        for j in at.tile(N):
            m_new = at.maximum(m, at.max(x[i, j], axis=1))
            l = l * at.exp(m - m_new) + at.sum(at.exp(x[i, j] - m_new[:, None]), axis=1)
            m = m_new
        y[i] = l


@at.kernel
def stores_part(x: at.f64["M", "N"], y: at.f64["M", "N"]):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        m = at.full((i,), -at.inf, dtype=at.f64)
        for j in at.tile(N, merge=larger):
            m = at.maximum(m, at.max(x[i, j], axis=1))
            y[i, j] = x[i, j] - m[:, None]


def test_only_a_rule_frees_a_loop_from_running_reductions_and_no_rule_frees_its_stores():
    with pytest.raises(BlockDependent, match="tile 'j'"):
        at.trace(unruled)
    with pytest.raises(BlockDependent, match="a part of a reduction over it is stored to 'y'"):
        at.trace(stores_part)


def test_every_program_here_is_valid_and_survives_its_text(programs):
    for program in programs.values():
        verify(program)
        assert parse(print_program(program)) == program
