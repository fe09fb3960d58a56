"""How many programs are interpreted at once.
Must not know how anything is evaluated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from autotune.ir.affine import Atom, Coord, Start, Stop
from autotune.ir.program import Axis, AxisKind, Let, Program, statements

# Values are evaluated for so many programs at once that the largest one takes about this much: a few times L2.
CHUNK_BYTES = 8 << 20


def boxes(program: Program, blocks: Mapping[int, int]) -> Iterator[dict[int, range]]:
    """The parallel domain in boxes small enough for the largest value; none where an extent is 0."""
    extents = {a: program.axes[a].extent.evaluate({}) for a in program.parallel}
    largest = max((_elements_of(s, program, blocks) for s in statements(program.body) if isinstance(s, Let)), default=1)
    room = max(CHUNK_BYTES // 8, 1)
    chunks = {}
    for axis, extent in extents.items():
        chunks[axis] = min(extent, max(extent * room // max(largest, 1), 1))
        largest = -(-largest * chunks[axis] // max(extent, 1))
    ranges = [[range(k, min(k + chunks[a], n)) for k in range(0, n, max(chunks[a], 1))] for a, n in extents.items()]
    return (dict(zip(extents, choice, strict=True)) for choice in itertools.product(*ranges))


def _elements_of(let: Let, program: Program, blocks: Mapping[int, int]) -> int:
    """Upper estimate of a value's number of elements over the whole parallel domain."""
    return math.prod(_longest(program.axes[a], program, blocks) for a in {*let.axes, *program.parallel})


def _longest(axis: Axis, program: Program, blocks: Mapping[int, int]) -> int:
    if axis.kind is AxisKind.RANGE:
        return 1
    ranges: dict[Atom, tuple[int, int]] = {}
    for a in axis.extent.atoms():
        if isinstance(a, Coord | Start | Stop):
            ranges[a] = (0, _longest(program.axes[a.axis], program, {}))
    bounds = axis.extent.range(ranges)
    longest = max(bounds[1], 1) if bounds else 1
    return min(longest, blocks.get(axis.id, longest)) if axis.kind is AxisKind.TILE else longest
