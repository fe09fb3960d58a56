"""Where values live and which phases share a nest: refusals.
Must not know costs or instructions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import ClassVar

from autotune.ir.buffer import Body, BufferProgram, ReduceInto, StorageClass, StoreTensor, Tail, Transfer
from autotune.ir.ownership import truth_values
from autotune.ir.phases import Phase, PhaseGraph, PhaseKind
from autotune.ir.program import Elementwise, Load, Reindex, Store
from autotune.ir.types import DType
from autotune.realizations.candidate import Buffered, Candidate
from autotune.realizations.context import LoadAccess, NestContext, Place, ProgramFacts
from autotune.realizations.tensor_access import may_meet
from autotune.realizations.verdict import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutAxesDiffer(Refusal):
    rule: ClassVar[str] = "layout-axes-differ"
    phase: int
    layout: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return f"phase p{self.phase} has axes {self.axes}, but its buffer is laid out over {self.layout}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLost(Refusal):
    rule: ClassVar[str] = "snapshot-lost"
    value: int
    tensor: int

    @property
    def sentence(self) -> str:
        return (
            f"load %{self.value} would be read again after tensor t{self.tensor} was overwritten; "
            "it has to be copied where it is defined"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsUnfinishedStore(Refusal):
    rule: ClassVar[str] = "reads-unfinished-store"
    value: int
    tensor: int

    @property
    def sentence(self) -> str:
        return f"load %{self.value} reads what its own nest writes to tensor t{self.tensor}; it needs a later nest"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoresMayMeet(Refusal):
    rule: ClassVar[str] = "stores-may-meet"
    tensor: int
    stores: tuple[int, int]

    @property
    def sentence(self) -> str:
        return (
            f"stores {self.stores[0]} and {self.stores[1]} may write the same element of tensor t{self.tensor} "
            "at different points of one nest; they need nests of their own"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsUnfinishedReduction(Refusal):
    rule: ClassVar[str] = "reads-unfinished-reduction"
    value: int

    @property
    def sentence(self) -> str:
        return f"reduction %{self.value} is finished and used in one nest; its users need a later nest"


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainsDisagree(Refusal):
    rule: ClassVar[str] = "domains-disagree"
    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return f"sinks over axes {self.left} and {self.right} cannot share a nest"


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelCrossed(Refusal):
    rule: ClassVar[str] = "panel-crossed"
    axis: int
    lanes: int
    panel: int

    @property
    def sentence(self) -> str:
        return f"{self.lanes} lanes along axis a{self.axis} may not lie within one panel of {self.panel} coordinates"


@dataclass(frozen=True, slots=True, kw_only=True)
class NestsOutOfOrder(Refusal):
    rule: ClassVar[str] = "nests-out-of-order"
    phase: int
    nest: int

    @property
    def sentence(self) -> str:
        return f"phase p{self.phase} stands in nest {self.nest}, before a nest that the program needs first"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceTooLarge(Refusal):
    rule: ClassVar[str] = "workspace-too-large"
    needed_bytes: int
    limit_bytes: int

    @property
    def sentence(self) -> str:
        return (
            f"buffers take {self.needed_bytes} bytes of workspace; at most {self.limit_bytes} (half of L2) are allowed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceMissing(Refusal):
    rule: ClassVar[str] = "choice-missing"
    phase: int
    what: str

    @property
    def sentence(self) -> str:
        return f"phase p{self.phase} writes a result, but the candidate names no {self.what} for it"


def refuse_missing(candidate: Candidate, sinks: Iterable[int]) -> Iterator[Refusal]:
    """Every phase that writes has a nest, a mapping, a register block and a tail."""
    nests, tails = dict(candidate.nests), dict(candidate.tail)
    for phase in sinks:
        known = (("nest", nests), ("mapping", dict(candidate.mapping)), ("register block", dict(candidate.compute)))
        for what, table in known:
            if phase not in table:
                yield ChoiceMissing(phase=phase, what=what)
        if phase in nests and nests[phase] not in tails:
            yield ChoiceMissing(phase=phase, what="tail")


def refuse_layouts(facts: ProgramFacts, candidate: Candidate, axes_of: dict[int, tuple[int, ...]]) -> Iterator[Refusal]:
    """A buffer is laid out over exactly the axes of its value."""
    for phase, storage in candidate.storage:
        if isinstance(storage, Buffered) and sorted(storage.layout) != sorted(axes_of[phase]):
            yield LayoutAxesDiffer(phase=phase, layout=storage.layout, axes=axes_of[phase])


def refuse_nest_order(graph: PhaseGraph, candidate: Candidate) -> Iterator[Refusal]:
    """A nest comes after those whose results it needs, and stores keep their order; regions follow each other."""
    nests = dict(candidate.nests)
    reached = _results_needed(graph, nests)
    highest, before, stored = -1, -1, -1
    last_region: tuple[object, ...] | None = None
    for phase, nest in candidate.nests:
        region = graph.phases[phase].region, graph.phases[phase].arms
        if region != last_region:
            last_region, before = region, highest
        is_store = graph.phases[phase].store is not None
        floor = max((nests[source] for source in reached[phase]), default=-1)
        if nest < floor or nest < before or (is_store and nest < stored):
            yield NestsOutOfOrder(phase=phase, nest=nest)
        highest = max(highest, nest)
        stored = max(stored, nest) if is_store else stored


def _results_needed(graph: PhaseGraph, nests: Mapping[int, int]) -> dict[int, frozenset[int]]:
    """For every phase the sinks whose results it needs, through values computed where they are used."""
    found: dict[int, frozenset[int]] = {}
    for phase in graph.phases:
        needed: set[int] = set()
        for edge in graph.inputs(phase.number):
            if edge.carried or graph.phases[edge.source].kind is PhaseKind.CARRY:
                continue
            needed |= {edge.source} if edge.source in nests else found.get(edge.source, frozenset())
        found[phase.number] = frozenset(needed)
    return found


def refuse_nest(context: NestContext) -> Iterator[Refusal]:
    """Rules on the sinks that share one nest."""
    for value in sorted(context.read_reductions):
        yield ReadsUnfinishedReduction(value=value)
    domains = [context.domain(sink) for sink in context.nest.sinks]
    for domain in domains[1:]:
        if domain != domains[0]:
            yield DomainsDisagree(left=tuple(sorted(domains[0])), right=tuple(sorted(domain)))
    reduced = [frozenset(context.reduce(s).axes) for s in context.nest.sinks if isinstance(s, ReduceInto)]
    for axes in reduced[1:]:
        if axes != reduced[0]:
            yield DomainsDisagree(left=tuple(sorted(reduced[0])), right=tuple(sorted(axes)))
    yield from refuse_meeting_stores(context)
    yield from refuse_panels(context)


def refuse_panels(context: NestContext) -> Iterator[Refusal]:
    """Vectors along an axis that is cut into panels lie within one: they divide it and start at multiples of it."""
    written = {s.buffer for s in context.nest.sinks if not isinstance(s, StoreTensor)}
    loops = (*context.nest.loops, *(loop for spec in context.nest.inline for loop in spec.loops))
    across = [loop for loop in loops if loop.lanes > 1]
    moved = {let.value.source for let in context.computed if isinstance(let.value, Reindex)}
    overlapped = context.nest.tail is Tail.OVERLAP
    for number in sorted(written | context.buffers_read):
        for entry in context.body.buffers[number].axes:
            for loop in across if entry.panel else ():
                along = loop.axis == entry.axis or entry.axis in moved
                if along and (entry.panel % loop.lanes or overlapped):
                    yield PanelCrossed(axis=loop.axis, lanes=loop.lanes, panel=entry.panel)


def refuse_snapshots(contexts: Sequence[NestContext]) -> Iterator[Refusal]:
    """A load sees every store before it in the program and none after it."""
    for writing, writer in enumerate(contexts):
        for sink, stored in enumerate(writer.nest.sinks):
            if not isinstance(stored, StoreTensor):
                continue
            store = writer.facts.stores[stored.store]
            if store.tensor not in writer.facts.in_out:
                continue
            for reading, reader in enumerate(contexts):
                for access in reader.accesses:
                    if access.load.tensor == store.tensor:
                        yield from _refuse_order(writer, writing, sink, store, reader, reading, access)


def _refuse_order(
    writer: NestContext,
    writing: int,
    sink: int,
    store: Store,
    reader: NestContext,
    reading: int,
    access: LoadAccess,
) -> Iterator[Refusal]:
    facts = writer.facts
    load, there = facts.place(access.let), facts.place(store)
    if load.position > there.position:
        if reading <= writing and reader is writer:
            yield ReadsUnfinishedStore(value=access.let.id, tensor=store.tensor)
        return
    together = [a for a, b in zip(writer.loops_around, reader.loops_around, strict=False) if a == b]
    later_trip = any(axis not in load.loops for axis in together)
    if reading > writing or later_trip or (reader is writer and not _reads_first(writer, sink, store, access)):
        yield SnapshotLost(value=access.let.id, tensor=store.tensor)


def _reads_first(context: NestContext, sink: int, store: Store, access: LoadAccess) -> bool:
    """Whether a nest evaluates a load at each point before the store there, and no other point's store reaches it."""
    if access.moved or access.load.index != store.index:
        return False
    if access.within is not None and access.axes & {loop.axis for loop in context.inline[access.within].loops}:
        return False  # a reduction reads every place at each point
    sinks = context.nest.sinks
    early = {v for s in sinks[: sink + 1] for v in context.computed_for(context.at_points(s))}
    late = {v for s in sinks for v in context.computed_for(context.at_end(s))}
    return access.let.id in early and access.let.id not in late


