"""The correctness gate: a kernel's runs on every case, and what may not have changed when they end.
Must not know how long anything takes beyond its first call, or what becomes of the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.ir import verdict
from autotune.ir.types import DType
from autotune.measure.bench import Bench, Loaded, gaps_intact
from autotune.measure.buffers import (
    ALIGNMENT_BYTES,
    HUGE_POISON,
    NAN_POISON,
    Array,
    Bytes,
    Edge,
    FencedBuffer,
    Slot,
    view,
)
from autotune.measure.cases import Case
from autotune.measure.clock import Clock
from autotune.measure.race import SLOW_CALL_NS
from autotune.measure.states import Checks, Wrong

Announce = Callable[[str, bool], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A kernel that answered rightly; the time of its first call, cold, in nanoseconds."""

    checks: Checks
    first_call_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """Where one run found its tensors, and what lies in the places nothing was put."""

    raws: dict[int, Bytes]
    poison: int


def check_kernel(bench: Bench, clock: Clock, kernel: Loaded, announce: Announce) -> Passed | Wrong:
    """Run a kernel on every case with poisoned outputs and workspace, twice, and between pages that fault.

    The second run has another poison, so that a place left unwritten and a read of one never written show as a
    difference. A kernel that takes over a second a call runs once, on the first case. `announce(text, is_call)` is told
    what comes next, and whether that is a call of the kernel.
    """
    cases = bench.subject.cases
    first_call_ns = 0
    for number, case in enumerate(cases):
        wrong, spent = _checked_run(bench, clock, kernel, case, announce, repeat=first_call_ns < SLOW_CALL_NS)
        if wrong:
            return wrong
        first_call_ns = first_call_ns or spent
        if first_call_ns >= SLOW_CALL_NS:
            kinds = tuple(c.kind.value for c in cases[: number + 1])
            return Passed(checks=Checks(kinds=kinds, repeated=False, guard_pages=False), first_call_ns=first_call_ns)
    for edge in Edge:
        wrong = _fenced_run(bench, clock, kernel, edge, announce)
        if wrong:
            return wrong
    kinds = tuple(c.kind.value for c in cases)
    return Passed(checks=Checks(kinds=kinds, repeated=True, guard_pages=True), first_call_ns=first_call_ns)


def _checked_run(
    bench: Bench, clock: Clock, kernel: Loaded, case: Case, announce: Announce, *, repeat: bool
) -> tuple[Wrong | None, int]:
    first, spent = _run(bench, clock, kernel, case, announce, NAN_POISON)
    wrong = _memory_fault(bench, case, first) or _judge(bench, case, first, case.kind.value)
    if wrong or not repeat or spent >= SLOW_CALL_NS:
        return wrong, spent
    before = {n: raw.copy() for n, raw in first.raws.items() if n in bench.outputs}
    second, _ = _run(bench, clock, kernel, case, announce, HUGE_POISON)
    return _memory_fault(bench, case, second) or _difference(bench, case, before, second), spent


def _run(
    bench: Bench, clock: Clock, kernel: Loaded, case: Case, announce: Announce, poison: int
) -> tuple[_Memory, int]:
    bench.fill(case, poison)
    call = bench.checked_call(kernel, case, poison)
    announce(f"check on {case.kind.value} data", True)
    spent = clock.run(call, 1)
    announce(f"compare on {case.kind.value} data", False)
    raws = {s.parameter: bench.arena.raw(s) for s in bench.subject.layout.slots}
    return _Memory(raws=raws, poison=poison), spent


def _fenced_run(bench: Bench, clock: Clock, kernel: Loaded, edge: Edge, announce: Announce) -> Wrong | None:
    case = bench.subject.cases[0]
    workspace = FencedBuffer(kernel.kernel.workspace_bytes, ALIGNMENT_BYTES, edge)
    call = bench.fenced_call(kernel, case, edge, workspace)
    kind = f"inaccessible memory at the {edge.value} of every tensor"
    announce(f"check with {kind}", True)
    clock.run(call, 1)
    announce(f"compare with {kind}", False)
    workspace.close()
    memory = _Memory(raws={n: f.raw for n, f in bench.fenced_slots(edge).items()}, poison=NAN_POISON)
    return _changed_input(bench, case, memory, kind) or _judge(bench, case, memory, kind)


