"""Where a nest stands: its point along each axis, and the current block of each axis.
Must not know values, loops or builders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from autotune.realizations.builder import Vector


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The current block of an axis: its first coordinate (None: zero) and how many coordinates exist."""

    start: Vector | None
    extent: int | Vector


@dataclass(frozen=True, slots=True, eq=False)
class AxisPoint:
    """Where a nest stands along one axis.

    The coordinate of lane l is `start + iv + offset + l·(lanes > 1)`, and that of a buffer the same without `start`.
    `valid` is the mask of the lanes that exist, None where all do, `count` their number where it is a constant. `key`
    tells points of one scope apart; `steps` says how many are unrolled in the trip. `iv` is a multiple of `multiple`.
    """

    start: Vector | None
    iv: Vector
    offset: int
    lanes: int = 1
    valid: Vector | None = None
    key: tuple[int, int] = (0, 0)
    steps: int = 1
    count: int | None = None
    multiple: int = 1


Point = Mapping[int, AxisPoint]


@dataclass(frozen=True, slots=True, eq=False)
class OpenLoop:
    """A loop whose trip is being written: one point an unrolled step."""

    axis: int
    points: tuple[AxisPoint, ...]


def combinations(opened: Iterable[OpenLoop], fixed: Point) -> Iterator[dict[int, AxisPoint]]:
    """Points of a register block, the vector axis fastest: broadcasts would stay live otherwise."""
    chosen = sorted(opened, key=lambda loop: loop.points[0].lanes > 1)
    for points in product(*(loop.points for loop in chosen)):
        yield {**fixed, **{loop.axis: p for loop, p in zip(chosen, points, strict=True)}}


def lanes_at(point: Point, axes: tuple[int, ...] | frozenset[int]) -> int:
    """Lanes of something that varies along the given axes; axes that the point lacks do not count."""
    return max((point[a].lanes for a in axes if a in point), default=1)
