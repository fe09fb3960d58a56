"""The clock: a call repeated in a compiled or a Python loop, and two calls compared in interleaved rounds.
Must not know what the calls compute."""

from __future__ import annotations

import ctypes
import gc
import platform
import random
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias, assert_never

from autotune.jit import Handle, compile_module, host_target, load

SAMPLE_NS = 500_000
"""Aim of one sample; below about 0.3 ms the clock and the call into the loop show."""
JITTER = 0.1
REDO_ABOVE = 1.10
"""A round is taken again if its two samples of one side differ by more than this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """Machine code at `address`, called with 64-bit integers and pointers; the caller keeps alive what they name."""

    address: int
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCall:
    """A Python function without arguments."""

    function: Callable[[], object]


Call: TypeAlias = NativeCall | PythonCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Ours and a peer in one interleaved run.

    Units: microseconds a call; `ratio` is the median over rounds of ours over peer, `least` and `most` the extremes of
    the rounds' ratios, which are no confidence interval.
    """

    ours_us: float
    peer_us: float
    ratio: float
    least: float
    most: float
    rounds: int
    redone: int


_RESET = {
    "x86_64": (
        "declare void @llvm.x86.sse.ldmxcsr(ptr)",
        "%mode = alloca i32\n  store i32 8064, ptr %mode\n  call void @llvm.x86.sse.ldmxcsr(ptr %mode)",
    ),
    "aarch64": ("declare void @llvm.aarch64.set.fpcr(i64)", "call void @llvm.aarch64.set.fpcr(i64 0)"),
}
"""How each machine is put back to round-to-nearest with denormal numbers kept."""


def _loop_text(arity: int) -> str:
    declaration, reset = _RESET[platform.machine()]
    loads = "\n".join(
        f"  %p{i} = getelementptr i64, ptr %arguments, i64 {i}\n  %a{i} = load i64, ptr %p{i}" for i in range(arity)
    )
    passed = ", ".join(f"i64 %a{i}" for i in range(arity))
    return f"""{declaration}
define void @loop(ptr %callee, ptr %arguments, i64 %count) {{
start:
  {reset}
{loads}
  br label %again
again:
  %i = phi i64 [ 0, %start ], [ %next, %again ]
  call void %callee({passed})
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %again, label %end
end:
  ret void
}}
define void @reset() {{
  {reset}
  ret void
}}
define void @nothing() {{
  ret void
}}
"""


class _CompiledLoop:
    """The loop for one number of arguments, with its code kept alive."""

    def __init__(self, arity: int) -> None:
        code = compile_module(_loop_text(arity), host_target()).object_bytes
        self.nothing: Handle = load(code, "nothing")
        self._loop, self._reset = load(code, "loop"), load(code, "reset")
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(self._loop.address)
        self.reset = ctypes.CFUNCTYPE(None)(self._reset.address)


@cache
def _compiled_loop(arity: int) -> _CompiledLoop:
    return _CompiledLoop(arity)


def nothing(arity: int) -> NativeCall:
    """A native function that returns at once, called with `arity` arguments: what the native loop itself costs."""
    return NativeCall(address=_compiled_loop(0).nothing.address, arguments=(0,) * arity)


def in_order(calls: Sequence[NativeCall]) -> tuple[NativeCall, object]:
    """One native call that makes all of `calls`, one after another; the second value is to be kept alive with it."""
    if len(calls) == 1:
        return calls[0], None
    code = _sequence(tuple(len(call.arguments) for call in calls))
    slots = [slot for call in calls for slot in (call.address, *call.arguments)]
    table = (ctypes.c_int64 * len(slots))(*slots)
    return NativeCall(address=code.address, arguments=(ctypes.addressof(table),)), table


@cache
def _sequence(arities: tuple[int, ...]) -> Handle:
    """`void sequence(table: i64*)`: of each call the table holds the address, then the arguments."""
    lines, slot = [], 0
    for arity in arities:
        first, passed = slot, []
        for k in range(1 + arity):
            kind = "ptr" if k == 0 else "i64"
            lines.append(f"  %p{slot} = getelementptr i64, ptr %table, i64 {slot}")
            lines.append(f"  %v{slot} = load {kind}, ptr %p{slot}")
            passed += [f"i64 %v{slot}"] if k else []
            slot += 1
        lines.append(f"  call void %v{first}({', '.join(passed)})")
    body = "\n".join(lines)
    text = f"define void @sequence(ptr %table) {{\n{body}\n  ret void\n}}\n"
    return load(compile_module(text, host_target()).object_bytes, "sequence")