def _memory_fault(bench: Bench, case: Case, memory: _Memory) -> Wrong | None:
    guard = bench.arena.broken_guard() or bench.workspace.broken_guard()
    if guard:
        return _overwritten(guard, case.kind.value)
    return _changed_input(bench, case, memory, case.kind.value)


def _changed_input(bench: Bench, case: Case, memory: _Memory, kind: str) -> Wrong | None:
    for slot in bench.subject.layout.slots:
        raw = memory.raws[slot.parameter]
        if not gaps_intact(raw, slot, memory.poison):
            return _overwritten(f"gap between rows of {slot.name}", kind)
        if slot.parameter not in bench.outputs and slot.name in case.arguments:
            changed = _bits(view(raw, slot)) != _bits(np.asarray(case.arguments[slot.name]))
            if changed.any():
                return _overwritten(f"input {_place(slot, changed)}", kind)
    return None


def _overwritten(what: str, kind: str) -> Wrong:
    return Wrong(error_over_bound=math.inf, where=f"{what} overwritten", kind=kind, memory=True)


def _judge(bench: Bench, case: Case, memory: _Memory, kind: str) -> Wrong | None:
    """Compare outputs with the oracle's answer; a bool in memory is a byte 0 or 1."""
    found: dict[str, Array] = {}
    for slot in bench.subject.layout.slots:
        if slot.parameter not in bench.outputs:
            continue
        raw = memory.raws[slot.parameter]
        if slot.dtype is DType.BOOL:
            numbers = view(raw, slot).view(np.uint8)
            bad = (numbers > 1) & ~_untouched(case, slot)
            if bad.any():
                where = f"{_place(slot, bad)} is the byte {numbers[bad][0]}, no bool"
                return Wrong(error_over_bound=math.inf, where=where, kind=kind)
            found[slot.name] = numbers != 0
        else:
            found[slot.name] = _numbers(view(raw, slot), slot)
    envelopes = bench.envelopes_of(case)
    if all(name in envelopes and envelopes[name].holds(array) for name, array in found.items()):
        return None
    judgement = verdict.check(found, case.expected)
    match judgement:
        case verdict.Correct():
            return None
        case verdict.Wrong():
            return Wrong(error_over_bound=judgement.error_over_bound, where=str(judgement), kind=kind)


def _difference(bench: Bench, case: Case, before: dict[int, Bytes], second: _Memory) -> Wrong | None:
    """Bits that differ between the two runs, places that no program stores apart: those keep each run's poison."""
    for slot in bench.subject.layout.slots:
        if slot.parameter not in bench.outputs:
            continue
        first, again = _bits(view(before[slot.parameter], slot)), _bits(view(second.raws[slot.parameter], slot))
        kept = _bits(np.full(slot.dtype.size_bytes, second.poison, np.uint8))
        poisoned = kept.view(first.dtype)[0]
        differs = np.where(_untouched(case, slot), again != poisoned, first != again)
        if differs.any():
            where = f"{_place(slot, differs)} differs between two runs, or is never written"
            return Wrong(error_over_bound=math.inf, where=where, kind=case.kind.value)
    return None


def _untouched(case: Case, slot: Slot) -> Array:
    return case.untouched.get(slot.name, np.zeros((1,) * len(slot.shape), dtype=np.bool_))


def _bits(array: Array) -> Array:
    """Elements as unsigned integers of their size."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _numbers(array: Array, slot: Slot) -> Array:
    if slot.dtype is DType.BF16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def _place(slot: Slot, where: Array) -> str:
    index = np.unravel_index(int(np.argmax(where)), where.shape)
    return f"{slot.name}[{', '.join(str(int(i)) for i in index)}]"
