"""The interpreter against numpy, program by program, and its rules for what does not exist or is not a number."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.ir import chunks
from autotune.ir.affine import Start, Stop, atom, coord
from autotune.ir.bounds import Array
from autotune.ir.errors import ArgumentMismatch, MissingArgument, StoreOutside, UnboundProgram, UndefinedIndex
from autotune.ir.interpret import Interpretation, interpret
from autotune.ir.program import AxisKind, Program, bind
from autotune.ir.types import DType, Op, ReduceOp
from autotune.ir.verdict import Correct, check
from tests.ir import programs
from tests.ir.programs import Builder

F32 = DType.F32


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(program: Program, arguments: dict[str, Array], **sizes: int) -> Interpretation:
    return interpret(bind(program, sizes), arguments)


def assert_matches(result: Interpretation, **outputs: Array) -> None:
    verdict = check(outputs, result)
    assert isinstance(verdict, Correct), str(verdict)


def test_masked_softmax_and_a_row_without_entries() -> None:
    x, mask = numbers(7, 33), np.random.default_rng(1).random((7, 33)) < 0.8
    mask[3] = False
    s = np.where(mask, x, np.float32(-np.inf))
    with np.errstate(invalid="ignore"):
        e = np.exp(s - s.max(axis=1, keepdims=True))
        y = e / e.sum(axis=1, keepdims=True)
    result = run(programs.masked_softmax(), {"x": x, "mask": mask}, M=7, N=33)
    assert np.isnan(result["y"].values[3]).all()
    assert (result["y"].values[~mask & (np.arange(7) != 3)[:, None]] == 0).all()
    assert_matches(result, y=y)


def test_the_bound_of_a_softmax_is_tight() -> None:
    x, mask = numbers(5, 64), np.ones((5, 64), dtype=np.bool_)
    y = run(programs.masked_softmax(), {"x": x, "mask": mask}, M=5, N=64)["y"]
    assert (y.bound <= 1e-5 * y.values).all()
    assert (y.bound >= 2.0**-24 * y.values).all()


def test_rmsnorm_uses_the_default_of_its_scalar() -> None:
    x, w = numbers(4, 19), numbers(19, seed=1)
    for eps, given in ((1e-5, {}), (0.5, {"eps": 0.5})):
        y = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(eps)) * w
        assert_matches(interpret(bind(programs.rmsnorm(), {"M": 4, "N": 19}), {"x": x, "w": w, **given}), y=y)


@pytest.mark.parametrize("block", [None, 1, 3, 4, 11, 100])
def test_a_carried_sum_at_any_block_size(block: int | None) -> None:
    x = numbers(5, 11)
    blocks = {} if block is None else {1: block}
    result = interpret(bind(programs.tiled_sum(), {"M": 5, "N": 11}), {"x": x}, blocks=blocks)
    assert_matches(result, y=x.sum(axis=1))


def test_a_loop_without_trips_keeps_its_initial_state() -> None:
    result = run(programs.tiled_sum(), {"x": numbers(5, 0)}, M=5, N=0)
    assert_matches(result, y=np.zeros(5))


def test_no_programs_store_nothing() -> None:
    result = run(programs.tiled_sum(), {"x": numbers(0, 4)}, M=0, N=4)
    assert result["y"].values.shape == (0,)


def test_an_index_outside_loads_the_fill() -> None:
    x = numbers(9)
    assert_matches(run(programs.shifted(), {"x": x}, N=9), y=np.append(x[1:], np.float32(2)) - x)


def test_gather_through_an_integer_tensor() -> None:
    x, label = numbers(5, 4), np.array([0, 3, 4, -1, 2], dtype=np.int32)
    wanted = np.array([x[0, 0], x[1, 3], -1, -1, x[4, 2]])
    assert_matches(run(programs.gather(), {"x": x, "label": label}, M=5, N=4), y=wanted)


def test_rope() -> None:
    x, angle = numbers(2, 3, 8), numbers(3, 4, seed=1)
    c, s = np.cos(angle), np.sin(angle)
    low, high = x[..., :4], x[..., 4:]
    wanted = np.concatenate([low * c - high * s, high * c + low * s], axis=-1)
    assert_matches(run(programs.rope(), {"x": x, "angle": angle}, H=2, T=3, D=8), y=wanted)


def test_column_softmax_over_a_leading_axis() -> None:
    x = numbers(6, 5)
    e = np.exp(x - x.max(axis=0))
    assert_matches(run(programs.column_softmax(), {"x": x}, M=6, N=5), y=e / e.sum(axis=0))


def test_outer_product_reads_a_row_along_two_axes() -> None:
    x = numbers(3, 4)
    assert_matches(run(programs.outer_product(), {"x": x}, M=3, N=4), y=x[:, :, None] * x[:, None, :])


def test_a_range_loop_whose_length_differs_between_programs() -> None:
    x = numbers(6)
    assert_matches(run(programs.prefix_sum(), {"x": x}, N=6), y=np.cumsum(x))


def test_argmax_takes_the_lowest_of_equals_and_never_nan() -> None:
    x = np.array([[1, 3, 3], [np.nan, -2, -2], [np.nan] * 3], dtype=np.float32)
    assert_matches(run(programs.row_argmax(), {"x": x}, M=3, N=3), y=np.array([1, 1, 0]))


def ragged_tiles() -> Program:
    """Sum over the entries up to the end of the program's own tile: a loop extent that depends on block bounds."""
    b = Builder("ragged", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    i = b.axis(AxisKind.PROGRAM_TILE, "N", "i")
    j = b.axis(AxisKind.TILE, atom(Stop(axis=i)), "j")
    with b.loop(j, b.const(0.0), axes=[(i,)]) as loop:
        loop.updated = (b.op(Op.ADD, loop.carried(0), b.reduce(ReduceOp.SUM, b.load(x, coord(j)), j)),)
    b.store(y, loop.final(0), coord(i))
    return b.build()


@pytest.mark.parametrize("inner", [1, 2, 5, 9])
def test_coordinates_past_a_tile_do_not_exist(inner: int) -> None:
    x = np.arange(1, 9, dtype=np.float32)
    result = interpret(bind(ragged_tiles(), {"N": 8}), {"x": x}, blocks={0: 3, 1: inner})
    assert_matches(result, y=np.array([6, 6, 6, 21, 21, 21, 36, 36]))


def test_a_full_axis_over_the_block_of_a_tile() -> None:
    b = Builder("block_sum", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    i = b.axis(AxisKind.PROGRAM_TILE, "N", "i")
    k = b.full(atom(Stop(axis=i)) - atom(Start(axis=i)), "k")
    b.store(y, b.reduce(ReduceOp.SUM, b.load(x, atom(Start(axis=i)) + coord(k)), k), coord(i))
    x_values = np.arange(1, 8, dtype=np.float32)
    result = interpret(bind(b.build(), {"N": 7}), {"x": x_values}, blocks={0: 3})
    assert_matches(result, y=np.array([6, 6, 6, 15, 15, 15, 7]))


def in_place(masked: bool) -> Program:
    """x becomes -x where positive, read once before and once after the store."""
    b = Builder("in_place", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    i = b.program_axis("N", "i")
    before = b.load(x, coord(i))
    mask = b.op(Op.GT, before, b.const(0.0)) if masked else None
    b.store(x, b.op(Op.NEG, before), coord(i), mask=mask)
    after = b.load(x, coord(i))
    b.store(y, b.op(Op.SUB, after, before), coord(i))
    return b.build()


@pytest.mark.parametrize("masked", [False, True])
def test_a_load_sees_the_tensor_as_it_is_at_that_place(masked: bool) -> None:
    x = numbers(8)
    new = np.where(x > 0, -x, x) if masked else -x
    given = x.copy()
    assert_matches(run(in_place(masked), {"x": given}, N=8), x=new, y=new - x)
    assert (given == x).all()


def test_what_is_not_stored_keeps_its_contents_or_is_unknown() -> None:
    b = Builder("half", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    i = b.program_axis("N", "i")
    v = b.load(x, coord(i))
    b.store(y, v, coord(i), mask=b.op(Op.GT, v, b.const(0.0)))
    x_values = np.array([1, -1], dtype=np.float32)
    known = run(b.build(), {"x": x_values, "y": np.full(2, 5, dtype=np.float32)}, N=2)
    assert_matches(known, y=np.array([1, 5]))
    unknown = run(b.build(), {"x": x_values}, N=2)
    assert_matches(unknown, y=np.array([1, np.nan]))


def test_a_store_that_leaves_its_tensor_is_refused() -> None:
    b = Builder("outside", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    i = b.program_axis("N", "i")
    b.store(y, b.load(x, coord(i)), coord(i) + 1)
    with pytest.raises(StoreOutside, match=r"store to 'y' at \[3\] leaves its shape \[3\]"):
        run(b.build(), {"x": numbers(3)}, N=3)


def test_an_index_that_divides_by_zero_is_refused() -> None:
    b = Builder("zero", "N", "Z")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "N")
    i = b.program_axis("N", "i")
    b.store(y, b.load(x, coord(i) // b.extent("Z")), coord(i))
    with pytest.raises(UndefinedIndex, match="divides by zero"):
        run(b.build(), {"x": numbers(3)}, N=3, Z=0)


def test_chunks_of_programs_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    x, angle = numbers(3, 5, 8), numbers(5, 4, seed=1)
    whole = run(programs.rope(), {"x": x, "angle": angle}, H=3, T=5, D=8)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 8 * 8)
    parts = run(programs.rope(), {"x": x, "angle": angle}, H=3, T=5, D=8)
    assert (whole["y"].values == parts["y"].values).all()
    assert (whole["y"].bound == parts["y"].bound).all()


def test_arguments_are_checked() -> None:
    program = bind(programs.tiled_sum(), {"M": 2, "N": 3})
    with pytest.raises(UnboundProgram, match=r"symbolic dimensions M, N; bind"):
        interpret(programs.tiled_sum(), {"x": numbers(2, 3)})
    with pytest.raises(MissingArgument, match="no argument for parameter 'x'"):
        interpret(program, {})
    with pytest.raises(ArgumentMismatch, match=r"expected shape \[2, 3\], found shape \[3, 2\]"):
        interpret(program, {"x": numbers(3, 2)})
    with pytest.raises(ArgumentMismatch, match="expected elements of type f32, found float64"):
        interpret(program, {"x": np.zeros((2, 3))})


def test_a_sum_may_be_accumulated_onto_what_it_is_added_to() -> None:
    b = Builder("onto", "M", "N")
    x, bias, y = b.tensor("x", F32, "M", "N"), b.tensor("bias", F32, "M"), b.tensor("y", F32, "M")
    row, n = b.program_axis("M"), b.full("N")
    total = b.reduce(ReduceOp.SUM, b.load(x, coord(row), coord(n)), n)
    b.store(y, b.op(Op.ADD, b.load(bias, coord(row)), total), coord(row))
    x_values, start = np.full((1, 1000), 0.01, dtype=np.float32), np.full(1, 1e5, dtype=np.float32)
    onto = np.cumsum(np.append(start, x_values[0]), dtype=np.float32)[-1:]
    result = run(b.build(), {"x": x_values, "bias": start}, M=1, N=1000)
    assert abs(float(onto[0]) - float(result["y"].values[0])) > 1.0
    assert_matches(result, y=onto)
