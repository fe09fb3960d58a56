"""What a machine's state means for timings: one finding a reading, with a verdict and what to do about it.
Must not know how the state was read or how findings are printed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from autotune.measure.machine import MachineState
from autotune.measure.noise import NoiseFloor
from autotune.realizations.target import Target

LINE_BYTES = 64
BUSY_LOAD = 0.5  # of the processors
SLIGHT_STEAL, MUCH_STEAL = 0.001, 0.02
COARSE_TIMER_NS = 1_000
QUIET_NOISE, LOUD_NOISE = 0.005, 0.02  # median log ratio a round of a kernel against itself


class Verdict(Enum):
    """How a reading bears on timings."""

    GOOD = "good"
    MIND = "mind"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One reading in words, its verdict, and what to do; `advice` is empty where nothing is to be done."""

    subject: str
    reading: str
    verdict: Verdict
    advice: str = ""


def findings(state: MachineState, target: Target, noise: NoiseFloor | None) -> tuple[Finding, ...]:
    """All findings, in a fixed order; `target` is the one whose caches the search assumes, `noise` None where the
    machine could not be timed."""
    return (
        _governor(state),
        _turbo(state),
        _load(state),
        _steal(state),
        _quota(state),
        _siblings(state),
        _nodes(state),
        *_caches(state, target),
        _arrays(state),
        _huge_pages(state),
        _timer(state),
        _noise(noise),
    )


def _governor(state: MachineState) -> Finding:
    match state.governor:
        case None:
            advice = "nothing to set here; on a virtual machine the host decides"
            return Finding(subject="governor", reading="not shown", verdict=Verdict.MIND, advice=advice)
        case "performance":
            return Finding(subject="governor", reading="performance", verdict=Verdict.GOOD)
        case other:
            advice = "cpupower frequency-set -g performance"
            return Finding(subject="governor", reading=other, verdict=Verdict.MIND, advice=advice)


def _turbo(state: MachineState) -> Finding:
    match state.turbo:
        case None:
            advice = "races compare side by side, so a changing clock cancels; absolute times may move"
            return Finding(subject="turbo", reading="not shown", verdict=Verdict.MIND, advice=advice)
        case True:
            advice = "absolute times depend on heat and neighbours; echo 0 > /sys/devices/system/cpu/cpufreq/boost"
            return Finding(subject="turbo", reading="on", verdict=Verdict.MIND, advice=advice)
        case False:
            return Finding(subject="turbo", reading="off", verdict=Verdict.GOOD)


def _load(state: MachineState) -> Finding:
    reading = f"{state.load_average:.2f} runnable processes on {state.cores} processors"
    if state.load_average < BUSY_LOAD * state.cores:
        return Finding(subject="load", reading=reading, verdict=Verdict.GOOD)
    verdict = Verdict.MIND if state.load_average < state.cores else Verdict.BAD
    return Finding(subject="load", reading=reading, verdict=verdict, advice="end what else runs, then search")


def _steal(state: MachineState) -> Finding:
    if state.steal is None:
        return Finding(subject="steal", reading="not shown", verdict=Verdict.GOOD)
    reading = f"{100 * state.steal:.2f} % of core {state.core}'s time went to other guests"
    if state.steal < SLIGHT_STEAL:
        return Finding(subject="steal", reading=reading, verdict=Verdict.GOOD)
    verdict = Verdict.MIND if state.steal < MUCH_STEAL else Verdict.BAD
    return Finding(subject="steal", reading=reading, verdict=verdict, advice="measure on a host with free processors")


def _quota(state: MachineState) -> Finding:
    if state.quota_cores is None:
        return Finding(subject="quota", reading="no limit on processor time", verdict=Verdict.GOOD)
    reading = f"{state.quota_cores:.2f} processors' worth of time"
    if state.quota_cores >= state.cores:
        return Finding(subject="quota", reading=reading, verdict=Verdict.GOOD)
    verdict = Verdict.MIND if state.quota_cores >= 2 else Verdict.BAD
    advice = "the group is stopped once its share is spent: give the container at least 2 processors, or no limit"
    return Finding(subject="quota", reading=reading, verdict=verdict, advice=advice)


