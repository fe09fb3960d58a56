"""Fixed protocols of visits, two arms in ABBA or three in all permutations, and what paired visits say.
Must not know what the calls compute or which suite asks."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.timing import Call, Comparison, count_for, repeater


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Which arm is visited when, and how long a visit is.

    `blocks` holds arms by number: the visits of one block belong together. Visits are paired within a block, an arm's
    visit with the next of another arm.
    Units: nanoseconds; a visit warms up for `warm_up_ns`, then takes `samples` samples of about `sample_ns`.

    Source: mechanisms.md, rows 179 to 182.
    """

    blocks: tuple[tuple[int, ...], ...]
    samples: int
    warm_up_ns: int = 30_000_000
    sample_ns: int = 15_000_000

    @property
    def arms(self) -> int:
        return 1 + max(arm for block in self.blocks for arm in block)

    @property
    def visits(self) -> int:
        return sum(map(len, self.blocks))


ABBA_CYCLES = 3
SAMPLES = 5
ABBA = Preset(blocks=((0, 1, 1, 0),) * ABBA_CYCLES, samples=SAMPLES)
PERMUTATIONS = Preset(blocks=tuple(itertools.permutations(range(3))), samples=SAMPLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One stay at one arm.

    Units: `ns` nanoseconds a call, the median of the visit's samples.
    """

    block: int
    arm: int
    ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedStats:
    """Two arms of a protocol.

    `ratio` is the median of the ratios of paired visits, not a quotient of medians; `least` and `most` are the extremes
    of those ratios, which are no confidence interval.
    Units: `first_ns` and `second_ns` nanoseconds a call, the medians of the visits' medians.
    """

    first_ns: float
    second_ns: float
    ratio: float
    least: float
    most: float
    pairs: int


def visits(preset: Preset, repeats: Sequence[Callable[[int], int]]) -> list[Visit]:
    """All visits of a preset in order; `repeats[arm](count)` makes calls and returns the nanoseconds they took."""
    counts = [count_for(repeat, preset.sample_ns) for repeat in repeats]
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [
            Visit(block=number, arm=arm, ns=_visit(preset, repeats[arm], counts[arm]))
            for number, block in enumerate(preset.blocks)
            for arm in block
        ]
    finally:
        if collecting:
            gc.enable()


def _visit(preset: Preset, repeat: Callable[[int], int], count: int) -> float:
    spent = 0
    while spent < preset.warm_up_ns:
        spent += max(repeat(count), 1)
    return float(np.median([repeat(count) / count for _ in range(preset.samples)]))


def paired_stats(made: Sequence[Visit], first: int, second: int) -> PairedStats:
    """What the visits of two arms say about each other."""
    ratios: list[float] = []
    for _, block in itertools.groupby(made, key=lambda visit: visit.block):
        of_two = [visit for visit in block if visit.arm in (first, second)]
        for one, other in zip(of_two[::2], of_two[1::2], strict=True):
            a, b = (one, other) if one.arm == first else (other, one)
            ratios.append(a.ns / b.ns)
    return PairedStats(
        first_ns=_time_ns(made, first),
        second_ns=_time_ns(made, second),
        ratio=float(np.median(ratios)),
        least=min(ratios),
        most=max(ratios),
        pairs=len(ratios),
    )


def _time_ns(made: Sequence[Visit], arm: int) -> float:
    return float(np.median([visit.ns for visit in made if visit.arm == arm]))


def compare_by(preset: Preset, arms: Sequence[Call]) -> Comparison:
    """The first arm against the second, the others visited between; as many rounds as there are pairs."""
    found = paired_stats(visits(preset, [repeater(call) for call in arms]), 0, 1)
    return Comparison(
        ours_us=found.first_ns / 1e3,
        peer_us=found.second_ns / 1e3,
        ratio=found.ratio,
        least=found.least,
        most=found.most,
        rounds=found.pairs,
        redone=0,
    )
