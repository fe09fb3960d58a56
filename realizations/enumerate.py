"""The choices of a program: structures, and per-nest tables of choices for each.
Must not know costs; what it yields is judged elsewhere, and some of it is illegal on purpose of being named so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import prod

from autotune.ir.affine import Affine
from autotune.ir.buffer import Tail, Transfer
from autotune.ir.phases import Phase, PhaseGraph, PhaseKind
from autotune.ir.program import AxisKind, For, Indirect, Load, Reduce, statements
from autotune.ir.types import DType
from autotune.realizations import compute, vector_math
from autotune.realizations.candidate import Block, Buffered, Clones, Direct, Inline, Storage, Tile
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.mapping import lanes_of
from autotune.realizations.regions import Block as RegionBlock
from autotune.realizations.regions import Item, Loop, possible_sinks
from autotune.realizations.storage import forced_copies
from autotune.realizations.structure import NestChoice, Structure
from autotune.realizations.tensor_access import flatten

ROW_BLOCKS = (1, 2, 4, 8)
PACKET_VECTORS = (1, 2, 4)
MAX_UNROLLED_POINTS = 16
TILE_BLOCKS = (64, 256, 1024, 4096)


class Enumerator:
    """Enumerates structures of one program on one target."""

    def __init__(self, facts: ProgramFacts, graph: PhaseGraph) -> None:
        self.facts = facts
        self.program = facts.program
        self.graph = graph
        self.phases = graph.phases
        self.items = possible_sinks(self.program, graph)

    # ---- structures ---------------------------------------------------------------------------------------------
    def structures(self) -> Iterator[Structure]:
        """Every structure, in a fixed order."""
        for tiles, lane_axis, packed_axis in self.mappings():
            partial = any(
                self.program.axes[t.axis].extent.constant % t.block for t in tiles if t.axis in self.program.parallel
            )
            for storage in self.storages(lane_axis, packed_axis):
                for nests in self.partitions(storage, packed_axis):
                    for transfer in self.transfers(lane_axis):
                        for packet in (Clones.FULL, Clones.GENERAL) if partial else (Clones.GENERAL,):
                            yield Structure(
                                tiles=tiles,
                                lane_axis=lane_axis,
                                packed_axis=packed_axis,
                                storage=storage,
                                nests=nests,
                                transfer=transfer,
                                packet=packet,
                            )

    def mappings(self) -> Iterator[tuple[tuple[Tile, ...], int | None, int | None]]:
        """Blocks of all tile loops with the lane axis and the packed axis."""
        for loop_tiles in self.loop_tiles():
            for lane_axis in self.team_axes():
                for tile in self.row_blocks():
                    packed = tile.axis if tile and tile.block > 1 else None
                    yield ((*loop_tiles, tile) if tile else loop_tiles), lane_axis, packed
            for tile in self.packets():
                yield (*loop_tiles, tile), tile.axis, tile.axis
            yield (*loop_tiles, *self.whole_program_tiles()), None, None

    def loop_tiles(self) -> Iterator[tuple[Tile, ...]]:
        """Block sizes of the sequential tile loops."""
        tables = []
        for statement in statements(self.program.body):
            if isinstance(statement, For) and self.program.axes[statement.axis].kind is AxisKind.TILE:
                extent = max(1, self.facts.ranges.most(statement.axis))
                blocks = sorted({min(b, extent) for b in TILE_BLOCKS} | {extent})
                tables.append([Tile(axis=statement.axis, block=b) for b in blocks])
        yield from (tuple(tiles) for tiles in product(*tables))

    def whole_program_tiles(self) -> tuple[Tile, ...]:
        return tuple(
            Tile(axis=a, block=min(8, max(1, self.program.axes[a].extent.constant)))
            for a in self.program.parallel
            if self.program.axes[a].kind is AxisKind.PROGRAM_TILE
        )

    def team_axes(self) -> tuple[int, ...]:
        """Axes inside a program that some sink walks."""
        walked: set[int] = set()
        for phase in self.phases:
            walked.update(phase.axes, phase.contribution)
        inside = (AxisKind.FULL, AxisKind.TILE)
        return tuple(a for a in sorted(walked) if self.program.axes[a].kind in inside)

    def row_blocks(self) -> Iterator[Tile | None]:
        """How many programs a packet joins where the lanes run inside a program: along the last parallel axis."""
        axis = self.program.parallel[-1]
        extent = self.program.axes[axis].extent.constant
        for block in ROW_BLOCKS:
            if block <= max(1, extent):
                yield Tile(axis=axis, block=block)

    def packets(self) -> Iterator[Tile]:
        """Packets whose programs run across the lanes."""
        native = self.facts.target.lanes(DType.F32)
        for axis in self.program.parallel:
            extent = self.program.axes[axis].extent.constant
            sizes = [native * vectors for vectors in PACKET_VECTORS if native * vectors <= extent]
            sizes = sizes or [lanes for lanes in lanes_of(self.facts.target) if lanes <= extent][:1]
            for size in sizes:
                yield Tile(axis=axis, block=size)

    # ---- storage ------------------------------------------------------------------------------------------------
    def storages(self, lane_axis: int | None, packed_axis: int | None) -> Iterator[tuple[tuple[int, Storage], ...]]:
        """Which shared values are kept in private memory: none, one, or two that are not loads."""
        base: dict[int, Storage] = {}
        for phase in self.phases:
            if phase.kind is PhaseKind.LOAD:
                base[phase.number] = Direct()
            elif phase.kind is PhaseKind.ELEMENTWISE:
                base[phase.number] = Inline()
        for number in forced_copies(self.facts, self.graph):
            base[number] = Buffered(layout=self.layout(self.phases[number], lane_axis))
        yield tuple(sorted(base.items()))
        if lane_axis is None:
            return
        worth = [p for p in self.phases if self.worth_a_buffer(p, packed_axis)]
        pairs = combinations((p for p in worth if p.kind is PhaseKind.ELEMENTWISE), 2)
        for chosen in (*((p,) for p in worth), *pairs):
            storage = dict(base)
            for phase in chosen:
                storage[phase.number] = Buffered(layout=self.layout(phase, lane_axis))
            yield tuple(sorted(storage.items()))

    def worth_a_buffer(self, phase: Phase, packed_axis: int | None) -> bool:
        """Values that several sinks may read; numbers one a program only where programs are packed."""
        if phase.kind not in (PhaseKind.LOAD, PhaseKind.ELEMENTWISE):
            return False
        if self.per_program(phase):
            return phase.kind is PhaseKind.ELEMENTWISE and packed_axis in phase.axes
        return self.users(phase.number) > 1

    def per_program(self, phase: Phase) -> bool:
        return all(axis in self.program.parallel for axis in phase.axes)

    def users(self, phase: int) -> int:
        """Sinks that need a phase through inline values, were nothing buffered."""
        found: set[int] = set()
        pending = [phase]
        seen: set[int] = set()
        while pending:
            current = pending.pop()
            for edge in self.graph.outputs(current):
                target = self.phases[edge.target]
                if target.kind in (PhaseKind.LOAD, PhaseKind.ELEMENTWISE):
                    if target.number not in seen:
                        seen.add(target.number)
                        pending.append(target.number)
                else:
                    found.add(target.number)
        return len(found)

    def layout(self, phase: Phase, lane_axis: int | None) -> tuple[int, ...]:
        """Axes of a buffer: in program order, the lane axis contiguous."""
        rest = [a for a in phase.axes if a != lane_axis]
        return (*rest, lane_axis) if lane_axis is not None and lane_axis in phase.axes else tuple(rest)

    # ---- fusion -------------------------------------------------------------------------------------------------
    def partitions(
        self, storage: Sequence[tuple[int, Storage]], packed_axis: int | None
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """Nest numbers of the sinks: every sink by itself, and sinks joined wherever their domains agree."""
        buffered = {p for p, s in storage if isinstance(s, Buffered)}
        seen = set()
        for fused in (True, False):
            numbers: dict[int, int] = {}
            self._number(self.items, buffered, fused, packed_axis, numbers)
            key = tuple(sorted(numbers.items()))
            if key not in seen:
                seen.add(key)
                yield key

    def _number(
        self, items: Sequence[Item], buffered: set[int], fused: bool, packed_axis: int | None, numbers: dict[int, int]
    ) -> None:
        for item in items:
            match item:
                case RegionBlock(phases=phases):
                    group: list[Phase] = []
                    for phase in phases:
                        if phase.kind not in (PhaseKind.REDUCTION, PhaseKind.STORE) and phase.number not in buffered:
                            continue
                        if not (fused and group and self.joins(phase, group, packed_axis)):
                            group = []
                        group.append(phase)
                        start = len(group) == 1
                        numbers[phase.number] = max(numbers.values(), default=-1) + (1 if start else 0)
                case Loop(carries=carries, body=body):
                    for phase in carries:
                        numbers[phase.number] = max(numbers.values(), default=-1) + 1
                    self._number(body, buffered, fused, packed_axis, numbers)

    def joins(self, phase: Phase, group: Sequence[Phase], packed_axis: int | None) -> bool:
        """Whether a sink may share the nest of earlier ones: same axes, same reduction, no unfinished result read."""
        if self.walked(phase, packed_axis) != self.walked(group[0], packed_axis):
            return False
        reductions = [p for p in group if p.kind is PhaseKind.REDUCTION]
        if phase.kind is PhaseKind.REDUCTION and any(p.contribution != phase.contribution for p in reductions):
            return False
        return not any(self.needs(phase.number, r.number) for r in reductions)

    def walked(self, phase: Phase, packed_axis: int | None) -> frozenset[int]:
        axes = {*phase.axes, *phase.contribution}
        if phase.kind is PhaseKind.REDUCTION:
            assert phase.value is not None
            reduce = self.facts.lets[phase.value].value
            assert isinstance(reduce, Reduce)
            axes.update(self.facts.lets[reduce.body].axes)
        if phase.store is not None:
            store = self.facts.stores[phase.store]
            axes.update(a for entry in store.index for a in entry.axes())
        fixed = (AxisKind.PROGRAM, AxisKind.RANGE)
        return frozenset(a for a in axes if self.program.axes[a].kind not in fixed or a == packed_axis)

    def needs(self, phase: int, source: int) -> bool:
        """Whether a phase depends on another, through any number of phases."""
        if phase == source:
            return True
        return any(self.needs(e.source, source) for e in self.graph.inputs(phase) if not e.carried)

    # ---- transfers ----------------------------------------------------------------------------------------------
    def transfers(self, lane_axis: int | None) -> Iterator[tuple[tuple[int, Transfer], ...]]:
        """How loads and stores that are not contiguous across the lanes reach memory: all in one way where they can."""
        if lane_axis is None:
            yield ()
            return
        loads = [p.number for p in self.phases if p.kind is PhaseKind.LOAD and self.strided(p, lane_axis)]
        stores = [p.number for p in self.phases if p.kind is PhaseKind.STORE and self.strided(p, lane_axis)]
        for wanted in (Transfer.TRANSPOSE, Transfer.GATHER) if loads or stores else (Transfer.NONE,):
            chosen = {n: self.load_transfer(n, wanted) for n in loads} | dict.fromkeys(stores, wanted)
            yield tuple(sorted(chosen.items()))

    def load_transfer(self, phase: int, wanted: Transfer) -> Transfer:
        value = self.phases[phase].value
        assert value is not None
        load = self.facts.lets[value].value
        assert isinstance(load, Load)
        only_gather = load.index and any(isinstance(i, Indirect) for i in load.index)
        only_gather = only_gather or self.facts.lets[value].dtype.value == "bool_"
        return Transfer.GATHER if only_gather else wanted

    def strided(self, phase: Phase, lane_axis: int) -> bool:
        """Whether a tensor access is neither contiguous nor uniform along an axis."""
        if phase.store is not None:
            store = self.facts.stores[phase.store]
            return flatten(self.program.tensor(store.tensor), store.index).coefficient(lane_axis) not in (0, 1)
        assert phase.value is not None
        load = self.facts.lets[phase.value].value
        assert isinstance(load, Load)
        read = [i.value for i in load.index if isinstance(i, Indirect)]
        affine = tuple(i for i in load.index if isinstance(i, Affine))
        if read:
            by_value = any(lane_axis in self.facts.lets[value].axes for value in read)
            return by_value or any(lane_axis in entry.axes() for entry in affine)
        return flatten(self.program.tensor(load.tensor), affine).coefficient(lane_axis) not in (0, 1)


# ---- choices of one nest ----------------------------------------------------------------------------------------
def loop_choices(
    context: NestContext, structure: Structure, together: Sequence[NestContext] = ()
) -> Iterator[NestChoice]:
    """Lanes, register blocks and tails of a nest with one chain and the first polynomials, plainest first.

    `together` are the nests that share its number, and with it these choices.
    """
    axis = structure.vector_axis(tuple(loop.axis for loop in context.nest.loops))
    variants = next(iter(variant_choices(*(together or (context,)))))
    for lanes in lane_options(context, axis):
        for blocks in block_options(context, axis, lanes):
            for tail in tail_options(context, axis, lanes):
                yield NestChoice(axis=axis, lanes=lanes, blocks=blocks, chains=1, tail=tail, variants=variants)


def chain_options(context: NestContext, choice: NestChoice) -> tuple[int, ...]:
    """Numbers of partial chains that the register block of a choice has contributions for."""
    steps = prod(block.factor for block in choice.blocks if block.axis in context.reduced_axes)
    return tuple(c for c in compute.CHAINS if c == 1 or (context.reductions and c <= steps))


def lane_options(context: NestContext, axis: int | None) -> tuple[int, ...]:
    """Lane counts, the target's own first; other ones only where a packet is one program or one vector of them."""
    if axis is None:
        return (1,)
    native = context.facts.target.lanes(context.widest)
    options = sorted(lanes_of(context.facts.target), key=lambda lanes: (lanes != native, -lanes))
    block = context.blocks.get(axis)
    if block is not None and block < native:
        return tuple(lanes for lanes in options if block % lanes == 0)[:1] or (native,)
    if prod(context.blocks.values()) not in (1, native):
        return (native,)
    return tuple(lanes for lanes in options if block is None or block % lanes == 0) or tuple(options)


