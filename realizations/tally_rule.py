"""Tallies of large register blocks from those of small ones: every unrolled step adds what the one before it added.
Must not know programs, costs, or where tallies are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from autotune.ir.buffer import InlineReduction, Nest, NestLoop, Transfer
from autotune.realizations.builder import LoopName
from autotune.realizations.events import EVENT_COUNT
from autotune.realizations.nest_key import CanonicalNest
from autotune.realizations.points import Span
from autotune.realizations.tally import Part, Tally
from autotune.realizations.visits import Visit

Size = tuple[int, int]
"""Unrolled steps of a loop in a whole register block, and whole vectors that these leave."""


@dataclass(frozen=True, slots=True, eq=False)
class Corner:
    """A nest with small register blocks at small blocks of its axes, and its share of the larger one's count."""

    nest: Nest
    visit: Visit
    share: int


def corners(form: CanonicalNest, nest: Nest, visit: Visit) -> tuple[Corner, ...]:
    """Nests whose tallies, weighed by their shares, add up to that of a nest; the nest itself where none is smaller.

    A count is linear in the size of each loop by itself, for every step writes the same code with other constants. It
    is not where columns are transposed together, nor along an axis that is cut into panels.
    """
    loops = (*nest.loops, *(loop for spec in nest.inline for loop in spec.loops))
    axes = [loop.axis for loop in loops]
    transposes = Transfer.TRANSPOSE in {t for _, t in (*nest.transfers, *nest.store_transfers)}
    if transposes or len(set(axes)) < len(axes):
        return (Corner(nest, visit, 1),)
    least = {loop.axis: spec.chains for spec in nest.inline for loop in spec.loops}
    tables = [_sizes(loop, visit.spans[loop.axis], form, least.get(loop.axis, 1)) for loop in loops]
    if all(len(table) == 1 for table in tables):
        return (Corner(nest, visit, 1),)
    found = []
    for chosen in product(*tables):
        sizes = {axis: size for axis, (size, _) in zip(axes, chosen, strict=True)}
        share = prod(weight for _, weight in chosen)
        found.append(Corner(_resized(nest, sizes), _around(loops, sizes, visit), share))
    return tuple(found)


def _sizes(loop: NestLoop, span: Span, form: CanonicalNest, least: int) -> Sequence[tuple[Size, int]]:
    """Small sizes of a loop and their weights; a size of 0 vectors left stays so."""
    if form.panels.get(loop.axis):
        return (((loop.factor, -1), 1),)
    if not isinstance(span.extent, int):
        return [((f, -1), w) for f, w in _line(loop.factor, max(least, 2))] if loop.factor > 1 else [((1, -1), 1)]
    whole, rest = divmod(span.extent, loop.step)
    left = rest // loop.lanes
    if not left:
        return [((f, 0), w) for f, w in (_line(loop.factor, least) if whole else ((loop.factor, 1),))]
    inner = _line(left, 1)
    if not whole:
        return [((max(least, 3), v), w) for v, w in inner]
    return [((f, v), w * x) for f, w in _line(loop.factor, max(least, 3)) for v, x in inner]


def _line(size: int, least: int) -> Sequence[tuple[int, int]]:
    """A size as a combination of the two least ones."""
    if size <= least + 1:
        return ((size, 1),)
    return ((least, least + 1 - size), (least + 1, size - least))


def _resized(nest: Nest, sizes: Mapping[int, Size]) -> Nest:
    def resized(loop: NestLoop) -> NestLoop:
        return replace(loop, factor=sizes[loop.axis][0])

    def inside(spec: InlineReduction) -> InlineReduction:
        return replace(spec, loops=tuple(resized(loop) for loop in spec.loops))

    return replace(nest, loops=tuple(map(resized, nest.loops)), inline=tuple(map(inside, nest.inline)))


def _around(loops: Sequence[NestLoop], sizes: Mapping[int, Size], visit: Visit) -> Visit:
    """The visit with blocks that divide as the sizes say."""
    spans = dict(visit.spans)
    for loop in loops:
        span = spans[loop.axis]
        factor, left = sizes[loop.axis]
        if left >= 0 and isinstance(span.extent, int):
            whole, ragged = min(span.extent // loop.step, 2), span.extent % loop.lanes
            spans[loop.axis] = Span(span.start, (whole * factor + left) * loop.lanes + ragged)
    return replace(visit, spans=spans)


def combined(form: CanonicalNest, nest: Nest, found: Sequence[tuple[Corner, Tally]]) -> Tally:
    """The tally of a nest from those of its corners."""
    factors = {form.axes[loop.axis]: loop.factor for loop in nest.loops}
    factors.update((form.axes[loop.axis], loop.factor) for spec in nest.inline for loop in spec.loops)

    def named(name: LoopName) -> LoopName:
        return name._replace(factor=factors[name.axis])

    instructions = 0
    totals: dict[tuple[int, tuple[LoopName, ...]], list[float]] = {}
    for corner, tally in found:
        instructions += corner.share * tally.instructions
        for part in tally.parts:
            total = totals.setdefault((part.level, tuple(map(named, part.loops))), [0.0] * EVENT_COUNT)
            for event, times in enumerate(part.counts):
                if times:
                    total[event] += corner.share * times
    parts = tuple(Part(level=level, loops=loops, counts=tuple(c)) for (level, loops), c in totals.items())
    return Tally(parts=parts, instructions=instructions)
