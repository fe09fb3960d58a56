"""Where the nests of a body stand: inside which loops, and in which part of each loop or branch.
Must not know what nests compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias, assert_never

from autotune.ir.buffer import BlockLoop, Branch, Nest, Part, Step, WhileLoop


class Side(Enum):
    """The list of steps of a while loop or branch that a nest stands in."""

    TEST = "test"
    BODY = "body"
    THEN = "then"
    OTHERWISE = "otherwise"


class Level(NamedTuple):
    """One loop or branch around a nest: a loop by its axis, a branch by its position among those of its list."""

    number: int
    part: Part | Side

    @property
    def is_loop(self) -> bool:
        return self.part not in (Side.THEN, Side.OTHERWISE)


Around: TypeAlias = tuple[Level, ...]
"""What stands around a nest, outermost first: tells the places of a body apart, the parts of a split loop too."""

Lists: TypeAlias = tuple[tuple[Level, tuple[Step, ...]], ...]


def loops_of(around: Around) -> tuple[int, ...]:
    """Axes of the loops around a place, outermost first."""
    return tuple(level.number for level in around if level.is_loop)


def parts_as_one(around: Around) -> Around:
    """The same place in every part of the split loops around it."""
    return tuple(Level(n, Part.ALL) if isinstance(part, Part) else Level(n, part) for n, part in around)


def lists_inside(step: BlockLoop | WhileLoop | Branch, branch: int) -> Lists:
    """The lists of steps inside a step, each with its level; `branch` is the step's position if it is a branch."""
    match step:
        case BlockLoop(axis=axis, part=part, body=body):
            return ((Level(axis, part), body),)
        case WhileLoop(axis=axis, test=test, body=body):
            return (Level(axis, Side.TEST), test), (Level(axis, Side.BODY), body)
        case Branch(then=then, otherwise=otherwise):
            return (Level(branch, Side.THEN), then), (Level(branch, Side.OTHERWISE), otherwise)
        case _:
            assert_never(step)


def nests_with_places(steps: Sequence[Step], around: Around = ()) -> Iterator[tuple[Around, Nest]]:
    """Every nest of a body with what stands around it, in order."""
    branches = 0
    for step in steps:
        if isinstance(step, Nest):
            yield around, step
            continue
        for level, inner in lists_inside(step, branches):
            yield from nests_with_places(inner, (*around, level))
        branches += isinstance(step, Branch)


def nests_of(steps: Sequence[Step]) -> Iterator[Nest]:
    """Every nest of a body, in order."""
    return (nest for _, nest in nests_with_places(steps))