def refuse_meeting_stores(context: NestContext) -> Iterator[Refusal]:
    """Stores to one tensor in one nest happen in program order at every element."""
    transfers = dict(context.nest.store_transfers)
    sinks = [s.store for s in context.nest.sinks if isinstance(s, StoreTensor)]
    for left, right in combinations(sinks, 2):
        first, second = context.facts.stores[left], context.facts.stores[right]
        if first.tensor != second.tensor:
            continue
        postponed = [transfers.get(s) is Transfer.TRANSPOSE for s in (left, right)]
        in_step = first.index == second.index and postponed[0] == postponed[1]
        if not in_step and may_meet(first.index, second.index, context.facts.ranges):
            yield StoresMayMeet(tensor=first.tensor, stores=(left, right))


def forced_copies(facts: ProgramFacts, graph: PhaseGraph) -> frozenset[int]:
    """Load phases that have to be copied where they stand: some user comes after a store to their tensor."""
    sinks = dict(_users_of_loads(graph))
    found: set[int] = set()
    for phase in graph.phases:
        if phase.kind is not PhaseKind.LOAD or phase.value is None:
            continue
        let = facts.lets[phase.value]
        assert isinstance(let.value, Load)
        load = facts.place(let)
        for store in facts.stores:
            there = facts.place(store)
            if store.tensor != let.value.tensor or there.position < load.position:
                continue
            users = [graph.phases[number] for number in sinks.get(phase.number, ())]
            if any(_comes_late(facts, user, store, load) for user in users):
                found.add(phase.number)
    return frozenset(found)


