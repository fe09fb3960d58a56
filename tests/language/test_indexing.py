"""Subscripts: shifted, strided, negative and gathered indices, new axes, masks and fills."""
# ruff: noqa: F821

import numpy as np
import pytest

import autotune as at
from autotune.errors import SliceOutOfBounds, WrongShape
from autotune.ir.parse import parse
from autotune.ir.program import AxisKind, Indirect, Load, bind
from autotune.ir.text import print_program
from autotune.ir.verify import verify

RNG = np.random.default_rng(0)


def zeros(*shape):
    return np.zeros(shape, np.float32)


@at.kernel
def slices(x: at.f32["M", "N"], y: at.f32["M", "N"], z: at.f32["M"]):
    M, N = x.shape
    for row in at.parallel(M):
        y[row, 0 : N // 2] = x[row, 0 : N // 2] - x[row, N - N // 2 :]
        y[row, N // 2 :] = x[row, N // 2 :]
        z[row] = x[row, -1] + at.sum(x[row, 1::2]) + at.sum(x[row, ::-1] * x[row, :]) + at.sum(x[row, :-1])


@pytest.mark.parametrize("n", [1, 2, 7])
def test_slices_follow_numpy(n):
    x = RNG.integers(-9, 9, (3, n)).astype(np.float32)
    result = at.interpret(slices, x, zeros(3, n), zeros(3))
    expected = x.copy()
    expected[:, : n // 2] -= x[:, n - n // 2 :]
    assert np.array_equal(result["y"].values, expected)
    z = x[:, -1] + x[:, 1::2].sum(axis=1) + (x[:, ::-1] * x).sum(axis=1) + x[:, :-1].sum(axis=1)
    assert np.array_equal(result["z"].values, z)


@at.kernel
def shifted(x: at.f32["N"], y: at.f32["N"]):
    (N,) = x.shape
    for i in at.parallel(at.tile(N)):
        y[i] = at.load(x[i - 1], fill=-1) + x[i + 1] + x[N - 1 - i.index]


def test_an_index_outside_loads_the_fill():
    x = np.array([1, 2, 3, 4], np.float32)
    left, right = np.array([-1, 1, 2, 3]), np.array([2, 3, 4, 0])
    assert np.array_equal(at.interpret(shifted, x, x)["y"].values, left + right + x[::-1])


@at.kernel
def gather(table: at.f32["V", "D"], label: at.i32["N"], y: at.f32["N", "D"], z: at.f32["N"]):
    for i in at.parallel(at.tile(label.shape[0])):
        y[i, :] = table[label[i], :]
        z[i] = table[label[i] + 1, 0] + table[label[i], 1] * 2


def test_one_level_of_indirection():
    table, label = RNG.standard_normal((5, 3)).astype(np.float32), np.array([4, 0, 2], np.int32)
    result = at.interpret(gather, table, label, zeros(3, 3), zeros(3))
    assert np.array_equal(result["y"].values, table[label])
    next_rows = np.append(table[:, 0], 0)[label + 1]  # one past the end loads the fill
    np.testing.assert_allclose(result["z"].values, next_rows + table[label, 1] * 2, rtol=1e-6)
    loads = [let.value for let in gather.program.lets().values() if isinstance(let.value, Load)]
    assert sum(isinstance(i, Indirect) for load in loads for i in load.index) == 3


@at.kernel
def pairs(x: at.f32["N", "D"], y: at.f32["N", "N"]):
    N = x.shape[0]
    for i in at.parallel(at.tile(N)):
        y[i, :] = at.sum(x[i, None, :] * x[:][None, :, :], axis=2) + at.max(x[i, :], axis=-1)[:, None]


def test_new_axes_and_reductions_by_position():
    x = RNG.integers(-3, 3, (4, 5)).astype(np.float32)
    expected = x @ x.T + x.max(axis=1)[:, None]
    assert np.array_equal(at.interpret(pairs, x, zeros(4, 4))["y"].values, expected)


@at.kernel
def masked_store(x: at.f32["N"], y: at.f32["N"]):
    (N,) = x.shape
    for i in at.parallel(at.tile(N)):
        at.store(y[i + 1], x[i], mask=i.index + 1 < N)


def test_a_masked_store_may_reach_outside():
    x, y = np.array([1, 2, 3], np.float32), np.array([9, 9, 9], np.float32)
    assert masked_store.bind(N=3).is_bound
    assert at.interpret(masked_store, x, y)["y"].values.tolist() == [9, 1, 2]


@at.kernel
def strided(x: at.f32["N"], y: at.f32["2*N+1"]):
    for i in at.parallel(x.shape[0]):
        y[2 * i + 1] = x[i]
        y[2 * i] = -x[i]


def test_dimensions_may_be_expressions():
    x = np.array([1, 2], np.float32)
    assert at.interpret(strided, x, zeros(5))["y"].values.tolist() == [-1, 1, -2, 2, 0]
    with pytest.raises(WrongShape, match=r"'y' has shape \[4\], expected \[5\]"):
        at.interpret(strided, x, zeros(4))


@at.kernel
def head(x: at.f32["N"], y: at.f32[3]):
    for _p in at.parallel(1):
        y[:] = x[0:3]


def test_a_slice_stays_inside_its_dimension():
    assert head.bind(N=3).is_bound
    with pytest.raises(SliceOutOfBounds, match=r"the slice of 'x' runs over 0\.\.2, the extent is 2"):
        head.bind(N=2)


def test_full_axes_of_slices_are_full():
    assert {a.kind for a in head.program.axes[1:]} == {AxisKind.FULL}


@at.kernel
def grid(y: at.i64["M", "N"]):
    M, N = y.shape
    for i, j in at.parallel(at.tile(M), at.tile(N)):
        y[i, j] = i.index[:, None] * 10 + j.index[None, :]


def test_coordinates_are_values_over_their_tile():
    result = at.interpret(grid, np.zeros((3, 4), np.int64))["y"].values
    assert np.array_equal(result, np.arange(3)[:, None] * 10 + np.arange(4))


def test_every_program_here_is_valid_and_survives_its_text(programs):
    for program in programs.values():
        verify(program)
        assert parse(print_program(program)) == program
        bound = bind(program, dict.fromkeys(program.dims, 8))
        verify(bound)
        assert bound.is_bound
