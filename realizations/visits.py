"""How often and where a body's nests are executed: the walk of the emitter with the nests left out.
Must not know what is inside a nest or what anything costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from autotune.ir.buffer import BlockLoop, Body, Branch, BufferProgram, Nest, Step, Tail, WhileLoop
from autotune.realizations.count import CountingBuilder
from autotune.realizations.emit import emit
from autotune.realizations.evaluate import Evaluator
from autotune.realizations.events import Events
from autotune.realizations.loops import Surroundings
from autotune.realizations.places import Around, lists_inside, parts_as_one
from autotune.realizations.points import AxisPoint, Span
from autotune.realizations.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """One copy of a place in the text: the blocks and fixed coordinates there, and the weight of every level around.

    Units: `weights` executions of one call of the entry, outermost level first; the last is the place's own.
    """

    spans: Mapping[int, Span]
    fixed: Mapping[int, AxisPoint]
    active: Callable[[int], float]
    assumed: frozenset[int]
    weights: tuple[float, ...]

    def coordinates(self, axis: int) -> float:
        """Coordinates that the block of an axis has, on average where it varies."""
        extent = self.spans[axis].extent
        return float(extent) if isinstance(extent, int) else self.active(axis)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A body without what is inside its nests: its own events and instructions, and the visits of every place."""

    events: Events
    instructions: int
    visits: Mapping[Around, tuple[Visit, ...]]


def frame(plan: BufferProgram, target: Target) -> Frame:
    """The frame of a program with one body."""
    (body,) = plan.bodies
    places: dict[Around, int] = {}
    builder = CountingBuilder(target)
    found: dict[int, list[Visit]] = {}

    def visit(evaluator: Evaluator, surroundings: Surroundings, nest: Nest) -> None:
        found.setdefault(nest.number, []).append(
            Visit(
                spans=dict(surroundings.spans),
                fixed=dict(surroundings.fixed),
                active=surroundings.active,
                assumed=frozenset(evaluator.assumed),
                weights=builder.weights(),
            )
        )

    emit(replace(plan, bodies=(replace(body, steps=_marked(body.steps, (), places)),)), builder, visit)
    visits = {around: tuple(found.get(number, ())) for around, number in places.items()}
    return Frame(events=builder.events(), instructions=builder.instructions, visits=visits)


def skeleton(body: Body) -> tuple[Step, ...]:
    """The steps of a body with one mark where nests stand: bodies with equal ones have equal frames."""
    return _marked(body.steps, (), {})


def _marked(steps: Sequence[Step], around: Around, places: dict[Around, int]) -> tuple[Step, ...]:
    """Steps with a nest without loops in place of those of each list; the parts of a split loop share their places."""
    kept: list[Step] = []
    marked, branches = False, 0
    for step in steps:
        match step:
            case Nest():
                if not marked:
                    number = places.setdefault(around, len(places))
                    kept.append(Nest(number=number, loops=(), sinks=(), tail=Tail.MASK))
                    marked = True
            case BlockLoop() | WhileLoop() | Branch():
                inner = [
                    _marked(steps, parts_as_one((*around, level)), places)
                    for level, steps in lists_inside(step, branches)
                ]
                branches += isinstance(step, Branch)
                kept.append(_with_lists(step, inner))
            case _:
                assert_never(step)
    return tuple(kept)


def _with_lists(step: BlockLoop | WhileLoop | Branch, lists: Sequence[tuple[Step, ...]]) -> Step:
    """The step with other steps inside it."""
    match step:
        case BlockLoop():
            (body,) = lists
            return replace(step, body=body)
        case WhileLoop():
            test, body = lists
            return replace(step, test=test, body=body)
        case Branch():
            then, otherwise = lists
            return replace(step, then=then, otherwise=otherwise)
        case _:
            assert_never(step)
