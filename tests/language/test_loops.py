"""Loops, carried variables, and results that may not depend on block sizes."""
# ruff: noqa: F821

import numpy as np
import pytest

import autotune as at
from autotune.errors import BlockDependent, LoadedWhereNotStored, ProgramTileReduction, StoreRace
from autotune.ir.parse import parse
from autotune.ir.program import AxisKind, For, bind, statements
from autotune.ir.text import print_program
from autotune.ir.verify import verify

RNG = np.random.default_rng(0)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def tiles(program):
    kinds = (AxisKind.TILE, AxisKind.PROGRAM_TILE)
    return [axis.id for axis in program.axes if axis.kind in kinds]


@at.kernel
def statistics(
    x: at.f32["M", "N"], s: at.f32["M"], p: at.f32["M"], lo: at.f32["M"], hi: at.f32["M"], any_: at.bool_["M"]
):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        total, product, found = at.zeros((i,)), at.full((i,), 1.0), at.full((i,), False, dtype=at.bool_)
        low, high = at.full((i,), at.inf), at.full((i,), -at.inf)
        for j in at.tile(N):
            v = x[i, j]
            total += at.sum(v, axis=1)
            product = product * at.prod(v, axis=1)
            low = at.minimum(low, at.min(v, axis=1))
            high = at.maximum(at.max(v, axis=1), high)
            found = found | at.any(v > 2, axis=1)
        s[i], p[i], lo[i], hi[i], any_[i] = total, product, low, high, found


@pytest.mark.parametrize("block", [1, 3, 7])
def test_running_reductions_do_not_depend_on_blocks(block):
    x = RNG.integers(-3, 4, (4, 7)).astype(np.float32)
    blocks = dict.fromkeys(tiles(statistics.bind(M=4, N=7)), block)
    result = at.interpret(statistics, x, *(zeros(4) for _ in range(4)), np.zeros(4, bool), blocks=blocks)
    assert np.array_equal(result["s"].values, x.sum(axis=1))
    assert np.array_equal(result["p"].values, x.prod(axis=1))
    assert np.array_equal(result["lo"].values, x.min(axis=1))
    assert np.array_equal(result["hi"].values, x.max(axis=1))
    assert np.array_equal(result["any_"].values, (x > 2).any(axis=1))


