"""Timing of native calls: a compiled loop around the entry, how often it runs, and what it costs itself.
Must not know which kernels are compared or what they compute."""

from __future__ import annotations

import ctypes
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.errors import AutotuneError
from autotune.jit import Handle


class UnknownControlWord(AutotuneError):
    """A machine whose floating-point state the timed loop cannot reset."""

    sentence = "the floating-point control word of {machine} is not known to the timed loop"
    remedy = "measure on x86-64 or AArch64"


LOOP_SYMBOL = "autotune_measure_loop"
SAMPLE_NS = 300_000
JITTER = 0.10
ESTIMATE_NS = 50_000
OVERHEAD_READINGS = 64

_LOOP = """
define void @{symbol}(ptr %entry, ptr %tables, i64 %copies, ptr %workspace, i64 %packets, i64 %calls) {{
start:
  {reset_once}
  %some = icmp sgt i64 %calls, 0
  br i1 %some, label %loop, label %end
loop:
  %done = phi i64 [ 0, %start ], [ %done.next, %loop ]
  %copy = phi i64 [ 0, %start ], [ %copy.next, %loop ]
  %slot = getelementptr ptr, ptr %tables, i64 %copy
  %args = load ptr, ptr %slot
  call void %entry(ptr %args, ptr %workspace, i64 0, i64 %packets)
  %done.next = add i64 %done, 1
  %copy.up = add i64 %copy, 1
  %wrap = icmp eq i64 %copy.up, %copies
  %copy.next = select i1 %wrap, i64 0, i64 %copy.up
  %more = icmp slt i64 %done.next, %calls
  br i1 %more, label %loop, label %end
end:
  {reset_again}
  ret void
}}
{declarations}
"""


def loop_text(machine: str | None = None) -> str:
    """LLVM text of the timed loop. It puts the floating-point control word into its default state, denormals kept and
    rounding to nearest, before the first call and again after the last.

    Raises: UnknownControlWord.
    """
    match machine or platform.machine():
        case "x86_64" | "AMD64":
            allocate = "%state = alloca i32\n  store i32 8064, ptr %state\n  "
            reset = "call void @llvm.x86.sse.ldmxcsr(ptr %state)"
            declarations = "declare void @llvm.x86.sse.ldmxcsr(ptr)"
        case "aarch64" | "arm64":
            allocate, reset = "", "call void @llvm.aarch64.set.fpcr(i64 0)"
            declarations = "declare void @llvm.aarch64.set.fpcr(i64)"
        case other:
            raise UnknownControlWord(machine=other)
    return _LOOP.format(symbol=LOOP_SYMBOL, reset_once=allocate + reset, reset_again=reset, declarations=declarations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One kernel ready to be called: native addresses and counts."""

    entry: int
    tables: int
    copies: int
    workspace: int
    packets: int


class Clock:
    """Runs calls in the native loop. `refill` is called outside the clock whenever all copies have been used."""

    __slots__ = ("_handle", "_jitter", "_loop", "overhead_ns")

    def __init__(self, loop: Handle, seed: int) -> None:
        prototype = ctypes.CFUNCTYPE(
            None,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int64,
        )
        self._handle = loop
        self._loop = prototype(loop.address)
        self._jitter = np.random.default_rng(seed)
        nothing = Call(entry=0, tables=0, copies=1, workspace=0, packets=0)
        self.overhead_ns = 0
        self.overhead_ns = min(self.run(nothing, 0) for _ in range(OVERHEAD_READINGS))

    def run(self, call: Call, calls: int) -> int:
        """Nanoseconds of `calls` calls, without what reading the clock and entering the loop take."""
        loop, entry, tables, copies = self._loop, call.entry, call.tables, call.copies
        workspace, packets = call.workspace, call.packets
        start = time.perf_counter_ns()
        loop(entry, tables, copies, workspace, packets, calls)
        return max(time.perf_counter_ns() - start - self.overhead_ns, 1 if calls else 0)

    def estimate_ns(self, call: Call, refill: Callable[[], None] | None) -> float:
        """Rough time of a call, from as many as take 50 µs; also warms caches and branch predictors."""
        calls = 1
        while True:
            spent = self._total(call, calls, refill)
            if spent >= ESTIMATE_NS:
                return spent / calls
            calls = max(2 * calls, min(64 * calls, int(1.2 * ESTIMATE_NS * calls / max(spent, 1))))

    def sample(self, call: Call, estimate_ns: float, refill: Callable[[], None] | None) -> float:
        """Nanoseconds a call, over about 0.3 ms of calls; the number of calls is jittered by ±10 %."""
        calls = max(1, round(SAMPLE_NS / estimate_ns * self._jitter.uniform(1 - JITTER, 1 + JITTER)))
        return self._total(call, calls, refill) / calls

    def cold_sample(self, call: Call, refill: Callable[[], None] | None, evict: Callable[[], None]) -> float:
        """Nanoseconds of one call after `evict`, which runs outside the clock."""
        if refill is not None:
            refill()
        evict()
        return float(self.run(call, 1))

    def _total(self, call: Call, calls: int, refill: Callable[[], None] | None) -> int:
        if refill is None:
            return self.run(call, calls)
        total = 0
        for first in range(0, calls, call.copies):
            refill()
            total += self.run(call, min(call.copies, calls - first))
        return total


def interruptions() -> int:
    """Involuntary context switches of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
