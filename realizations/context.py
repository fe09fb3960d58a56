"""What a nest means inside its body: domains, accesses and the values it computes, for legality and enumeration.
Must not decide anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from autotune.ir.affine import Affine, Coord, coord
from autotune.ir.buffer import Body, InlineReduction, Nest, NestLoop, ReduceInto, Sink, StoreBuffer, StoreTensor
from autotune.ir.dependence import coordinates
from autotune.ir.program import (
    AxisKind,
    Elementwise,
    For,
    If,
    Indirect,
    Let,
    Load,
    Program,
    Reduce,
    Region,
    Reindex,
    Store,
    While,
    operands,
    regions,
    statements,
)
from autotune.ir.types import APPROXIMABLE, DType, Op
from autotune.realizations.places import Around, parts_as_one
from autotune.realizations.ranges import Ranges, state_type
from autotune.realizations.target import Target
from autotune.realizations.tensor_access import flatten


def inner_lanes(spec: InlineReduction) -> NestLoop | None:
    """The loop of an inline reduction that runs across lanes of its own."""
    return next((loop for loop in spec.loops if loop.lanes > 1), None)


Renaming = tuple[tuple[int, int], ...]
"""Pairs of an axis of a value and the axis of the nest along which it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Position of a statement among all of the program, and the loops around it, outermost first."""

    position: int
    loops: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadAccess:
    """A load as a nest reads it: `flat` is its element number over the nest's axes, None for an indirect index.

    `axes` are those of the nest along which it varies; `moved` says that it is read along other axes than its own;
    `within` is the inline reduction that it contributes to.
    """

    let: Let
    load: Load
    flat: Affine | None
    axes: frozenset[int]
    moved: bool
    within: int | None


class ProgramFacts:
    """Facts of a bound program that every nest shares."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program = program
        self.target = target
        self.lets = program.lets()
        self.stores = tuple(s for s in statements(program.body) if isinstance(s, Store))
        self.ranges = Ranges(program)
        self.places = dict(_places(program.body, ()))
        self.definitions = {s.id: s for s in statements(program.body) if isinstance(s, Let)}

    def place(self, statement: Let | Store) -> Place:
        """Where a statement stands."""
        return self.places[id(statement)]

    def loops_varying_along(self, axis: int) -> tuple[int, ...]:
        """Loop axes whose bounds depend on the coordinate along an axis."""
        loops = (a for a in self.program.axes if a.kind in (AxisKind.TILE, AxisKind.RANGE))
        return tuple(a.id for a in loops if axis in coordinates((a.start, a.extent)))

    @cached_property
    def tensor_bytes(self) -> int:
        """Bytes of every tensor that is loaded or stored."""
        touched = (self.program.tensor(t) for t in {*self.program.loaded_tensors(), *self.program.stored_tensors()})
        return sum(prod(extent.constant for extent in t.shape) * t.dtype.size_bytes for t in touched)

    @cached_property
    def multiply_adds(self) -> int:
        """Products that the contractions of a call sum, were every loop as long as it can be."""
        found = 0
        for let in self.definitions.values():
            if isinstance(let.value, Reduce) and let.value.contraction is not None:
                axes = {*self.lets[let.value.body].axes, *let.value.axes, *self.place(let).loops}
                found += prod(self.ranges.most(axis) for axis in axes)
        return found

    def conditions_varying_along(self, axis: int) -> tuple[int, ...]:
        """Conditions of branches and while loops that depend on the coordinate along an axis."""
        deciding = {s.condition for s in statements(self.program.body) if isinstance(s, If | While)}
        return tuple(c for c in sorted(deciding) if axis in self.lets[c].axes)

    def joins_programs_along(self, axis: int) -> bool:
        """Whether programs along an axis may run as one: they take the same loops and branches."""
        return not self.loops_varying_along(axis) and not self.conditions_varying_along(axis)

    @cached_property
    def in_out(self) -> frozenset[int]:
        """Tensors that are both loaded and stored."""
        return frozenset(self.program.loaded_tensors()) & frozenset(self.program.stored_tensors())


