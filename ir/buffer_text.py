"""Buffer programs as text for people: buffers with their places and layouts, then the steps, indented.
Must not judge what it prints; `buffer_verify.py` does, and JSON is what is read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Branch,
    Buffer,
    BufferAxis,
    BufferProgram,
    InlineReduction,
    Nest,
    NestLoop,
    Part,
    ReduceInto,
    Sink,
    Step,
    StorageClass,
    StoreBuffer,
    StoreTensor,
    WhileLoop,
)
from autotune.ir.program import AxisKind, Reduce, Store, statements
from autotune.ir.text import show_affine

BufferItem: TypeAlias = BufferProgram | Body | Buffer | Step | Sink | InlineReduction


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferLine:
    """One line of text and what it shows."""

    text: str
    item: BufferItem


def print_buffer_program(plan: BufferProgram) -> str:
    """A buffer program as text: axes are a0, a1, …, values %0, %1, …, buffers b0, b1, …, as in the canonical program.

    Reductions behind a sink are shown with what they do; the program's own text defines every value.
    """
    return "".join(f"{line.text}\n" for line in buffer_lines(plan))


def buffer_lines(plan: BufferProgram) -> tuple[BufferLine, ...]:
    """The lines of `print_buffer_program`, each with the part of the buffer program it shows."""
    return tuple(_Printer(plan).lines())


class _Printer:
    def __init__(self, plan: BufferProgram) -> None:
        self.plan = plan
        self.program = plan.program
        self.lets = plan.program.lets()
        self.stores = [s for s in statements(plan.program.body) if isinstance(s, Store)]

    def lines(self) -> Iterator[BufferLine]:
        plan = self.plan
        for text in self.heading():
            yield BufferLine(text=text, item=plan)
        for body in plan.bodies:
            yield BufferLine(text=f"body {body.role.value}", item=body)
            for buffer in body.buffers:
                held = [f"%{value}" for value, number in body.materialized if number == buffer.id]
                content = f" holds {', '.join(held)}" if held else ""
                yield BufferLine(text=f"  {self.buffer(buffer)}{content}", item=buffer)
            yield from self.steps(body.steps, "  ")

    def heading(self) -> Iterator[str]:
        plan, blocks = self.plan, dict(self.plan.blocks)
        yield f'buffer program "{self.program.name}"'
        for axis in self.program.axes:
            extent = show_affine(self.program, axis.extent)
            block = f" in blocks of {blocks[axis.id]}" if axis.id in blocks else ""
            kind = "" if axis.kind is AxisKind.WHILE else f" {extent}"
            yield f"  axis a{axis.id} {axis.name or '_'} : {axis.kind.value}{kind}{block}"
        yield f"  workspace {plan.workspace_bytes} bytes"

    # --- buffers --------------------------------------------------------------------------------------------------
    def buffer(self, buffer: Buffer) -> str:
        place = f" @{buffer.offset_bytes}" if buffer.storage is StorageClass.WORKSPACE else ""
        layout = ", ".join(self.layout(axis) for axis in buffer.axes)
        size = f"{buffer.size_bytes} bytes"
        return f"b{buffer.id} : {buffer.dtype.value}[{layout}] {buffer.storage.value}{place} {size}"

    def layout(self, axis: BufferAxis) -> str:
        panels = f" panels {axis.panel} stride {axis.panel_stride}" if axis.panel else ""
        return f"a{axis.axis} {axis.extent} stride {axis.stride}{panels}"

    # --- steps ----------------------------------------------------------------------------------------------------
    def steps(self, steps: Sequence[Step], indent: str) -> Iterator[BufferLine]:
        deeper = indent + "  "
        for step in steps:
            match step:
                case Nest():
                    yield from self.nest(step, indent)
                case BlockLoop(body=body):
                    yield BufferLine(text=indent + self.block_loop(step), item=step)
                    yield from self.steps(body, deeper)
                case WhileLoop(axis=axis, test=test, condition=condition, body=body):
                    yield BufferLine(text=f"{indent}while a{axis}", item=step)
                    yield from self.steps(test, deeper)
                    yield BufferLine(text=f"{indent}do if %{condition}", item=step)
                    yield from self.steps(body, deeper)
                case Branch(condition=condition, then=then, otherwise=otherwise):
                    yield BufferLine(text=f"{indent}if %{condition}", item=step)
                    yield from self.steps(then, deeper)
                    if otherwise:
                        yield BufferLine(text=f"{indent}else", item=step)
                        yield from self.steps(otherwise, deeper)
                case _:
                    assert_never(step)

    def block_loop(self, loop: BlockLoop) -> str:
        bound = "" if loop.bound is None else f" {show_affine(self.program, loop.bound)}"
        words = {Part.ALL: "", Part.HEAD: f" up to{bound}", Part.REST: f" from{bound}"}
        assumed = "".join(f" %{value}" for value in loop.assumed)
        return f"blocks a{loop.axis} by {loop.block}{words[loop.part]}{f' assuming{assumed}' if assumed else ''}"

    def nest(self, nest: Nest, indent: str) -> Iterator[BufferLine]:
        yield BufferLine(text=f"{indent}nest {nest.number} tail {nest.tail.value}{self.choices(nest)}", item=nest)
        for loop in nest.loops:
            indent += "  "
            yield BufferLine(text=indent + self.loop(loop), item=nest)
        for inline in nest.inline:
            yield BufferLine(text=f"{indent}  {self.inline(inline)}", item=inline)
        for sink in nest.sinks:
            yield BufferLine(text=f"{indent}  {self.sink(sink)}", item=sink)

    def choices(self, nest: Nest) -> str:
        variants = "".join(f" {name}={variant or 'exact'}" for name, variant in nest.variants)
        loads = "".join(f" %{value} {transfer.value}" for value, transfer in nest.transfers)
        stores = "".join(f" store {store} {transfer.value}" for store, transfer in nest.store_transfers)
        transfers = f" transfer{loads}{stores}" if loads or stores else ""
        return f"{f' variants{variants}' if variants else ''}{transfers}"

    def loop(self, loop: NestLoop) -> str:
        lanes = f"x{loop.lanes}" if loop.lanes > 1 else ""
        step = f" step {loop.factor}{lanes}" if loop.step > 1 else ""
        return f"for a{loop.axis}{step}"

    def inline(self, inline: InlineReduction) -> str:
        loops = "".join(f" {self.loop(loop)}" for loop in inline.loops)
        chains = f" chains {inline.chains}" if inline.chains > 1 else ""
        group = f" group {inline.group}" if inline.group > 1 else ""
        return f"inline %{inline.value} = {self.operation(inline.value)}{loops}{chains}{group}"

    def sink(self, sink: Sink) -> str:
        match sink:
            case StoreTensor(store=number):
                if not 0 <= number < len(self.stores):
                    return f"store {number}?"
                store = self.stores[number]
                name = self.program.parameters[store.tensor].name
                index = ", ".join(show_affine(self.program, entry) for entry in store.index)
                mask = "" if store.mask is None else f" mask %{store.mask}"
                return f"{name}[{index}] = %{store.value}{mask}"
            case StoreBuffer(buffer=buffer, value=value, source=source):
                return f"b{buffer} = %{value}{'' if source is None else f' from b{source}'}"
            case ReduceInto(buffer=buffer, value=value, chains=chains):
                several = f" chains {chains}" if chains > 1 else ""
                return f"b{buffer} = %{value} = {self.operation(value)}{several}"
            case _:
                assert_never(sink)

    def operation(self, value: int) -> str:
        """A reduction in short; whatever is no reduction, which only an invalid program names here, as it is."""
        let = self.lets.get(value)
        if let is None or not isinstance(let.value, Reduce):
            return "?"
        reduce = let.value
        over = "".join(f" a{axis}" for axis in reduce.axes)
        start = "" if reduce.init is None else f" init %{reduce.init}"
        return f"{reduce.op.value} %{reduce.body} over{over}{start}"
