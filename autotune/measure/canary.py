"""Canaries: two small fixed loops whose time tells whether the machine still is what it was when measuring began.
Must not know what is measured between two readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.jit import compile_module, host_target, load
from autotune.measure.clock import Call, Clock

CHAIN_STEPS = 2048  # each waits for the one before: the core's clock rate and nothing else
STREAM_BYTES = 128 * 1024  # more than a first and less than a second level cache holds
LINE_BYTES = 64
FIRST_READINGS = 16
READINGS = 3

_TEXT = """
define void @chain(ptr %args, ptr %workspace, i64 %first, i64 %last) {{
start:
  %unknown = load volatile double, ptr %workspace
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %k.next, %loop ]
  %x = phi double [ %unknown, %start ], [ %x.next, %loop ]
  %scaled = fmul double %x, 0.5
  %x.next = fadd double %scaled, 0.5
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, {steps}
  br i1 %more, label %loop, label %end
end:
  store volatile double %x.next, ptr %workspace
  ret void
}}
define void @stream(ptr %args, ptr %workspace, i64 %first, i64 %last) {{
start:
  br label %loop
loop:
  %at = phi i64 [ 0, %start ], [ %at.next, %loop ]
  %sum = phi i64 [ 0, %start ], [ %sum.next, %loop ]
  %place = getelementptr i8, ptr %args, i64 %at
  %value = load i64, ptr %place
  %sum.next = add i64 %sum, %value
  %at.next = add i64 %at, {line}
  %more = icmp ult i64 %at.next, {bytes}
  br i1 %more, label %loop, label %end
end:
  store volatile i64 %sum.next, ptr %workspace
  ret void
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryTimes:
    """Least times of the canaries in a few readings.

    Units: nanoseconds a call: of a chain of dependent multiplications and additions, and of a walk over the lines of a
    buffer that lies in the second level cache.
    """

    chain_ns: float
    stream_ns: float

    def drift_from(self, first: CanaryTimes) -> float:
        """The larger departure of the two from what they took at first, as a fraction, faster or slower."""
        return max(abs(self.chain_ns / first.chain_ns - 1), abs(self.stream_ns / first.stream_ns - 1))


class Canaries:
    """The two loops in this process, read through the clock that measures kernels."""

    def __init__(self, clock: Clock) -> None:
        compiled = compile_module(_TEXT.format(steps=CHAIN_STEPS, line=LINE_BYTES, bytes=STREAM_BYTES), host_target())
        self._clock = clock
        self._memory = np.zeros(STREAM_BYTES + LINE_BYTES, dtype=np.uint8)
        self._table = np.array([self._memory.ctypes.data], dtype=np.uint64)
        self._result = np.zeros(1, dtype=np.float64)
        self._handles: list[Any] = [load(compiled.object_bytes, name) for name in ("chain", "stream")]
        self._calls = [
            Call(
                entry=handle.address,
                tables=self._table.ctypes.data,
                copies=1,
                workspace=self._result.ctypes.data,
                packets=1,
            )
            for handle in self._handles
        ]

    def read(self, readings: int = READINGS) -> CanaryTimes:
        """The least of a few readings of each: what the machine can do now."""
        return least([[float(self._clock.run(call, 1)) for _ in range(readings)] for call in self._calls])


def least(readings_ns: Sequence[Sequence[float]]) -> CanaryTimes:
    """The times that two rows of readings stand for."""
    chain, stream = readings_ns
    return CanaryTimes(chain_ns=min(chain), stream_ns=min(stream))
