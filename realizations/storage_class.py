"""Which private buffers of a body are kept in registers: those accessed at fixed places only.
Must not know candidates or how a body was lowered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.ir.buffer import Body, Buffer, Nest, NestLoop, Role, StorageClass
from autotune.ir.buffer_access import Access, BodyAccess
from autotune.ir.program import AxisKind, Program
from autotune.realizations.places import nests_of

MAX_REGISTER_BUFFER_BYTES = 1024


def classified(program: Program, body: Body, blocks: Mapping[int, int]) -> tuple[Buffer, ...]:
    """The buffers of a body, each with its storage class.

    A buffer may be written in one arm of a branch or trip of a loop and read after it: registers follow it there.
    """
    access = BodyAccess(program, body)
    nests = [(nest, access.nest(nest)) for nest in nests_of(body.steps)]
    dynamic = frozenset(blocks) if body.role is not Role.WHOLE else frozenset[int]()

    def fixed(buffer: Buffer) -> bool:
        if buffer.size_bytes > MAX_REGISTER_BUFFER_BYTES or any(entry.axis in dynamic for entry in buffer.axes):
            return False
        if any(program.axes[entry.axis].kind is AxisKind.TILE for entry in buffer.axes):
            return False
        return all(_at_fixed_places(buffer, nest, found) for nest, found in _touching(buffer, nests))

    return tuple(replace(b, storage=StorageClass.REGISTER) if fixed(b) else b for b in body.buffers)


def _touching(buffer: Buffer, nests: list[tuple[Nest, Access]]) -> Iterator[tuple[Nest, Access]]:
    for nest, access in nests:
        if buffer.id in access.writes or buffer.id in access.buffers_read:
            yield nest, access


def _at_fixed_places(buffer: Buffer, nest: Nest, access: Access) -> bool:
    """Whether a nest reaches every element of a buffer by a constant number, and along its own axes."""
    loops = {loop.axis: loop for loop in nest.loops}
    if not all(_unrolled(buffer, position, loops) for position in range(len(buffer.axes))):
        return False
    own = {entry.axis for entry in buffer.axes}
    renamings = (pair for read in access.reads if read.buffer == buffer.id for pair in read.renaming)
    return not any(source in own and source != target for source, target in renamings)


def _unrolled(buffer: Buffer, position: int, loops: Mapping[int, NestLoop]) -> bool:
    entry = buffer.axes[position]
    loop = loops.get(entry.axis)
    if loop is None or loop.step < entry.extent or entry.extent % loop.lanes:
        return False
    return loop.lanes == 1 or position == len(buffer.axes) - 1
