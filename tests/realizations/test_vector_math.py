"""Every variant of every function keeps its declared bound, on every target that runs here."""

from __future__ import annotations

import math
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest

from autotune import jit
from autotune.ir.types import DEFAULT_MAX_ULP, STRICT_MAX_ULP, DType, Op
from autotune.realizations.count import CountingBuilder
from autotune.realizations.events import Event
from autotune.realizations.targets import TARGET_NAMES, named_target
from autotune.realizations.vector_math import ALL_VARIANTS, Variant, hyperbolic, variants
from autotune.realizations.vector_math.map_kernel import SYMBOL, emit_map
from autotune.realizations.vector_math.trigonometric import LARGEST
from tests.realizations import execute, references, remez

_FUNCTIONS = tuple(DEFAULT_MAX_ULP)
_CASES = [
    pytest.param(variant, name, id=f"{variant.op.value}-{variant.dtype.value}-{variant.name}-{name}")
    for name in ("avx512", "avx2", "sse2")
    for variant in ALL_VARIANTS
    if variant.available(named_target(name), 100.0)
]
_COUNT = 2**22  # points a variant


def _bound(variant: Variant, target_name: str) -> float:
    with_fma = named_target(target_name).has_fma
    bound = variant.max_ulp if with_fma else variant.max_ulp_without_fma
    assert bound is not None
    return bound


@lru_cache(maxsize=2)
def _points(op: Op, dtype: DType, count: int) -> tuple[np.ndarray, np.ndarray]:
    x = references.samples(op, dtype, count, seed=1)
    return x, references.wide(op, x)


