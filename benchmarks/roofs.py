"""The roofs of one core, measured: multiply-adds a second, and bytes read a second at a footprint.
Must not know what is held against them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from autotune.ir.types import DType
from autotune.jit import Handle, compile_module, host_target, load
from benchmarks.buffers import Arena
from benchmarks.environment import pinned
from benchmarks.timing import NativeCall, quick_us

_CHAINS = 16
"""Independent multiply-adds: more than latency times ports of any core, fewer than its registers."""
_FMA_TRIPS = 2000
_READ_VECTORS = 8
_SAMPLES = 25
"""A roof is the best of these: a disturbed one would let kernels reach more than all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """What one core can do at most, and for how much memory that holds."""

    flops_per_us: float
    bytes_per_us: float
    footprint_bytes: int


def measure_roofs(footprint_bytes: int) -> Roofs:
    """Both roofs, now, on the core that cases are timed on."""
    with pinned():
        return Roofs(
            flops_per_us=_flops_per_us(), bytes_per_us=_bytes_per_us(footprint_bytes), footprint_bytes=footprint_bytes
        )


def part_of_roof(roofs: Roofs, flops: int, us: float) -> float:
    """How much of the roof that binds is reached by `flops` operations over the footprint in `us` microseconds."""
    least_us = max(flops / roofs.flops_per_us, roofs.footprint_bytes / roofs.bytes_per_us)
    return least_us / us


def _flops_per_us() -> float:
    lanes = host_target().lanes(DType.F32)
    out = np.full((_CHAINS + 2) * lanes, 0.5, np.float32)
    call = NativeCall(address=_fma_loop(lanes).address, arguments=(out.ctypes.data, _FMA_TRIPS))
    return 2 * lanes * _CHAINS * _FMA_TRIPS / quick_us(call, _SAMPLES)


def _bytes_per_us(footprint_bytes: int) -> float:
    lanes = host_target().lanes(DType.F32)
    step = _READ_VECTORS * lanes * 4
    size = max(step, footprint_bytes // step * step)
    data = Arena(size).array((size // 4,), np.float32)
    out = np.zeros(lanes, np.float32)
    arguments = (data.ctypes.data, out.ctypes.data, size)
    return size / quick_us(NativeCall(address=_read_loop(lanes).address, arguments=arguments), _SAMPLES)


@cache
def _fma_loop(lanes: int) -> Handle:
    """`void fma(state: f32*, trips: i64)`: a vector a chain, then the factor and the term; no number gets large.

    The chains start from memory: equal ones would be merged.
    """
    vector = f"<{lanes} x float>"
    bytes_each = lanes * 4
    loads = "\n".join(
        f"  %p{c} = getelementptr i8, ptr %state, i64 {c * bytes_each}\n  %v{c} = load {vector}, ptr %p{c}, align 4"
        for c in range(_CHAINS + 2)
    )
    starts = "\n".join(f"  %x{c} = phi {vector} [ %v{c}, %start ], [ %y{c}, %again ]" for c in range(_CHAINS))
    steps = "\n".join(
        f"  %y{c} = call {vector} @llvm.fma.v{lanes}f32({vector} %x{c}, {vector} %v{_CHAINS}, {vector} %v{_CHAINS + 1})"
        for c in range(_CHAINS)
    )
    stores = "\n".join(f"  store {vector} %y{c}, ptr %p{c}, align 4" for c in range(_CHAINS))
    text = f"""declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define void @fma(ptr %state, i64 %trips) {{
start:
{loads}
  br label %again
again:
  %i = phi i64 [ 0, %start ], [ %next, %again ]
{starts}
{steps}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %trips
  br i1 %more, label %again, label %end
end:
{stores}
  ret void
}}
"""
    return load(compile_module(text, host_target()).object_bytes, "fma")


@cache
def _read_loop(lanes: int) -> Handle:
    """`void read(data: f32*, out: f32*, bytes: i64)`: every vector is added to one of several sums."""
    vector = f"<{lanes} x float>"
    each = lanes * 4
    sums = "\n".join(
        f"  %s{k} = phi {vector} [ zeroinitializer, %start ], [ %t{k}, %again ]" for k in range(_READ_VECTORS)
    )
    reads = "\n".join(
        f"  %o{k} = add i64 %i, {k * each}\n  %p{k} = getelementptr i8, ptr %data, i64 %o{k}\n"
        f"  %v{k} = load {vector}, ptr %p{k}, align 4\n  %t{k} = fadd {vector} %s{k}, %v{k}"
        for k in range(_READ_VECTORS)
    )
    folds = "\n".join(
        f"  %f{k} = fadd {vector} {'%t0' if k == 1 else f'%f{k - 1}'}, %t{k}" for k in range(1, _READ_VECTORS)
    )
    text = f"""define void @read(ptr %data, ptr %out, i64 %bytes) {{
start:
  br label %again
again:
  %i = phi i64 [ 0, %start ], [ %next, %again ]
{sums}
{reads}
  %next = add i64 %i, {_READ_VECTORS * each}
  %more = icmp ult i64 %next, %bytes
  br i1 %more, label %again, label %end
end:
{folds}
  store {vector} %f{_READ_VECTORS - 1}, ptr %out, align 4
  ret void
}}
"""
    return load(compile_module(text, host_target()).object_bytes, "read")
