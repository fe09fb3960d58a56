"""Plays a strategy on a golden table without a clock: what it would have picked, and how far from the best it was.
Must not know how a table was recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.search.encode import ChoiceMatrix
from autotune.search.loop import COMPILED_AHEAD
from autotune.search.recording import Recording
from autotune.search.sampler import Pick, PickStudy, SetSampler
from autotune.search.space import FROM_SAMPLE
from autotune.store.records import PickReason

WITHIN = 0.05
"""How near the best a candidate must be for the measurements up to it to be counted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Board:
    """A table ready to be played on: the same for every strategy and seed.

    `prior_ns` are the times that strategies are told the model predicts. Shapes: float64[rows]; times of failed rows
    are infinite. Units: nanoseconds a call.
    """

    name: str
    matrix: ChoiceMatrix
    prior_ns: NDArray[np.float64]
    first_ns: NDArray[np.float64]
    second_ns: NDArray[np.float64]
    reference: int

    @staticmethod
    def of(recording: Recording, prior_ns: NDArray[np.float64] | None = None) -> Board:
        """The board of a table, with the model's times of today where they are given."""
        first, second = recording.times()
        return Board(
            name=recording.name,
            matrix=recording.matrix(),
            prior_ns=recording.prior() if prior_ns is None else prior_ns,
            first_ns=first,
            second_ns=second,
            reference=recording.reference,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """What one strategy picked with one seed. Shapes: int64[measurements]."""

    board: Board
    rows: NDArray[np.int64]

    def regret(self, measurements: int) -> float:
        """How much slower than the table's best the best of the first measurements is, as a fraction.

        Both are chosen by the first pass and read from the second, so that neither profits from its luck; where the
        second pass has them the other way round, there is no regret. Infinite where all of them failed.
        """
        first, second = self.board.first_ns, self.board.second_ns
        rows = self.rows[:measurements]
        chosen, best = rows[np.argmin(first[rows])], np.argmin(first)
        return max(0.0, float(second[chosen] / second[best] - 1.0)) if np.isfinite(first[chosen]) else float("inf")

    def measurements_to(self, within: float = WITHIN) -> float:
        """How many measurements it took to a candidate so near the best, infinite where it came to none."""
        near = self.board.first_ns[self.rows] <= self.board.first_ns.min() * (1.0 + within)
        return float(np.argmax(near) + 1) if near.any() else float("inf")


def replay(board: Board, strategy: type[SetSampler], seed: int, measurements: int) -> Replay:
    """The first picks of a search with this strategy: the reference, the model's first, then as it chooses, with one
    candidate compiling ahead as in a search."""
    origin = np.full(len(board.matrix), FROM_SAMPLE, np.int64)
    seeds = [
        Pick(row=board.reference, reason=PickReason.REFERENCE),
        Pick(row=int(np.argmin(board.prior_ns)), reason=PickReason.MODEL),
    ]
    study = PickStudy(strategy(board.matrix, board.prior_ns, origin, seed=seed), seeds)
    rows: list[int] = []
    ahead: deque[int] = deque()
    while len(rows) < min(measurements, len(board.matrix)):
        while len(ahead) < COMPILED_AHEAD and not study.exhausted:
            ahead.append(study.ask().row)
        row = ahead.popleft()
        time_ns = float(board.first_ns[row])
        study.tell(row, time_ns if np.isfinite(time_ns) else None)
        rows.append(row)
    return Replay(board=board, rows=np.array(rows, np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Regret of one strategy after `n` measurements over several replays, as fractions."""

    n: int
    median: float
    p95: float


def score(replays: Sequence[Replay], n: int) -> Score:
    """Median and 95 % quantile of the regret over replays of any tables."""
    regrets = np.array([each.regret(n) for each in replays])
    return Score(n=n, median=float(np.median(regrets)), p95=float(np.quantile(regrets, 0.95)))
