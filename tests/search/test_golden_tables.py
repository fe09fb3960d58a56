"""The default strategy on the committed golden tables: near the best soon, and sooner than what it is compared with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from autotune.search.recording import recordings_in
from autotune.search.replay import Board, Replay, replay, score
from autotune.search.strategies import STRATEGIES

GOLDEN = Path(__file__).resolve().parents[2] / "benchmarks" / "golden"
MEASUREMENTS = (16, 32, 64)
SEEDS = {"lcb": 3, "tpe": 3, "random": 3, "model-order": 1}  # an order has no luck


@cache
def _boards() -> tuple[Board, ...]:
    return tuple(Board.of(recording) for recording in recordings_in(GOLDEN))


@cache
def _replays(name: str) -> tuple[tuple[Replay, ...], ...]:
    """By table, the replays of its seeds."""
    return tuple(
        tuple(replay(board, STRATEGIES[name], seed, max(MEASUREMENTS)) for seed in range(SEEDS[name]))
        for board in _boards()
    )


def _mean_regret(name: str, n: int) -> float:
    """Over the tables, each weighing the same."""
    return float(np.mean([np.mean([each.regret(n) for each in replays]) for replays in _replays(name)]))


def test_there_are_three_shapes_of_six_kernels_or_more() -> None:
    shapes: dict[str, set[str]] = {}
    for recording in recordings_in(GOLDEN):
        shapes.setdefault(str(recording.about["kernel"]), set()).add(recording.name)
        assert 300 <= len(recording.entries) <= 1001
    assert len(shapes) >= 6 and all(len(names) >= 3 for names in shapes.values())


@pytest.mark.parametrize(("n", "most"), [(16, 0.12), (32, 0.05), (64, 0.025)])
def test_the_median_regret_is_within_its_limit(n: int, most: float) -> None:
    assert score([each for replays in _replays("lcb") for each in replays], n).median <= most


def test_few_searches_are_far_off_after_32_measurements() -> None:
    assert score([each for replays in _replays("lcb") for each in replays], 32).p95 <= 0.20


@pytest.mark.parametrize("rival", ["model-order", "tpe", "random"])
@pytest.mark.parametrize("n", MEASUREMENTS)
def test_it_is_better_than_its_rivals(rival: str, n: int) -> None:
    assert _mean_regret("lcb", n) < _mean_regret(rival, n)
