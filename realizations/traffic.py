"""Cache lines that a nest moves between memory levels, by reuse distance in closed form.
Must not know what a line costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from autotune.ir.affine import Affine
from autotune.ir.buffer import BufferProgram, Nest, ReduceInto, StoreBuffer, StoreTensor
from autotune.ir.program import AxisKind, Tensor
from autotune.realizations.context import NestContext

LINE_BYTES = 64
WAY_BYTES = 4096  # addresses this far apart share a set of the first-level cache
WAYS = 8
FILL = 0.75  # the part of a cache that a working set may take before it no longer stays
FAR = 1 << 24  # stride of an index that moves in no constant way


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Cache lines fetched over a whole entry: into the first level, into the second, and into the third.

    `ahead_l2` and `ahead_l3` are those of them that the code asks for before it needs them.
    """

    into_l1: float = 0.0
    into_l2: float = 0.0
    into_l3: float = 0.0
    ahead_l2: float = 0.0
    ahead_l3: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            into_l1=self.into_l1 + other.into_l1,
            into_l2=self.into_l2 + other.into_l2,
            into_l3=self.into_l3 + other.into_l3,
            ahead_l2=self.ahead_l2 + other.ahead_l2,
            ahead_l3=self.ahead_l3 + other.ahead_l3,
        )


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop around the innermost register block: along an axis, with its number of trips.

    A loop from block to block of axis a has the number `~a`, apart from the loops inside a block.
    """

    axis: int
    trips: int


@dataclass(frozen=True, slots=True)
class _Reference:
    """An array as a nest walks it: bytes an element, elements a step along each axis, whether it is a tensor."""

    size: int
    strides: tuple[tuple[int, int], ...]
    tensor: bool
    known: dict[tuple[int, ...], int] = field(default_factory=dict, compare=False)

    def varies(self, axis: int) -> bool:
        return any(a == axis and stride for a, stride in self.strides)

    def lines(self, coordinates: dict[int, int]) -> int:
        """Distinct cache lines over a box of coordinates."""
        counts = tuple([coordinates.get(axis, 1) for axis, _ in self.strides])
        found = self.known.get(counts)
        if found is None:
            self.known[counts] = found = self._lines(counts)
        return found

    def _lines(self, counts: tuple[int, ...]) -> int:
        run, far = 1, 1
        for count, (_, stride) in zip(counts, self.strides, strict=True):
            if abs(stride) * self.size < LINE_BYTES:
                run += (count - 1) * abs(stride)
            else:
                far *= count
        return far * ceil(run * self.size / LINE_BYTES)

    def conflicts(self, coordinates: dict[int, int]) -> bool:
        """Whether lines of one register block fall into one set of the first-level cache and drive each other out."""
        rows = prod(coordinates.get(a, 1) for a, s in self.strides if s and s * self.size % WAY_BYTES == 0)
        return rows > WAYS


def traffic(context: NestContext, plan: BufferProgram) -> Traffic:
    """Lines fetched by the nests of one context over all packets and trips of the loops around."""
    return Movement(context, plan).of(context.nest)


class Movement:
    """What a nest moves under any choice of its loops.

    Repeated calls find in a cache what the whole call leaves there: tensors that fit it are not fetched again.
    Source: reuse-distance argument; a line is kept where what is touched until its next use fits the cache.
    """

    def __init__(self, context: NestContext, plan: BufferProgram) -> None:
        self._context = context
        self._around = _loops_around(context, plan)
        self._references = _references(context)
        self._bytes = tensor_bytes(context)
        self._known: dict[tuple[object, ...], Traffic] = {}

    def of(self, nest: Nest) -> Traffic:
        """Lines fetched where the nest has these loops."""
        key = (nest.loops, nest.inline[0].loops if nest.inline else (), _asks_ahead(nest))
        if key not in self._known:
            self._known[key] = self._of(nest)
        return self._known[key]

    def _of(self, nest: Nest) -> Traffic:
        target = self._context.facts.target
        loops, steps = _loops(self._context, nest)
        loops = [*self._around, *loops]
        scopes = _boxes(loops, steps)
        footprints = [sum(r.lines(box) for r in self._references) * LINE_BYTES for box in scopes]
        l1 = l2 = l3 = 0.0
        for reference in self._references:
            if reference.conflicts(scopes[-1]):
                l1 += reference.lines(scopes[-1]) * prod(loop.trips for loop in loops)
            else:
                l1 += _fetched(reference, loops, scopes, footprints, target.l1_bytes * FILL)
            if reference.tensor and self._bytes > target.l2_bytes * FILL:
                l2 += _fetched(reference, loops, scopes, footprints, target.l2_bytes * FILL)
            if reference.tensor and self._bytes > target.l3_bytes * FILL:
                l3 += _fetched(reference, loops, scopes, footprints, target.l3_bytes * FILL)
        ahead = _asks_ahead(nest)
        return Traffic(into_l1=l1, into_l2=l2, into_l3=l3, ahead_l2=ahead * l2, ahead_l3=ahead * l3)


def _asks_ahead(nest: Nest) -> bool:
    return any(spec.prefetch_bytes for spec in nest.inline)


def _fetched(
    reference: _Reference,
    loops: Sequence[_Loop],
    scopes: Sequence[dict[int, int]],
    footprints: Sequence[int],
    capacity: float,
) -> float:
    """Lines of an array brought into a cache: once in the widest scope that fits, again in every trip around it."""
    depth = next((d for d, size in enumerate(footprints) if size <= capacity), len(loops))
    total = float(reference.lines(scopes[depth]))
    for position in range(depth):
        kept = position == depth - 1 and not reference.varies(loops[position].axis)
        total *= 1 if kept else loops[position].trips
    return total


def _loops_around(context: NestContext, plan: BufferProgram) -> list[_Loop]:
    """Loops over packets and blocks around a nest, outermost first."""
    found = [_Loop(~axis, along) for (axis, _), along in zip(plan.blocks, plan.packets_along(), strict=True)]
    for axis in context.loops_around:
        whole = context.facts.ranges.most(axis)
        found.append(_Loop(~axis, max(1, -(-whole // _block(context, axis)))))
    return found


def _loops(context: NestContext, nest: Nest) -> tuple[list[_Loop], dict[int, int]]:
    """Loops of a nest around one register block, outermost first, and the coordinates of the block along each axis."""
    found: list[_Loop] = []
    steps: dict[int, int] = {}
    for loop in (*nest.loops, *(inner for spec in nest.inline[:1] for inner in spec.loops)):
        steps[loop.axis] = loop.step
        found.append(_Loop(loop.axis, max(1, -(-context.extent(loop.axis) // loop.step))))
    return found, steps


def _block(context: NestContext, axis: int) -> int:
    """Coordinates in a block of an axis that a loop walks block by block."""
    if context.facts.program.axes[axis].kind is AxisKind.RANGE:
        return 1
    return max(1, context.blocks.get(axis, context.tile_blocks.get(axis, 1)))


def _boxes(loops: Sequence[_Loop], steps: dict[int, int]) -> list[dict[int, int]]:
    """Coordinates that a trip of each loop covers along each axis, the whole walk first and the register block last."""
    boxes = [dict(steps)]
    for loop in reversed(loops):
        box = dict(boxes[-1])
        box[loop.axis] = box.get(loop.axis, 1) * loop.trips
        boxes.append(box)
    return boxes[::-1]


def _references(context: NestContext) -> list[_Reference]:
    """Arrays that a nest reads and writes."""
    found: list[_Reference] = []
    for access in context.accesses:
        tensor = context.facts.program.tensor(access.load.tensor)
        if access.flat is None:
            axes = frozenset(a for i in access.load.index if isinstance(i, Affine) for a in i.axes()) | access.axes
            found.append(_Reference(tensor.dtype.size_bytes, tuple((a, FAR) for a in sorted(axes)), True))
        else:
            found.append(_tensor_reference(context, tensor, access.flat))
    buffers = set(context.buffers_read)
    for sink in context.nest.sinks:
        match sink:
            case StoreTensor(store=number):
                tensor = context.facts.program.tensor(context.facts.stores[number].tensor)
                found.append(_tensor_reference(context, tensor, context.flat_store(number)))
            case StoreBuffer(buffer=number) | ReduceInto(buffer=number):
                buffers.add(number)
    for number in sorted(buffers):
        buffer = context.body.buffers[number]
        strides = tuple((entry.axis, entry.stride) for entry in buffer.axes)
        found.append(_Reference(buffer.dtype.size_bytes, strides, False))
    return found


def _tensor_reference(context: NestContext, tensor: Tensor, flat: Affine) -> _Reference:
    """Strides inside blocks and from block to block; an index that moves with blocks alone moves far."""
    strides: list[tuple[int, int]] = []
    for axis in sorted(flat.axes()):
        coefficient = flat.coefficient(axis)
        if coefficient:
            strides += [(axis, coefficient), (~axis, coefficient * _block(context, axis))]
        else:
            strides.append((~axis, FAR))
    return _Reference(tensor.dtype.size_bytes, tuple(strides), True)


def tensor_bytes(context: NestContext) -> int:
    """Bytes of every tensor that the program touches."""
    return context.facts.tensor_bytes
