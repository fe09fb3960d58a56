"""The rules of form of a buffer program, one named check each.
Must not know how a buffer program came about, nor how it is emitted."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TypeAlias

from autotune.ir.affine import Affine
from autotune.ir.buffer import (
    BlockLoop,
    Branch,
    Buffer,
    BufferProgram,
    Nest,
    Part,
    Role,
    Step,
    StoreTensor,
    WhileLoop,
)
from autotune.ir.buffer_access import BodyAccess, all_steps, steps_inside
from autotune.ir.buffer_contents import wrong_contents
from autotune.ir.buffer_text import BufferItem, buffer_lines
from autotune.ir.errors import InvalidBufferProgram
from autotune.ir.lifetimes import timeline
from autotune.ir.nest_verify import (
    BufferCheck,
    BufferFault,
    check_bounds,
    check_in_place,
    check_nest_loops,
    check_sinks,
    check_values,
    unknown_values,
)
from autotune.ir.placement import validate_placement
from autotune.ir.program import Axis, AxisKind, Program, Store, statements
from autotune.ir.types import DType

BLOCK_LOOP_KINDS = frozenset({AxisKind.TILE, AxisKind.RANGE})
ROLES = ((Role.ANY,), (Role.WHOLE,), (Role.WHOLE, Role.REST))


def verify_buffer_program(plan: BufferProgram) -> None:
    """Check the form of a buffer program over a valid, bound program; every later check relies on those before it.

    Raises: InvalidBufferProgram with the name of the first check that fails and the marked line of the text.
    """
    for check in CHECKS:
        for fault in check(plan):
            excerpt = _excerpt(plan, fault.item)
            raise InvalidBufferProgram(check=check.__name__, message=fault.message, excerpt=excerpt)


# --- the packets and their bodies ---------------------------------------------------------------------------------


def check_packets(plan: BufferProgram) -> Iterator[BufferFault]:
    """The program is bound and each of its parallel axes has one block, in order."""
    if not plan.program.is_bound:
        yield BufferFault(item=plan, message="the program still has symbolic dimensions")
    if tuple(axis for axis, _ in plan.blocks) != plan.program.parallel:
        yield BufferFault(item=plan, message="the blocks do not name the parallel axes, each once and in order")
    for axis, block in plan.blocks:
        if block < 1:
            yield BufferFault(item=plan, message=f"axis a{axis} has a block of {block} coordinates")


def check_roles(plan: BufferProgram) -> Iterator[BufferFault]:
    """One body for every packet, or one for whole packets and one for the rest where there is a rest."""
    roles = tuple(body.role for body in plan.bodies)
    if roles not in ROLES:
        found = ", ".join(role.value for role in roles) or "none"
        yield BufferFault(item=plan, message=f"expected the roles any, whole, or whole and rest, found {found}")
    ragged = [a for a, block in plan.blocks if plan.program.axes[a].extent.constant % block]
    if roles == (Role.WHOLE,) and ragged:
        yield BufferFault(item=plan, message=f"no body is for packets whose block along a{ragged[0]} is not whole")
    if roles == (Role.WHOLE, Role.REST) and not ragged:
        yield BufferFault(item=plan.bodies[1], message="a body for the rest where every packet is whole")


def check_buffers(plan: BufferProgram) -> Iterator[BufferFault]:
    """Buffers are numbered by position and lay out known axes, each once, without two elements in one place."""
    for body in plan.bodies:
        for position, buffer in enumerate(body.buffers):
            if buffer.id != position:
                yield BufferFault(item=buffer, message=f"buffer b{buffer.id} stands at position {position}")
            axes = [entry.axis for entry in buffer.axes]
            if len(set(axes)) != len(axes) or not all(0 <= a < len(plan.program.axes) for a in axes):
                yield BufferFault(item=buffer, message="the layout names an axis twice, or one that does not exist")
            if any(e.extent < 0 or e.stride < 0 or e.panel < 0 or e.panel_stride < 0 for e in buffer.axes):
                yield BufferFault(item=buffer, message="a negative extent, stride or panel")
            elif not _injective(buffer):
                yield BufferFault(item=buffer, message="two coordinates of the layout may lie in the same place")


def check_materialized(plan: BufferProgram) -> Iterator[BufferFault]:
    """Values that buffers hold are known, named once, of the buffer's type, and keep every axis inside a packet."""
    lets = plan.program.lets()
    for body in plan.bodies:
        narrow = {step.axis for step in all_steps(body.steps) if isinstance(step, BlockLoop) and step.block == 1}
        values = [value for value, _ in body.materialized]
        if len(set(values)) != len(values):
            yield BufferFault(item=body, message="a value is held by two buffers")
        for value, number in body.materialized:
            if value not in lets or not 0 <= number < len(body.buffers):
                yield BufferFault(item=body, message=f"%{value} in b{number}: no such value or buffer")
                continue
            buffer, let = body.buffers[number], lets[value]
            if not _fits_type(let.dtype, buffer.dtype):
                message = f"%{value} of type {let.dtype.value} is held as {buffer.dtype.value}"
                yield BufferFault(item=buffer, message=message)
            for axis in sorted(set(let.axes) - {entry.axis for entry in buffer.axes} - narrow):
                if _inner(plan.program.axes[axis]):
                    yield BufferFault(item=buffer, message=f"%{value} varies along a{axis}, which b{number} lacks")


