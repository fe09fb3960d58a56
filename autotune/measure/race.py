"""Decisions from interleaved timings: a race of a candidate against the incumbent, and the ranking of finalists.
Must not know what is timed or which clock was read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from statistics import fmean, median

import numpy as np
import numpy.typing as npt
from scipy import stats

from autotune.measure.states import Measured, Noisy, RacedOut, RaceResult

FIRST_CUT_ROUND = 2
FIRST_CUT_RATIO = 1.28
FIRST_TEST_ROUND = 5
FIRST_PROMOTION_ROUND = 8
MAX_ROUNDS = 15
MARGIN = 0.005
CUT_P = 0.05
PROMOTION_P = 0.01 / (MAX_ROUNDS - FIRST_PROMOTION_ROUND + 1)
MAX_DISAGREEMENT = 0.10
MAX_REDONE_ROUNDS = 60
TIE_BAND = 0.01
SLOW_CALL_NS = 1_000_000_000  # a kernel this slow is judged by one call
LONG_CALL_NS = 100_000_000
HOPELESS_RATIO = 3.0
MAX_DRIFT = 0.10  # of a canary's time from what it took first
MAX_DRIFTED_ROUNDS = 5  # taken again; the machine has changed for good where they do not help


class Contender(Enum):
    """Who runs next: the incumbent is A, the candidate is B."""

    A = "incumbent"
    B = "candidate"


EVEN_ROUND = (Contender.A, Contender.B, Contender.B, Contender.A)
ODD_ROUND = (Contender.B, Contender.A, Contender.A, Contender.B)


@dataclass(slots=True)
class _Tally:
    """Samples and round values so far."""

    a_ns: list[float] = field(default_factory=list)
    b_ns: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    redone: int = 0
    drifted: int = 0
    contended: bool = False


def race(
    sample: Callable[[Contender], float],
    *,
    interruptions: Callable[[], int] = lambda: 0,
    drift: Callable[[], float] = lambda: 0.0,
    margin: float = MARGIN,
    scattered: bool = False,
    rounds: int = MAX_ROUNDS,
) -> RaceResult:
    """Time a candidate against the incumbent until the answer is clear.

    `sample` returns nanoseconds a call; `interruptions` a count that rises when a sample lost its core meanwhile;
    `drift` how far the canaries are from their first reading, as a fraction. `margin` is the log ratio below which
    a difference says nothing. Samples that scatter (from beyond L2) are compared by the medians of a round, else by
    its minima. A race that is still open ends after `rounds`.

    Source: statistics.md §2 (ABBA and BAAB rounds, the limits above).
    """
    tally = _Tally()
    while len(tally.values) < rounds:
        if tally.redone > MAX_REDONE_ROUNDS:
            return Noisy(redone_rounds=tally.redone, samples_ns=tuple(tally.b_ns))
        before = interruptions()
        a, b = _round(sample, even=len(tally.values) % 2 == 0)
        disagree = _disagree(a) or (_disagree(b) and not scattered)
        if interruptions() > before or disagree or _repeat_for(tally, drift()):
            tally.redone += 1
            continue
        tally.a_ns.extend(a)
        tally.b_ns.extend(b)
        statistic = median if scattered else min
        tally.values.append(math.log(statistic(b) / statistic(a)))
        if is_slower(tally.values, margin):
            return _raced_out(tally)
        if is_faster(tally.values, margin):
            return _measured(tally, promoted=True)
    return _measured(tally, promoted=False)


def _disagree(samples: list[float]) -> bool:
    """Whether two samples of one kernel are further apart than a quiet machine has them.

    Asked of both sides: a slow phase that begins within a round reaches both samples of the side in the middle and one
    of the other, which would then look faster than it is. Asked of the incumbent alone, it promoted 7 of 200 twins and
    put out 1.
    """
    return max(samples) > min(samples) * (1 + MAX_DISAGREEMENT)


def _repeat_for(tally: _Tally, drift: float) -> bool:
    """Whether a round is taken again because the machine drifted; once that has not helped, rounds are marked."""
    if drift <= MAX_DRIFT:
        return False
    if tally.drifted < MAX_DRIFTED_ROUNDS:
        tally.drifted += 1
        return True
    tally.contended = True
    return False


def interleave(
    sample: Callable[[int], float],
    kernels: int,
    rounds: int,
    *,
    interruptions: Callable[[], int],
    drift: Callable[[], float],
) -> Rounds:
    """Times by kernel and round; each round starts with the next kernel, and every other one runs backwards.

    A disturbed round is taken again, as often in all as there are rounds; after that rounds are kept and marked.
    """
    times: list[list[float]] = [[] for _ in range(kernels)]
    redone, contended = 0, False
    while len(times[0]) < rounds:
        number, before = len(times[0]), interruptions()
        order = [(number + k) % kernels for k in range(kernels)]
        found = {k: sample(k) for k in (reversed(order) if number % 2 else order)}
        if interruptions() > before or drift() > MAX_DRIFT:
            if redone < rounds:
                redone += 1
                continue
            contended = True
        for k, ns in found.items():
            times[k].append(ns)
    return Rounds(times_ns=tuple(map(tuple, times)), redone=redone, contended=contended)


def settle_slow(incumbent_ns: float, candidate_ns: float) -> Measured | RacedOut | None:
    """Decide from one call each where more would take too long; None where a race is worth its time."""
    ratio = candidate_ns / incumbent_ns
    hopeless = candidate_ns > LONG_CALL_NS and ratio > HOPELESS_RATIO
    slow = max(incumbent_ns, candidate_ns) > SLOW_CALL_NS
    if hopeless or (slow and ratio > FIRST_CUT_RATIO):
        return RacedOut(
            ns=candidate_ns,
            ratio=ratio,
            samples_ns=(candidate_ns,),
            incumbent_samples_ns=(incumbent_ns,),
            log_ratios=(),
        )
    if slow:
        return Measured(
            ns=candidate_ns,
            samples_ns=(candidate_ns,),
            incumbent_samples_ns=(incumbent_ns,),
            promoted=ratio < 1 / FIRST_CUT_RATIO,
            few_calls=True,
        )
    return None


def is_slower(values: list[float], margin: float = MARGIN) -> bool:
    """Whether a race is lost: hopeless after two rounds, or slower by more than the margin from five on."""
    if len(values) == FIRST_CUT_ROUND:
        return all(v > math.log(FIRST_CUT_RATIO) for v in values)
    return len(values) >= FIRST_TEST_ROUND and _p_above([v - margin for v in values]) < CUT_P


def is_faster(values: list[float], margin: float = MARGIN) -> bool:
    """Whether a race is won: out of reach after two rounds, or from eight on by more than the margin.

    Looking repeatedly is corrected for; a lead as large as the one that loses a race at once needs no more looks.
    """
    if len(values) == FIRST_CUT_ROUND:
        return all(v < -math.log(FIRST_CUT_RATIO) for v in values)
    if len(values) < FIRST_PROMOTION_ROUND or median(values) >= -margin:
        return False
    return _p_above([-v for v in values]) < PROMOTION_P


def _round(sample: Callable[[Contender], float], *, even: bool) -> tuple[list[float], list[float]]:
    times: dict[Contender, list[float]] = {Contender.A: [], Contender.B: []}
    for contender in EVEN_ROUND if even else ODD_ROUND:
        times[contender].append(sample(contender))
    return times[Contender.A], times[Contender.B]


def _p_above(values: list[float]) -> float:
    """One-sided p of the hypothesis that `values` are symmetric about zero or below."""
    if not any(values):
        return 1.0
    return float(stats.wilcoxon(values, alternative="greater", method="exact").pvalue)


def _measured(tally: _Tally, *, promoted: bool) -> Measured:
    return Measured(
        ns=median(tally.b_ns),
        samples_ns=tuple(tally.b_ns),
        incumbent_samples_ns=tuple(tally.a_ns),
        log_ratios=tuple(tally.values),
        promoted=promoted,
        redone_rounds=tally.redone,
        contended=tally.contended,
    )


def _raced_out(tally: _Tally) -> RacedOut:
    return RacedOut(
        ns=median(tally.b_ns),
        ratio=math.exp(median(tally.values)),
        samples_ns=tuple(tally.b_ns),
        incumbent_samples_ns=tuple(tally.a_ns),
        log_ratios=tuple(tally.values),
        redone_rounds=tally.redone,
        contended=tally.contended,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Interleaved times of several kernels, and how quiet the machine was meanwhile.

    Units: nanoseconds a call, `times_ns[kernel][round]`.
    """

    times_ns: tuple[tuple[float, ...], ...]
    redone: int
    contended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """A finalist as the shoot-out ranks it: what breaks a tie, and its rounds.

    Units: nanoseconds a call; `rounds_ns[process][round]`, the same rounds for all finalists.
    """

    name: str
    code_bytes: int
    compile_seconds: float
    rounds_ns: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Place of a finalist. `upper_ns` is the upper 90 % bound of its time a call, `tied` whether a tie placed it.

    Units: nanoseconds a call; `samples_ns` are all its rounds, raw and in order. `redone_rounds` and `contended` are
    those of the last heat it was in, for all its kernels.
    """

    name: str
    ns: float
    upper_ns: float
    tied: bool
    samples_ns: tuple[float, ...] = ()
    redone_rounds: int = 0
    contended: bool = False


def rank(finalists: list[Finalist]) -> list[Standing]:
    """Order finalists by the upper 90 % bound of their time, best first; ties within 1 % go to smaller code.

    Each round is compared with the geometric mean of all finalists in it, so that slow phases of the machine cancel.
    """
    logs = np.log([np.concatenate([np.asarray(p) for p in f.rounds_ns]) for f in finalists])
    level = logs.mean(axis=0)
    relative = logs - level
    scale = math.exp(float(np.median(level)))
    uppers = [scale * math.exp(_upper(r, f)) for r, f in zip(relative, finalists, strict=True)]
    best = min(uppers)
    tied = [u <= best * (1 + TIE_BAND) for u in uppers]

    def order(k: int) -> tuple[bool, float, float, str]:
        f = finalists[k]
        key = (float(f.code_bytes), f.compile_seconds) if tied[k] else (uppers[k], 0.0)
        return (not tied[k], *key, f.name)

    return [
        Standing(
            name=finalists[k].name,
            ns=scale * math.exp(float(np.median(relative[k]))),
            upper_ns=uppers[k],
            tied=tied[k] and sum(tied) > 1,
            samples_ns=tuple(ns for process in finalists[k].rounds_ns for ns in process),
        )
        for k in sorted(range(len(finalists)), key=order)
    ]


def _upper(relative: npt.NDArray[np.float64], finalist: Finalist) -> float:
    """Upper 90 % bound of a mean over rounds; disagreement between processes widens it."""
    count = len(relative)
    if count < 2:
        return float(relative.mean())
    within = float(relative.std(ddof=1)) / math.sqrt(count)
    splits = np.cumsum([len(p) for p in finalist.rounds_ns])[:-1]
    means = [fmean(part) for part in np.split(relative, splits)]
    between = (max(means) - min(means)) / 2
    return float(np.median(relative)) + float(stats.t.ppf(0.90, count - 1)) * max(within, between)