def _places(region: Region, loops: tuple[int, ...], first: int = 0) -> Iterator[tuple[int, Place]]:
    position = first
    for statement in region:
        yield id(statement), Place(position=position, loops=loops)
        position += 1
        inside = (*loops, statement.axis) if isinstance(statement, For | While) else loops
        for inner in regions(statement):
            found = list(_places(inner, inside, position))
            yield from found
            position += len(found)


_LEFT_BY_LOOPS = (
    "accesses",
    "buffers_read",
    "closures",
    "computed",
    "functions",
    "produced",
    "read_reductions",
    "reduced_axes",
    "state_types",
    "widest",
)
"""What exchanging the loops of a nest cannot change."""


@dataclass(frozen=True)
class NestContext:
    """A nest, the body it stands in, the blocks of the parallel axes and of tile loops, and the loops around it."""

    facts: ProgramFacts
    body: Body
    nest: Nest
    blocks: dict[int, int]
    tile_blocks: dict[int, int]
    loops_around: tuple[int, ...] = ()
    parts: Around = ()

    def exchanged(self, nest: Nest) -> NestContext:
        """The same surroundings around the same sinks with other loops; what loops cannot change is kept."""
        other = NestContext(self.facts, self.body, nest, self.blocks, self.tile_blocks, self.loops_around, self.parts)
        for name in _LEFT_BY_LOOPS:
            other.__dict__[name] = getattr(self, name)
        return other

    @cached_property
    def closures(self) -> dict[tuple[int, ...], frozenset[int]]:
        """What `computed_for` found so far."""
        return {}

    @property
    def place(self) -> Around:
        """Where the nest stands; in every part of a split loop the same."""
        return parts_as_one(self.parts)

    @cached_property
    def inline(self) -> dict[int, InlineReduction]:
        """Reductions computed in the nest where they are used, by value number."""
        return {spec.value: spec for spec in self.nest.inline}

    # ---- sinks --------------------------------------------------------------------------------------------------
    @property
    def reductions(self) -> tuple[ReduceInto, ...]:
        return tuple(s for s in self.nest.sinks if isinstance(s, ReduceInto))

    def reduce(self, sink: ReduceInto) -> Reduce:
        value = self.facts.lets[sink.value].value
        assert isinstance(value, Reduce)
        return value

    @cached_property
    def reduced_axes(self) -> frozenset[int]:
        return frozenset(axis for sink in self.reductions for axis in self.reduce(sink).axes)

    @cached_property
    def produced(self) -> frozenset[int]:
        materialized = dict(self.body.materialized)
        written = (s for s in self.nest.sinks if isinstance(s, StoreBuffer | ReduceInto))
        return frozenset(s.value for s in written if materialized.get(s.value) == s.buffer)

    def domain(self, sink: Sink) -> frozenset[int]:
        """Axes of the nest that a sink is executed over."""
        lets = self.facts.lets
        match sink:
            case StoreTensor(store=number):
                store = self.facts.stores[number]
                axes = {a for entry in store.index for a in entry.axes()} | set(lets[store.value].axes)
            case StoreBuffer(buffer=number):
                axes = {entry.axis for entry in self.body.buffers[number].axes}
            case ReduceInto(value=value):
                reduce = self.reduce(sink)
                axes = set(lets[reduce.body].axes) | set(reduce.axes) | set(lets[value].axes)
        return frozenset(axes) & frozenset(loop.axis for loop in self.nest.loops)

    def roots(self, sink: Sink) -> tuple[int, ...]:
        """Values a sink evaluates."""
        return (*self.at_points(sink), *self.at_end(sink))

    def at_end(self, sink: Sink) -> tuple[int, ...]:
        """Values a sink evaluates once its loops have ended: the initial value of a reduction."""
        if not isinstance(sink, ReduceInto):
            return ()
        init = self.reduce(sink).init
        return () if init is None else (init,)

    def computed_for(self, roots: tuple[int, ...]) -> frozenset[int]:
        """Values computed in the nest for some of those its sinks evaluate."""
        if roots in self.closures:
            return self.closures[roots]
        computed = {let.id for let in self.computed}
        found: set[int] = set()
        pending = [root for root in roots if root in computed]
        while pending:
            value = pending.pop()
            if value not in found:
                found.add(value)
                pending.extend(o for o in operands(self.facts.lets[value].value) if o in computed)
        self.closures[roots] = frozenset(found)
        return self.closures[roots]

    def at_points(self, sink: Sink) -> tuple[int, ...]:
        """Values a sink evaluates at each of its points."""
        match sink:
            case StoreTensor(store=number):
                store = self.facts.stores[number]
                return (store.value,) if store.mask is None else (store.value, store.mask)
            case StoreBuffer(value=value, source=source):
                return (value,) if source is None else ()
            case ReduceInto():
                return (self.reduce(sink).body,)

    # ---- values -------------------------------------------------------------------------------------------------
    @cached_property
    def computed(self) -> tuple[Let, ...]:
        """Values computed in the nest rather than read from a buffer, without reductions that are sinks of it."""
        materialized = dict(self.body.materialized)
        seen: dict[int, Let] = {}

        def visit(value: int) -> None:
            let = self.facts.lets[value]
            if value in seen or (value in materialized and value not in self.produced):
                return
            if isinstance(let.value, Reduce) and value not in self.inline:
                return
            seen[value] = let
            for operand in operands(let.value):
                visit(operand)

        for sink in self.nest.sinks:
            for root in self.roots(sink):
                visit(root)
        return tuple(seen.values())

    @cached_property
    def read_reductions(self) -> frozenset[int]:
        """Reductions finished in this very nest whose result the nest would read."""
        found: set[int] = set()
        own = {s.value for s in self.reductions}

        def visit(value: int) -> None:
            if value in own:
                found.add(value)
                return
            for operand in operands(self.facts.lets[value].value):
                visit(operand)

        for sink in self.nest.sinks:
            for root in self.roots(sink):
                visit(root)
        return frozenset(found)

    @cached_property
    def functions(self) -> tuple[tuple[Op, DType, float], ...]:
        """Math operations computed in the nest: operation, type and the permitted error in ulp."""
        found = {
            (let.value.op, let.dtype, let.value.math.max_ulp)
            for let in self.computed
            if isinstance(let.value, Elementwise) and let.value.op in APPROXIMABLE
        }
        return tuple(sorted(found, key=lambda f: (f[0].value, f[1].value, f[2])))

    @cached_property
    def accesses(self) -> tuple[LoadAccess, ...]:
        """Every load computed in the nest, once for each way in which its axes are read."""
        computed = {let.id for let in self.computed}
        found: dict[tuple[int, Renaming, int | None], LoadAccess] = {}
        seen: set[tuple[int, Renaming, int | None]] = set()

        def visit(value: int, renaming: Renaming, within: int | None) -> None:
            if value not in computed or (value, renaming, within) in seen:
                return
            seen.add((value, renaming, within))
            let = self.facts.lets[value]
            if isinstance(let.value, Load):
                found[value, renaming, within] = self._access(let, let.value, renaming, within)
            within = value if value in self.inline else within
            inner = renaming
            if isinstance(let.value, Reindex):
                target = dict(renaming).get(let.value.target, let.value.target)
                inner = tuple(sorted({**dict(renaming), let.value.source: target}.items()))
            for operand in operands(let.value):
                visit(operand, inner, within)

        for sink in self.nest.sinks:
            for root in self.roots(sink):
                visit(root, (), None)
        return tuple(found.values())

    def _access(self, let: Let, load: Load, renaming: Renaming, within: int | None) -> LoadAccess:
        flat: Affine | None = None
        used = tuple((source, target) for source, target in renaming if source in let.axes)
        if not any(isinstance(i, Indirect) for i in load.index):
            flat = self.flat_load(load).substitute({Coord(axis=source): coord(target) for source, target in used})
        axes = frozenset(dict(used).get(a, a) for a in let.axes)
        return LoadAccess(let=let, load=load, flat=flat, axes=axes, moved=bool(used), within=within)

    @cached_property
    def buffers_read(self) -> frozenset[int]:
        """Buffers that the nest reads."""
        materialized = dict(self.body.materialized)
        used = {o for let in self.computed for o in operands(let.value)}
        used.update(root for sink in self.nest.sinks for root in self.roots(sink))
        sources = {s.source for s in self.nest.sinks if isinstance(s, StoreBuffer) and s.source is not None}
        return frozenset(materialized[v] for v in used if v in materialized and v not in self.produced) | sources

    @cached_property
    def memory_types(self) -> frozenset[DType]:
        """Element types that the nest loads or stores along its vector axis."""
        vector = self.vector_loop
        types = {
            a.let.dtype for a in self.accesses if (loop := self.lanes_at(a.within)) is not None and loop.axis in a.axes
        }
        buffers = set(self.buffers_read)
        for sink in self.nest.sinks:
            if isinstance(sink, StoreTensor):
                types.add(self.facts.program.tensor(self.facts.stores[sink.store].tensor).dtype)
            else:
                buffers.add(sink.buffer)
        for buffer in (self.body.buffers[number] for number in buffers):
            if vector is not None and vector.axis in {entry.axis for entry in buffer.axes}:
                types.add(buffer.dtype)
        return frozenset(types)

    @cached_property
    def state_types(self) -> dict[int, DType]:
        """The types in which the nest's reductions run, those inside it too."""
        values = (*(s.value for s in self.reductions), *(spec.value for spec in self.nest.inline))
        return {value: state_type(self.facts.lets, value, self.facts.ranges) for value in values}

    @cached_property
    def widest(self) -> DType:
        """The widest type among the values computed, read and written."""
        types = [self.facts.ranges.physical(let) for let in self.computed if let.axes]
        types += [self.body.buffers[number].dtype for number in self.buffers_read]
        for sink in self.nest.sinks:
            match sink:
                case StoreTensor(store=number):
                    types.append(self.facts.program.tensor(self.facts.stores[number].tensor).dtype)
                case StoreBuffer(buffer=number):
                    types.append(self.body.buffers[number].dtype)
                case ReduceInto(value=value):
                    types.append(state_type(self.facts.lets, value, self.facts.ranges))
        return max(types, key=lambda t: t.size_bytes)

    def panels(self, axis: int) -> frozenset[int]:
        """Widths of the panels into which buffers of the nest cut an axis."""
        written = {s.buffer for s in self.nest.sinks if not isinstance(s, StoreTensor)}
        buffers = (self.body.buffers[number] for number in self.buffers_read | written)
        return frozenset(e.panel for b in buffers for e in b.axes if e.axis == axis and e.panel)

    # ---- loops and strides --------------------------------------------------------------------------------------
    @property
    def vector_loop(self) -> NestLoop | None:
        return next((loop for loop in self.nest.loops if loop.lanes > 1), None)

    def lanes_at(self, within: int | None) -> NestLoop | None:
        """The loop whose coordinates run across the lanes: an inline reduction's own, else the nest's."""
        if within is not None:
            own = inner_lanes(self.inline[within])
            if own is not None:
                return own
        return self.vector_loop

    def loop(self, axis: int) -> NestLoop | None:
        return next((loop for loop in self.nest.loops if loop.axis == axis), None)

    def extent(self, axis: int) -> int:
        """Coordinates of an axis in a whole block."""
        kind = self.facts.program.axes[axis].kind
        whole = self.facts.ranges.most(axis)
        if kind in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE):
            return self.blocks[axis]
        return min(whole, self.tile_blocks[axis]) if kind is AxisKind.TILE else whole

    def extents(self, axis: int) -> tuple[int, ...]:
        """Every static extent that the blocks of an axis can have."""
        extent = self.facts.program.axes[axis].extent
        block = self.extent(axis)
        if not extent.is_constant or block == 0 or extent.constant % block == 0:
            return (block,)
        return (block, extent.constant % block)

    def dynamic(self, axis: int) -> bool:
        """Whether some block of an axis has an extent known at run time only."""
        extent = self.facts.program.axes[axis].extent
        if not extent.is_constant:
            return True
        return axis in self.blocks and extent.constant % self.blocks[axis] != 0

    def lane_stride(self, flat: Affine, within: int | None = None) -> int | None:
        """Elements between neighbouring lanes, 0 where all read the same, None where it is no constant."""
        loop = self.lanes_at(within)
        return 0 if loop is None else flat.coefficient(loop.axis)

    def flat_load(self, load: Load) -> Affine:
        index = tuple(i for i in load.index if isinstance(i, Affine))
        return flatten(self.facts.program.tensor(load.tensor), index)

    def flat_store(self, number: int) -> Affine:
        store = self.facts.stores[number]
        return flatten(self.facts.program.tensor(store.tensor), store.index)