def _apply(handle: jit.Handle, x: np.ndarray, lanes: int) -> np.ndarray:
    padded = execute.aligned(-(-len(x) // lanes) * lanes, x.dtype.type)
    padded[: len(x)] = x
    y = execute.aligned(len(padded), x.dtype.type)
    execute.call(handle, padded, y, len(padded))
    return y[: len(x)]


def _compile(variant: Variant, target_name: str) -> tuple[jit.Handle, int]:
    target = jit.host_target(target_name)
    if not jit.can_run(target):
        pytest.skip(f"this machine has no {target_name}")
    lanes = target.lanes(variant.dtype)
    compiled = execute.compiled_map(lambda b: emit_map(b, variant.dtype, lanes, variant.emit), target, SYMBOL)
    return jit.load(compiled.object_bytes, SYMBOL), lanes


def _worst(variant: Variant, x: np.ndarray, y: np.ndarray, exact: np.ndarray) -> tuple[float, float]:
    """Largest distance and its argument; a variant that flushes may answer 0 for subnormal results."""
    error = references.distance(y, exact, variant.dtype)
    if variant.flushes:
        subnormal = np.abs(exact) < np.finfo(x.dtype).tiny
        error = np.where(subnormal & (y == 0), 0.0, error)
    worst = int(np.argmax(error))
    return float(error[worst]), float(x[worst])


@pytest.mark.parametrize(("variant", "target_name"), _CASES)
def test_declared_bound_holds(variant: Variant, target_name: str) -> None:
    handle, lanes = _compile(variant, target_name)
    count = _COUNT if target_name == jit.host_target().name else 2**14
    if (variant.op, variant.dtype) == (Op.ERF, DType.F64):
        count //= 16  # its reference is a long series
    x, exact = _points(variant.op, variant.dtype, count)
    error, at = _worst(variant, x, _apply(handle, x, lanes), exact)
    assert error <= _bound(variant, target_name), f"{error:.3f} ulp at {at!r}"


@pytest.mark.parametrize("op", _FUNCTIONS)
def test_every_single_precision_argument(op: Op, full: bool) -> None:
    if not full:
        pytest.skip("exhaustive: run with --full")
    target = jit.host_target()
    known = [v for v in ALL_VARIANTS if v.op is op and v.dtype is DType.F32 and v.available(target, 100.0)]
    compiled = [(variant, *_compile(variant, target.name)) for variant in known]
    for start in range(0, 2**32, 2**22):
        x = np.arange(start, start + 2**22, dtype=np.uint64).astype(np.uint32).view(np.float32)
        if op in (Op.SIN, Op.COS) and not np.any(np.abs(x) <= LARGEST[DType.F32]):
            continue  # the library's own accuracy
        exact = references.wide(op, x)
        for variant, handle, lanes in compiled:
            error, at = _worst(variant, x, _apply(handle, x, lanes), exact)
            assert error <= _bound(variant, target.name), f"{variant.name}: {error:.3f} ulp at {at!r}"


@pytest.mark.parametrize("target_name", TARGET_NAMES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("op", _FUNCTIONS)
def test_default_and_strict_exist_everywhere(op: Op, dtype: DType, target_name: str) -> None:
    target = named_target(target_name)
    assert variants(op, dtype, target, DEFAULT_MAX_ULP[op])
    strict = variants(op, dtype, target, STRICT_MAX_ULP)
    assert strict or op is Op.RSQRT  # which strict math writes as a root and a division
    assert not any(variant.flushes for variant in strict)


@pytest.mark.parametrize("target_name", ["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("variant", [v for v in ALL_VARIANTS if v.op is Op.RSQRT], ids=lambda v: f"{v.dtype}-{v.name}")
def test_reciprocal_roots_err_less_than_two_roundings(variant: Variant, target_name: str) -> None:
    if not variant.available(named_target(target_name), 100.0):
        pytest.skip("this target lacks the instructions")
    handle, lanes = _compile(variant, target_name)
    draw = np.random.default_rng(2)
    dtype = references.NUMPY[variant.dtype]
    x = np.concatenate([draw.uniform(1.0, 4.0, 2**18), np.ldexp(draw.uniform(1.0, 2.0, 277), np.arange(-149, 128))])
    x = x.astype(dtype)
    exact = references.wide(Op.RSQRT, x)
    error = np.abs(_apply(handle, x, lanes) - exact) / exact
    assert np.max(error) <= 2.0 * variant.dtype.unit_roundoff


@pytest.mark.parametrize("target_name", ["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("variant", [v for v in ALL_VARIANTS if v.op is Op.RSQRT], ids=lambda v: f"{v.dtype}-{v.name}")
def test_reciprocal_roots_at_the_edges(variant: Variant, target_name: str) -> None:
    if not variant.available(named_target(target_name), 100.0):
        pytest.skip("this target lacks the instructions")
    handle, lanes = _compile(variant, target_name)
    x = np.array([0.0, -0.0, np.inf, -np.inf, -1.0, np.nan, -1e-40], references.NUMPY[variant.dtype])
    np.testing.assert_array_equal(_apply(handle, x, lanes), [np.inf, -np.inf, 0.0, np.nan, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_short_tanh_is_the_best_quotient(dtype: DType) -> None:
    degree, bound = {DType.F32: (1, 2.0**-30), DType.F64: (2, 2.0**-57)}[dtype]
    fitted = remez.minimax_quotient(
        lambda u: mp.tanh(mp.sqrt(u)) / mp.sqrt(u) if u else mp.mpf(1), degree, degree, (math.log(2.0) / 4) ** 2
    )
    assert fitted[2] < bound
    for written, wanted in zip(hyperbolic.QUARTER_LN2[dtype], fitted[:2], strict=True):
        np.testing.assert_allclose(written, [float(c) for c in wanted[: len(written)]], rtol=2e-4)
    with mp.workdps(40):
        over, under = ([mp.mpf(c) for c in part] for part in hyperbolic.QUARTER_LN2[dtype])
        for k in range(1, 101):
            u = (mp.log(2) / 4 * k / 100) ** 2
            quotient = remez.polynomial([*over, mp.mpf(1)], u) / remez.polynomial(under, u)
            assert abs(quotient * mp.sqrt(u) / mp.tanh(mp.sqrt(u)) - 1) < 2 * bound


@pytest.mark.parametrize("target_name", ["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("name", ["table_sum", "power_sum"])
def test_tanh_keeps_the_sign_of_zero_and_ends_at_one(name: str, target_name: str) -> None:
    variant = next(v for v in ALL_VARIANTS if (v.op, v.dtype, v.name) == (Op.TANH, DType.F32, name))
    if not variant.available(named_target(target_name), 100.0):
        pytest.skip("this target lacks the instructions")
    handle, lanes = _compile(variant, target_name)
    y = _apply(handle, np.array([0.0, -0.0, 9.25, -9.25, 3e38, -np.inf], np.float32), lanes)
    assert y.tolist() == [0.0, 0.0, 1.0, -1.0, 1.0, -1.0]
    assert np.signbit(y).tolist() == [False, True] * 3


@pytest.mark.parametrize("target_name", TARGET_NAMES)
def test_every_variant_compiles_and_is_counted(target_name: str) -> None:
    target = named_target(target_name)
    for variant in ALL_VARIANTS:
        if variant.available(target, 100.0):
            lanes = target.lanes(variant.dtype)
            assert execute.compiled_map(
                lambda b, v=variant, n=lanes: emit_map(b, v.dtype, n, v.emit), target, SYMBOL
            ).object_bytes
            counter = CountingBuilder(target)
            emit_map(counter, variant.dtype, lanes, variant.emit, trips=8)
            events = counter.events()
            assert events[Event.VECTOR_LOAD] == 8 == events[Event.VECTOR_STORE]
            arithmetic = (Event.FMA, Event.MUL, Event.DIV_VECTOR, Event.SQRT_VECTOR)
            assert events.total(arithmetic) >= 8 * (2 if variant.op is Op.RSQRT else 4)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_large_angles_take_the_counted_scalar_path(dtype: DType) -> None:
    target = jit.host_target()
    variant = variants(Op.SIN, dtype, target, 2.0)[0]
    counter = CountingBuilder(target)
    emit_map(counter, dtype, target.lanes(dtype), variant.emit, trips=8)
    assert counter.static_events()[Event.CALL] == 1
    assert counter.events()[Event.CALL] == 0
    assert counter.events()[Event.BRANCH] >= 8
    handle, lanes = _compile(variant, target.name)
    x = np.array([1.0, 2.0 * LARGEST[dtype], 3.0, 1e30] * lanes, references.NUMPY[dtype])
    error, at = _worst(variant, x, _apply(handle, x, lanes), references.wide(Op.SIN, x))
    assert error <= 1.5, f"{error:.3f} ulp at {at!r}"


def test_unknown_names_are_refused() -> None:
    from autotune.realizations.vector_math import emit

    counter = CountingBuilder(named_target("avx2"))
    with pytest.raises(KeyError):
        emit(Op.EXP, counter.constant(DType.F32, 1.0, 8), counter, "nonsense")
