"""An independent check of where a body's buffers lie: memory followed write by write, without lifetimes.
Must not share code with the planners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

from autotune.ir.buffer import BlockLoop, Body, Branch, Buffer, Nest, Step, StorageClass, WhileLoop
from autotune.ir.buffer_access import Access, BodyAccess
from autotune.ir.program import Program

BOUNDARY_BYTES = 64


class PlacementRule(Enum):
    """What a placement may break."""

    MISALIGNED = "misaligned"
    OUTSIDE = "outside the workspace"
    NOT_PLACED = "offset outside the workspace class"
    NEST_OVERLAP = "shared bytes inside one nest"
    CLOBBERED = "content overwritten before it is read"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFault:
    """A rule, the buffer that breaks it and, where it takes two, the other one."""

    rule: PlacementRule
    buffer: int
    other: int | None = None
    message: str


def validate_placement(program: Program, body: Body, workspace_bytes: int) -> tuple[PlacementFault, ...]:
    """Everything wrong with the places of a body's buffers, empty where they are right.

    Memory is followed along every path of the body: a write to one buffer destroys each other whose bytes it shares,
    and no nest may read one that is destroyed. Inside one nest no written buffer shares a byte with another.
    """
    faults = [fault for buffer in body.buffers for fault in _own_faults(buffer, workspace_bytes)]
    memory = _Memory(program, body)
    memory.run(body.steps, {})
    return (*faults, *memory.faults)


def _own_faults(buffer: Buffer, workspace_bytes: int) -> Iterator[PlacementFault]:
    start, end = buffer.offset_bytes, buffer.offset_bytes + buffer.size_bytes
    if buffer.storage is not StorageClass.WORKSPACE:
        if start:
            message = f"buffer b{buffer.id} of class {buffer.storage.value} has offset {start}; expected 0"
            yield PlacementFault(rule=PlacementRule.NOT_PLACED, buffer=buffer.id, message=message)
        return
    if start % BOUNDARY_BYTES:
        message = f"buffer b{buffer.id} starts at {start}, which is no multiple of {BOUNDARY_BYTES}"
        yield PlacementFault(rule=PlacementRule.MISALIGNED, buffer=buffer.id, message=message)
    if start < 0 or end > workspace_bytes:
        message = f"buffer b{buffer.id} takes bytes {start} to {end} of a workspace of {workspace_bytes}"
        yield PlacementFault(rule=PlacementRule.OUTSIDE, buffer=buffer.id, message=message)


Destroyed: TypeAlias = dict[int, int]
"""Buffers whose content is gone on some path, each with the buffer whose write did it."""


class _Memory:
    """Walks a body; a path's memory is the set of destroyed buffers."""

    def __init__(self, program: Program, body: Body) -> None:
        self.access = BodyAccess(program, body)
        self.placed = [b for b in body.buffers if b.storage is StorageClass.WORKSPACE]
        self.faults: list[PlacementFault] = []

    def run(self, steps: Sequence[Step], memory: Destroyed) -> Destroyed:
        for step in steps:
            match step:
                case Nest():
                    memory = self.execute(self.access.nest(step), memory)
                case BlockLoop(body=inner):
                    memory = self.repeat((), inner, memory)
                case WhileLoop(test=test, condition=condition, body=inner):
                    memory = self.repeat(test, inner, memory, condition)
                case Branch(condition=condition, then=then, otherwise=otherwise):
                    memory = self.execute(self.access.condition(condition), memory)
                    memory = self.run(then, memory) | self.run(otherwise, memory)
                case _:
                    assert_never(step)
        return memory

    def repeat(
        self, test: Sequence[Step], inner: Sequence[Step], memory: Destroyed, condition: int | None = None
    ) -> Destroyed:
        """Any number of trips: until no path brings a destroyed buffer to the head that was not there before."""
        while True:
            tested = self.run(test, memory)
            if condition is not None:
                tested = self.execute(self.access.condition(condition), tested)
            after = memory | self.run(inner, tested)
            if after.keys() == memory.keys():
                return tested
            memory = after

    def execute(self, access: Access, memory: Destroyed) -> Destroyed:
        for buffer in sorted(access.buffers_read & memory.keys()):
            other = memory[buffer]
            message = f"buffer b{buffer} is read after a write to buffer b{other}, which shares its bytes"
            self.report(PlacementFault(rule=PlacementRule.CLOBBERED, buffer=buffer, other=other, message=message))
        memory = dict(memory)
        for written in sorted(access.writes):
            memory.pop(written, None)
        for written in sorted(access.writes):
            for other in self.sharing(written):
                if other in access.writes | access.buffers_read:
                    message = f"a nest writes buffer b{written}, which shares bytes with its buffer b{other}"
                    rule = PlacementRule.NEST_OVERLAP
                    self.report(PlacementFault(rule=rule, buffer=written, other=other, message=message))
                memory[other] = written
        return memory

    def sharing(self, number: int) -> list[int]:
        """Other placed buffers that have a byte in common with one."""
        mine = [range(b.offset_bytes, b.offset_bytes + b.size_bytes) for b in self.placed if b.id == number]
        found = []
        for other in self.placed:
            theirs = range(other.offset_bytes, other.offset_bytes + other.size_bytes)
            if other.id != number and any(max(m.start, theirs.start) < min(m.stop, theirs.stop) for m in mine):
                found.append(other.id)
        return found

    def report(self, fault: PlacementFault) -> None:
        if fault not in self.faults:
            self.faults.append(fault)
