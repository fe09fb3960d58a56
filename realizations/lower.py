"""From a legal candidate to a buffer program: nests with their loops, buffers with their places.
Must not know instructions; it raises where a candidate was not judged legal first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Branch,
    Buffer,
    BufferProgram,
    InlineReduction,
    Nest,
    NestLoop,
    Part,
    ReduceInto,
    Role,
    Sink,
    Step,
    StorageClass,
    StoreBuffer,
    StoreTensor,
    Tail,
    Transfer,
    WhileLoop,
)
from autotune.ir.phases import Phase, PhaseGraph, PhaseKind
from autotune.ir.planners import place
from autotune.ir.program import (
    AxisKind,
    Carried,
    Carry,
    Choice,
    Elementwise,
    Final,
    Joined,
    Program,
    Reduce,
    Reindex,
    Store,
    operands,
    statements,
)
from autotune.ir.types import APPROXIMABLE, DType
from autotune.realizations.candidate import Buffered, Candidate, Clones, Compute, Contribution, Mapping
from autotune.realizations.commit import StateRead, commit_order
from autotune.realizations.layout import laid_out
from autotune.realizations.predicates import known_prefix
from autotune.realizations.ranges import Ranges
from autotune.realizations.regions import Block, Fork, Item, Loop, Trips, sink_regions
from autotune.realizations.storage_class import classified
from autotune.realizations.tiled import tiled


def lower(program: Program, candidate: Candidate) -> BufferProgram:
    """Make every choice of a candidate explicit.

    Before: a bound program and a candidate that `judge` found legal.
    After: nests in program order, buffers placed as `planner` says, bodies as `packet` says.
    """
    view = tiled(program, candidate.tiles)
    program, graph = view.program, view.graph
    blocks = parallel_blocks(program, candidate)
    divisible = all(program.axes[axis].extent.constant % block == 0 for axis, block in blocks)
    cloned = (Role.WHOLE, Role.REST) if candidate.packet is Clones.FULL else (Role.ANY,)
    bodies = []
    workspace = 0
    for role in (Role.WHOLE,) if divisible else cloned:
        body = _BodyLowering(program, graph, candidate, dict(blocks), role).lower()
        buffers, used = place(program, body, candidate.planner)
        bodies.append(replace(body, buffers=buffers))
        workspace = max(workspace, used)
    return BufferProgram(program=program, blocks=blocks, bodies=tuple(bodies), workspace_bytes=workspace)


def parallel_blocks(program: Program, candidate: Candidate) -> tuple[tuple[int, int], ...]:
    """Coordinates a packet takes along each parallel axis; 1 where the candidate names no block."""
    chosen = {tile.axis: tile.block for tile in candidate.tiles}
    return tuple((axis, chosen.get(axis, 1)) for axis in program.parallel)


class _BodyLowering:
    def __init__(
        self, program: Program, graph: PhaseGraph, candidate: Candidate, blocks: dict[int, int], role: Role
    ) -> None:
        self.program = program
        self.graph = graph
        self.candidate = candidate
        self.blocks = blocks
        self.role = role
        self.ranges = Ranges(program)
        self.lets = program.lets()
        self.stores = [s for s in statements(program.body) if isinstance(s, Store)]
        self.storage = dict(candidate.storage)
        self.mapping = dict(candidate.mapping)
        self.compute = dict(candidate.compute)
        self.contribution = dict(candidate.contribution)
        self.nest_of = dict(candidate.nests)
        self.tails = dict(candidate.tail)
        self.transfer = dict(candidate.transfer)
        self.tile_blocks = {tile.axis: tile.block for tile in candidate.tiles}
        self.buffers: list[Buffer] = []
        self.materialized: dict[int, int] = {}

    def lower(self) -> Body:
        steps = self.items(sink_regions(self.program, self.graph, self.candidate), ())
        held = tuple(sorted(self.materialized.items()))
        body = Body(role=self.role, buffers=tuple(self.buffers), materialized=held, steps=steps)
        return replace(body, buffers=classified(self.program, body, self.blocks))

    # ---- axes ---------------------------------------------------------------------------------------------------
    def ranged(self, axis: int, loops: tuple[int, ...]) -> bool:
        """Whether an axis is walked inside the nests of a place, rather than fixed there."""
        kind = self.program.axes[axis].kind
        if kind in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE):
            return self.blocks[axis] > 1
        return kind is AxisKind.FULL or (kind is AxisKind.TILE and axis in loops)

    def extent(self, axis: int) -> int:
        kind = self.program.axes[axis].kind
        if kind in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE):
            return self.blocks[axis]
        whole = self.ranges.most(axis)
        return min(whole, self.tile_blocks[axis]) if kind is AxisKind.TILE else whole

    def buffer(self, value: int, axes: Iterable[int], loops: tuple[int, ...], panel: int = 0) -> int:
        """A new buffer from which a value is read from now on."""
        self.materialized[value] = number = self.unnamed_buffer(self.lets[value].dtype, axes, loops, panel)
        return number

    def unnamed_buffer(self, dtype: DType, axes: Iterable[int], loops: tuple[int, ...], panel: int = 0) -> int:
        """A new buffer, laid out over the given axes that are walked at this place."""
        kept = [(a, self.extent(a)) for a in axes if self.ranged(a, loops)]
        number = len(self.buffers)
        self.buffers.append(
            Buffer(id=number, dtype=dtype, axes=laid_out(kept, panel, dtype.size_bytes), storage=StorageClass.WORKSPACE)
        )
        return number

    def lanes_last(self, phase: Phase, axes: Sequence[int]) -> tuple[int, ...]:
        """Axes of a result in program order, the one across the lanes of its nest contiguous."""
        across = self.mapping[phase.number].axis
        return (*(a for a in axes if a != across), *(a for a in axes if a == across))

    # ---- regions ------------------------------------------------------------------------------------------------
    def items(self, items: Sequence[Item], loops: tuple[int, ...]) -> tuple[Step, ...]:
        steps: list[Step] = []
        for item in items:
            match item:
                case Block(phases=phases):
                    steps.extend(self.block(phases, loops))
                case Loop():
                    steps.extend(self.loop(item, loops))
                case Trips():
                    steps.extend(self.trips(item, loops))
                case Fork():
                    steps.extend(self.fork(item, loops))
                case _:
                    assert_never(item)
        return tuple(steps)

    def block(self, phases: Sequence[Phase], loops: tuple[int, ...]) -> list[Step]:
        drafts: dict[int, list[Phase]] = {}
        for phase in phases:
            drafts.setdefault(self.nest_of[phase.number], []).append(phase)
        return [self.nest(tuple(group), loops) for _, group in sorted(drafts.items())]

    def nest(self, phases: tuple[Phase, ...], loops: tuple[int, ...]) -> Nest:
        sinks = tuple(self.sink(phase, loops) for phase in phases)
        return self.finish_nest(phases, sinks, loops)

    def sink(self, phase: Phase, loops: tuple[int, ...]) -> Sink:
        if phase.store is not None:
            return StoreTensor(store=phase.store)
        assert phase.value is not None
        let = self.lets[phase.value]
        if isinstance(let.value, Reduce) and phase.number not in self.contribution:
            chains = self.compute[phase.number].chains
            axes = self.lanes_last(phase, let.axes)
            return ReduceInto(buffer=self.buffer(let.id, axes, loops), value=let.id, chains=chains)
        if phase.kind is PhaseKind.CONDITION:
            return StoreBuffer(buffer=self.buffer(let.id, let.axes, loops), value=let.id)
        storage = self.storage[phase.number]
        assert isinstance(storage, Buffered)
        return StoreBuffer(buffer=self.buffer(let.id, storage.layout, loops, storage.panel), value=let.id)

    def finish_nest(self, phases: tuple[Phase, ...], sinks: tuple[Sink, ...], loops: tuple[int, ...]) -> Nest:
        first = phases[0].number
        mapping = self.mapping[first]
        compute = self.compute[first]
        domain, reduced = self.domain(sinks, loops)
        inside = self.read_closure(sinks)
        return Nest(
            number=self.nest_of[first],
            loops=tuple(self.nest_loop(axis, mapping, compute) for axis in nest_order(domain, reduced, compute.order)),
            sinks=sinks,
            tail=self.tails.get(self.nest_of[first], Tail.SCALAR),
            variants=self.variants(phases, inside),
            inline=self.inline_reductions(inside),
            transfers=tuple(sorted((v, t) for v, t in self.load_transfers().items() if v in inside)),
            store_transfers=tuple(
                (s.store, self.transfer[p.number])
                for p, s in zip(phases, sinks, strict=True)
                if isinstance(s, StoreTensor) and p.number in self.transfer
            ),
        )

    def nest_loop(self, axis: int, mapping: Mapping, compute: Compute) -> NestLoop:
        factor = dict((b.axis, b.factor) for b in compute.blocks).get(axis, 1)
        return NestLoop(axis=axis, factor=factor, lanes=mapping.lanes if mapping.axis == axis else 1)

    def inline_reductions(self, inside: set[int]) -> tuple[InlineReduction, ...]:
        """The reductions that a nest computes where it uses or stores them."""
        phases = {p.value: p.number for p in self.graph.phases if p.kind is PhaseKind.REDUCTION}
        found = (value for value in sorted(inside) if isinstance(self.lets[value].value, Reduce))
        return tuple(self.inline_reduction(value, self.contribution[phases[value]]) for value in found)

    def inline_reduction(self, value: int, chosen: Contribution) -> InlineReduction:
        reduce = self.lets[value].value
        assert isinstance(reduce, Reduce)
        factors = {block.axis: block.factor for block in chosen.blocks}
        loops = tuple(
            NestLoop(axis=a, factor=factors.get(a, 1), lanes=chosen.lanes if a == chosen.axis else 1)
            for a in reduce.axes
        )
        return InlineReduction(
            value=value, loops=loops, chains=chosen.chains, group=chosen.group, prefetch_bytes=chosen.prefetch_bytes
        )

    def domain(self, sinks: Sequence[Sink], loops: tuple[int, ...]) -> tuple[list[int], set[int]]:
        axes: set[int] = set()
        reduced: set[int] = set()
        for sink in sinks:
            match sink:
                case StoreTensor(store=number):
                    store = self.stores[number]
                    axes.update(*(entry.axes() for entry in store.index), self.lets[store.value].axes)
                case StoreBuffer(value=value):
                    axes.update(self.lets[value].axes)
                case ReduceInto(value=value):
                    reduce = self.lets[value].value
                    assert isinstance(reduce, Reduce)
                    axes.update(self.lets[value].axes, self.lets[reduce.body].axes, reduce.axes)
                    reduced.update(reduce.axes)
        return sorted(a for a in axes if self.ranged(a, loops)), reduced

    def load_transfers(self) -> dict[int, Transfer]:
        return {
            p.value: self.transfer[p.number]
            for p in self.graph.phases
            if p.number in self.transfer and p.value is not None
        }

    def variants(self, phases: Sequence[Phase], inside: set[int]) -> tuple[tuple[str, str], ...]:
        needed = {
            let.value.op.value
            for number in inside
            if isinstance((let := self.lets[number]).value, Elementwise) and let.value.op in APPROXIMABLE
        }
        chosen = dict(self.compute[phases[0].number].variants)
        return tuple(sorted((name, chosen.get(name, "")) for name in needed))

    def read_closure(self, sinks: Sequence[Sink]) -> set[int]:
        """Values computed in a nest: everything its sinks need that no earlier buffer holds."""
        produced = {s.value for s in sinks if isinstance(s, StoreBuffer) and self.materialized.get(s.value) == s.buffer}
        seen: set[int] = set()

        def visit(value: int) -> None:
            if value in seen or (value in self.materialized and value not in produced):
                return
            seen.add(value)
            for operand in operands(self.lets[value].value):
                visit(operand)

        for root in self.roots(sinks):
            visit(root)
        return seen

    def roots(self, sinks: Sequence[Sink]) -> list[int]:
        found: list[int] = []
        for sink in sinks:
            match sink:
                case StoreTensor(store=number):
                    store = self.stores[number]
                    found.extend(v for v in (store.value, store.mask) if v is not None)
                case StoreBuffer(value=value, source=source):
                    if source is None:
                        found.append(value)
                case ReduceInto(value=value):
                    reduce = self.lets[value].value
                    assert isinstance(reduce, Reduce)
                    found.append(reduce.body)
                    if reduce.init is not None:
                        found.append(reduce.init)
        return found

    # ---- loops and branches -------------------------------------------------------------------------------------
    def loop(self, item: Loop, loops: tuple[int, ...]) -> list[Step]:
        """Initial state, the loop, and at the end of each trip the new state."""
        statement = item.statement
        state = self.carry_buffers(item, loops)
        before = self.initial(item, state, loops)
        inner = (*loops, statement.axis)
        body = (*self.items(item.body, inner), *self.commit(item, state, inner))
        ranged = self.program.axes[statement.axis].kind is AxisKind.RANGE
        block = 1 if ranged else self.tile_blocks[statement.axis]
        whole = BlockLoop(axis=statement.axis, block=block, body=body)
        if statement.axis not in self.candidate.predicates:
            return [*before, whole]
        prefix = known_prefix(self.program, statement)
        assert prefix is not None, "judged before"
        bound, assumed = prefix
        head = replace(whole, part=Part.HEAD, bound=bound, assumed=assumed)
        return [*before, head, replace(whole, part=Part.REST, bound=bound)]

    def trips(self, item: Trips, loops: tuple[int, ...]) -> list[Step]:
        """Initial state, then the test and, where it holds, the body and the new state."""
        statement = item.statement
        state = self.carry_buffers(item, loops)
        before = self.initial(item, state, loops)
        inner = (*loops, statement.axis)
        test = self.items(item.test, inner)
        body = (*self.items(item.body, inner), *self.commit(item, state, inner))
        return [*before, WhileLoop(axis=statement.axis, test=test, condition=statement.condition, body=body)]

    def fork(self, item: Fork, loops: tuple[int, ...]) -> list[Step]:
        """The arms, each of which ends with writing what the branch leaves behind; nothing where both are empty."""
        statement = item.statement
        left = [
            self.state_buffer(choice, phase, Joined(branch=statement.branch, slot=slot), loops)
            for slot, (choice, phase) in enumerate(zip(statement.choices, item.joined, strict=True))
        ]

        def arm(items: Sequence[Item], values: Iterable[int]) -> tuple[Step, ...]:
            steps = self.items(items, loops)
            ends = zip(values, left, item.joined, strict=True)
            return (*steps, *(self.copy_nest(value, buffer, phase, loops) for value, buffer, phase in ends))

        then = arm(item.then, (choice.then for choice in statement.choices))
        otherwise = arm(item.otherwise, (choice.otherwise for choice in statement.choices))
        if not then and not otherwise:
            return []
        return [Branch(condition=statement.condition, then=then, otherwise=otherwise)]

    def initial(self, item: Loop | Trips, state: Sequence[int], loops: tuple[int, ...]) -> list[Step]:
        carries = zip(item.statement.carries, state, item.carries, strict=True)
        return [self.copy_nest(carry.initial, buffer, phase, loops) for carry, buffer, phase in carries]

    def carry_buffers(self, item: Loop | Trips, loops: tuple[int, ...]) -> list[int]:
        """A buffer for every state, read during the loop and after it."""
        numbers = []
        axis = item.statement.axis
        for slot, (carry, phase) in enumerate(zip(item.statement.carries, item.carries, strict=True)):
            number = self.state_buffer(carry, phase, Carried(axis=axis, slot=slot), loops)
            self.read_from(Final(axis=axis, slot=slot), number)
            numbers.append(number)
        return numbers

    def state_buffer(self, made: Carry | Choice, phase: Phase, read: Carried | Joined, loops: tuple[int, ...]) -> int:
        """A buffer for what a loop carries or a branch leaves behind, from which it is read from now on."""
        number = self.unnamed_buffer(made.dtype, self.lanes_last(phase, made.axes), loops)
        self.read_from(read, number)
        return number

    def read_from(self, value: Carried | Final | Joined, buffer: int) -> None:
        """Every value of this definition is read from a buffer."""
        self.materialized.update({let.id: buffer for let in self.lets.values() if let.value == value})

    def commit(self, item: Loop | Trips, state: Sequence[int], loops: tuple[int, ...]) -> list[Step]:
        """The new states, staged where they read each other, then committed."""
        statement, phases = item.statement, item.carries
        read = {slot: self.old_states(carry.updated, statement.axis) for slot, carry in enumerate(statement.carries)}
        plan = commit_order(read)
        steps: list[Step] = []
        aside: dict[int, int] = {}
        for slot in plan.aside:
            carry, phase = statement.carries[slot], phases[slot]
            aside[slot] = self.unnamed_buffer(carry.dtype, self.lanes_last(phase, carry.axes), loops)
            steps.append(self.copy_nest(carry.updated, aside[slot], phase, loops))
        for slot in plan.order:
            updated = statement.carries[slot].updated
            if self.materialized.get(updated) == state[slot]:
                continue  # it keeps its state
            steps.append(self.copy_nest(updated, state[slot], phases[slot], loops, aside.get(slot)))
        return steps

    def old_states(self, value: int, axis: int) -> frozenset[StateRead]:
        """Slots of a loop whose old state a new one reads through inline values, and whether at other places than its
        own."""
        found: set[StateRead] = set()
        seen: set[StateRead] = set()

        def visit(number: int, moved: bool) -> None:
            if (number, moved) in seen:
                return
            seen.add((number, moved))
            inner = self.lets[number].value
            if isinstance(inner, Carried):
                if inner.axis == axis:
                    found.add((inner.slot, moved))
                return
            if number in self.materialized:
                return
            moved = moved or isinstance(inner, Reindex | Reduce)
            for operand in operands(inner):
                visit(operand, moved)

        visit(value, False)
        return frozenset(found)

    def copy_nest(
        self, value: int, buffer: int, phase: Phase, loops: tuple[int, ...], source: int | None = None
    ) -> Nest:
        """A nest that writes one value over the axes of a buffer."""
        axes = sorted(entry.axis for entry in self.buffers[buffer].axes)
        mapping, compute = self.mapping[phase.number], self.compute[phase.number]
        sink = StoreBuffer(buffer=buffer, value=value, source=source)
        inside = self.read_closure((sink,))
        return Nest(
            number=self.nest_of[phase.number],
            loops=tuple(self.nest_loop(axis, mapping, compute) for axis in nest_order(axes, set(), compute.order)),
            sinks=(sink,),
            tail=self.tails.get(self.nest_of[phase.number], Tail.SCALAR),
            variants=self.variants((phase,), inside),
            inline=self.inline_reductions(inside),
            transfers=tuple(sorted((v, t) for v, t in self.load_transfers().items() if v in inside)),
        )


def nest_order(domain: Sequence[int], reduced: set[int], first: Sequence[int] = ()) -> tuple[int, ...]:
    """Loops of a nest, outermost first: axes that are not reduced, then the reduced ones.

    Each kind stands in program order, after those of it that `first` names.
    """
    ordered = (*(a for a in first if a in domain), *(a for a in domain if a not in first))
    return (*(a for a in ordered if a not in reduced), *(a for a in ordered if a in reduced))