def block_options(context: NestContext, axis: int | None, lanes: int) -> Iterator[tuple[Block, ...]]:
    """Register blocks: steps along the vector axis, programs side by side, columns of a transposition."""
    native = lanes == context.facts.target.lanes(context.widest) or axis is None
    tables = []
    for loop in context.nest.loops:
        extent = context.extent(loop.axis)
        tables.append([(loop.axis, f) for f in _factors(context, loop.axis, axis, lanes, extent, native)])
    for combination in product(*tables):
        if prod(f for _, f in combination) <= MAX_UNROLLED_POINTS:
            yield tuple(Block(axis=a, factor=f) for a, f in combination if f > 1)


def _factors(
    context: NestContext, loop_axis: int, axis: int | None, lanes: int, extent: int, native: bool
) -> tuple[int, ...]:
    transposes = Transfer.TRANSPOSE in {t for _, t in (*context.nest.transfers, *context.nest.store_transfers)}
    if loop_axis == axis:
        wanted = (1,) if transposes else compute.FACTORS if native else (1, 4)
        return tuple(f for f in wanted if f == 1 or f * lanes <= extent)
    if loop_axis in context.blocks:
        return (extent,) if extent <= max(ROW_BLOCKS) else (1,)
    if transposes:
        return (min(lanes, extent),)
    if axis is None and loop_axis == context.nest.loops[-1].axis:
        return tuple(f for f in (1, 4) if f <= max(1, extent))
    if loop_axis == context.nest.loops[-1].axis:
        return tuple(f for f in (1, 2, 4) if f <= max(1, extent))
    return (1,)


def tail_options(context: NestContext, axis: int | None, lanes: int) -> tuple[Tail, ...]:
    if axis is None:
        return (Tail.MASK,)
    uneven = context.dynamic(axis) or any(extent % lanes for extent in context.extents(axis))
    return (Tail.MASK, Tail.SCALAR, Tail.OVERLAP) if uneven else (Tail.MASK,)


def variant_choices(*contexts: NestContext) -> Iterator[tuple[tuple[str, str], ...]]:
    """One polynomial for each function of some nests, among those that every use permits."""
    permitted: dict[str, list[str]] = {}
    uses = dict.fromkeys(function for context in contexts for function in context.functions)
    for op, dtype, max_ulp in uses:
        names = [v.name for v in vector_math.variants(op, dtype, contexts[0].facts.target, max_ulp)]
        known = permitted.get(op.value)
        permitted[op.value] = names if known is None else [n for n in known if n in names]
    tables = [[(op, name) for name in names] for op, names in sorted(permitted.items())]
    yield from (tuple(chosen) for chosen in product(*tables))
