"""What a nest means inside its body: domains, accesses and the values it computes, for legality and enumeration.
Must not decide anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from autotune.ir.affine import Affine
from autotune.ir.buffer import Body, Nest, NestLoop, ReduceInto, Sink, StoreBuffer, StoreTensor
from autotune.ir.program import (
    AxisKind,
    Elementwise,
    Indirect,
    Let,
    Load,
    Program,
    Reduce,
    Reindex,
    Store,
    operands,
    statements,
)
from autotune.ir.types import TRANSCENDENTAL, DType, Op
from autotune.realizations.evaluate import flatten
from autotune.realizations.ranges import Ranges
from autotune.realizations.target import Target


class ProgramFacts:
    """Facts of a bound program that every nest shares."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program = program
        self.target = target
        self.lets = program.lets()
        self.stores = tuple(s for s in statements(program.body) if isinstance(s, Store))
        self.ranges = Ranges(program)
        self.order = {id(s): k for k, s in enumerate(statements(program.body))}

    @cached_property
    def in_out(self) -> frozenset[int]:
        """Tensors that are both loaded and stored."""
        return frozenset(self.program.loaded_tensors()) & frozenset(self.program.stored_tensors())


@dataclass(frozen=True)
class NestContext:
    """A nest, the body it stands in and the blocks of the parallel axes."""

    facts: ProgramFacts
    body: Body
    nest: Nest
    blocks: dict[int, int]
    tile_blocks: dict[int, int]

    def exchanged(self, nest: Nest) -> NestContext:
        """The same surroundings around the same sinks with other loops; what loops cannot change is kept."""
        other = NestContext(self.facts, self.body, nest, self.blocks, self.tile_blocks)
        for name in ("reduced_axes", "produced", "computed", "read_reductions", "functions", "widest"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

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
        """Values a sink evaluates at each of its points."""
        match sink:
            case StoreTensor(store=number):
                store = self.facts.stores[number]
                return (store.value,) if store.mask is None else (store.value, store.mask)
            case StoreBuffer(value=value):
                return (value,)
            case ReduceInto():
                return (self.reduce(sink).body,)

    # ---- values -------------------------------------------------------------------------------------------------
    @cached_property
    def computed(self) -> tuple[Let, ...]:
        """Values computed inside the nest rather than read from a buffer, without reductions it finishes."""
        materialized = dict(self.body.materialized)
        seen: dict[int, Let] = {}

        def visit(value: int) -> None:
            let = self.facts.lets[value]
            if value in seen or (value in materialized and value not in self.produced):
                return
            if isinstance(let.value, Reduce):
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
            if isinstance(let.value, Elementwise) and let.value.op in TRANSCENDENTAL
        }
        return tuple(sorted(found, key=lambda f: (f[0].value, f[1].value, f[2])))

    def loads(self) -> Iterator[tuple[Let, Load]]:
        for let in self.computed:
            if isinstance(let.value, Load):
                yield let, let.value

    @cached_property
    def reindexed(self) -> bool:
        return any(isinstance(let.value, Reindex) for let in self.computed)

    @cached_property
    def memory_types(self) -> frozenset[DType]:
        """Element types that the nest loads or stores along its vector axis."""
        types = {let.dtype for let, load in self.loads() if self.lane_stride_of_load(load) != 0}
        for sink in self.nest.sinks:
            match sink:
                case StoreTensor(store=number):
                    types.add(self.facts.program.tensor(self.facts.stores[number].tensor).dtype)
                case StoreBuffer(buffer=number):
                    types.add(self.body.buffers[number].dtype)
                case ReduceInto():
                    pass
        for value, buffer in self.body.materialized:
            if value not in self.produced and any(value in operands(let.value) for let in self.computed):
                types.add(self.body.buffers[buffer].dtype)
        return frozenset(types)

    @cached_property
    def widest(self) -> DType:
        """The widest type among the values computed."""
        types = [self.facts.ranges.physical(let) for let in self.computed if let.axes] or [DType.I8]
        return max(types, key=lambda t: t.size_bytes)

    # ---- loops and strides --------------------------------------------------------------------------------------
    @property
    def vector_loop(self) -> NestLoop | None:
        return next((loop for loop in self.nest.loops if loop.lanes > 1), None)

    def loop(self, axis: int) -> NestLoop | None:
        return next((loop for loop in self.nest.loops if loop.axis == axis), None)

    def extent(self, axis: int) -> int:
        """Coordinates of an axis in a whole block."""
        kind = self.facts.program.axes[axis].kind
        whole = self.facts.program.axes[axis].extent.constant
        if kind in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE):
            return self.blocks[axis]
        return min(whole, self.tile_blocks[axis]) if kind is AxisKind.TILE else whole

    def extents(self, axis: int) -> tuple[int, ...]:
        """Every static extent that the blocks of an axis can have."""
        kind = self.facts.program.axes[axis].kind
        whole = self.facts.program.axes[axis].extent.constant
        block = self.extent(axis)
        if kind is AxisKind.FULL or whole % block == 0:
            return (block,)
        return (block, whole % block)

    def dynamic(self, axis: int) -> bool:
        """Whether the general body walks an axis with an extent known at run time only."""
        whole = self.facts.program.axes[axis].extent.constant
        return axis in self.blocks and whole % self.blocks[axis] != 0

    def lane_stride(self, flat: Affine) -> int | None:
        """Elements between neighbouring lanes, 0 where all read the same, None where it is no constant."""
        loop = self.vector_loop
        return 0 if loop is None else flat.coefficient(loop.axis)

    def lane_stride_of_load(self, load: Load) -> int | None:
        if any(isinstance(i, Indirect) for i in load.index):
            return None
        return self.lane_stride(self.flat_load(load))

    def flat_load(self, load: Load) -> Affine:
        index = tuple(i for i in load.index if isinstance(i, Affine))
        return flatten(self.facts.program.tensor(load.tensor), index)

    def flat_store(self, number: int) -> Affine:
        store = self.facts.stores[number]
        return flatten(self.facts.program.tensor(store.tensor), store.index)