@at.kernel
def two_passes(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        total = 0.0
        for j in at.tile(N):
            total += at.sum(x[row, j])
        for j in at.tile(N):
            y[row, j] = x[row, j] / total


def test_one_name_may_run_over_two_loops():
    x = RNG.integers(1, 9, (2, 5)).astype(np.float32)
    result = at.interpret(two_passes, x, x)["y"].values
    np.testing.assert_allclose(result, x / x.sum(axis=1, keepdims=True))


@at.kernel
def nested(x: at.f32["A", "B", "C"], y: at.f32["A"]):
    A, B, C = x.shape
    for a in at.parallel(A):
        acc = 0.0
        for b in at.tile(B):
            for c in at.tile(C):
                acc += at.sum(x[a, b, c])
        y[a] = acc


def test_nested_tile_loops_carry_one_sum():
    x = RNG.integers(-5, 5, (2, 3, 4)).astype(np.float32)
    assert np.array_equal(at.interpret(nested, x, zeros(2))["y"].values, x.sum(axis=(1, 2)))
    loops = [s for s in statements(nested.program.body) if isinstance(s, For)]
    assert [len(loop.carries) for loop in loops] == [1, 1]


@at.kernel
def recurrence(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M"], decay: at.f32 = 0.5):
    M, N = x.shape
    for i in at.parallel(at.tile(M)):
        state = at.zeros((i,))
        for t in at.range(N - 1, -1, -2):
            state = state * decay + x[i, t]
            y[i, t] = state
        z[i] = state


def test_a_range_loop_runs_in_order_with_any_update():
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    expected, state = np.zeros((2, 6)), np.zeros(2)
    for t in range(5, -1, -2):
        state = state * 0.5 + x[:, t]
        expected[:, t] = state
    result = at.interpret(recurrence, x, np.zeros((2, 6), np.float32), zeros(2))
    np.testing.assert_allclose(result["y"].values, expected, rtol=1e-6)
    np.testing.assert_allclose(result["z"].values, state, rtol=1e-6)


@at.kernel
def triangular(x: at.f32["N", "N"], y: at.f32["N"]):
    for row in at.parallel(x.shape[0]):
        acc, last = 0.0, row
        for k in at.range(row):
            acc += x[row, k]
            last = k
        y[row] = acc + last


def test_a_bound_may_depend_on_the_program():
    x = RNG.integers(-5, 5, (4, 4)).astype(np.float32)
    expected = np.tril(x, -1).sum(axis=1) + np.array([0, 0, 1, 2])
    assert np.array_equal(at.interpret(triangular, x, zeros(4))["y"].values, expected)


@at.kernel
def causal(x: at.f64["Q", "K"], y: at.f64["Q"], z: at.i64["Q"]):
    Q, K = x.shape
    for i in at.parallel(at.tile(Q)):
        acc, count = at.zeros((i,), dtype=at.f64), at.zeros((i,), dtype=at.i64)
        for j in at.tile(at.minimum(K, at.maximum(i.stop + K - Q, 0))):
            seen = j.index[None, :] <= i.index[:, None] + (K - Q)
            acc += at.sum(at.where(seen, x[i, j], 0), axis=1)
            count += at.sum(seen, axis=1)
        y[i], z[i] = acc, count


@pytest.mark.parametrize(("Q", "K"), [(1, 5), (4, 4), (3, 7), (5, 2)])
@pytest.mark.parametrize("block", [1, 2, 7])
def test_a_bound_may_depend_on_where_a_tile_ends(Q, K, block):
    x = RNG.standard_normal((Q, K))
    mask = np.tri(Q, K, K - Q, dtype=bool)
    blocks = dict.fromkeys(tiles(causal.program), block)
    result = at.interpret(causal, x, np.zeros(Q), np.zeros(Q, np.int64), blocks=blocks)
    np.testing.assert_allclose(result["y"].values, np.where(mask, x, 0).sum(axis=1), atol=1e-12)
    assert np.array_equal(result["z"].values, mask.sum(axis=1))


@at.kernel
def by_bounds(x: at.f64["N"], y: at.f64["N"], w: at.f64["N"]):
    N = x.shape[0]
    for i in at.parallel(at.tile(N)):
        acc = at.zeros((i,), dtype=at.f64)
        for k in at.range(i.start, i.stop):
            acc = acc + at.where(k == i.index, x[k], 0)
        y[i] = acc
        w[i] = at.where((i.index >= i.start) & (i.index < i.stop), x[i], 0)


def test_a_tile_knows_where_it_begins_and_ends():
    x = RNG.standard_normal(7)
    for block in (1, 3, 7):
        blocks = dict.fromkeys(tiles(by_bounds.program), block)
        result = at.interpret(by_bounds, x, np.zeros(7), np.zeros(7), blocks=blocks)
        np.testing.assert_allclose(result["y"].values, x)
        np.testing.assert_allclose(result["w"].values, x)


@at.kernel
def groups(x: at.f64["H", "N"], y: at.f64["G", "N"], z: at.f64["H"]):
    (H, N), G = x.shape, y.shape[0]
    group = H // G
    for h in at.parallel(H):
        acc = at.cast(0.0, at.f64)
        for j in at.tile(N):
            acc += at.dot(x[h, j], y[h // group, j])
        z[h] = acc


def test_an_index_may_divide():
    x, y = RNG.standard_normal((6, 5)), RNG.standard_normal((2, 5))
    expected = (x * np.repeat(y, 3, axis=0)).sum(axis=1)
    np.testing.assert_allclose(at.interpret(groups, x, y, np.zeros(6))["z"].values, expected)


@at.kernel
def carried_full_axis(x: at.f32["R", "M", "N"], y: at.f32["M", "N"]):
    R, M, N = x.shape
    for m in at.parallel(M):
        acc = at.zeros((N,))
        for r in at.range(R):
            acc += x[r, m, :]
        y[m, :] = acc


def test_a_carry_may_have_axes_of_its_own():
    x = RNG.integers(-5, 5, (3, 2, 4)).astype(np.float32)
    assert np.array_equal(at.interpret(carried_full_axis, x, zeros(2, 4))["y"].values, x.sum(axis=0))
    (loop,) = (s for s in statements(carried_full_axis.program.body) if isinstance(s, For))
    assert loop.carries[0].axes == (0, 2)


@at.kernel
def swapped(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        a, b = x[i], 1.0
        for _t in at.range(3):
            a, b = b, a + b
        y[i] = a


def test_carries_may_be_exchanged():
    x = np.array([5.0], np.float32)
    assert at.interpret(swapped, x, zeros(1))["y"].values[0] == 7.0


# Refusals


@at.kernel
def stores_partial(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        for j in at.tile(x.shape[1]):
            y[row, j] = x[row, j] / at.sum(x[row, j])


@at.kernel
def stores_prefix(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        acc = 0.0
        for j in at.tile(x.shape[1]):
            acc += at.sum(x[row, j])
            y[row, j] = x[row, j] + acc


@at.kernel
def keeps_last(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        last = 0.0
        for j in at.tile(x.shape[1]):
            last = at.sum(x[row, j])
        y[row] = last


@at.kernel
def counts_blocks(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        count = 0.0
        for _j in at.tile(x.shape[1]):
            count += 1
        y[row] = count + x[row, 0]


@at.kernel
def wrong_operation(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        acc = 0.0
        for j in at.tile(x.shape[1]):
            acc += at.max(x[row, j])
        y[row] = acc


@at.kernel
def online_without_merge(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        m, total = -at.inf, 0.0
        for j in at.tile(x.shape[1]):
            m_new = at.maximum(m, at.max(x[row, j]))
            total = total * at.exp(m - m_new) + at.sum(at.exp(x[row, j] - m_new))
            m = m_new
        y[row] = m + at.log(total)


@at.kernel
def reduces_unfinished(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        m, total = -at.inf, 0.0
        for j in at.tile(x.shape[1]):
            m = at.maximum(m, at.max(x[row, j]))
            total += at.sum(at.exp(x[row, j] - m))
        y[row] = total


@at.kernel
def uses_block_start(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        total = 0.0
        for j in at.tile(x.shape[1]):
            total += at.sum(x[row, j] * j.start)
        y[row] = total


@at.kernel
def inner_only(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        total = 0.0
        for _j in at.tile(x.shape[1]):
            for k in at.tile(x.shape[1]):
                total += at.sum(x[row, k])
        y[row] = total


@at.kernel
def stores_at_start(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        for j in at.tile(x.shape[1]):
            y[row, j.start] = 1.0
            y[row, j] = x[row, j]


@at.kernel
def loops_over_block(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        for j in at.tile(x.shape[1]):
            acc = 0.0
            for k in at.tile(j.stop):
                acc += at.sum(x[row, k])
            y[row, j] = x[row, j] + acc


BLOCK_DEPENDENT = [
    (stores_at_start, "a store is placed where its blocks begin or end"),
    (loops_over_block, "a part of a reduction over it is stored to 'y'"),
    (stores_partial, "a part of a reduction over it is stored to 'y'"),
    (stores_prefix, "a part of a reduction over it is stored to 'y'"),
    (keeps_last, "not updated as a running reduction"),
    (counts_blocks, "what a trip adds to a carried variable is no at.sum over _j"),
    (wrong_operation, "what a trip adds to a carried variable is no at.sum over j"),
    (online_without_merge, "not updated as a running reduction"),
    (reduces_unfinished, "what a trip reduces depends on an unfinished reduction"),
    (uses_block_start, "what a trip reduces depends on an unfinished reduction"),
    (inner_only, "what a trip adds to a carried variable is no at.sum over _j"),
]


@pytest.mark.parametrize(("kernel", "text"), BLOCK_DEPENDENT, ids=[k.name for k, _ in BLOCK_DEPENDENT])
def test_results_that_depend_on_blocks_are_refused(kernel, text):
    with pytest.raises(BlockDependent, match="would depend on the block size of tile .*" + text):
        at.trace(kernel)


@at.kernel
def over_parallel_tile(x: at.f32["M", "N"], y: at.f32["N"]):
    for i in at.parallel(at.tile(x.shape[0])):
        y[:] = at.sum(x[i, :], axis=0)


def test_a_reduction_over_a_parallel_tile_is_refused():
    with pytest.raises(ProgramTileReduction, match=r"at\.sum reduces over the parallel tile 'i'"):
        at.trace(over_parallel_tile)


@at.kernel
def races(x: at.f32["M", "N"], y: at.f32["M"]):
    M, N = x.shape
    for row, column in at.parallel(M, N):
        y[row] = x[row, column]


@at.kernel
def halved(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i // 2] = x[i]


@at.kernel
def overlapping(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        for j in at.tile(x.shape[1]):
            y[i + j] = x[i, j]


RACES = [(races, "column"), (halved, "i"), (overlapping, "i")]


@pytest.mark.parametrize(("kernel", "name"), RACES, ids=[k.name for k, _ in RACES])
def test_stores_that_may_meet_are_refused(kernel, name):
    text = f"two programs may store to one place of 'y': no index of the store is {name} times a constant"
    with pytest.raises(StoreRace, match=text):
        at.trace(kernel)


@at.kernel
def two_rows(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        y[i, :] = x[i, :]
        at.store(y[i + 1, :], x[i, :], mask=i + 1 < x.shape[0])


@at.kernel
def crossed(x: at.f32["N", "N"], y: at.f32["N", "N"]):
    for i in at.parallel(x.shape[0]):
        y[i, :] = x[i, :]
        y[:, i] = x[i, :]


def test_two_stores_that_may_meet_are_refused():
    for kernel in (two_rows, crossed):
        text = r"two programs may store to one place of 'y': the stores of lines \d+ and \d+ may meet where i differs"
        with pytest.raises(StoreRace, match=text):
            at.trace(kernel)


@at.kernel
def neighbours(y: at.f32["N"]):
    for i in at.parallel(y.shape[0]):
        y[i] = y[i + 1]


@at.kernel
def own_row(y: at.f32["M", "N"]):
    for i in at.parallel(y.shape[0]):
        s = at.sum(y[i, :])
        for j in at.tile(y.shape[1]):
            y[i, j] = y[i, j] - s


def test_an_output_may_be_loaded_only_where_it_is_stored():
    with pytest.raises(LoadedWhereNotStored, match="'y' is stored to and also loaded"):
        at.trace(neighbours)
    y = RNG.integers(-5, 5, (2, 3)).astype(np.float32)
    assert np.array_equal(at.interpret(own_row, y)["y"].values, y - y.sum(axis=1, keepdims=True))


def test_every_program_here_is_valid_and_survives_its_text(programs):
    for program in programs.values():
        verify(program)
        assert parse(print_program(program)) == program
        bound = bind(program, dict.fromkeys(program.dims, 8))
        verify(bound)
        assert bound.is_bound
