"""Operations on numbers with error bounds: numpy's own float32 arithmetic must always lie inside."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ir.bounds import Approx, Array, cast, elementwise, exact, round_to
from autotune.ir.reductions import argmax, reduce
from autotune.ir.types import STRICT, DType, MathPolicy, Op, ReduceOp

F32 = DType.F32
LOOSE = MathPolicy(max_ulp=4.0)
NUMBERS = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)
TAME = st.floats(width=32, min_value=-100, max_value=100)

BINARY: dict[Op, Callable[[Array, Array], Array]] = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: np.divide,
    Op.MINIMUM: np.fmin,
    Op.MAXIMUM: np.fmax,
}
UNARY: dict[Op, Callable[[Array], Array]] = {
    Op.NEG: np.negative,
    Op.ABS: np.abs,
    Op.EXP: np.exp,
    Op.EXP2: np.exp2,
    Op.LOG: np.log,
    Op.SQRT: np.sqrt,
    Op.RSQRT: lambda x: np.float32(1) / np.sqrt(x),
    Op.RECIPROCAL: lambda x: np.float32(1) / x,
    Op.TANH: np.tanh,
    Op.SIGMOID: lambda x: (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(np.float32),
    Op.ERF: lambda x: np.array([math.erf(v) for v in x], dtype=np.float32),
    Op.SIN: lambda x: np.sin(x.astype(np.float64)).astype(np.float32),
    Op.COS: lambda x: np.cos(x.astype(np.float64)).astype(np.float32),
    Op.FLOOR: np.floor,
    Op.CEIL: np.ceil,
    Op.ROUND: np.rint,
}


def apply(op: Op, *args: Approx) -> Approx:
    with np.errstate(all="ignore"):
        return elementwise(op, args, F32, DType.BOOL if op is Op.LT else F32, LOOSE)


def assert_inside(found: Array, expected: Approx) -> None:
    """NaN meets NaN and infinity the same infinity, wherever anything is known."""
    value, bound = np.broadcast_arrays(expected.value, expected.bound)
    assert not np.isnan(bound).any()
    known = np.isfinite(bound)
    with np.errstate(all="ignore"):
        near = np.abs(found.astype(np.float64) - value) <= bound
    same = (found == value) | (np.isnan(found) & np.isnan(value))
    assert (near | same | ~known).all(), (found, value, bound)


def wide(values: list[float]) -> tuple[Array, Approx]:
    narrow = np.array(values, dtype=np.float32)
    return narrow, exact(narrow.astype(np.float64))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.value)
@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
def test_one_binary_operation(op: Op, pairs: list[tuple[float, float]]) -> None:
    (a, x), (b, y) = wide([p[0] for p in pairs]), wide([p[1] for p in pairs])
    with np.errstate(all="ignore"):
        assert_inside(BINARY[op](a, b), apply(op, x, y))


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.value)
@given(values=st.lists(NUMBERS | TAME, min_size=1, max_size=8))
def test_one_function(op: Op, values: list[float]) -> None:
    if op in (Op.SIN, Op.COS):
        values = [v for v in values if math.isfinite(v)] or [0.0]
    a, x = wide(values)
    with np.errstate(all="ignore"):
        assert_inside(UNARY[op](a), apply(op, x))


SMOOTH = [op for op in UNARY if op not in (Op.SIN, Op.COS)]


@settings(max_examples=300)
@given(
    st.lists(NUMBERS | TAME, min_size=4, max_size=4),
    st.lists(st.sampled_from([*BINARY, *SMOOTH]), min_size=1, max_size=6),
)
def test_chains_of_operations(values: list[float], ops: list[Op]) -> None:
    found, expected = [], []
    for v in values:
        a, x = wide([v])
        found.append(a)
        expected.append(x)
    for k, op in enumerate(ops):
        left, right = (k * 7) % len(found), len(found) - 1
        with np.errstate(all="ignore"):
            if op in BINARY:
                found.append(np.asarray(BINARY[op](found[left], found[right]), dtype=np.float32))
                expected.append(apply(op, expected[left], expected[right]))
            else:
                found.append(np.asarray(UNARY[op](found[right]), dtype=np.float32))
                expected.append(apply(op, expected[right]))
        assert_inside(found[-1], expected[-1])


@given(st.lists(TAME, min_size=1, max_size=40))
def test_sums_in_any_order(values: list[float]) -> None:
    a, x = wide(values)
    expected = reduce(ReduceOp.SUM, x, (0,), F32, None, None)
    forward = np.cumsum(a, dtype=np.float32)[-1]
    backward = np.cumsum(a[::-1], dtype=np.float32)[-1]
    for found in (forward, backward, np.sum(a, dtype=np.float32)):
        assert_inside(np.asarray(found), expected)


@given(st.lists(st.floats(width=32, min_value=0.5, max_value=2), min_size=1, max_size=40))
def test_products_in_any_order(values: list[float]) -> None:
    a, x = wide(values)
    expected = reduce(ReduceOp.PROD, x, (0,), F32, None, None)
    assert_inside(np.asarray(np.cumprod(a, dtype=np.float32)[-1]), expected)
    assert_inside(np.asarray(np.cumprod(a[::-1], dtype=np.float32)[-1]), expected)


def test_products_that_underflow_or_overflow_on_the_way() -> None:
    a, x = wide([1e-30, 1e-15, 1e30, 1e15, 1e-20])
    expected = reduce(ReduceOp.PROD, x, (0,), F32, None, None)
    with np.errstate(all="ignore"):
        for order in ([0, 1, 2, 3, 4], [2, 0, 3, 1, 4], [4, 0, 1, 3, 2]):
            assert_inside(np.asarray(np.cumprod(a[order], dtype=np.float32)[-1]), expected)


def test_a_sum_that_only_some_orders_overflow_is_unknown() -> None:
    big = 3e38
    expected = reduce(ReduceOp.SUM, exact(np.array([big, big, -big])), (0,), F32, None, None)
    assert np.isinf(expected.bound)


def test_reductions_over_nothing_give_the_identity() -> None:
    nothing = exact(np.zeros((3, 0)))
    wanted = {ReduceOp.SUM: 0.0, ReduceOp.PROD: 1.0, ReduceOp.MAX: -np.inf, ReduceOp.MIN: np.inf}
    for op, value in wanted.items():
        result = reduce(op, nothing, (1,), F32, None, None)
        assert (result.value == value).all() and result.value.shape == (3,)


def test_reductions_start_from_init_and_skip_what_does_not_exist() -> None:
    body, start = exact(np.array([[1.0, 2.0, np.inf]])), exact(np.array([10.0]))
    valid = np.array([[True, True, False]])
    assert reduce(ReduceOp.SUM, body, (1,), F32, valid, start).value == [13.0]
    assert reduce(ReduceOp.MAX, body, (1,), F32, valid, start).value == [10.0]


def test_max_ignores_nan() -> None:
    body = exact(np.array([[np.nan, -1.0], [np.nan, np.nan]]))
    assert list(reduce(ReduceOp.MAX, body, (1,), F32, None, None).value) == [-1.0, -np.inf]


def test_an_ambiguous_comparison_widens_where() -> None:
    a = Approx(value=np.array([1.0, 1.0]), bound=np.array([0.1, 0.1]))
    b = exact(np.array([1.05, 2.0]))
    five, seven = exact(np.array([5.0, 5.0])), exact(np.array([7.0, 7.0]))
    chosen = elementwise(Op.WHERE, (apply(Op.LT, a, b), five, seven), F32, F32, STRICT)
    assert list(chosen.value) == [5.0, 5.0]
    assert list(chosen.bound) == [2.0, 0.0]


def test_argmax_accepts_rivals_within_the_bound() -> None:
    body = Approx(value=np.array([1.0, 5.0, 4.95, 0.0]), bound=np.array([0.1, 0.1, 0.1, 0.1]))
    result = argmax(body, 0, np.arange(4), None)
    assert (result.value, result.bound) == (1, 1.0)


@pytest.mark.parametrize("max_ulp", [0.0, 1.5, 4.0])
def test_a_reciprocal_root_errs_two_roundings_whatever_its_last_places_allow(max_ulp: float) -> None:
    x = exact(np.array([0.25, 3.0]))
    found = elementwise(Op.RSQRT, (x,), F32, F32, MathPolicy(max_ulp=max_ulp))
    np.testing.assert_array_equal(found.bound, 2.0 * F32.unit_roundoff * found.value)


def test_exp_may_flush_below_the_smallest_normal_unless_strict() -> None:
    x = exact(np.array([-95.0, -np.inf]))
    loose = elementwise(Op.EXP, (x,), F32, F32, MathPolicy(max_ulp=2.0))
    strict = elementwise(Op.EXP, (x,), F32, F32, MathPolicy(max_ulp=1.0))
    assert loose.bound[0] > loose.value[0] > strict.bound[0]
    assert loose.value[1] == loose.bound[1] == 0.0


def test_floats_to_integers_saturate_and_nan_gives_zero() -> None:
    x = exact(np.array([1e30, -1e30, np.nan, np.inf, -2.9, 2.9]))
    for dtype, kind in ((DType.I8, np.int8), (DType.I32, np.int32), (DType.I64, np.int64)):
        info = np.iinfo(kind)
        assert list(cast(x, F32, dtype).value) == [info.max, info.min, 0, info.max, -2, 2]


def test_an_uncertain_float_makes_an_uncertain_integer() -> None:
    x = Approx(value=np.array([2.99, 2.5]), bound=np.array([0.02, 0.02]))
    assert list(cast(x, F32, DType.I32).bound) == [1.0, 0.0]


def test_integers_wrap_and_division_floors() -> None:
    a, b = exact(np.array([127, -7, 7], dtype=np.int8)), exact(np.array([1, 2, 0], dtype=np.int8))
    assert list(elementwise(Op.ADD, (a, b), DType.I8, DType.I8, STRICT).value) == [-128, -5, 7]
    assert list(elementwise(Op.FLOORDIV, (a, b), DType.I8, DType.I8, STRICT).value) == [127, -4, 7]
    assert list(elementwise(Op.MOD, (a, b), DType.I8, DType.I8, STRICT).value) == [0, 1, 0]


def test_rounding_to_narrow_types() -> None:
    x = np.array([1.0 + 2.0**-9, 1.0 + 3 * 2.0**-9, 1.0 + 2.0**-8])
    assert list(round_to(DType.BF16, x)) == [1.0, 1.0 + 2.0**-7, 1.0]
    assert list(round_to(DType.F16, np.array([1.0 + 2.0**-12]))) == [1.0]


@given(st.lists(TAME, min_size=1, max_size=8))
def test_narrowing_stays_inside(values: list[float]) -> None:
    a, x = wide(values)
    assert_inside(a.astype(np.float16), cast(x, F32, DType.F16))
