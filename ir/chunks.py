"""How many programs are interpreted at once.
Must not know how anything is evaluated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from autotune.ir.affine import Atom, Coord, Start, Stop
from autotune.ir.dependence import bare_products
from autotune.ir.program import Axis, AxisKind, Let, Program, Reduce

# Values are evaluated for so many programs at once that the largest one takes about this much: a few times L2.
CHUNK_BYTES = 8 << 20


def boxes(program: Program, blocks: Mapping[int, int]) -> Iterator[dict[int, range]]:
    """The parallel domain in boxes small enough for the largest value; none where an extent is 0."""
    extents = {a: program.axes[a].extent.evaluate({}) for a in program.parallel}
    longest = {a.id: extents.get(a.id, _longest(a, program, blocks)) for a in program.axes}
    unmade = bare_products(program)
    lets = program.lets()
    values = {_axes_of(let, lets, program) for let in lets.values() if let.id not in unmade}
    room = max(CHUNK_BYTES // 8, 1)
    chunks = dict(longest)
    for axis in program.parallel:
        largest = max((math.prod(chunks[a] for a in axes) for axes in values if axis in axes), default=1)
        chunks[axis] = min(chunks[axis], max(chunks[axis] * room // max(largest, 1), 1))
    ranges = [[range(k, min(k + chunks[a], n)) for k in range(0, n, max(chunks[a], 1))] for a, n in extents.items()]
    return (dict(zip(extents, choice, strict=True)) for choice in itertools.product(*ranges))


def _axes_of(let: Let, lets: Mapping[int, Let], program: Program) -> frozenset[int]:
    """Axes that a value is spread over when it is made; a reduction asks at each place which coordinates exist."""
    match let.value:
        case Reduce(body=body, axes=reduced, contraction=None):
            return frozenset(lets[body].axes).union(*(program.axes[a].extent.axes() for a in reduced))
        case _:
            return frozenset(let.axes)


def _longest(axis: Axis, program: Program, blocks: Mapping[int, int]) -> int:
    if axis.kind in (AxisKind.RANGE, AxisKind.WHILE):
        return 1
    ranges: dict[Atom, tuple[int, int]] = {}
    for a in axis.extent.atoms():
        if isinstance(a, Coord | Start | Stop):
            ranges[a] = (0, _longest(program.axes[a.axis], program, {}))
    bounds = axis.extent.range(ranges)
    longest = max(bounds[1], 1) if bounds else 1
    return min(longest, blocks.get(axis.id, longest)) if axis.kind is AxisKind.TILE else longest
