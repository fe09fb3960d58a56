"""The ratios that the tuned kernels are held to, listed once, and what a run says about them.
Must not know how a ratio was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from benchmarks.case import Case
from benchmarks.cases import WIDTHS, case
from benchmarks.row import OWN_REFERENCE, Row

FASTEST = "fastest peer"
AS_WRITTEN = "inductor as written"
CONTENDERS = ("inductor best", "numba best", "onnxruntime best")
"""Peers among which a target's fastest one is, each in its best formulation and its own way of being called; all must
have been measured before anything is said about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Ours over the peer's time (or over the fastest peer's) in `case` is to be at most `at_most`."""

    case: str
    against: str
    at_most: float


class Verdict(Enum):
    """What a run says about a target."""

    PASS = "pass"
    FAIL = "fail"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A target, the ratio found and the verdict."""

    target: Target
    ratio: float | None
    verdict: Verdict


def _by_width(kernel: str, against: str, *limits: float) -> tuple[Target, ...]:
    return tuple(
        Target(case=case(kernel, 129, width).name, against=against, at_most=limit)
        for width, limit in zip(WIDTHS, limits, strict=True)
    )


def _one(of: Case, at_most: float) -> Target:
    return Target(case=of.name, against=FASTEST, at_most=at_most)


TARGETS: tuple[Target, ...] = (
    *_by_width("softmax", AS_WRITTEN, 0.35, 0.20, 0.20, 0.20),
    *_by_width("rmsnorm", AS_WRITTEN, 0.60, 0.60, 0.65, 0.95),
    *_by_width("softmax", FASTEST, 0.85, 0.65, 0.65, 0.65),
    *_by_width("rmsnorm", FASTEST, 0.85, 1.05, 1.05, 1.05),
    _one(case("layernorm", 129, 1024), 1.05),
    _one(case("gelu", 129, 4096), 0.80),
    _one(case("swiglu", 129, 4096), 0.85),
    _one(case("rope", 32, 128, 128), 1.0),
)


def fastest(rows: Iterable[Row]) -> dict[str, Row]:
    """For each case the row whose ratio is largest, that of the fastest of all peers that count; our own reference is
    no peer."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.ratio is None or row.peer == OWN_REFERENCE or not row.counted:
            continue
        known = best.get(row.case)
        if known is None or known.ratio is None or row.ratio > known.ratio:
            best[row.case] = row
    return best


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of `ratios`, which may not be empty."""
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))


def judge(
    rows: Sequence[Row], targets: Sequence[Target] = TARGETS, contenders: Sequence[str] = CONTENDERS
) -> tuple[Outcome, ...]:
    """Every target with its verdict, in order.

    A target against the fastest peer is not measured while one of `contenders` is missing; without any, all peers
    that count contend, whichever of them have a formulation.
    """
    best = fastest(row for row in rows if not contenders or row.peer in contenders)
    by_peer = {(row.case, row.peer): row.ratio for row in rows if row.ratio is not None}
    outcomes = []
    for target in targets:
        if target.against == FASTEST:
            complete = target.case in best and all((target.case, peer) in by_peer for peer in contenders)
            ratio = best[target.case].ratio if complete else None
        else:
            ratio = by_peer.get((target.case, target.against))
        outcomes.append(Outcome(target=target, ratio=ratio, verdict=_verdict(ratio, target.at_most)))
    return tuple(outcomes)


def _verdict(ratio: float | None, at_most: float) -> Verdict:
    if ratio is None:
        return Verdict.NOT_MEASURED
    return Verdict.PASS if ratio <= at_most else Verdict.FAIL
