"""What LLVM builds does what the builder's methods say, and what is counted is what the assembly holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autotune import jit
from autotune.ir.types import STRICT, DType, MathPolicy
from autotune.realizations import assembly
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.count import CountingBuilder
from autotune.realizations.events import Event, Events
from autotune.realizations.llvm import LlvmBuilder
from autotune.realizations.target import Target
from autotune.realizations.targets import TARGET_NAMES, named_target
from tests.realizations import execute
from tests.realizations.kernels import KERNELS

_NUMPY = {
    DType.F64: np.float64,
    DType.F32: np.float32,
    DType.I64: np.int64,
    DType.I32: np.int32,
    DType.I8: np.int8,
    DType.BOOL: np.bool_,
}
_RUNNABLE = [
    pytest.param(jit.host_target(name), id=name)
    for name in ("avx512", "avx2", "sse2")
    if jit.can_run(named_target(name))
]
LANES = 8
Unary = Callable[[Builder, Vector], Vector]
Binary = Callable[[Builder, Vector, Vector], Vector]


def _map(target: Target, function: Callable[..., Vector], result: DType, *inputs: np.ndarray) -> np.ndarray:
    """function on one vector of each input."""
    dtypes = [next(d for d, n in _NUMPY.items() if n == x.dtype) for x in inputs]
    lanes = len(inputs[0])
    out = np.zeros(lanes, _NUMPY[result])

    def kernel(b: Builder) -> None:
        zero = b.index(0)
        values = [b.load(b.argument_pointer(1 + k, d), zero, lanes) for k, d in enumerate(dtypes)]
        b.store(b.argument_pointer(0, result), zero, function(b, *values))

    execute.run(kernel, target, out, *inputs)
    return out


_FLOATS = np.array([1.5, -2.5, 0.0, -0.0, 3.0, -7.25, 1e6, 0.5])
_OTHERS = np.array([2.0, -2.0, 1.0, -1.0, 4.0, 2.0, -1e6, 0.25])
_BINARY: dict[str, tuple[Binary, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "add": (lambda b, x, y: b.add(x, y), lambda x, y: x + y),
    "sub": (lambda b, x, y: b.sub(x, y), lambda x, y: x - y),
    "mul": (lambda b, x, y: b.mul(x, y), lambda x, y: x * y),
    "div": (lambda b, x, y: b.div(x, y), lambda x, y: x / y),
    "minimum": (lambda b, x, y: b.minimum(x, y), np.fmin),
    "maximum": (lambda b, x, y: b.maximum(x, y), np.fmax),
    "keep_minimum": (lambda b, x, y: b.keep_minimum(x, y), np.fmin),
    "keep_maximum": (lambda b, x, y: b.keep_maximum(x, y), np.fmax),
    "mod": (lambda b, x, y: b.mod(x, y), np.mod),
    "fma": (lambda b, x, y: b.fma(x, y, x), lambda x, y: x * y + x),
}
_UNARY: dict[str, tuple[Unary, Callable[[np.ndarray], np.ndarray]]] = {
    "neg": (lambda b, x: b.neg(x), lambda x: -x),
    "abs": (lambda b, x: b.abs(x), np.abs),
    "floor": (lambda b, x: b.floor(x), np.floor),
    "ceil": (lambda b, x: b.ceil(x), np.ceil),
    "rint": (lambda b, x: b.rint(x), np.rint),
    "sqrt": (lambda b, x: b.sqrt(b.abs(x)), lambda x: np.sqrt(np.abs(x))),
}


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("name", _BINARY)
def test_float_arithmetic(name: str, dtype: DType, target: Target) -> None:
    function, expected = _BINARY[name]
    x, y = _FLOATS.astype(_NUMPY[dtype]), _OTHERS.astype(_NUMPY[dtype])
    np.testing.assert_array_equal(_map(target, function, dtype, x, y), expected(x, y))


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("name", _UNARY)
def test_float_functions(name: str, dtype: DType, target: Target) -> None:
    function, expected = _UNARY[name]
    for x in (_FLOATS, np.array([0.5, 1.5, 2.5, -0.5, -1.5, np.inf, -np.inf, np.nan]), _FLOATS * 1e9 + 0.5):
        given = x.astype(_NUMPY[dtype])
        got = _map(target, function, dtype, given)
        np.testing.assert_array_equal(got, expected(given))
        if name != "abs":
            np.testing.assert_array_equal(np.signbit(got[:5]), np.signbit(expected(given)[:5]))


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("lanes", [1, 2, 4, 16, 32])
def test_any_lane_count(lanes: int, target: Target) -> None:
    x = np.linspace(-3, 3, lanes, dtype=np.float32)
    got = _map(target, lambda b, v: b.fma(b.rint(v), v, b.sqrt(b.abs(v))), DType.F32, x)
    np.testing.assert_allclose(got, np.rint(x) * x + np.sqrt(np.abs(x)), rtol=1e-6)


@pytest.mark.parametrize("target", _RUNNABLE)
def test_nan_in_the_new_value_is_ignored(target: Target) -> None:
    x, kept = np.full(8, np.nan, np.float32), np.arange(8, dtype=np.float32)
    for function in (_BINARY["keep_maximum"][0], _BINARY["maximum"][0], _BINARY["minimum"][0]):
        np.testing.assert_array_equal(_map(target, function, DType.F32, x, kept), kept)


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("dtype", [DType.I32, DType.I64])
def test_integer_division_floors(dtype: DType, target: Target) -> None:
    x = np.array([7, -7, 7, -7, 6, -6, 0, 1], _NUMPY[dtype])
    y = np.array([2, 2, -2, -2, 3, 3, 5, -5], _NUMPY[dtype])
    np.testing.assert_array_equal(_map(target, lambda b, p, q: b.div(p, q), dtype, x, y), x // y)
    np.testing.assert_array_equal(_map(target, lambda b, p, q: b.mod(p, q), dtype, x, y), np.mod(x, y))


@pytest.mark.parametrize("target", _RUNNABLE)
def test_casts(target: Target) -> None:
    x = np.array([1.5, -2.5, 3e9, -3e9, np.nan, np.inf, 0.0, -0.75], np.float32)
    limits = np.array([1, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1, 0, 0], np.int32)
    np.testing.assert_array_equal(_map(target, lambda b, v: b.cast(v, DType.I32), DType.I32, x), limits)
    np.testing.assert_array_equal(_map(target, lambda b, v: b.cast(v, DType.BOOL), DType.BOOL, x), x != 0)
    np.testing.assert_array_equal(_map(target, lambda b, v: b.cast(v, DType.F64), DType.F64, x), x.astype(np.float64))
    whole = np.array([0, 1, -1, 100, -100, 127, -128, 5], np.int8)
    np.testing.assert_array_equal(_map(target, lambda b, v: b.cast(v, DType.I64), DType.I64, whole), whole)
    np.testing.assert_array_equal(_map(target, lambda b, v: b.cast(v, DType.F32), DType.F32, whole), whole)
    bits = np.array([True, False] * 4)
    np.testing.assert_array_equal(_map(target, lambda b, v: b.cast(v, DType.F32), DType.F32, bits), bits)
    np.testing.assert_array_equal(_map(target, lambda b, v: b.bit_not(v), DType.BOOL, bits), ~bits)
    small = np.array([1.0, -2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 100.0])
    np.testing.assert_array_equal(_map(target, lambda b, v: b.truncate_to_int(v), DType.I64, small), small)


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("how", Compare)
def test_comparisons_are_ordered(how: Compare, target: Target) -> None:
    x = np.array([1, 2, 3, np.nan, np.nan, np.inf, 0.0, -1], np.float32)
    y = np.array([1, 3, 2, 1, np.nan, np.inf, -0.0, 1], np.float32)
    expected = eval(f"x {how.value} y")
    np.testing.assert_array_equal(_map(target, lambda b, p, q: b.compare(how, p, q), DType.BOOL, x, y), expected)
    whole, other = np.array([1, -2, 3, 0], np.int32), np.array([1, 2, -3, 0], np.int32)
    expected = eval(f"whole {how.value} other")
    np.testing.assert_array_equal(
        _map(target, lambda b, p, q: b.compare(how, p, q), DType.BOOL, whole, other), expected
    )


@pytest.mark.parametrize("target", _RUNNABLE)
def test_lanes_move(target: Target) -> None:
    x, y = np.arange(8, dtype=np.float32), np.arange(8, 16, dtype=np.float32)
    order = [15, 0, 14, 1, 13, 2, 12, 3]
    got = _map(target, lambda b, p, q: b.shuffle(p, q, order), DType.F32, x, y)
    np.testing.assert_array_equal(got, np.concatenate([x, y])[order])
    got = _map(target, lambda b, p: b.splat(b.extract(p, 5), 8), DType.F32, x)
    np.testing.assert_array_equal(got, np.full(8, 5.0))
    got = _map(target, lambda b, p: b.splat(b.reduce(lambda s, t: b.add(s, t), p), 8), DType.F32, x)
    np.testing.assert_array_equal(got, np.full(8, 28.0))
    got = _map(target, lambda b, p: b.add(p, b.iota(DType.F32, 8)), DType.F32, x)
    np.testing.assert_array_equal(got, 2 * x)


@pytest.mark.parametrize("target", _RUNNABLE)
def test_bits(target: Target) -> None:
    x = np.array([1, -1, 12345, -12345, 2**30, 7, 8, 0], np.int32)
    y = np.array([3, 5, 6, 7, 1, 2, 3, 4], np.int32)
    np.testing.assert_array_equal(_map(target, lambda b, p, q: b.bit_and(p, q), DType.I32, x, y), x & y)
    np.testing.assert_array_equal(_map(target, lambda b, p, q: b.bit_or(p, q), DType.I32, x, y), x | y)
    np.testing.assert_array_equal(_map(target, lambda b, p, q: b.bit_xor(p, q), DType.I32, x, y), x ^ y)
    np.testing.assert_array_equal(_map(target, lambda b, p: b.shift_right(p, 3, arithmetic=True), DType.I32, x), x >> 3)
    np.testing.assert_array_equal(
        _map(target, lambda b, p: b.shift_right(p, 3), DType.I32, x), (x.view(np.uint32) >> 3).view(np.int32)
    )
    np.testing.assert_array_equal(_map(target, lambda b, p: b.bitcast(p, DType.F32), DType.F32, x), x.view(np.float32))


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I8, DType.BOOL])
@pytest.mark.parametrize("live", [-3, 0, 1, 5, 8, 11])
def test_masked_memory_leaves_dead_lanes_alone(live: int, dtype: DType, target: Target) -> None:
    x = np.array([1, 0, 1, 1, 0, 1, 1, 0]).astype(_NUMPY[dtype])
    for constant in (False, True):
        out, filled = np.ones(8, _NUMPY[dtype]), np.zeros(8, _NUMPY[dtype])

        def kernel(b: Builder, constant: bool = constant) -> None:
            count = b.index(live) if constant else b.argument_scalar(3, DType.I64)
            mask = b.first_lanes(count, 8)
            value = b.load(b.argument_pointer(0, dtype), b.index(0), 8, mask=mask, fill=1)
            b.store(b.argument_pointer(1, dtype), b.index(0), value, mask=mask)
            b.store(b.argument_pointer(2, dtype), b.index(0), value)

        execute.run(kernel, target, x, out, filled, live)
        alive = np.arange(8) < live
        np.testing.assert_array_equal(out, np.where(alive, x, out.dtype.type(1)))
        np.testing.assert_array_equal(filled, np.where(alive, x, out.dtype.type(1)))


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I8])
@pytest.mark.parametrize("index", [DType.I32, DType.I64])
@pytest.mark.parametrize("masked", [False, True])
def test_gather_and_scatter(masked: bool, index: DType, dtype: DType, target: Target) -> None:
    x = np.arange(20, 60).astype(_NUMPY[dtype])
    where = np.array([3, 17, 5, 39, 0, 8, 21, 30], _NUMPY[index])
    gathered, scattered = np.zeros(8, x.dtype), np.zeros(40, x.dtype)

    def kernel(b: Builder) -> None:
        mask = b.first_lanes(b.argument_scalar(4, DType.I64), 8) if masked else None
        indices = b.load(b.argument_pointer(1, index), b.index(0), 8)
        value = b.gather(b.argument_pointer(0, dtype), indices, mask=mask, fill=9)
        b.store(b.argument_pointer(2, dtype), b.index(0), value)
        b.scatter(b.argument_pointer(3, dtype), indices, value, mask=mask)

    execute.run(kernel, target, x, where, gathered, scattered, 5)
    alive = np.arange(8) < (5 if masked else 8)
    np.testing.assert_array_equal(gathered, np.where(alive, x[where], x.dtype.type(9)))
    expected = np.zeros_like(scattered)
    expected[where[alive]] = x[where[alive]]
    np.testing.assert_array_equal(scattered, expected)


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("stop", [0, 1, 7, 8])
def test_loops_carry_values(stop: int, target: Target) -> None:
    out = np.zeros(2, np.int64)

    def total(b: Builder, end: Vector) -> Vector:
        def body(i: Vector, carried: tuple[Vector, ...]) -> tuple[Vector, ...]:
            def inner(j: Vector, inside: tuple[Vector, ...]) -> tuple[Vector, ...]:
                return (b.add(inside[0], b.index_add(b.index_scale(i, 10), j)),)

            return b.loop(b.index(0), b.index(3), 1, carried, inner)

        return b.loop(b.index(0), end, 2, (b.index(0),), body, trips=2)[0]

    def kernel(b: Builder) -> None:
        y = b.argument_pointer(0, DType.I64)
        b.store(y, b.index(0), total(b, b.index(stop)))
        b.store(y, b.index(1), total(b, b.argument_scalar(1, DType.I64)))

    execute.run(kernel, target, out, stop)
    expected = sum(10 * i + j for i in range(0, stop, 2) for j in range(3))
    np.testing.assert_array_equal(out, [expected, expected])


@pytest.mark.parametrize("target", _RUNNABLE)
def test_branches_slots_views_and_indices(target: Target) -> None:
    out = np.zeros(6, np.float32)

    def kernel(b: Builder) -> None:
        y, n = b.argument_pointer(0, DType.F32), b.argument_scalar(1, DType.I64)
        slot = b.slot(DType.F32, 4, 64)
        view = b.view(b.workspace, 128, DType.F32)
        b.store(slot, b.index(2), b.constant(DType.F32, 1.0))
        b.branch(
            b.compare(Compare.GT, n, b.index(10)),
            lambda: b.store(slot, b.index(2), b.constant(DType.F32, 5.0)),
            lambda: b.store(slot, b.index(2), b.constant(DType.F32, 7.0)),
        )
        b.store(view, b.index(3), b.load(slot, b.index(2), 1))
        b.store(y, b.index(0), b.load(view, b.index(3), 1))
        parts = [
            b.index_floordiv(n, 5), b.index_mod(n, 5), b.index_min(n, b.index(11)), b.index_max(n, b.index(11)),
        ]  # fmt: skip
        for k, part in enumerate(parts):
            b.store(y, b.index(1 + k), b.cast(part, DType.F32))
        b.branch(b.constant(DType.BOOL, False), lambda: b.store(y, b.index(5), b.constant(DType.F32, 1.0)))

    execute.run(kernel, target, out, 13)
    np.testing.assert_array_equal(out, [5, 2, 3, 11, 13, 0])
    execute.run(kernel, target, out, 4)
    np.testing.assert_array_equal(out, [7, 0, 4, 4, 11, 0])


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_reciprocal_root_estimate(lanes: int) -> None:
    target = jit.host_target("avx512")
    x = np.geomspace(1e-44, 3e38, 32)[:lanes].astype(np.float32)

    def kernel(b: Builder) -> None:
        value = b.load(b.argument_pointer(1, DType.F32), b.index(0), lanes)
        b.store(b.argument_pointer(0, DType.F32), b.index(0), b.rsqrt_estimate(value))

    counter = CountingBuilder(target)
    kernel(counter)
    builder = LlvmBuilder("entry", target)
    kernel(builder)
    written = assembly.count(jit.assembly(builder.finish(), target))
    assert counter.static_events()[Event.MUL] == max(1, lanes // 16) == written[Event.MUL]
    assert counter.instructions == builder.instructions
    if not jit.can_run(target):
        pytest.skip("this machine has no avx512")
    out = np.zeros(lanes, np.float32)
    execute.run(kernel, target, out, x)
    np.testing.assert_allclose(out, 1 / np.sqrt(x.astype(np.float64)), rtol=2.0**-14)


@pytest.mark.parametrize("target", _RUNNABLE)
def test_scalar_arguments_of_every_type(target: Target) -> None:
    out = np.zeros(4, np.float64)
    dtypes = (DType.F32, DType.F64, DType.I32, DType.BOOL)

    def kernel(b: Builder) -> None:
        for k, dtype in enumerate(dtypes):
            value = b.cast(b.argument_scalar(1 + k, dtype), DType.F64)
            b.store(b.argument_pointer(0, DType.F64), b.index(k), value)

    execute.run(kernel, target, out, np.float32(1.5), np.float64(-2.25), np.int32(-3), np.bool_(True))
    np.testing.assert_array_equal(out, [1.5, -2.25, -3.0, 1.0])


@pytest.mark.parametrize("target", _RUNNABLE)
def test_only_marked_lanes_are_repaired(target: Target) -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)

    def function(b: Builder, v: Vector) -> Vector:
        large = b.compare(Compare.GT, v, b.constant(DType.F32, 2.5, 4))
        return b.repair(large, b.neg(v), "sinf", v)

    got = _map(target, function, DType.F32, x)
    np.testing.assert_allclose(got, [-1, -2, np.sin(3.0), np.sin(4.0)], rtol=1e-6)


def test_flags_come_from_the_policy_only() -> None:
    def text(policy: MathPolicy) -> str:
        builder = LlvmBuilder("entry", named_target("avx2"))
        x = builder.argument_scalar(0, DType.F32)
        builder.store(builder.argument_pointer(1, DType.F32), builder.index(0), builder.add(x, x, policy))
        return builder.finish()

    assert "fadd float" in text(STRICT)
    assert "fadd reassoc float" in text(MathPolicy(reassociate=True))
    assert "fadd contract float" in text(MathPolicy(contract=True))
    for flag in ("fast", "nnan", "ninf", "nsz", "arcp", "afn"):
        assert flag not in text(MathPolicy(reassociate=True, contract=True)).split()


_EXACT = (
    Event.FMA, Event.DIV_VECTOR, Event.DIV_SCALAR, Event.SQRT_VECTOR, Event.VECTOR_LOAD, Event.VECTOR_STORE,
    Event.MASKED_LOAD, Event.MASKED_STORE, Event.GATHER_LANE, Event.SHUFFLE,
)  # fmt: skip


@pytest.mark.parametrize("name", ["avx512", "avx2"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_counts_agree_with_the_assembly(kernel: str, name: str) -> None:
    target = named_target(name)
    counter = CountingBuilder(target)
    KERNELS[kernel](counter)
    counted = counter.static_events()
    written = assembly.count(execute.compiled(KERNELS[kernel], target).assembly())
    for event in _EXACT:
        assert abs(counted[event] - written[event]) <= max(2, 0.05 * written[event]), event.name
    arithmetic = (Event.ALU, Event.MUL)
    assert abs(counted.total(arithmetic) - written.total(arithmetic)) <= 0.15 * written.total(arithmetic)
    branches = (Event.BRANCH, Event.LOOP)
    assert counted.total(branches) == written.total(branches)


def test_memory_operands_count_and_constants_do_not() -> None:
    text = """
