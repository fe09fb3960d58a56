"""What a measuring worker keeps: memory filled with a case's arguments, loaded kernels, and calls made of both.
Must not know verdicts, races or messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.ir.program import Program, Scalar, Tensor
from autotune.jit import load
from autotune.measure.buffers import (
    ALIGNMENT_BYTES,
    MEMORY_TYPES,
    NAN_POISON,
    Arena,
    ArgumentBlock,
    Array,
    Bytes,
    Edge,
    FencedBuffer,
    Layout,
    Slot,
    Workspace,
    plan_layout,
    view,
)
from autotune.measure.cases import Case, Envelope
from autotune.measure.clock import Call
from autotune.measure.evict import Stretch
from autotune.measure.protocol import Kernel, Subject

KEPT_KERNELS = 16
MOST_COPIES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A kernel in this process; `handle` keeps its code alive."""

    kernel: Kernel
    entry: int
    handle: Any


class Bench:
    """Memory and kernels of one worker process, for one subject."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.arena = Arena(subject.layout)
        self.workspace = Workspace()
        self._arguments = ArgumentBlock()
        program = subject.program
        self.outputs = frozenset(program.stored_tensors())
        self.updated = self.outputs & frozenset(program.loaded_tensors())
        self._kernels: OrderedDict[str, Loaded] = OrderedDict()
        self._fences: dict[Edge, dict[int, FencedBuffer]] = {}
        self._copies = _copies(subject, self.updated)

    def loaded(self, kernel: Kernel) -> Loaded:
        """A kernel ready to run in this process."""
        key = kernel.sha256
        if key not in self._kernels:
            handle = load(kernel.object_bytes, kernel.symbol)
            self._kernels[key] = Loaded(kernel=kernel, entry=handle.address, handle=handle)
            while len(self._kernels) > KEPT_KERNELS:
                self._kernels.popitem(last=False)
        self._kernels.move_to_end(key)
        return self._kernels[key]

    def envelopes_of(self, case: Case) -> dict[str, Envelope]:
        number = next(k for k, c in enumerate(self.subject.cases) if c is case)
        return self.subject.envelopes[number]

    # --- checked calls --------------------------------------------------------------------------------------------

    def fill(self, case: Case, poison: int) -> None:
        """Put a case's arguments into the arena; what is only stored to is poisoned, guards are intact."""
        self.arena.heal()
        for slot in self.subject.layout.slots:
            fill_slot(self.arena.raw(slot), slot, case, poison)

    def checked_call(self, kernel: Loaded, case: Case, poison: int) -> Call:
        """A call on the arena with a poisoned workspace."""
        workspace = self.workspace.prepare(kernel.kernel.workspace_bytes, poison)
        addresses = {s.parameter: self.arena.address(s) for s in self.subject.layout.slots}
        return self._calls([kernel], workspace, [addresses], case)[0]

    def fenced_slots(self, edge: Edge) -> dict[int, FencedBuffer]:
        """Memory of every tensor flush with a page that faults; made once, then reused."""
        if edge not in self._fences:
            self._fences[edge] = {
                s.parameter: FencedBuffer(s.size_bytes, s.dtype.size_bytes, edge) for s in self.subject.layout.slots
            }
        return self._fences[edge]

    def fenced_call(self, kernel: Loaded, case: Case, edge: Edge, workspace: FencedBuffer) -> Call:
        """A call on tensors and workspace that end (or start) where the process may not touch memory."""
        fences = self.fenced_slots(edge)
        for slot in self.subject.layout.slots:
            fill_slot(fences[slot.parameter].raw, slot, case, NAN_POISON)
        addresses = {number: fence.address for number, fence in fences.items()}
        return self._calls([kernel], workspace.address, [addresses], case)[0]

    # --- timed calls ----------------------------------------------------------------------------------------------

    def prepare_timing(self) -> None:
        """Put the normal case into the arena; kernels that passed the gate leave its inputs as they are."""
        self.fill(self.subject.cases[0], NAN_POISON)
        self.refill()

    def timed_calls(self, kernels: Sequence[Loaded]) -> list[Call]:
        """Calls on one arena and one workspace, rotating over copies of the tensors a kernel both reads and writes."""
        workspace = self.workspace.prepare(max(k.kernel.workspace_bytes for k in kernels), NAN_POISON)
        shared = {s.parameter: self.arena.address(s) for s in self.subject.layout.slots}
        rotated = [shared | {s.parameter: c.address(s) for s in c.layout.slots} for c in self._copies] or [shared]
        return self._calls(kernels, workspace, rotated, self.subject.cases[0])

    def cold_stretches(self) -> list[Stretch]:
        """Where the tensors lie that a cold call finds in no cache: the first copy of those that have several."""
        first = {s.parameter: (self.arena, s) for s in self.subject.layout.slots}
        if self._copies:
            first |= {s.parameter: (self._copies[0], s) for s in self._copies[0].layout.slots}
        placed = [first[number] for number in self.subject.cold]
        return [Stretch(address=arena.address(slot), size_bytes=slot.size_bytes) for arena, slot in placed]

    @property
    def needs_refill(self) -> bool:
        return bool(self._copies)

    def refill(self) -> None:
        """Restore the copies of what a kernel both reads and writes."""
        for copy in self._copies:
            for slot in copy.layout.slots:
                fill_slot(copy.raw(slot), slot, self.subject.cases[0], NAN_POISON)

    def working_set_bytes(self, kernel: Kernel) -> int:
        """Bytes that repeated calls of a kernel touch."""
        copies = sum(c.layout.data_bytes for c in self._copies)
        return self.subject.layout.data_bytes + copies + kernel.workspace_bytes

    def _calls(
        self, kernels: Sequence[Loaded], workspace: int, addresses: list[dict[int, int]], case: Case
    ) -> list[Call]:
        """Calls of kernels that differ in their code only; they hold until others are made."""
        tables = self._arguments.write([argument_slots(self.subject.program, a, case) for a in addresses])
        return [
            Call(
                entry=kernel.entry,
                tables=tables,
                copies=len(addresses),
                workspace=workspace,
                packets=kernel.kernel.packets,
            )
            for kernel in kernels
        ]


