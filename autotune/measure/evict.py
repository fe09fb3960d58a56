"""Takes chosen bytes out of every cache, line by line, before a cold sample.
Must not know whose bytes they are or what is timed afterwards."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import AutotuneError
from autotune.jit import compile_module, host_target, load

LINE_BYTES = 64
FLUSH_SYMBOL = "autotune_measure_flush"

_FLUSH = """
define void @{symbol}(ptr %from, i64 %bytes) {{
start:
  br label %loop
loop:
  %at = phi i64 [ 0, %start ], [ %at.next, %loop ]
  %line = getelementptr i8, ptr %from, i64 %at
  call void @llvm.x86.sse2.clflush(ptr %line)
  %at.next = add i64 %at, {line}
  %more = icmp ult i64 %at.next, %bytes
  br i1 %more, label %loop, label %end
end:
  call void @llvm.x86.sse2.mfence()
  ret void
}}
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()
"""


class ColdUnavailable(AutotuneError):
    """A machine on which a program cannot take chosen lines out of the caches."""

    sentence = "cold tensors cannot be measured on {machine}: it has no instruction that flushes a line"
    remedy = "leave out --cold, or measure on x86-64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes from `address` on."""

    address: int
    size_bytes: int

    def whole_lines(self) -> Stretch:
        """The smallest stretch of whole cache lines that holds this one."""
        first = self.address - self.address % LINE_BYTES
        end = self.address + self.size_bytes
        return Stretch(address=first, size_bytes=end + -end % LINE_BYTES - first)


def check_evictable(machine: str | None = None) -> None:
    """Raises: ColdUnavailable."""
    found = machine or platform.machine()
    if found not in ("x86_64", "AMD64"):
        raise ColdUnavailable(machine=found)


class Evictor:
    """Flushes stretches of memory from all cache levels; what else the caches hold stays."""

    def __init__(self) -> None:
        """Raises: ColdUnavailable."""
        check_evictable()
        compiled = compile_module(_FLUSH.format(symbol=FLUSH_SYMBOL, line=LINE_BYTES), host_target())
        self._handle: Any = load(compiled.object_bytes, FLUSH_SYMBOL)
        self._flush = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._handle.address)

    def evict(self, stretches: Sequence[Stretch]) -> None:
        """Write back and drop every line that the stretches touch."""
        for stretch in stretches:
            whole = stretch.whole_lines()
            if whole.size_bytes:
                self._flush(whole.address, whole.size_bytes)
