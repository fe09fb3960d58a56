"""The structures of a program: blocks, lane axes, storage, fusion and transfers together.
Must not know costs; what it yields is judged elsewhere, and some of it is illegal on purpose of being named so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import assert_never

from autotune.ir.affine import Affine
from autotune.ir.buffer import Transfer
from autotune.ir.phases import Phase, PhaseKind
from autotune.ir.program import AxisKind, Indirect, Load, Program, Reduce
from autotune.ir.types import DType
from autotune.realizations.apart import Apart
from autotune.realizations.candidate import Buffered, Clones, Direct, Inline, Storage, Tile
from autotune.realizations.context import ProgramFacts
from autotune.realizations.factors import Factors
from autotune.realizations.mechanisms import INLINE_CONTRACTIONS, LOOP_SPLITS, SHARED_NESTS, kept_lanes, without_lanes
from autotune.realizations.regions import WRITTEN, Fork, Item, Loop, Trips, possible_sinks
from autotune.realizations.regions import Block as RegionBlock
from autotune.realizations.storage import forced_copies
from autotune.realizations.structure import Structure
from autotune.realizations.target import Target
from autotune.realizations.tensor_access import flatten
from autotune.realizations.tiled import Tiled, tiled
from autotune.realizations.tilings import Tiles, Tilings


def structures(program: Program, target: Target, forbidden: frozenset[str] = frozenset()) -> Iterator[Structure]:
    """Every structure of a bound program, in a fixed order; where mechanisms are forbidden, those that stand in for
    the structures that need them, too."""
    seen: set[Structure] = set()
    for structure in _structures(program, target, forbidden):
        if not forbidden:
            yield structure
        elif (plainer := without_lanes(program, structure, forbidden)) not in seen:
            seen.add(plainer)
            yield plainer


def _structures(program: Program, target: Target, forbidden: frozenset[str]) -> Iterator[Structure]:
    tilings = Tilings(program, target)
    if tilings.contractions:
        for tiles in tilings.joint():
            yield from Enumerator(program, tiles, target).contracting(forbidden)
        if any(c.m or c.n for c in tilings.contractions):
            return
    for loops in tilings.loops():
        for tile in tilings.rows():
            yield from Enumerator(program, (*loops, tile), target).teams(tile)
        for tile in tilings.packets():
            yield from Enumerator(program, (*loops, tile), target).of_lanes((tile.axis,), tile)
        yield from Enumerator(program, (*loops, *tilings.whole_programs()), target).of_lanes((), None)


class Enumerator:
    """Enumerates the structures of one program under one choice of blocks."""

    def __init__(self, program: Program, tiles: Tiles, target: Target) -> None:
        self.tiles = tuple(sorted(tiles, key=lambda tile: tile.axis))
        self.view: Tiled = tiled(program, self.tiles)
        self.facts = ProgramFacts(self.view.program, target)
        self.program = self.view.program
        self.graph = self.view.graph
        self.phases = self.graph.phases
        self.items = possible_sinks(self.program, self.graph)
        self.blocks = {tile.axis: tile.block for tile in self.tiles}

    @property
    def clones(self) -> tuple[Clones, ...]:
        partial = any(
            self.program.axes[t.axis].extent.constant % t.block for t in self.tiles if t.axis in self.program.parallel
        )
        return (Clones.FULL, Clones.GENERAL) if partial else (Clones.GENERAL,)

    # ---- programs without contractions --------------------------------------------------------------------------
    def teams(self, tile: Tile) -> Iterator[Structure]:
        """Lanes along each axis inside a program; what lacks it has the joined programs across its lanes, or another
        axis inside it."""
        team = self.team_axes()
        packets = (tile.axis,) if tile.block > 1 else ()
        others = ((axis, *(a for a in team if a != axis), *packets) for axis in team)
        seen: set[tuple[int | None, ...]] = set()
        for lanes in (*((axis, *packets) for axis in team), *others):
            across = tuple(next((a for a in lanes if a in walked), None) for walked in self.walked_by_phases)
            if across not in seen:
                seen.add(across)
                yield from self.of_lanes(lanes, tile)

    def of_lanes(self, lanes: tuple[int, ...], tile: Tile | None) -> Iterator[Structure]:
        packed = tile.axis if tile is not None and tile.block > 1 else None
        for storage in self.storages(lanes, packed):
            for nests in self.partitions(storage, packed):
                for transfer in self.transfers(lanes):
                    for packet in self.clones:
                        yield Structure(
                            tiles=self.tiles,
                            lanes=lanes,
                            storage=storage,
                            nests=nests,
                            transfer=transfer,
                            packet=packet,
                        )

    def team_axes(self) -> tuple[int, ...]:
        """Axes inside a program that some sink walks."""
        walked = frozenset[int]().union(*self.walked_by_phases)
        inside = (AxisKind.FULL, AxisKind.TILE)
        return tuple(a for a in sorted(walked) if self.program.axes[a].kind in inside)

    @cached_property
    def walked_by_phases(self) -> tuple[frozenset[int], ...]:
        """The axes of each phase and of what it sums."""
        return tuple(frozenset((*phase.axes, *phase.contribution)) for phase in self.phases)

    # ---- programs with contractions -----------------------------------------------------------------------------
    def contracting(self, forbidden: frozenset[str] = frozenset()) -> Iterator[Structure]:
        """Contractions computed inside nests, or apart where that is forbidden; operands in place, copied or packed.

        Loops are left whole for the plainest operands of each lane order alone, unless splitting is forbidden.
        """
        factors = (Apart if INLINE_CONTRACTIONS in forbidden else Factors)(self.facts, self.graph, self.blocks)
        splits = tuple(factors.splits())
        for lanes in dict.fromkeys(kept_lanes(self.program, order, forbidden) for order in factors.lane_orders()):
            for position, operands in enumerate(factors.operands(lanes)):
                storage = tuple(sorted(operands.storage.items()))
                fused, *rest = self.partitions(storage, None)
                nests = rest[-1] if rest and SHARED_NESTS in forbidden else fused
                for packet in self.clones:
                    for predicates in splits if position == 0 or LOOP_SPLITS in forbidden else splits[:1]:
                        yield Structure(
                            tiles=self.tiles,
                            lanes=lanes,
                            storage=storage,
                            nests=nests,
                            transfer=operands.transfer,
                            packet=packet,
                            across=tuple(sorted((dict(nests)[p], a) for p, a in operands.across if p in dict(nests))),
                            inside=operands.inside,
                            predicates=predicates,
                        )

    # ---- storage ------------------------------------------------------------------------------------------------
    def storages(self, lanes: tuple[int, ...], packed_axis: int | None) -> Iterator[tuple[tuple[int, Storage], ...]]:
        """Which shared values are kept in private memory: none, one, or two that are not loads."""
        base: dict[int, Storage] = {}
        for phase in self.phases:
            if phase.kind is PhaseKind.LOAD:
                base[phase.number] = Direct()
            elif phase.kind is PhaseKind.ELEMENTWISE:
                base[phase.number] = Inline()
        for number in forced_copies(self.facts, self.graph):
            base[number] = Buffered(layout=self.layout(self.phases[number], lanes))
        yield tuple(sorted(base.items()))
        if not lanes:
            return
        worth = [p for p in self.phases if self.worth_a_buffer(p, packed_axis)]
        pairs = combinations((p for p in worth if p.kind is PhaseKind.ELEMENTWISE), 2)
        for chosen in (*((p,) for p in worth), *pairs):
            storage = dict(base)
            for phase in chosen:
                storage[phase.number] = Buffered(layout=self.layout(phase, lanes))
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

    def layout(self, phase: Phase, lanes: Sequence[int]) -> tuple[int, ...]:
        """Axes of a buffer: in program order, the lane axis contiguous."""
        across = next((a for a in lanes if a in phase.axes), None)
        return (*(a for a in phase.axes if a != across), *(() if across is None else (across,)))

    # ---- fusion -------------------------------------------------------------------------------------------------
    def partitions(
        self, storage: Sequence[tuple[int, Storage]], packed_axis: int | None
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """Nest numbers of the sinks: sinks joined wherever their domains agree, and every sink by itself."""
        buffered = {p for p, s in storage if isinstance(s, Buffered)}
        inside = {p for p, s in storage if self.phases[p].kind is PhaseKind.REDUCTION} - buffered
        seen = set()
        for fused in (True, False):
            numbers: dict[int, int] = {}
            self._number(self.items, (buffered, inside), fused, packed_axis, numbers)
            key = tuple(sorted(numbers.items()))
            if key not in seen:
                seen.add(key)
                yield key

    def _number(
        self,
        items: Sequence[Item],
        kept: tuple[set[int], set[int]],
        fused: bool,
        packed_axis: int | None,
        numbers: dict[int, int],
    ) -> None:
        for item in items:
            first: tuple[Phase, ...] = ()
            inner: tuple[Sequence[Item], ...]
            match item:
                case RegionBlock(phases=phases):
                    self._number_block(phases, kept, fused, packed_axis, numbers)
                    continue
                case Loop(carries=states, body=body):
                    first, inner = states, (body,)
                case Trips(carries=states, test=test, body=body):
                    first, inner = states, (test, body)
                case Fork(then=then, otherwise=otherwise):
                    inner = (then, otherwise)
                case _:
                    assert_never(item)
            _number_alone(first, numbers)
            for part in inner:
                self._number(part, kept, fused, packed_axis, numbers)
            if isinstance(item, Fork):
                _number_alone(item.joined, numbers)

    def _number_block(
        self,
        phases: Sequence[Phase],
        kept: tuple[set[int], set[int]],
        fused: bool,
        packed_axis: int | None,
        numbers: dict[int, int],
    ) -> None:
        buffered, inside = kept
        groups: list[list[Phase]] = []
        for phase in phases:
            sink = phase.kind in WRITTEN and phase.number not in inside
            if not sink and phase.number not in buffered:
                continue
            group = self.shared_nest(phase, groups, packed_axis, buffered) if fused else None
            if group is None:
                groups.append([phase])
                _number_alone((phase,), numbers)
            else:
                numbers[phase.number] = numbers[group[0].number]
                group.append(phase)

    def shared_nest(
        self, phase: Phase, groups: Sequence[list[Phase]], packed_axis: int | None, buffered: set[int]
    ) -> list[Phase] | None:
        """The last nest that a sink may share, none after it being one that the sink needs or must not overtake."""
        for group in reversed(groups):
            if self.joins(phase, group, packed_axis, buffered):
                return group
            if phase.store is not None or any(p.store is not None for p in group):
                return None
            if any(self.needs(phase.number, p.number) for p in group):
                return None
        return None

    def joins(self, phase: Phase, group: Sequence[Phase], packed_axis: int | None, buffered: set[int]) -> bool:
        """Whether a sink may share the nest of earlier ones: same axes, same reduction, no unfinished result read."""
        if self.walked(phase, packed_axis, buffered) != self.walked(group[0], packed_axis, buffered):
            return False
        reductions = [p for p in group if p.kind is PhaseKind.REDUCTION and p.number not in buffered]
        reduces = phase.kind is PhaseKind.REDUCTION and phase.number not in buffered
        if reduces and any(p.contribution != phase.contribution for p in reductions):
            return False
        return not any(self.needs(phase.number, r.number) for r in reductions)

    def walked(self, phase: Phase, packed_axis: int | None, buffered: set[int]) -> frozenset[int]:
        axes = set(phase.axes)
        if phase.kind is PhaseKind.REDUCTION and phase.number not in buffered:
            assert phase.value is not None
            reduce = self.facts.lets[phase.value].value
            assert isinstance(reduce, Reduce)
            axes.update(phase.contribution, self.facts.lets[reduce.body].axes)
        if phase.store is not None:
            store = self.facts.stores[phase.store]
            axes.update(a for entry in store.index for a in entry.axes())
        return frozenset(a for a in axes if self.ranged(a) or a == packed_axis)

    def ranged(self, axis: int) -> bool:
        """Whether a nest walks an axis, rather than standing at one coordinate of it."""
        kind = self.program.axes[axis].kind
        if kind in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE):
            return self.blocks.get(axis, 1) > 1
        return kind is not AxisKind.RANGE

    def needs(self, phase: int, source: int) -> bool:
        """Whether a phase depends on another, through any number of phases."""
        if phase == source:
            return True
        return any(self.needs(e.source, source) for e in self.graph.inputs(phase) if not e.carried)

    # ---- transfers ----------------------------------------------------------------------------------------------
    def transfers(self, lanes: tuple[int, ...]) -> Iterator[tuple[tuple[int, Transfer], ...]]:
        """How loads and stores that are not contiguous across the lanes reach memory: all in one way where they can."""
        if not lanes:
            yield ()
            return
        lane_axis = lanes[0]
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
        only_gather = only_gather or self.facts.lets[value].dtype is DType.BOOL
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


def _number_alone(phases: Sequence[Phase], numbers: dict[int, int]) -> None:
    """Nests of their own for phases, after all those so far."""
    for phase in phases:
        numbers[phase.number] = max(numbers.values(), default=-1) + 1