def repeater(call: Call) -> Callable[[int], int]:
    """A function that makes `count` calls, denormal mode reset before them, and returns the nanoseconds they took."""
    match call:
        case NativeCall():
            return _native_repeater(call)
        case PythonCall():
            return _python_repeater(call.function)
        case _:
            assert_never(call)


def _native_repeater(call: NativeCall) -> Callable[[int], int]:
    run = _compiled_loop(len(call.arguments)).run
    arguments = (ctypes.c_int64 * len(call.arguments))(*call.arguments)
    pointer = ctypes.addressof(arguments)

    def repeat(count: int, kept: object = arguments) -> int:
        start = time.perf_counter_ns()
        run(call.address, pointer, count)
        return time.perf_counter_ns() - start

    return repeat


def _python_repeater(function: Callable[[], object]) -> Callable[[int], int]:
    reset = _compiled_loop(0).reset

    def repeat(count: int) -> int:
        reset()
        start = time.perf_counter_ns()
        for _ in range(count):
            function()
        return time.perf_counter_ns() - start

    return repeat


def count_for(repeat: Callable[[int], int], sample_ns: int = SAMPLE_NS) -> int:
    """How many calls make one sample of about `sample_ns`; warms the call up on the way."""
    repeat(1)
    count = 1
    while (spent := repeat(count)) < sample_ns / 4:
        count = max(count * 2, int(count * sample_ns / max(spent, 1) / 2))
    return max(1, round(count * sample_ns / spent))


def quick_us(call: Call, samples: int = 5) -> float:
    """The least microseconds a call of a few samples: enough to choose between formulations, not to compare."""
    repeat = repeater(call)
    count = count_for(repeat)
    return min(repeat(count) for _ in range(samples)) / count / 1e3


def compare(ours: Call, peer: Call, *, rounds: int, rng: random.Random) -> Comparison:
    """Time both in rounds of ABBA and BAAB, and take medians over the rounds.

    A round's time of a side is the smaller of its two samples. A round is redone, up to twice as many rounds in all,
    if the two samples of ours differ by more than `REDO_ABOVE` or the process was put aside meanwhile.

    Source: statistics.md, measurement protocol (ratio of minima: p95 error of a null comparison 0.07 %).
    """
    sides = (repeater(ours), repeater(peer))
    counts = tuple(count_for(side) for side in sides)
    kept: list[tuple[float, float]] = []
    rest: list[tuple[float, float]] = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        while len(kept) < rounds and len(kept) + len(rest) < 2 * rounds:
            order = (0, 1, 1, 0) if (len(kept) + len(rest)) % 2 == 0 else (1, 0, 0, 1)
            times, quiet = _round(sides, counts, order, rng)
            (kept if quiet else rest).append(times)
    finally:
        if collecting:
            gc.enable()
    # On a machine that is never quiet the disturbed rounds are all there is; `redone` shows it.
    used = (kept + rest)[:rounds]
    return Comparison(
        ours_us=statistics.median(a for a, _ in used) / 1e3,
        peer_us=statistics.median(b for _, b in used) / 1e3,
        ratio=statistics.median(a / b for a, b in used),
        least=min(a / b for a, b in used),
        most=max(a / b for a, b in used),
        rounds=len(used),
        redone=len(rest),
    )


def interleaved(calls: Sequence[Call], *, rounds: int, rng: random.Random) -> list[list[float]]:
    """Nanoseconds a call of each of `calls` in every round; a round takes one sample of each, in its own order."""
    sides = [repeater(call) for call in calls]
    counts = [count_for(side) for side in sides]
    times: list[list[float]] = [[] for _ in calls]
    order = list(range(len(calls)))
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            rng.shuffle(order)
            for k in order:
                count = max(1, round(counts[k] * rng.uniform(1 - JITTER, 1 + JITTER)))
                times[k].append(sides[k](count) / count)
    finally:
        if collecting:
            gc.enable()
    return times


def _round(
    sides: tuple[Callable[[int], int], ...], counts: tuple[int, ...], order: Sequence[int], rng: random.Random
) -> tuple[tuple[float, float], bool]:
    """One round: nanoseconds a call of each side, and whether nothing disturbed it."""
    samples: tuple[list[float], list[float]] = ([], [])
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    for side in order:
        count = max(1, round(counts[side] * rng.uniform(1 - JITTER, 1 + JITTER)))
        samples[side].append(sides[side](count) / count)
    undisturbed = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw == switches
    steady = max(samples[0]) <= REDO_ABOVE * min(samples[0])
    return (min(samples[0]), min(samples[1])), undisturbed and steady
