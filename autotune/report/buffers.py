"""A buffer program as text: buffers with their places, then loops and nests with what each of them writes.
Must not know how a candidate becomes one, or what it compiles to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Buffer,
    BufferProgram,
    Nest,
    NestLoop,
    ReduceInto,
    Sink,
    StorageClass,
    StoreBuffer,
    StoreTensor,
    Transfer,
)
from autotune.ir.program import AxisKind, Program, Reduce, Store, statements
from autotune.report.choices import axis_text


def buffer_text(plan: BufferProgram) -> str:
    """Every body of a buffer program, one line an allocation, loop and sink."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: BufferProgram) -> Iterator[str]:
    program = plan.program
    blocks = ", ".join(f"{block} along {axis_text(program, axis)}" for axis, block in plan.blocks)
    yield f"{program.name}: {plan.packets} packets of {blocks or 'one program'}, workspace {plan.workspace_bytes} bytes"
    for body in plan.bodies:
        yield ""
        yield "body of whole packets:" if body.full else "body of any packet:"
        for buffer in body.buffers:
            yield f"  {_buffer(program, body, buffer)}"
        yield from _steps(program, body.steps, "  ")


def _buffer(program: Program, body: Body, buffer: Buffer) -> str:
    axes = ", ".join(f"{axis_text(program, axis.axis)}: {axis.extent}" for axis in buffer.axes)
    values = ", ".join(f"%{value}" for value, number in body.materialized if number == buffer.id)
    match buffer.storage:
        case StorageClass.WORKSPACE:
            place = f"workspace at {buffer.offset_bytes}, {buffer.size_bytes} bytes"
        case StorageClass.REGISTER:
            place = "registers"
        case _:
            assert_never(buffer.storage)
    holds = f" holds {values}" if values else ""
    return f"b{buffer.id}: {buffer.dtype.value}[{axes}] in {place}{holds}"


def _steps(program: Program, steps: tuple[Nest | BlockLoop, ...], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case BlockLoop(axis=axis, block=block, body=body):
                yield f"{indent}for {axis_text(program, axis)} by {block}:"
                yield from _steps(program, body, indent + "  ")
            case Nest():
                yield from _nest(program, step, indent)
            case _:
                assert_never(step)


def _nest(program: Program, nest: Nest, indent: str) -> Iterator[str]:
    notes = [f"tail {nest.tail.value}"] if any(loop.lanes > 1 for loop in nest.loops) else []
    notes += [f"{operation} by {variant}" for operation, variant in nest.variants]
    notes += [f"%{value} {transfer.value}" for value, transfer in nest.transfers if transfer is not Transfer.NONE]
    notes += [f"store {s} {transfer.value}" for s, transfer in nest.store_transfers if transfer is not Transfer.NONE]
    yield f"{indent}nest{' (' + ', '.join(notes) + ')' if notes else ''}:"
    for loop in nest.loops:
        indent += "  "
        yield f"{indent}for {_loop(program, loop)}:"
    for sink in nest.sinks:
        yield f"{indent}  {_sink(program, sink)}"


def _loop(program: Program, loop: NestLoop) -> str:
    unrolled = f"{loop.factor} x " if loop.factor > 1 else ""
    lanes = f"{loop.lanes} lanes" if loop.lanes > 1 else "1"
    extent = program.axes[loop.axis].extent
    of = f" of {extent.constant}" if extent.is_constant and program.axes[loop.axis].kind is AxisKind.FULL else ""
    return f"{axis_text(program, loop.axis)}{of} by {unrolled}{lanes}"


def _sink(program: Program, sink: Sink) -> str:
    match sink:
        case StoreTensor(store=number):
            store = [s for s in statements(program.body) if isinstance(s, Store)][number]
            return f"{program.parameters[store.tensor].name}[...] = %{store.value}"
        case StoreBuffer(buffer=buffer, value=value, source=source):
            return f"b{buffer}[...] = " + (f"%{value}" if source is None else f"b{source}[...]")
        case ReduceInto(buffer=buffer, value=value, chains=chains):
            reduce = program.lets()[value].value
            assert isinstance(reduce, Reduce)
            over = ", ".join(axis_text(program, axis) for axis in reduce.axes)
            several = f", {chains} chains" if chains > 1 else ""
            return f"b{buffer}[...] = {reduce.op.value} of %{reduce.body} over {over}{several}"
    assert_never(sink)
