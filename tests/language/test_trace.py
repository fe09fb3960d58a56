"""What the tracer makes of kernels: sharing, unification of axes, order, policies."""
# ruff: noqa: F821

import subprocess
import sys

import numpy as np
import pytest

import autotune as at
from autotune.errors import DependsOnBlocks
from autotune.ir.parse import parse
from autotune.ir.program import AxisKind, Carried, Const, Elementwise, For, Load, Reduce, Reindex, bind, statements
from autotune.ir.text import canonical, print_program
from autotune.ir.types import REASSOCIATING, STRICT, DType, MathPolicy, Op
from autotune.ir.verify import verify

NEGATIVE_HALF = -0.5


def values(program, kind):
    return [let.value for let in program.lets().values() if isinstance(let.value, kind)]


def ops(program):
    return [value.op for value in values(program, Elementwise)]


@at.kernel
def softmax(x: at.f32["M", "N"], mask: at.bool_["M", "N"], y: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        s = at.where(mask[row, :], x[row, :], -at.inf)
        e = at.exp(s - at.max(s))
        y[row, :] = e / at.sum(e)


def test_masked_softmax_is_this_program():
    assert canonical(softmax.program).splitlines()[5:] == [
        "axis a0 : program d0",
        "axis a1 : full d1",
        "parallel a0",
        "%0 = load t1[a0, a1] : bool_(a0, a1)",
        "%1 = load t0[a0, a1] : f32(a0, a1)",
        "%2 = const -inf : f32()",
        "%3 = where %0 %1 %2 : f32(a0, a1)",
        "%4 = reduce max %3 over a1 : f32(a0)",
        "%5 = sub %3 %4 : f32(a0, a1)",
        "%6 = exp %5 max_ulp 2.0 : f32(a0, a1)",
        "%7 = reduce sum %6 over a1 reassociate contract : f32(a0)",
        "%8 = div %6 %7 : f32(a0, a1)",
        "store t2[a0, a1] %8",
    ]


@at.kernel
def renamed(q: at.f32["A", "B"], valid: at.bool_["A", "B"], out: at.f32["A", "B"]):
    for line in at.parallel(q.shape[0]):
        scores = at.where(valid[line, :], q[line, :], -at.inf)
        weights = at.exp(scores - at.max(scores))
        out[line, :] = weights / at.sum(weights)


def test_names_are_no_part_of_a_program():
    assert canonical(renamed.program) == canonical(softmax.program)


@at.kernel
def repeated(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        y[row, :] = x[row, :] * x[row, :] + x[row, :] * x[row, :]


def test_repeated_expressions_become_one_value():
    program = repeated.program
    assert len(values(program, Load)) == 1
    assert ops(program) == [Op.MUL, Op.ADD]


@at.kernel
def loaded_apart(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    M, N = x.shape
    for row in at.parallel(M):
        mean = at.sum(x[row, :]) / N
        y[row, :] = x[row, :] - mean


def test_loads_of_one_place_become_one_value_even_where_nothing_lines_them_up():
    assert len(values(loaded_apart.program, Load)) == 1
    assert len(loaded_apart.program.axes) == 2


@at.kernel
def products(x: at.f32["N"], y: at.f32["N", "N"], z: at.f32["N"]):
    for _p in at.parallel(1):
        y[:, :] = x[:][:, None] * x[:][None, :]
        z[:] = at.sum(x[:][:, None] * x[:][None, :], axis=1) + x[:]


def test_loads_whose_axes_live_in_one_value_stay_apart():
    x = np.arange(1, 4, dtype=np.float32)
    result = at.interpret(products, x, np.zeros((3, 3), np.float32), np.zeros(3, np.float32))
    assert np.array_equal(result["y"].values, np.outer(x, x))
    assert np.array_equal(result["z"].values, np.outer(x, x).sum(axis=1) + x)
    assert len(values(products.program, Load)) == 2


@at.kernel
def in_place(x: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        x[row, :] = x[row, :] + 1.0
        x[row, :] = x[row, :] * 2.0


def test_loads_around_a_store_stay_apart():
    assert len(values(in_place.program, Load)) == 2
    x = np.ones((2, 3), np.float32)
    assert np.all(at.interpret(in_place, x)["x"].values == 4.0)


@at.kernel
def dead(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        unused = at.exp(x[row, :])
        total, other = 0.0, at.zeros(())
        for j in at.tile(x.shape[1]):
            total = total + at.sum(x[row, j])
            other = other + at.sum(unused)  # never read, so never refused
        y[row, :] = x[row, :] - total


def test_dead_values_and_dead_loop_states_are_dropped():
    program = dead.program
    (loop,) = (s for s in statements(program.body) if isinstance(s, For))
    assert len(loop.carries) == 1
    assert Op.EXP not in ops(program)
    assert [v.slot for v in values(program, Carried)] == [0]


@at.kernel
def outer(x: at.f32["N"], y: at.f32["N", "N"]):
    for _p in at.parallel(1):
        v = x[:]
        y[:, :] = v[:, None] * v[None, :]


def test_a_load_that_meets_itself_is_loaded_along_a_fresh_axis():
    program = outer.program
    assert len(values(program, Load)) == 2 and not values(program, Reindex)
    x = np.arange(1, 4, dtype=np.float32)
    assert np.array_equal(at.interpret(outer, x, np.zeros((3, 3), np.float32))["y"].values, np.outer(x, x))


@at.kernel
def outer_of_computed(x: at.f32["N"], y: at.f32["N", "N"]):
    for _p in at.parallel(1):
        v = x[:] + 1.0
        y[:, :] = v[:, None] * v[None, :]


def test_a_computed_value_that_meets_itself_is_reindexed():
    assert len(values(outer_of_computed.program, Reindex)) == 1
    x = np.arange(1, 4, dtype=np.float32)
    result = at.interpret(outer_of_computed, x, np.zeros((3, 3), np.float32))["y"].values
    assert np.array_equal(result, np.outer(x + 1, x + 1))


@at.kernel
def symmetric(x: at.f32["N", "N"], y: at.f32["N", "N"]):
    for _p in at.parallel(1):
        v = 2.0 * x[:, :]
        y[:, :] = v - v.T


def test_a_value_minus_its_transpose():
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    assert np.array_equal(at.interpret(symmetric, x, x)["y"].values, 2 * (x - x.T))


@at.kernel
def two_ways(x: at.f32["N"], z: at.f32["N"], y: at.f32["N", "N"]):
    for _p in at.parallel(1):
        a, b = x[:], z[:]
        y[:, :] = a[:, None] * b[None, :] + (a + b)


def test_axes_that_live_in_one_value_are_never_unified():
    x, z = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    expected = np.outer(x, z) + (x + z)
    assert np.array_equal(at.interpret(two_ways, x, z, np.zeros((3, 3), np.float32))["y"].values, expected)


@at.kernel
def filled(x: at.f32["N", "N"], y: at.f32["N", "N"]):
    N, _ = x.shape
    for _p in at.parallel(1):
        base = at.full((N, N), 3)
        y[:, :] = base + x[:, :].T + base.T


def test_constants_with_a_shape_line_up_with_anything():
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    assert np.array_equal(at.interpret(filled, x, x)["y"].values, 6 + x.T)


@at.kernel
def square_block(x: at.f32["N", "N"], y: at.f32["N"]):
    for i in at.parallel(at.tile(x.shape[0])):
        y[i] = at.sum(x[i, i], axis=1)


def test_a_tile_used_twice_names_the_square_block():
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    program = square_block.bind(N=4)
    (tile,) = program.parallel
    result = at.interpret(square_block, x, np.zeros(4, np.float32), blocks={tile: 2})["y"].values
    blocks = [x[:2, :2].sum(axis=1), x[2:, 2:].sum(axis=1)]
    assert np.array_equal(result, np.concatenate(blocks))
    with pytest.raises(DependsOnBlocks, match="the result of kernel 'square_block' depends on block sizes: at block"):
        at.interpret(square_block, x, np.zeros(4, np.float32))


@at.kernel
def policies(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        v = x[row, :]
        loose, ordered = at.sum(at.exp(v)), at.sum(v, ordered=True)
        with at.strict():
            tight = at.sum(at.exp(v))
        y[row] = loose + ordered + tight + at.max(v)


def test_math_policies():
    program = policies.program
    sums = [(r.math, r.ordered) for r in values(program, Reduce)]
    assert sums == [(REASSOCIATING, False), (STRICT, True), (STRICT, True), (STRICT, False)]
    exps = [v.math for v in values(program, Elementwise) if v.op is Op.EXP]
    assert exps == [MathPolicy(max_ulp=2.0), MathPolicy(max_ulp=1.0)]
    assert {v.math for v in values(program, Elementwise) if v.op is Op.ADD} == {STRICT}


@at.kernel
def reciprocal_roots(x: at.f32["M"], n: at.i32["M"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        loose = at.rsqrt(x[row]) + at.rsqrt(n[row])
        with at.strict():
            tight = at.rsqrt(x[row]) + at.rsqrt(n[row])
        y[row] = loose + tight


def test_a_strict_reciprocal_root_is_two_rounded_steps():
    found = [v for v in values(reciprocal_roots.program, Elementwise) if v.op in (Op.SQRT, Op.RSQRT, Op.RECIPROCAL)]
    assert [v.op for v in found] == [Op.RSQRT, Op.RSQRT] + [Op.SQRT, Op.RECIPROCAL] * 2
    assert [v.math for v in found] == [MathPolicy(max_ulp=1.5)] * 2 + [STRICT] * 4
    lets = reciprocal_roots.program.lets()
    assert all(isinstance(root := lets[v.args[0]].value, Elementwise) and root.op is Op.SQRT for v in found[3::2])


@at.function
def scaled(v, factor=2.0):
    t = v * factor
    return t + NEGATIVE_HALF


@at.kernel
def helped(x: at.f32["N"], y: at.f32["N"]):
    t = 1.0
    for i in at.parallel(x.shape[0]):
        y[i] = scaled(x[i]) + scaled(x[i], factor=3.0) + t


def test_helpers_are_inlined_with_names_of_their_own():
    x = np.array([1.0, 4.0], np.float32)
    assert np.array_equal(at.interpret(helped, x, np.zeros(2, np.float32))["y"].values, 5 * x)
    assert {let.line for let in helped.program.lets().values()} == {helped.function.__code__.co_firstlineno + 4}


@at.kernel
def ordered_axes(x: at.f32["A", "B"], w: at.f32["B"], y: at.f32["B", "A"]):
    for b in at.parallel(x.shape[1]):
        y[b, :] = x[:, b] * w[b]


def test_axes_and_dims_are_numbered_by_first_use():
    program = ordered_axes.program
    assert program.dims == ("A", "B")
    assert [a.kind for a in program.axes] == [AxisKind.PROGRAM, AxisKind.FULL]
    assert [let.id for let in program.lets().values()] == list(range(len(program.lets())))


def test_literals_become_constants_of_the_other_type():
    constants = [(let.dtype, let.value.value) for let in dead.program.lets().values() if isinstance(let.value, Const)]
    assert constants == [(DType.F32, 0.0)]


def test_importing_autotune_stays_light():
    heavy = ["optuna", "sklearn", "llvmlite", "scipy", "networkx", "numpy"]
    code = f"import sys, autotune; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_tracing_imports_nothing_heavy():
    heavy = ["optuna", "sklearn", "llvmlite", "scipy", "networkx"]
    code = (
        "import sys; from autotune.language.load import load_kernels; import autotune as at\n"
        "at.trace(load_kernels('examples/softmax.py')['masked_softmax'])\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_language_names_mean_nothing_outside_a_kernel():
    with pytest.raises(TypeError, match="only inside a kernel"):
        at.exp(1.0)
    with pytest.raises(AttributeError, match="no softmaxx"):
        _ = at.softmaxx


def test_every_program_here_is_valid_and_survives_its_text(programs):
    for program in programs.values():
        verify(program)
        assert parse(print_program(program)) == program
        bound = bind(program, dict.fromkeys(program.dims, 8))
        verify(bound)
        assert bound.is_bound
