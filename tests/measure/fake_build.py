"""A builder of hand-written entries for y = 2·x over f32[N], good and bad ones, by name."""

from __future__ import annotations

import ctypes
import mmap
import os
import time

from autotune.build import CompiledKernel, padded
from autotune.ir.program import Program
from autotune.jit import compile_module
from autotune.realizations.target import Target

_HEADER = "define void @entry(ptr %args, ptr %workspace, i64 %first, i64 %last) {"

_LOOP = """
start:
  %x = load ptr, ptr %args
  %y.slot = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %y.slot
  br label %loop
loop:
  %i = phi i64 [ {first}, %start ], [ %i.next, %loop ]
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %y, i64 %i
  %old = load volatile float, ptr %from
  %new = fmul float %old, {factor}
  store volatile float %new, ptr %to
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, {end}
  br i1 %more, label %loop, label %end
end:
  {after}
  ret void
}}
"""

_NULL = "store volatile i32 1, ptr null\n ret void\n}"
_HANG = "br label %spin\nspin:\n %v = load volatile i64, ptr %args\n br label %spin\n}"
_DEEP_STACK = """
  br label %deeper
deeper:
  %k = phi i64 [ 0, %0 ], [ %k.next, %deeper ]
  %room = alloca [1048576 x i8]
  store volatile i8 1, ptr %room
  %k.next = add i64 %k, 1
  br label %deeper
}
"""
# malloc of 16 MiB again and again, each page written; it is called by its address, which all forked workers share
_MEMORY_EATER = """
  br label %eat
eat:
  %malloc = inttoptr i64 {malloc} to ptr
  %room = call ptr %malloc(i64 16777216)
  br label %touch
touch:
  %at = phi i64 [ 0, %eat ], [ %at.next, %touch ]
  %byte = getelementptr i8, ptr %room, i64 %at
  store volatile i8 1, ptr %byte
  %at.next = add i64 %at, 4096
  %more = icmp ult i64 %at.next, 16777216
  br i1 %more, label %touch, label %eat
}}
"""
_STALE_MAXIMUM = """
  %w = load float, ptr %workspace
  %h = call float @llvm.maxnum.f32(float %new, float %w)
  store volatile float %h, ptr %to
"""


def _loop(first: int, end: int, factor: str = "2.0", after: str = "") -> str:
    return _HEADER + _LOOP.format(first=first, end=end, factor=factor, after=after)


def text_of(name: str, n: int) -> str:
    write_x = "store volatile float 7.0, ptr %x"
    repeat = "br label %again\nagain:\n  %k = phi i64 [0, %end], [%k.next, %again]\n" + (
        "  %k.next = add i64 %k, 1\n  store volatile float %new, ptr %to\n"
        "  %busy = icmp slt i64 %k.next, {n}\n  br i1 %busy, label %again, label %done\ndone:"
    )
    match name:
        case "right" | "wants a huge workspace":
            return _loop(0, n)
        case "slow":
            return _loop(0, n, after=repeat.format(n=20 * n))
        case "wrong factor":
            return _loop(0, n, factor="2.5")
        case "wrong by 1000 ulp":
            return _loop(0, n, factor="2.0002384185791015625")
        case "last element missing":
            return _loop(0, n - 1)
        case "writes past the end":
            return _loop(0, n + 1)
        case "writes before the start":
            return _loop(-1, n)
        case "reads past the end":
            return _loop(0, n, after=f"%p = getelementptr float, ptr %x, i64 {n}\n %v = load volatile float, ptr %p")
        case "reads before the start":
            return _loop(0, n, after="%p = getelementptr float, ptr %x, i64 -1\n %v = load volatile float, ptr %p")
        case "overwrites its input":
            return _loop(0, n, after=write_x)
        case "writes past the workspace":
            return _loop(0, n, after="%p = getelementptr i8, ptr %workspace, i64 256\n store volatile i8 3, ptr %p")
        case "answers from its workspace":
            return _loop(0, n, after=_STALE_MAXIMUM) + "declare float @llvm.maxnum.f32(float, float)"
        case "null write":
            return f"{_HEADER} {_NULL}"
        case "hang":
            return f"{_HEADER} {_HANG}"
        case "overflows its stack":
            return _HEADER + _DEEP_STACK
        case "eats memory":
            malloc = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
            return _HEADER + _MEMORY_EATER.format(malloc=malloc)
        case _:
            raise ValueError(f"no such candidate: {name}")


def build(program: Program, candidate: str, target: Target, *, padding_bytes: int = 0) -> CompiledKernel:
    match candidate:
        case "compiler raises":
            raise ValueError("cannot lower this")
        case "compiler aborts":
            compile_module(_HEADER + 'call void asm "no such instruction", ""()\n ret void\n}', target)
            os.abort()  # where LLVM takes the line above after all
        case "compiler hangs":
            time.sleep(3600)
        case "compiler eats memory":
            held = []
            while True:
                held.append(bytearray(16 << 20))
        case "compiler segfaults":
            ctypes.memset(0, 0, mmap.PAGESIZE)
    shape = program.tensor(0).shape
    compiled = compile_module(padded(text_of(candidate, shape[0].evaluate({})), padding_bytes), target)
    return CompiledKernel(
        object_bytes=compiled.object_bytes,
        sha256=compiled.sha256,
        symbol="entry",
        workspace_bytes=(1 << 40) if candidate == "wants a huge workspace" else 256,
        packets=1,
        instructions=0,
        code_bytes=compiled.summary.text_bytes,
        compile_seconds=compiled.compile_seconds,
        decision="",
    )