# --- control flow -------------------------------------------------------------------------------------------------


def check_loops(plan: BufferProgram) -> Iterator[BufferFault]:
    """A loop walks a known axis of its kind, once on every path; a split one is a head and then its rest."""
    for body in plan.bodies:
        yield from _loop_faults(plan.program, body.steps, frozenset())
        for step in all_steps(body.steps):
            if isinstance(step, BlockLoop):
                yield from _block_faults(plan.program, step)


def check_conditions(plan: BufferProgram) -> Iterator[BufferFault]:
    """Control flow hangs on scalars: one bool value a packet, in a buffer of one element if in any."""
    lets = plan.program.lets()
    for body in plan.bodies:
        held = dict(body.materialized)
        for step in all_steps(body.steps):
            if not isinstance(step, WhileLoop | Branch):
                continue
            let = lets.get(step.condition)
            if let is None or let.dtype is not DType.BOOL:
                yield BufferFault(item=step, message=f"the condition %{step.condition} is no value of type bool_")
                continue
            wide = [a for a in let.axes if _inner(plan.program.axes[a]) or dict(plan.blocks).get(a, 1) > 1]
            if wide:
                yield BufferFault(item=step, message=f"the condition %{let.id} varies along a{wide[0]}")
            if let.id in held and body.buffers[held[let.id]].elements != 1:
                yield BufferFault(item=step, message=f"the condition %{let.id} is no single element of its buffer")


# --- what bodies do as a whole --------------------------------------------------------------------------------------


def check_stores(plan: BufferProgram) -> Iterator[BufferFault]:
    """Every store of the program is executed somewhere in each body."""
    count = sum(isinstance(s, Store) for s in statements(plan.program.body))
    for body in plan.bodies:
        nests = [step for step in all_steps(body.steps) if isinstance(step, Nest)]
        found = {sink.store for nest in nests for sink in nest.sinks if isinstance(sink, StoreTensor)}
        for store in sorted(set(range(count)) - found):
            yield BufferFault(item=body, message=f"store number {store} is never executed")


def check_condition_values(plan: BufferProgram) -> Iterator[BufferFault]:
    """What a condition needs is in a buffer or can be computed from buffers."""
    for body in plan.bodies:
        access = BodyAccess(plan.program, body)
        for step in all_steps(body.steps):
            if isinstance(step, WhileLoop | Branch):
                yield from unknown_values(step, access.condition(step.condition), access)


def check_written_before_read(plan: BufferProgram) -> Iterator[BufferFault]:
    """No path reads a buffer that it has not written."""
    for body in plan.bodies:
        for number in sorted(timeline(plan.program, body).unwritten):
            yield BufferFault(item=body.buffers[number], message=f"b{number} may be read before it is written")


def check_contents(plan: BufferProgram) -> Iterator[BufferFault]:
    """A buffer that is read for a value holds that value, loop states and branch results included."""
    for body in plan.bodies:
        for wrong in wrong_contents(plan.program, body):
            yield BufferFault(item=wrong.step, message=wrong.message)


def check_placement(plan: BufferProgram) -> Iterator[BufferFault]:
    """Workspace buffers are aligned, inside the workspace, and share no byte while both are needed."""
    for body in plan.bodies:
        for fault in validate_placement(plan.program, body, plan.workspace_bytes):
            yield BufferFault(item=body.buffers[fault.buffer], message=fault.message)


CHECKS: tuple[BufferCheck, ...] = (
    check_packets,
    check_roles,
    check_buffers,
    check_materialized,
    check_loops,
    check_conditions,
    check_sinks,
    check_nest_loops,
    check_stores,
    check_values,
    check_condition_values,
    check_bounds,
    check_in_place,
    check_written_before_read,
    check_contents,
    check_placement,
)


# --- reading a buffer program -------------------------------------------------------------------------------------


