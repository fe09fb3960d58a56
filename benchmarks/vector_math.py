"""Cycles and errors of every vector math variant, as the table of docs/vector-math.md.
Must not judge: tests hold the bounds."""

from __future__ import annotations

import ctypes
import datetime
import platform
import time
from dataclasses import dataclass

import numpy as np

from autotune import jit
from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.count import CountingBuilder
from autotune.realizations.llvm import LlvmBuilder
from autotune.realizations.target import Target
from autotune.realizations.vector_math import ALL_VARIANTS, Variant
from autotune.realizations.vector_math.map_kernel import SYMBOL, emit_map
from tests.realizations import execute, references

DEFAULT_TARGETS = ("avx512", "avx2")
_BYTES = 4096  # each of x and y: both stay in L1
_REGISTER_BYTES = 64
_ERROR_POINTS = 2**18
_TIMED_ARGUMENTS = {
    Op.EXP: (-20.0, 0.0),
    Op.EXP2: (-20.0, 0.0),
    Op.LOG: (0.1, 10.0),
    Op.RSQRT: (0.1, 10.0),
    Op.TANH: (-3.0, 3.0),
    Op.SIGMOID: (-8.0, 8.0),
    Op.ERF: (-3.0, 3.0),
    Op.SIN: (-10.0, 10.0),
    Op.COS: (-10.0, 10.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Units: `cycles` of the core clock per 64 bytes of arguments, loads and stores included; `worst_ulp` measured."""

    variant: Variant
    target: str
    events: str
    cycles: float
    worst_ulp: float


def main(target_names: tuple[str, ...] = DEFAULT_TARGETS) -> None:
    """Print the table for every named target that runs here."""
    clock = core_clock_hz()
    print(f"{platform.processor() or platform.machine()}, {clock / 1e9:.2f} GHz, {datetime.date.today().isoformat()}")
    print()
    print("| function | type | variant | target | registers' events | cycles | measured ulp | declared ulp |")
    print("|---|---|---|---|---|---|---|---|")
    for name in target_names:
        target = jit.host_target(name)
        if jit.can_run(target):
            for variant in ALL_VARIANTS:
                if variant.available(target, 100.0):
                    print(_row(measure(variant, target, clock)), flush=True)


def _row(line: Line) -> str:
    variant = line.variant
    return (
        f"| {variant.op.value} | {variant.dtype.value} | {variant.name} | {line.target} | {line.events} "
        f"| {line.cycles:.1f} | {line.worst_ulp:.2f} | {variant.max_ulp} |"
    )


def measure(variant: Variant, target: Target, clock_hz: float) -> Line:
    """One variant on one target."""
    lanes = target.lanes(variant.dtype)
    builder = LlvmBuilder(SYMBOL, target)
    emit_map(builder, variant.dtype, lanes, variant.emit)
    handle = jit.load(jit.compile_module(builder.finish(), target).object_bytes, SYMBOL)
    return Line(
        variant=variant,
        target=target.name,
        events=_events(variant, target, lanes),
        cycles=_seconds_per_register(handle, variant) * clock_hz,
        worst_ulp=_worst_ulp(handle, variant, lanes),
    )


def _events(variant: Variant, target: Target, lanes: int) -> str:
    counter = CountingBuilder(target)
    variant.emit(counter.load(counter.argument_pointer(0, variant.dtype), counter.index(0), lanes), counter)
    left_out = ("vector_load", "scalar_load")
    return ", ".join(f"{n:g} {event}" for event, n in counter.events().named().items() if event not in left_out)


def _seconds_per_register(handle: jit.Handle, variant: Variant) -> float:
    kind = references.NUMPY[variant.dtype]
    n = _BYTES // variant.dtype.size_bytes
    x, y = execute.aligned(n, kind), execute.aligned(n, kind)
    x[:] = np.random.default_rng(0).uniform(*_TIMED_ARGUMENTS[variant.op], n)
    slots = (ctypes.c_uint64 * 3)(x.ctypes.data, y.ctypes.data, n)
    entry, passes, best = handle.function(), 200, float("inf")
    for _ in range(25):
        begin = time.perf_counter()
        entry(slots, None, 0, passes)
        best = min(best, time.perf_counter() - begin)
    return best / passes / (_BYTES / _REGISTER_BYTES)


def _worst_ulp(handle: jit.Handle, variant: Variant, lanes: int) -> float:
    count = _ERROR_POINTS // 16 if (variant.op, variant.dtype) == (Op.ERF, DType.F64) else _ERROR_POINTS
    x = references.samples(variant.op, variant.dtype, count, seed=2)
    padded = execute.aligned(-(-len(x) // lanes) * lanes, x.dtype.type)
    padded[: len(x)] = x
    y = execute.aligned(len(padded), x.dtype.type)
    execute.call(handle, padded, y, len(padded))
    exact = references.wide(variant.op, x)
    error = references.distance(y[: len(x)], exact, variant.dtype)
    if variant.flushes:
        error[(np.abs(exact) < np.finfo(x.dtype).tiny) & (y[: len(x)] == 0)] = 0.0
    return float(error.max())


def core_clock_hz() -> float:
    """From a chain of dependent multiply-adds of four cycles each, as on all recent x86-64 cores."""
    latency, chain, trips = 4, 32, 20_000

    def kernel(b: Builder) -> None:
        one = b.constant(DType.F32, 1.0)
        factor = b.argument_scalar(1, DType.F32)

        def body(_: Vector, carried: tuple[Vector, ...]) -> tuple[Vector, ...]:
            value = carried[0]
            for _step in range(chain):
                value = b.fma(value, factor, one)
            return (value,)

        b.store(b.argument_pointer(0, DType.F32), b.index(0), b.loop(b.first, b.last, 1, (one,), body, trips=1)[0])

    handle = jit.load(execute.compiled(kernel, jit.host_target()).object_bytes, execute.SYMBOL)
    out = execute.aligned(1, np.float32)
    best = float("inf")
    for _ in range(10):
        begin = time.perf_counter()
        execute.call(handle, out, np.float32(1.0), last=trips)
        best = min(best, time.perf_counter() - begin)
    return latency * chain * trips / best