\tvaddps\t(%rax,%r9,4), %zmm0, %zmm1
\tvmulps\t.LCPI0_0(%rip){1to16}, %zmm1, %zmm1
\tvmovaps\t%zmm1, %zmm2
\tvmovups\t%zmm2, (%rax) {%k1}
\tvgatherqps\t(%rax,%zmm1,4), %ymm2 {%k1}
\tvxorps\t%xmm0, %xmm0, %xmm0
\tmovq\t8(%rdi), %rax
\tmovq\t%rax, %rcx
\tvmovd\t%ecx, %xmm5
\tvpmovsxbd\t.LCPI0_1(%rip), %zmm6
\tmovss\t(%rax), %xmm1
\tdivss\t%xmm0, %xmm1
"""
    assert assembly.count(text) == Events.of(
        {
            Event.ALU: 1,
            Event.VECTOR_LOAD: 1,
            Event.MUL: 1,
            Event.MASKED_STORE: 1,
            Event.GATHER_LANE: 8,
            Event.SCALAR_LOAD: 2,
            Event.SHUFFLE: 1,
            Event.DIV_SCALAR: 1,
        }
    )


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_trips_weigh_dynamic_counts(name: str) -> None:
    counter = CountingBuilder(named_target(name))
    KERNELS["sum_of_squares"](counter)
    static, dynamic = counter.static_events(), counter.events()
    assert dynamic[Event.VECTOR_LOAD] == 10 * static[Event.VECTOR_LOAD] == 40
    assert dynamic[Event.LOOP] == 10
    assert static[Event.LOOP] == 1
    assert counter.instructions < 60


def test_a_splat_takes_over_its_load_and_is_charged_where_it_is_hoisted() -> None:
    counter = CountingBuilder(named_target("avx512"))
    x = counter.argument_pointer(0, DType.F32)

    def outer(i: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
        scalar = counter.load(x, i, 1)

        def inner(_: Vector, carried: tuple[Vector, ...]) -> tuple[Vector, ...]:
            wide = counter.splat(scalar, 16)
            return (counter.mul(carried[0], counter.splat(scalar, 16)), counter.add(carried[1], wide))

        one = counter.constant(DType.F32, 1.0, 16)
        counter.loop(counter.index(0), counter.index(8), 1, (one, one), inner)
        return ()

    counter.loop(counter.index(0), counter.index(4), 1, (), outer)
    events = counter.events()
    assert events[Event.BROADCAST_LOAD] == 4
    assert events[Event.SCALAR_LOAD] == 1  # the tensor's address
    assert events[Event.SHUFFLE] == 0
    assert events[Event.MUL] == 32


def test_register_slots_cost_nothing() -> None:
    counter = CountingBuilder(named_target("avx2"))
    slot = counter.slot(DType.F32, 32, 64)
    counter.store(slot, counter.index(8), counter.load(slot, counter.index(0), 8))
    assert counter.events().total() == 0
