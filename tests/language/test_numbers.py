"""The rules of numbers: promotion, literals, casts, integer and truth-value operations."""
# ruff: noqa: F821

import math

import numpy as np
import pytest

import autotune as at
from autotune.ir.parse import parse
from autotune.ir.program import Const, Elementwise, IndexValue, Reduce, bind
from autotune.ir.text import print_program
from autotune.ir.types import COMPARISONS, DType, Op
from autotune.ir.verify import verify


def let_types(kernel, op):
    return [let.dtype for let in kernel.program.lets().values() if getattr(let.value, "op", None) is op]


def test_every_operation_gets_operands_of_one_type():
    for kernel in (mixed, integers, truth, sums, divisions):
        lets = kernel.program.lets()
        for let in lets.values():
            if isinstance(let.value, Elementwise) and let.value.op is not Op.CAST:
                args = let.value.args[1:] if let.value.op is Op.WHERE else let.value.args
                kinds = {lets[a].dtype for a in args}
                assert len(kinds) == 1
                assert let.dtype is (DType.BOOL if let.value.op in COMPARISONS else kinds.pop())


@at.kernel
def mixed(x: at.f32["N"], d: at.f64["N"], k: at.i32["N"], b: at.bool_["N"], y: at.f64["N"], z: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] * d[i] + k[i] + b[i]
        z[i] = x[i] + k[i] * 2 + d[i]


def test_floats_win_and_the_wider_wins_and_a_store_casts():
    x, d = np.array([0.5], np.float32), np.array([0.1])
    k, b = np.array([3], np.int32), np.array([True])
    result = at.interpret(mixed, x, d, k, b, np.zeros(1), np.zeros(1, np.float32))
    assert result["y"].values[0] == pytest.approx(0.05 + 3 + 1)
    assert result["z"].values[0] == pytest.approx(0.5 + 6 + 0.1, rel=1e-6)
    assert let_types(mixed, Op.ADD) == [DType.F64, DType.F64, DType.F32, DType.F64]


@at.kernel
def integers(k: at.i32["N"], j: at.i64["N"], s: at.i8["N"], y: at.i64["N"], z: at.i32["N"]):
    for i in at.parallel(k.shape[0]):
        y[i] = k[i] * 2 + j[i] + i
        z[i] = (k[i] + s[i]) // 3 + k[i] % 3 - -k[i] + at.abs(k[i]) + at.floor(k[i])