def fill_slot(raw: Bytes, slot: Slot, case: Case, poison: int) -> None:
    """Poison a tensor's bytes, gaps between its rows included, and put its argument there if it has one."""
    argument = case.arguments.get(slot.name)
    if argument is None or _has_gaps(slot):
        raw[:] = poison
    if argument is not None:
        view(raw, slot)[...] = argument


def _has_gaps(slot: Slot) -> bool:
    return slot.size_bytes != int(np.prod(slot.shape, dtype=np.int64)) * slot.dtype.size_bytes


def gaps_intact(raw: Bytes, slot: Slot, poison: int) -> bool:
    """Whether the bytes between a strided tensor's elements still are poison."""
    if not _has_gaps(slot):
        return True
    probe = raw.copy()
    view(probe, slot)[...] = np.full(slot.dtype.size_bytes, poison, np.uint8).view(MEMORY_TYPES[slot.dtype])[0]
    return bool(np.all(probe == poison))


def argument_slots(program: Program, addresses: dict[int, int], case: Case) -> Array:
    """The entry's `args`: one 64-bit slot a tensor pointer, then one a scalar with its bytes lowest."""
    tensors = [addresses[k] for k, p in enumerate(program.parameters) if isinstance(p, Tensor)]
    scalars = [p for p in program.parameters if isinstance(p, Scalar)]
    slots = np.zeros(max(len(tensors) + len(scalars), 1), dtype=np.uint64)
    slots[: len(tensors)] = tensors
    for k, scalar in enumerate(scalars, start=len(tensors)):
        value = np.array([case.arguments[scalar.name]], dtype=MEMORY_TYPES[scalar.dtype])
        slots[k : k + 1].view(np.uint8)[: value.nbytes] = value.view(np.uint8)
    return slots


def _copies(subject: Subject, updated: frozenset[int]) -> list[Arena]:
    """Copies of in-out tensors: as many as stay in half of L2, one at least."""
    if not updated:
        return []
    layout: Layout = plan_layout(subject.program, updated, subject.alignment_bytes)
    count = max(1, min(MOST_COPIES, subject.l2_bytes // 2 // max(layout.size_bytes, ALIGNMENT_BYTES)))
    return [Arena(layout) for _ in range(count)]