def _excerpt(plan: BufferProgram, item: BufferItem) -> str:
    """The line that shows `item` with its number, and a line of marks under it."""
    for number, line in enumerate(buffer_lines(plan), 1):
        if line.item is item:
            margin = f"{number:4} | "
            indent = len(line.text) - len(line.text.lstrip())
            return f"{margin}{line.text}\n{' ' * (len(margin) + indent)}{'^' * len(line.text.strip())}"
    raise AssertionError("a fault names a part of its buffer program")


# --- layouts and loops --------------------------------------------------------------------------------------------


def _injective(buffer: Buffer) -> bool:
    """Whether each stride passes everything that the smaller ones reach; a panelled axis counts as two."""
    steps: list[tuple[int, int]] = []
    for entry in buffer.axes:
        if entry.panel:
            steps.append((entry.stride, min(entry.panel, entry.extent)))
            steps.append((entry.panel_stride, -(-entry.extent // entry.panel)))
        else:
            steps.append((entry.stride, entry.extent))
    reach = 0
    for stride, count in sorted(s for s in steps if s[1] > 1):
        if stride <= reach:
            return False
        reach += (count - 1) * stride
    return True


def _fits_type(value: DType, buffer: DType) -> bool:
    """Integers may be held narrower where their range allows, floats wider."""
    if value.is_float and buffer.is_float:
        return buffer.size_bytes >= value.size_bytes
    return value is buffer or (value.is_integer and buffer.is_integer)


def _inner(axis: Axis) -> bool:
    """Whether an axis has several coordinates inside every packet."""
    return axis.kind in (AxisKind.FULL, AxisKind.TILE) and axis.extent != Affine(constant=1)


def _block_faults(program: Program, loop: BlockLoop) -> Iterator[BufferFault]:
    kind = program.axes[loop.axis].kind
    if loop.block < 1 or (kind is AxisKind.RANGE and loop.block != 1):
        yield BufferFault(item=loop, message=f"blocks of {loop.block} along an axis of kind {kind.value}")
    if (loop.part is Part.ALL) != (loop.bound is None):
        yield BufferFault(item=loop, message="a split loop has a bound, and no other")
    lets = program.lets()
    for value in loop.assumed:
        if loop.part is Part.REST or value not in lets or lets[value].dtype is not DType.BOOL:
            yield BufferFault(
                item=loop, message=f"%{value} is assumed in the rest of a loop, or is no value of type bool_"
            )


Walked: TypeAlias = Generator[BufferFault, None, frozenset[int]]


def _loop_faults(program: Program, steps: Sequence[Step], around: frozenset[int]) -> Walked:
    """Loops over unknown axes, over an axis twice on one path, and parts that do not follow each other."""
    walked: frozenset[int] = frozenset()
    for before, step, after in zip((None, *steps), steps, (*steps[1:], None), strict=False):
        own = frozenset({step.axis}) if isinstance(step, BlockLoop | WhileLoop) else frozenset[int]()
        yield from _own_loop_faults(program, step, own, around)
        again = isinstance(step, BlockLoop) and _continues(before, step)
        if isinstance(step, BlockLoop) and step.part is Part.REST and not again:
            yield BufferFault(item=step, message="the rest of a loop does not follow its head")
        head = isinstance(step, BlockLoop) and step.part is Part.HEAD
        if head and not (isinstance(after, BlockLoop) and _continues(step, after)):
            yield BufferFault(item=step, message="the head of a loop is not followed by its rest")
        here = own
        for inner in steps_inside(step):
            here |= yield from _loop_faults(program, inner, around | own)
        if not again and here & walked:
            yield BufferFault(item=step, message=f"a second loop over a{min(here & walked)}")
        walked |= here
    return walked


def _own_loop_faults(
    program: Program, step: Step, own: frozenset[int], around: frozenset[int]
) -> Iterator[BufferFault]:
    kinds = {AxisKind.WHILE} if isinstance(step, WhileLoop) else BLOCK_LOOP_KINDS
    for axis in own:
        if not 0 <= axis < len(program.axes) or program.axes[axis].kind not in kinds:
            yield BufferFault(item=step, message=f"a{axis} is no axis that such a loop walks")
        if axis in around:
            yield BufferFault(item=step, message=f"a loop over a{axis} inside a loop over it")


def _continues(before: Step | None, step: BlockLoop) -> bool:
    """Whether a loop is the rest of the one before it."""
    if not isinstance(before, BlockLoop) or (before.part, step.part) != (Part.HEAD, Part.REST):
        return False
    return (before.axis, before.block, before.bound) == (step.axis, step.block, step.bound)