def test_integers():
    k = np.array([-7, 5], np.int32)
    j, s = np.array([100, 200]), np.array([-3, 1], np.int8)
    result = at.interpret(integers, k, j, s, np.zeros(2, np.int64), np.zeros(2, np.int32))
    assert result["y"].values.tolist() == [2 * -7 + 100, 2 * 5 + 200 + 1]
    expected = [(-7 - 3) // 3 + -7 % 3 - 7 + 7 - 7, (5 + 1) // 3 + 5 % 3 + 5 + 5 + 5]
    assert result["z"].values.tolist() == expected
    assert let_types(integers, Op.MUL) == [DType.I32]


@at.kernel
def divisions(k: at.i32["N"], d: at.f64["N"], x: at.f32["N"], y: at.f64["N"], z: at.f32["N"]):
    (N,) = k.shape
    for i in at.parallel(N):
        y[i] = d[i] / k[i] + d[i] / N
        z[i] = k[i] / k[i] + x[i] / N + i / N + 1 / 2


def test_division_gives_f32_and_f64_beside_f64():
    k, d, x = np.array([3, 7], np.int32), np.array([1.0, 2.0]), np.array([1.0, 3.0], np.float32)
    result = at.interpret(divisions, k, d, x, np.zeros(2), np.zeros(2, np.float32))
    np.testing.assert_allclose(result["y"].values, d / k + d / 2)
    np.testing.assert_allclose(result["z"].values, 1 + x / 2 + np.arange(2) / 2 + 0.5)
    assert let_types(divisions, Op.DIV) == [DType.F64, DType.F64, DType.F32, DType.F32, DType.F32]


@at.kernel
def truth(x: at.f32["N"], b: at.bool_["N"], y: at.bool_["N"], z: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = ~b[i] & (0 < x[i] <= 2) | (b[i] ^ True) & (i == 0)
        z[i] = at.where(b[i] != True, 1, 0) + at.where(b[i], x[i], -at.inf)  # noqa: E712


def test_truth_values():
    x, b = np.array([1.0, 3.0, 2.0], np.float32), np.array([True, False, False])
    result = at.interpret(truth, x, b, np.zeros(3, bool), np.zeros(3, np.float32))
    assert result["y"].values.tolist() == [False, False, True]
    assert result["z"].values.tolist() == [1.0, -math.inf, -math.inf]


@at.kernel
def sums(
    s: at.i8["M", "N"], b: at.bool_["M", "N"], k: at.i32["M", "N"], y: at.i64["M"], z: at.i32["M"], t: at.bool_["M"]
):
    for i in at.parallel(s.shape[0]):
        y[i] = at.sum(b[i, :]) + at.argmax(k[i, :])
        z[i] = at.sum(s[i, :]) + at.max(k[i, :]) - at.min(k[i, :])
        t[i] = at.any(k[i, :]) & ~at.all(b[i, :])


def test_narrow_types_accumulate_in_wider_ones():
    s, b = np.full((1, 3), 100, np.int8), np.array([[True, False, True]])
    k = np.array([[0, 7, 7]], np.int32)
    result = at.interpret(sums, s, b, k, np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, bool))
    assert result["y"].values[0] == 2 + 1
    assert result["z"].values[0] == 300 + 7
    assert result["t"].values[0]
    kinds = [let.dtype for let in sums.program.lets().values() if isinstance(let.value, Reduce)]
    assert kinds == [DType.I64, DType.I64, DType.I32, DType.I32, DType.I32, DType.BOOL, DType.BOOL]


@at.kernel
def functions(x: at.f32["N"], k: at.i32["N"], y: at.f32["N"], z: at.i32["N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i]
        y[i] = at.relu(v) + at.reciprocal(v) + at.sqrt(at.abs(v)) + at.exp(k[i]) + at.round(v) + at.minimum(v, 1)
        z[i] = at.cast(v, at.i32) + at.cast(at.ceil(v), at.i32)


def test_functions_and_casts():
    x, k = np.array([-1.75, 2.5], np.float32), np.array([0, 1], np.int32)
    result = at.interpret(functions, x, k, np.zeros(2, np.float32), np.zeros(2, np.int32))
    expected = np.maximum(x, 0) + 1 / x + np.sqrt(np.abs(x)) + np.exp(k) + np.round(x) + np.minimum(x, 1)
    np.testing.assert_allclose(result["y"].values, expected, rtol=1e-6)
    assert result["z"].values.tolist() == [-1 - 1, 2 + 3]


@at.kernel
def scalars(x: at.f32["N"], y: at.f32["N"], scale: at.f32, shift: at.f64 = 0.25, count: at.i32 = 2):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] * scale + shift / count


def test_scalars_have_types_and_defaults():
    assert scalars.scalar_defaults == {"scale": None, "shift": 0.25, "count": 2}
    assert scalars.input_names == ("x", "scale", "shift", "count")
    x = np.array([2.0], np.float32)
    assert at.interpret(scalars, x, np.zeros(1, np.float32), 3.0)["y"].values[0] == 6.125
    assert at.interpret(scalars, x, np.zeros(1, np.float32), scale=1.0, count=1)["y"].values[0] == 2.25


@at.kernel
def indices(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    half = (N + 1) // 2
    for row in at.parallel(M):
        for j in at.tile(N):
            y[row, j] = at.where(j.index < at.minimum(half, N - 1), x[row, j], j.index * 2 + row % 2)


def test_index_expressions_stay_expressions_until_they_meet_a_value():
    expressions = [let for let in indices.program.lets().values() if isinstance(let.value, IndexValue)]
    assert {let.dtype for let in expressions} == {DType.I64}
    assert len(expressions) == 3
    x = np.arange(10, dtype=np.float32).reshape(2, 5) + 100
    expected = x.copy()
    expected[:, 3:] = 2 * np.arange(3, 5) + np.arange(2)[:, None]
    assert np.array_equal(at.interpret(indices, x, x)["y"].values, expected)


@at.kernel
def fills(y: at.f32["N"], z: at.i32["N"]):
    (N,) = y.shape
    for _p in at.parallel(1):
        y[:] = at.full((N,), 0.5) + at.zeros((N,))
        z[:] = at.full((N,), 7, dtype=at.i32)


def test_fills_are_constants():
    kinds = [(let.dtype, let.value.value) for let in fills.program.lets().values() if isinstance(let.value, Const)]
    assert kinds == [(DType.F32, 0.5), (DType.F32, 0.0), (DType.I32, 7)]
    result = at.interpret(fills, np.zeros(3, np.float32), np.zeros(3, np.int32))
    assert result["y"].values.tolist() == [0.5] * 3 and result["z"].values.tolist() == [7] * 3


@at.kernel
def guarded(k: at.i32["N"], d: at.i32["N"], y: at.i32["N"]):
    for i in at.parallel(k.shape[0]):
        divisor = d[i]
        y[i] = k[i] // at.where(divisor != 0, divisor, 1) + k[i] % at.maximum(divisor, 1) + k[i] // 3


def test_guarded_divisors_are_accepted():
    k, d = np.array([7, -7], np.int32), np.array([0, 2], np.int32)
    assert guarded.bind(N=2).is_bound
    assert at.interpret(guarded, k, d, k)["y"].values.tolist() == [7 + 0 + 2, -4 + 1 - 3]


def test_every_program_here_is_valid_and_survives_its_text(programs):
    for program in programs.values():
        verify(program)
        assert parse(print_program(program)) == program
        bound = bind(program, dict.fromkeys(program.dims, 8))
        verify(bound)
        assert bound.is_bound
