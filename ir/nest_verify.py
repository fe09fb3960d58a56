"""The rules of form of a nest inside its body: loops, sinks, values and accesses, one named check each.
Must not know offsets, nor how nests follow each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autotune.ir.buffer import (
    BlockLoop,
    Body,
    BufferAxis,
    BufferProgram,
    Nest,
    NestLoop,
    ReduceInto,
    Step,
    StoreBuffer,
    StoreTensor,
    Tail,
)
from autotune.ir.buffer_access import Access, BodyAccess, Read, steps_inside
from autotune.ir.buffer_text import BufferItem
from autotune.ir.program import AxisKind, Carried, Final, Joined, MergeSide, Reduce

STATES = Carried | Final | Joined | MergeSide


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferFault:
    """What is wrong, and the part of the buffer program where it shows."""

    item: BufferItem
    message: str


BufferCheck: TypeAlias = Callable[[BufferProgram], Iterator[BufferFault]]


def check_nest_loops(plan: BufferProgram) -> Iterator[BufferFault]:
    """A nest loops over axes that are walked at its place, each once, one with lanes, reduced ones innermost."""
    for place in nest_places(plan):
        nest = place.nest
        axes = [loop.axis for loop in nest.loops]
        if len(set(axes)) != len(axes):
            yield BufferFault(item=nest, message="two loops over the same axis")
        for loop in nest.loops:
            if place.extent(loop.axis) is None:
                yield BufferFault(item=nest, message=f"a loop over a{loop.axis}, which is not walked here")
        yield from _step_faults(nest, nest.loops)
        reduced = {a for s in nest.sinks if isinstance(s, ReduceInto) for a in place.reduced(s.value)}
        flags = [axis in reduced for axis in axes]
        if flags != sorted(flags):
            yield BufferFault(item=nest, message="a loop over a reduced axis stands outside another one")


def check_sinks(plan: BufferProgram) -> Iterator[BufferFault]:
    """Sinks name stores, buffers and values that exist; what a buffer takes is written along all of its axes."""
    for place in nest_places(plan):
        if not place.nest.sinks:
            yield BufferFault(item=place.nest, message="a nest without sinks")
        for sink in place.nest.sinks:
            match sink:
                case StoreTensor(store=store):
                    if not 0 <= store < len(place.access.stores):
                        yield BufferFault(item=sink, message=f"there is no store number {store}")
                    continue
                case StoreBuffer(value=value, source=source):
                    known = value in place.access.lets and (source is None or place.has(source))
                case ReduceInto(value=value, chains=chains):
                    known = value in place.access.lets
                    if known and not isinstance(place.access.lets[value].value, Reduce):
                        yield BufferFault(item=sink, message=f"%{value} is no reduction")
                    if chains < 1:
                        yield BufferFault(item=sink, message=f"{chains} chains")
            if not known or not place.has(sink.buffer):
                yield BufferFault(item=sink, message="there is no such value or buffer")


def check_values(plan: BufferProgram) -> Iterator[BufferFault]:
    """What a nest needs is in a buffer or can be computed in it; inline reductions are listed with their own loops."""
    for place in nest_places(plan):
        access = place.access.nest(place.nest)
        for value in sorted(access.unfinished):
            yield BufferFault(item=place.nest, message=f"%{value} is read in the nest that works it out")
        yield from unknown_values(place.nest, access, place.access)
        inline = [i.value for i in place.nest.inline]
        if len(set(inline)) != len(inline):
            yield BufferFault(item=place.nest, message="a reduction is inline twice")
        lets = place.access.lets
        for value in sorted(v for v in access.computed if isinstance(lets[v].value, Reduce) and place.reduced(v)):
            if value not in inline:
                yield BufferFault(item=place.nest, message=f"reduction %{value} is in no buffer and not inline")
        for entry in place.nest.inline:
            if entry.value not in access.computed or not isinstance(lets[entry.value].value, Reduce):
                yield BufferFault(item=entry, message=f"%{entry.value} is no reduction that this nest computes")
                continue
            yield from _step_faults(entry, entry.loops)
            if sorted(loop.axis for loop in entry.loops) != sorted(place.reduced(entry.value)):
                yield BufferFault(item=entry, message="the loops are not over the axes that are reduced")
            if entry.chains < 1 or entry.group < 1:
                yield BufferFault(item=entry, message="chains and group are at least 1")


def check_bounds(plan: BufferProgram) -> Iterator[BufferFault]:
    """Every access stays inside its buffer, along every axis, and no vector straddles two panels."""
    for place in nest_places(plan):
        access = place.access.nest(place.nest)
        for written in sorted(access.writes):
            yield from _view_faults(place, Read(buffer=written, value=-1), "written")
        for read in access.reads:
            yield from _view_faults(place, read, "read")


def check_in_place(plan: BufferProgram) -> Iterator[BufferFault]:
    """A nest that reads a buffer it writes reads each element only where it writes it, and before."""
    for place in nest_places(plan):
        access = place.access.nest(place.nest)
        for read in access.reads:
            if read.buffer in access.writes and (why := _spoiled(place, read)):
                yield BufferFault(item=place.nest, message=f"b{read.buffer} is written while it is read: {why}")


# --- reading a nest -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NestPlace:
    """A nest, its body, and the blocks that are open where it stands."""

    plan: BufferProgram
    body: Body
    access: BodyAccess
    nest: Nest
    open_blocks: tuple[tuple[int, int], ...]

    def extent(self, axis: int) -> int | None:
        """Coordinates of a whole block of an axis here, None where it is not walked; -1 where unknown."""
        if not 0 <= axis < len(self.plan.program.axes):
            return None
        declared = self.plan.program.axes[axis]
        most = declared.extent.constant if declared.extent.is_constant else -1
        match declared.kind:
            case AxisKind.PROGRAM | AxisKind.PROGRAM_TILE:
                block = dict(self.plan.blocks)[axis]
                return block if block > 1 else None
            case AxisKind.TILE:
                open_block = dict(self.open_blocks).get(axis)
                return open_block if open_block is None or most < 0 else min(most, open_block)
            case AxisKind.FULL:
                return most
            case AxisKind.RANGE | AxisKind.WHILE:
                return None

    def reduced(self, value: int) -> tuple[int, ...]:
        inner = self.access.lets[value].value
        return inner.axes if isinstance(inner, Reduce) else ()

    def has(self, buffer: int) -> bool:
        return 0 <= buffer < len(self.body.buffers)


def nest_places(plan: BufferProgram) -> Iterator[NestPlace]:
    for body in plan.bodies:
        access = BodyAccess(plan.program, body)
        for nest, blocks in _nests_with_blocks(body.steps, ()):
            yield NestPlace(plan=plan, body=body, access=access, nest=nest, open_blocks=blocks)


def _nests_with_blocks(
    steps: Sequence[Step], blocks: tuple[tuple[int, int], ...]
) -> Iterator[tuple[Nest, tuple[tuple[int, int], ...]]]:
    for step in steps:
        if isinstance(step, Nest):
            yield step, blocks
        opened = (*blocks, (step.axis, step.block)) if isinstance(step, BlockLoop) else blocks
        for inner in steps_inside(step):
            yield from _nests_with_blocks(inner, opened)


def _step_faults(item: BufferItem, loops: Sequence[NestLoop]) -> Iterator[BufferFault]:
    if any(loop.factor < 1 or loop.lanes < 1 for loop in loops):
        yield BufferFault(item=item, message="a loop whose factor or lanes are less than 1")
    if sum(loop.lanes > 1 for loop in loops) > 1:
        yield BufferFault(item=item, message="two loops have lanes")


def unknown_values(item: BufferItem, access: Access, body: BodyAccess) -> Iterator[BufferFault]:
    """Loop states and branch results that would have to be computed."""
    for value in sorted(access.computed):
        if isinstance(body.lets[value].value, STATES):
            yield BufferFault(item=item, message=f"%{value} is the state of a loop or branch, and in no buffer")


def _view_faults(place: NestPlace, read: Read, verb: str) -> Iterator[BufferFault]:
    loops = {loop.axis: loop for loop in place.nest.loops}
    for inline in place.nest.inline:
        if inline.value in read.inside:
            loops |= {loop.axis: loop for loop in inline.loops}
    for entry in place.body.buffers[read.buffer].axes:
        axis = dict(read.renaming).get(entry.axis, entry.axis)
        if axis in loops:
            message = _outside(entry, loops[axis], place.extent(axis))
        else:
            message = f"no loop walks a{axis}" if entry.extent > 1 else ""
        if message:
            yield BufferFault(item=place.nest, message=f"b{read.buffer} is {verb} along a{entry.axis}: {message}")


def _outside(entry: BufferAxis, loop: NestLoop, extent: int | None) -> str:
    """What is wrong with a loop over one axis of a buffer, empty where nothing is."""
    if extent is None or extent > entry.extent:
        return f"{'an unknown number of' if extent is None else extent} coordinates, the buffer has {entry.extent}"
    if entry.panel and loop.lanes > 1 and entry.panel % loop.lanes:
        return f"a vector of {loop.lanes} straddles panels of {entry.panel}"
    return ""


def _spoiled(place: NestPlace, read: Read) -> str:
    """Why an element may be read after it was written anew, empty where it may not."""
    own = {entry.axis for entry in place.body.buffers[read.buffer].axes}
    if any(source in own and source != target for source, target in read.renaming):
        return "the read is along other axes than its own"
    along = sorted(own & {axis for value in read.inside for axis in place.reduced(value)})
    if along:
        return f"an inline reduction reads it along a{along[0]}"
    if place.nest.tail is Tail.OVERLAP and any(loop.lanes > 1 for loop in place.nest.loops):
        return "the last vector comes back over coordinates already written"
    sinks = [s for s in place.nest.sinks if not isinstance(s, StoreTensor) and s.buffer == read.buffer]
    for loop in place.nest.loops:
        covered = all(isinstance(s, ReduceInto) and loop.axis in place.reduced(s.value) for s in sinks)
        if loop.axis not in own and not covered:
            return f"it is written again for every coordinate along a{loop.axis}"
    return ""
