"""Sums of products: as fast as matrix products, never with all products at once, and within the bound of any order."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ir import contractions
from autotune.ir.bounds import Approx, Array, exact
from autotune.ir.contractions import contract
from autotune.ir.grids import Grid, Term
from autotune.ir.interpret import interpret
from autotune.ir.program import For as Loop
from autotune.ir.program import Let, Program, Reduce, Region, bind
from autotune.ir.types import DType
from autotune.ir.verdict import Correct, check
from tests.ir import control_programs

F32 = DType.F32


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def term(axes: tuple[int, ...], array: Array, bound: float = 0.0) -> Term:
    value = array.astype(np.float64) if array.dtype.kind == "f" else array
    number = exact(value) if bound == 0.0 else Approx(value=value, bound=np.full(value.shape, bound))
    return Term(axes=axes, number=number)


def undescribed(program: Program) -> Program:
    """The same program with its sums of products written as plain reductions."""

    def region(body: Region) -> Region:
        return tuple(statement(s) for s in body)

    def statement(s: object) -> Let:
        match s:
            case Let(value=Reduce() as value):
                return replace(s, value=replace(value, contraction=None))
            case Loop():
                return replace(s, body=region(s.body))  # type: ignore[return-value]
            case _:
                return s  # type: ignore[return-value]

    return replace(program, body=region(program.body))


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (2, 0, 3), (33, 64, 17), (1, 1000, 1)])
def test_a_matrix_product(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = numbers(m, k), numbers(k, n, seed=1)
    program = bind(control_programs.matmul(), {"M": m, "K": k, "N": n})
    for blocks in ({}, {2: 1}, {0: 3, 1: 2, 2: 5}):
        result = interpret(program, {"a": a, "b": b}, blocks=blocks)
        assert isinstance(check({"c": a @ b}, result), Correct)


def test_the_descriptor_changes_nothing_but_the_speed() -> None:
    a, b = numbers(9, 40), numbers(40, 6, seed=1)
    program = bind(control_programs.matmul(), {"M": 9, "K": 40, "N": 6})
    described, plain = (interpret(p, {"a": a, "b": b})["c"] for p in (program, undescribed(program)))
    np.testing.assert_allclose(described.values, plain.values, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(described.bound, plain.bound, rtol=1e-5)


def test_a_batched_product_over_two_axes_with_a_start() -> None:
    x, w, bias = numbers(2, 3, 4, 5), numbers(2, 4, 5, seed=1), numbers(3, seed=2)
    program = bind(control_programs.batched_strict_dot(), {"B": 2, "M": 3, "K": 4, "L": 5})
    result = interpret(program, {"x": x, "w": w, "bias": bias})
    assert isinstance(check({"y": np.einsum("bmkl,bkl->bm", x, w) + bias}, result), Correct)


def dense_attention(q: Array, k: Array, v: Array) -> Array:
    group, rows, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.where(np.tri(rows, keys, keys - rows, dtype=bool), q @ k.swapaxes(2, 3), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights @ v / weights.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("shape", [(1, 4, 2, 5, 11, 3, 4), (2, 2, 2, 1, 7, 4, 3), (1, 4, 1, 6, 6, 2, 5)])
@pytest.mark.parametrize("blocks", [(None, None), (1, 1), (3, 2), (4, 7)])
def test_attention_at_any_block_size(shape: tuple[int, ...], blocks: tuple[int | None, int | None]) -> None:
    program = bind(control_programs.attention(), dict(zip(["B", "Hq", "Hkv", "Q", "K", "D", "Dv"], shape, strict=True)))
    batch, heads, shared, rows, keys, d, dv = shape
    q = numbers(batch, heads, rows, d)
    k, v = numbers(batch, shared, keys, d, seed=1), numbers(batch, shared, keys, dv, seed=2)
    chosen = {axis: b for axis, b in zip((2, 5), blocks, strict=True) if b is not None}
    result = interpret(program, {"q": q, "k": k, "v": v}, blocks=chosen)
    assert isinstance(check({"out": dense_attention(q, k, v)}, result), Correct)


def test_large_products_take_neither_time_nor_memory() -> None:
    q, k, v = numbers(1, 8, 256, 64), numbers(1, 2, 1024, 64, seed=1), numbers(1, 2, 1024, 64, seed=2)
    program = bind(control_programs.attention(), {"B": 1, "Hq": 8, "Hkv": 2, "Q": 256, "K": 1024, "D": 64, "Dv": 64})
    tracemalloc.start()
    began = time.monotonic()
    result = interpret(program, {"q": q / 8, "k": k, "v": v})
    seconds, (_, peak) = time.monotonic() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(check({"out": dense_attention(q / 8, k, v)}, result), Correct)
    assert seconds < 20.0  # 0.2 s on an idle machine; all products alone would be 2 GB
    assert peak < 600 << 20


VALUES = st.sampled_from([0.0, 1.0, -2.5, 1e-3, 3e38, np.inf, -np.inf, np.nan])
TAME = st.floats(-4, 4, width=32)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(TAME | VALUES, min_size=12, max_size=12), st.lists(st.booleans(), min_size=6, max_size=6), st.booleans()
)
def test_what_does_not_exist_takes_no_part(values: list[float], there: list[bool], ragged: bool) -> None:
    """Against the plain definition, where rows (axis 0) see different coordinates of the sum (axis 2)."""
    a = np.array(values[:6], dtype=np.float32).reshape(2, 3)
    b = np.array(values[6:], dtype=np.float32).reshape(2, 3)
    lhs, rhs = term((0, 2), a, 0.01), term((1, 2), b)
    exists = np.array(there).reshape(2, 3) if ragged else np.array(there[:3])
    valid = [Grid(axes=(0, 2) if ragged else (2,), array=exists)]
    with np.errstate(all="ignore"):
        found = contract(lhs, rhs, {2: 3}, valid, F32, None)
        wanted = contractions._product_by_product(lhs, rhs, {2: 3}, valid, F32, None)
        swapped = contract(rhs, lhs, {2: 3}, valid, F32, None)
    for result in (found, swapped):
        assert result.axes == wanted.axes == (0, 1)
        known = np.isfinite(result.number.bound)
        assert known.all() or any(abs(v) > 1e30 for v in values)
        value, whole = result.number.value[known], wanted.number.value[known]
        np.testing.assert_allclose(value, whole, rtol=1e-12, atol=1e-12)
        known &= np.isfinite(wanted.number.value)
        np.testing.assert_allclose(result.number.bound[known], wanted.number.bound[known], rtol=1e-4, atol=1e-30)


def test_parts_of_the_plain_definition_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    lhs, rhs, start = term((0, 2), numbers(5, 4)), term((1, 2), numbers(7, 4, seed=1)), term((1,), numbers(7, seed=2))
    whole = contractions._product_by_product(lhs, rhs, {2: 4}, [], F32, start)
    monkeypatch.setattr(contractions, "PRODUCTS", 30)
    parts = contractions._product_by_product(lhs, rhs, {2: 4}, [], F32, start)
    np.testing.assert_array_equal(whole.number.value, parts.number.value)
    np.testing.assert_array_equal(whole.number.bound, parts.number.bound)


@settings(deadline=None)
@given(st.lists(TAME, min_size=2, max_size=40), st.data())
def test_float32_sums_in_any_order_stay_inside(values: list[float], data: st.DataObject) -> None:
    a = np.array(values, dtype=np.float32)
    b = np.array(data.draw(st.lists(TAME, min_size=a.size, max_size=a.size)), dtype=np.float32)
    result = contract(term((0,), a), term((0,), b), {0: a.size}, [], F32, None).number
    for order in (np.arange(a.size), np.arange(a.size)[::-1], np.argsort(a * b)):
        total = np.float32(0)
        for k in order:
            total = total + a[k] * b[k]
        assert abs(float(total) - float(result.value)) <= float(result.bound)


def test_the_errors_of_the_factors_reach_the_sum() -> None:
    a, b = np.array([[1.0, -2.0]]), np.array([[3.0], [4.0]])
    result = contract(term((0, 1), a, 0.5), term((1, 2), b, 0.25), {1: 2}, [], F32, None).number
    propagated = (1.0 + 2.0) * 0.25 + 0.5 * (3.0 + 4.0) + 2 * 0.5 * 0.25
    assert float(result.bound[0, 0]) == pytest.approx(propagated, rel=1e-5)


def test_an_unknown_factor_makes_unknown_sums_of_its_own_rows_only() -> None:
    bound = np.array([[0.0, np.inf], [0.0, 0.0]])
    lhs = Term(axes=(0, 1), number=Approx(value=np.zeros((2, 2)), bound=bound))
    with np.errstate(all="ignore"):
        result = contract(lhs, term((1, 2), np.zeros((2, 1))), {1: 2}, [], F32, None).number
    assert np.isinf(result.bound[0, 0]) and np.isfinite(result.bound[1, 0])


def test_a_sum_that_only_some_orders_overflow_is_unknown() -> None:
    a, b = np.array([2e19, 2e19, 2e19]), np.array([1e19, 1e19, -1e19])
    assert np.isinf(contract(term((0,), a), term((0,), b), {0: 3}, [], F32, None).number.bound)


@pytest.mark.parametrize(
    ("a", "b", "certain"),
    [
        ([2e19, 2e19], [2e19, 2e19], True),  # every order overflows to the same infinity
        ([2e20, 2e20, 1e20], [2e19, 2e19, -4e19], False),  # infinity, or NaN where both signs overflow
        ([np.inf, 1.0], [1.0, 1.0], True),
        ([np.inf, 2e20], [1.0, -2e19], False),  # a product of its own overflows against the infinity
        ([np.inf, 1.0], [0.0, 1.0], True),
    ],
)
def test_whether_an_infinite_sum_is_certain(a: list[float], b: list[float], certain: bool) -> None:
    with np.errstate(all="ignore"):
        result = contract(term((0,), np.array(a)), term((0,), np.array(b)), {0: len(a)}, [], F32, None).number
    assert not np.isfinite(result.value)
    assert (float(result.bound) == 0.0) == certain


@pytest.mark.parametrize("size", [3, 2**20])
def test_integers_wrap_in_their_own_width(size: int) -> None:
    a, b = np.full((2, 5), size, dtype=np.int32), np.full((5, 1), size + 1, dtype=np.int32)
    start = term((0,), np.array([1, 2], dtype=np.int32))
    result = contract(term((0, 1), a), term((1, 2), b), {1: 5}, [], DType.I32, start).number
    wanted = (5 * size * (size + 1) + np.array([[1], [2]]) + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(result.value, wanted)
    assert result.value.dtype == np.int32 and not result.bound.any()


def test_a_factor_that_lacks_a_summed_axis_counts_once_a_coordinate() -> None:
    result = contract(term((0,), np.array([2.0, 3.0])), term((), np.array(5.0)), {1: 4}, [], F32, None)
    assert result.axes == (0,) and list(result.number.value) == [40.0, 60.0]


def test_a_value_times_itself() -> None:
    x = term((0, 1), numbers(3, 4))
    result = contract(x, x, {1: 4}, [], F32, None)
    np.testing.assert_allclose(result.number.value, (numbers(3, 4).astype(np.float64) ** 2).sum(axis=1))