def _users_of_loads(graph: PhaseGraph) -> Iterator[tuple[int, frozenset[int]]]:
    """For every load the phases that write and reach it through inline values."""
    passing = (PhaseKind.LOAD, PhaseKind.ELEMENTWISE)
    reached: dict[int, frozenset[int]] = {}
    for phase in reversed(graph.phases):
        targets: set[int] = set()
        for edge in graph.outputs(phase.number):
            inline = graph.phases[edge.target].kind in passing
            targets |= reached.get(edge.target, frozenset()) if inline else {edge.target}
        reached[phase.number] = frozenset(targets)
        if phase.kind is PhaseKind.LOAD:
            yield phase.number, reached[phase.number]


def _comes_late(facts: ProgramFacts, user: Phase, store: Store, load: Place) -> bool:
    there = facts.place(store)
    if any(axis not in load.loops for axis in there.loops if axis in user.region):
        return True
    if user.store is not None:
        return facts.place(facts.stores[user.store]).position > there.position
    if user.value is not None:
        return facts.place(facts.definitions[user.value]).position > there.position
    return True


def refuse_workspace(facts: ProgramFacts, plan: BufferProgram) -> Iterator[Refusal]:
    """Private buffers fit half of the second-level cache; what no candidate can do without is let through."""
    limit = facts.target.l2_bytes // 2
    needed = max(plan.workspace_bytes + _stack_bytes(body) for body in plan.bodies)
    if needed <= limit:
        return
    few = prod(block for _, block in plan.blocks) <= facts.target.lanes(DType.F32)
    if not few or any(_optional(facts, body) for body in plan.bodies):
        yield WorkspaceTooLarge(needed_bytes=needed, limit_bytes=limit)


def _stack_bytes(body: Body) -> int:
    return sum(buffer.size_bytes for buffer in body.buffers if buffer.storage is StorageClass.STACK)


def _optional(facts: ProgramFacts, body: Body) -> bool:
    """Whether some buffer holds a value that could be computed where it is used."""
    deciding = truth_values(facts.program)
    rewritten = facts.in_out
    for value, _ in body.materialized:
        inner = facts.lets[value].value
        if value in deciding:
            continue
        if isinstance(inner, Load) and inner.tensor not in rewritten:
            return True
        if isinstance(inner, Elementwise | Reindex):
            return True
    return False