def _siblings(state: MachineState) -> Finding:
    if not state.siblings:
        reading = f"core {state.core} has one thread"
        return Finding(subject="siblings", reading=reading, verdict=Verdict.GOOD)
    shared = ", ".join(map(str, sorted(state.siblings)))
    free = state.cores > 1 + len(state.siblings)
    advice = "the search keeps off them; keep other work off too" if free else "leave one more core to this process"
    return Finding(
        subject="siblings",
        reading=f"core {state.core} shares its units with processor {shared}",
        verdict=Verdict.MIND if free else Verdict.BAD,
        advice=advice,
    )


def _nodes(state: MachineState) -> Finding:
    if state.nodes == 1:
        return Finding(subject="memory nodes", reading="1", verdict=Verdict.GOOD)
    advice = "numactl --cpunodebind=0 --membind=0 keeps a process and its memory together"
    return Finding(subject="memory nodes", reading=str(state.nodes), verdict=Verdict.MIND, advice=advice)


def _caches(state: MachineState, target: Target) -> tuple[Finding, ...]:
    assumed = {1: target.l1_bytes, 2: target.l2_bytes, 3: target.l3_bytes}
    found = dict(state.caches_bytes)
    return tuple(_cache(level, found.get(level), assumed[level]) for level in assumed)


def _cache(level: int, found: int | None, assumed: int) -> Finding:
    subject = f"L{level} cache"
    if found is None:
        advice = "the model may misjudge blocks of about that size"
        reading = f"not shown, {assumed // 1024} KiB assumed"
        return Finding(subject=subject, reading=reading, verdict=Verdict.MIND, advice=advice)
    if found == assumed:
        return Finding(subject=subject, reading=f"{found // 1024} KiB, as assumed", verdict=Verdict.GOOD)
    reading = f"{found // 1024} KiB, {assumed // 1024} KiB assumed"
    advice = "search with --target simd, which takes this machine's sizes"
    return Finding(subject=subject, reading=reading, verdict=Verdict.BAD, advice=advice)


def _arrays(state: MachineState) -> Finding:
    least = min(state.array_alignments)
    reading = f"np.empty starts at multiples of {least} bytes"
    if least >= LINE_BYTES:
        return Finding(subject="arrays", reading=reading, verdict=Verdict.GOOD)
    advice = "searches align to 64 bytes: align your arrays as well, or search with --alignment 16"
    return Finding(subject="arrays", reading=reading, verdict=Verdict.MIND, advice=advice)


def _huge_pages(state: MachineState) -> Finding:
    match state.huge_pages:
        case "always" | "madvise":
            return Finding(subject="huge pages", reading=state.huge_pages, verdict=Verdict.GOOD)
        case other:
            advice = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; without, large tensors miss the TLB"
            return Finding(subject="huge pages", reading=other or "not shown", verdict=Verdict.MIND, advice=advice)


def _timer(state: MachineState) -> Finding:
    reading = f"{state.timer_ns} ns"
    if 0 < state.timer_ns < COARSE_TIMER_NS:
        return Finding(subject="timer", reading=reading, verdict=Verdict.GOOD)
    advice = "the clock is coarse: echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
    return Finding(subject="timer", reading=reading, verdict=Verdict.BAD, advice=advice)


def _noise(noise: NoiseFloor | None) -> Finding:
    advice = "end what else runs; smaller differences than this are not called"
    if noise is None or noise.median is None or noise.p95 is None:
        return Finding(subject="noise floor", reading="not measured", verdict=Verdict.BAD, advice=advice)
    reading = f"{100 * noise.median:.2f} %, {100 * noise.p95:.2f} % in 1 of 20 rounds"
    if noise.median < QUIET_NOISE and not noise.false_calls:
        return Finding(subject="noise floor", reading=reading, verdict=Verdict.GOOD)
    verdict = Verdict.BAD if noise.median >= LOUD_NOISE else Verdict.MIND
    return Finding(subject="noise floor", reading=reading, verdict=verdict, advice=advice)
