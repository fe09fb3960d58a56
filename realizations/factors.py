"""How the operands of contractions reach the registers: read in place, copied, packed, with which lanes.
Must not know costs, register blocks or instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product

from autotune.ir.affine import Affine
from autotune.ir.buffer import Transfer
from autotune.ir.phases import Edge, Phase, PhaseGraph, PhaseKind
from autotune.ir.program import AxisKind, For, Indirect, Load, Reduce, operands, statements
from autotune.ir.types import EXPENSIVE, DType
from autotune.realizations.candidate import Buffered, Direct, Inline, Storage
from autotune.realizations.context import ProgramFacts
from autotune.realizations.predicates import known_prefix
from autotune.realizations.storage import forced_copies
from autotune.realizations.structure import Inside
from autotune.realizations.tensor_access import flatten

MIN_LANES = 4
MIN_OUTPUT_LANES = 8
PANEL_VECTORS = (2, 4)
MIN_PANELLED = 128
BROADCAST_ROWS = 8
MIN_BROADCAST_PANELLED = 64
MIN_PANELLED_PITCH_BYTES = 1024  # rows closer than this share cache sets and pages well enough
MAX_COPIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Storage of every value with a choice, transfers, and the lanes of each reduction inside a nest.

    `across` names the axis across the lanes of the nests that make copies of operands: the contiguous one.
    """

    storage: Mapping[int, Storage]
    transfer: tuple[tuple[int, Transfer], ...]
    inside: tuple[Inside, ...]
    across: tuple[tuple[int, int], ...]


class Factors:
    """The operand choices of a program under one choice of blocks."""

    def __init__(self, facts: ProgramFacts, graph: PhaseGraph, blocks: Mapping[int, int]) -> None:
        self.facts = facts
        self.program = facts.program
        self.graph = graph
        self.phases = graph.phases
        self.blocks = blocks
        self.contractions = [p for p in graph.phases if p.contraction is not None]
        self.values = {f for p in self.contractions if p.contraction for f in (p.contraction.lhs, p.contraction.rhs)}
        self.forced = forced_copies(facts, graph)

    # ---- axes ---------------------------------------------------------------------------------------------------
    def extent(self, axis: int) -> int:
        """Coordinates along an axis that one nest may walk; 1 where it stands at one."""
        kind = self.program.axes[axis].kind
        if kind in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE):
            return min(self.blocks.get(axis, 1), self.program.axes[axis].extent.constant)
        if kind is AxisKind.RANGE:
            return 1
        most = self.facts.ranges.most(axis)
        return min(most, self.blocks[axis]) if kind is AxisKind.TILE else most

    def domain(self, phase: Phase) -> frozenset[int]:
        """Axes that the nest of a phase walks, were it a sink."""
        axes = set(phase.axes)
        if phase.kind is PhaseKind.REDUCTION and phase.contraction is None and phase.value is not None:
            reduce = self.facts.lets[phase.value].value
            assert isinstance(reduce, Reduce)
            axes.update(phase.contribution, self.facts.lets[reduce.body].axes)
        if phase.store is not None:
            store = self.facts.stores[phase.store]
            axes.update(a for entry in store.index for a in entry.axes())
            axes.update(self.facts.lets[store.value].axes)
        return frozenset(a for a in axes if self.extent(a) > 1)

    def lane_orders(self) -> Iterator[tuple[int, ...]]:
        """Axes by preference for the lanes: every order that gives the possible sinks other lanes."""
        free = (p for p in self.phases if p.kind is not PhaseKind.LOAD and not self._optional(p))
        domains = sorted({self.domain(p) for p in free}, key=sorted)
        outputs = {a for p in self.contractions for a in self.domain(p)}
        outputs |= {a for p in self.phases if p.store is not None for a in self.domain(p)}
        wide = sorted(a for a in outputs if self.extent(a) >= MIN_OUTPUT_LANES)
        everything = sorted({a for d in domains for a in d}, key=self._last_resort)
        seen = set()
        for chosen in (*permutations(wide, 1), *permutations(wide, 2)) or ((),):
            order = (*chosen, *(a for a in everything if a not in chosen))
            across = tuple(self.across(order, domain) for domain in domains)
            if across not in seen:
                seen.add(across)
                yield order

    def _last_resort(self, axis: int) -> tuple[bool, bool, int]:
        kind = self.program.axes[axis].kind
        return kind is AxisKind.PROGRAM, self.extent(axis) < MIN_LANES, -self._contiguity(axis)

    def _contiguity(self, axis: int) -> int:
        """In how many accesses an axis is contiguous."""
        return sum(1 for p in self.phases if p.access is not None and dict(p.access.strides).get(axis) == 1)

    def across(self, lanes: tuple[int, ...], domain: frozenset[int]) -> int | None:
        return next((a for a in lanes if a in domain), None)

    def splits(self) -> Iterator[tuple[int, ...]]:
        """Loops that may be split where comparisons are known: all of them, or none."""
        loops = (s for s in statements(self.program.body) if isinstance(s, For))
        known = tuple(s.axis for s in loops if known_prefix(self.program, s) is not None)
        yield from ((known, ()) if known else ((),))

    # ---- storage ------------------------------------------------------------------------------------------------
    def operands(self, lanes: tuple[int, ...]) -> Iterator[Operands]:
        """Every way to hold and reach the operands that gives each contraction contiguous or uniform lanes."""
        optional = [p for p in self.phases if self._optional(p)]
        for flags in product((False, True), repeat=len(optional)):
            kept = {p.number for p, flag in zip(optional, flags, strict=True) if flag}
            values = self._values(lanes, kept)
            loads = [p for p in self.phases if p.kind is PhaseKind.LOAD]
            tables = [self._load_choices(p, lanes, values) for p in loads]
            for chosen in product(*tables):
                if sum(isinstance(c, Buffered) for c in chosen) - len(self.forced) > MAX_COPIES:
                    continue
                storage = values | {p.number: c for p, c in zip(loads, chosen, strict=True)}
                found = self._reached(lanes, storage)
                if found is not None:
                    yield found

    def _optional(self, phase: Phase) -> bool:
        """A cheap computed factor: recomputed at each use or kept."""
        return phase.kind is PhaseKind.ELEMENTWISE and phase.value in self.values and not self._costly(phase)

    def _costly(self, phase: Phase) -> bool:
        return phase.op in EXPENSIVE or any(
            self.phases[e.source].kind in (PhaseKind.REDUCTION, PhaseKind.CARRY) for e in self._inputs(phase)
        )

    def _inputs(self, phase: Phase) -> tuple[Edge, ...]:
        return tuple(e for e in self.graph.inputs(phase.number) if not e.carried)

    def _values(self, lanes: tuple[int, ...], kept: set[int]) -> dict[int, Storage]:
        """Storage of computed values, decided from the last one back: what several nests read is kept."""
        storage: dict[int, Storage] = {}
        for phase in reversed(self.phases):
            if phase.kind is PhaseKind.REDUCTION and phase.contraction is not None:
                several = len(self.sinks(phase, storage)) > 1
                storage[phase.number] = self._buffered(phase, lanes, storage) if several else Inline()
            elif phase.kind is PhaseKind.ELEMENTWISE:
                keep = phase.number in kept or self._worth_keeping(phase, storage)
                storage[phase.number] = self._buffered(phase, lanes, storage) if keep else Inline()
        return storage

    def _worth_keeping(self, phase: Phase, storage: Mapping[int, Storage]) -> bool:
        if phase.value in self.values:
            return self._costly(phase)
        if len(self.sinks(phase, storage)) < 2:
            return False
        return phase.op in EXPENSIVE or self._after_reduction(phase, set())

    def _after_reduction(self, phase: Phase, seen: set[int]) -> bool:
        """Whether a value is computed from a reduction through inline values."""
        for edge in self._inputs(phase):
            source = self.phases[edge.source]
            if source.kind is PhaseKind.REDUCTION:
                return True
            if source.kind is PhaseKind.ELEMENTWISE and source.number not in seen:
                seen.add(source.number)
                if self._after_reduction(source, seen):
                    return True
        return False

    def sinks(self, phase: Phase, storage: Mapping[int, Storage]) -> frozenset[int]:
        """Phases whose nests evaluate a value, through values that are computed where they are used."""
        found: set[int] = set()
        for edge in self.graph.outputs(phase.number):
            target = self.phases[edge.target]
            if isinstance(storage.get(target.number), Inline):
                found |= self.sinks(target, storage)
            else:
                found.add(target.number)
        return frozenset(found)

    def _buffered(self, phase: Phase, lanes: tuple[int, ...], storage: Mapping[int, Storage]) -> Buffered:
        last = self._contiguous_axis(phase, lanes, storage)
        return Buffered(layout=(*(a for a in phase.axes if a != last), *(() if last is None else (last,))))

    def _contiguous_axis(self, phase: Phase, lanes: tuple[int, ...], storage: Mapping[int, Storage]) -> int | None:
        """The axis along which a kept value is contiguous: the lanes that read it, else those that write it."""
        for contraction in self.contractions:
            if self._feeds(phase, contraction, storage):
                axis = self._nest_lane(contraction, lanes, storage)
                if axis in phase.axes:
                    return axis
        walked = frozenset(a for a in phase.axes if self.extent(a) > 1)
        if phase.value in self.values or phase.kind is PhaseKind.LOAD:
            inside = (self.phases[e.source] for e in self._inputs(phase)) if phase.access is None else (phase,)
            unit = (a for p in inside if p.access is not None for a, s in p.access.strides if s == 1 and a in walked)
            return next(unit, self.across(lanes, walked))
        return self.across(lanes, walked)

    def _load_choices(self, phase: Phase, lanes: tuple[int, ...], values: Mapping[int, Storage]) -> list[Storage]:
        if phase.number in self.forced:
            return [self._buffered(phase, lanes, values)]
        factor = phase.value in self.values and any(self._feeds(phase, c, values) for c in self.contractions)
        if not factor or not phase.axes or self.facts.lets[phase.value or 0].dtype is DType.BOOL:
            return [Direct()]
        copied = self._buffered(phase, lanes, values)
        choices: list[Storage] = [Direct(), copied]
        if len(copied.layout) > 1 and copied.layout[-1] in lanes and self.extent(copied.layout[-1]) >= MIN_PANELLED:
            native = self.facts.target.lanes(DType.F32)
            choices.extend(Buffered(layout=copied.layout, panel=vectors * native) for vectors in PANEL_VECTORS)
        choices.extend(self._broadcast_panels(phase, lanes, values))
        return choices

    def _broadcast_panels(
        self, phase: Phase, lanes: tuple[int, ...], values: Mapping[int, Storage]
    ) -> Iterator[Buffered]:
        """Panels of an operand that every lane reads alike: the rows of one register block side by side."""
        for c in self.contractions:
            if not self._feeds(phase, c, values) or self._nest_lane(c, lanes, values) in phase.axes:
                continue
            size = self.facts.lets[phase.value or 0].dtype.size_bytes
            strides = dict(phase.access.strides) if phase.access is not None else {}
            rows = [
                a
                for a in phase.axes
                if a not in c.contribution
                and self.extent(a) >= MIN_BROADCAST_PANELLED
                and (strides.get(a) or 0) * size >= MIN_PANELLED_PITCH_BYTES
            ]
            if len(rows) == 1 and len(phase.axes) > 1:
                yield Buffered(layout=(*(a for a in phase.axes if a != rows[0]), rows[0]), panel=BROADCAST_ROWS)

    def _feeds(self, phase: Phase, contraction: Phase, values: Mapping[int, Storage]) -> bool:
        """Whether a load is read in the loop of a contraction."""
        for edge in self.graph.outputs(phase.number):
            if edge.target == contraction.number:
                return True
            target = self.phases[edge.target]
            inline = isinstance(values.get(target.number), Inline) and target.value in self.values
            if inline and self._feeds(target, contraction, values):
                return True
        return False

    # ---- lanes and transfers ------------------------------------------------------------------------------------
    def _reached(self, lanes: tuple[int, ...], storage: dict[int, Storage]) -> Operands | None:
        """Lanes of each contraction and the transfer of each access; None where an operand would be gathered."""
        own: list[Inside] = []
        for phase in self.contractions:
            axis = self._nest_lane(phase, lanes, storage)
            assert phase.value is not None
            if axis is not None and self._contiguous(phase, axis, storage):
                own.append(Inside(phase=phase.number, value=phase.value, axis=None))
                continue
            inner = next(
                (k for k in phase.contribution if self.extent(k) >= MIN_LANES and self._contiguous(phase, k, storage)),
                None,
            )
            if inner is None and axis is not None:
                return None
            own.append(Inside(phase=phase.number, value=phase.value, axis=inner))
        transfer: dict[int, Transfer] = {}
        inside = self._inside(storage)
        for phase in self.phases:
            wanted = self._transfer(phase, lanes, storage, inside)
            if wanted is not Transfer.NONE:
                transfer[phase.number] = wanted
        copied = ((p, storage.get(p.number)) for p in self.phases if p.kind is PhaseKind.LOAD or p.value in self.values)
        across = tuple((p.number, kept.layout[-1]) for p, kept in copied if isinstance(kept, Buffered) and kept.layout)
        return Operands(storage=storage, transfer=tuple(sorted(transfer.items())), inside=tuple(own), across=across)

    def _nest_lane(self, phase: Phase, lanes: tuple[int, ...], storage: Mapping[int, Storage]) -> int | None:
        """The axis across the lanes of the nest that computes a contraction."""
        if isinstance(storage[phase.number], Buffered):
            return self._sink_lane(phase, lanes, storage)
        (sink, *_) = sorted(self.sinks(phase, storage)) or [phase.number]
        return self._sink_lane(self.phases[sink], lanes, storage)

    def _contiguous(self, phase: Phase, axis: int, storage: Mapping[int, Storage]) -> bool:
        """Whether every operand of a contraction has a stride of 0 or 1 along an axis."""
        contraction = phase.contraction
        assert contraction is not None
        return all(self._stride(f, axis, storage) in (0, 1) for f in (contraction.lhs, contraction.rhs))

    def _stride(self, value: int, axis: int, storage: Mapping[int, Storage]) -> int | None:
        """Elements between neighbours of a value along an axis as it is held; the worst of the loads it is made of."""
        let = self.facts.lets[value]
        if axis not in let.axes:
            return 0
        owner = self.graph.phase_of(value)
        held = storage.get(owner.number) if owner is not None and owner.value == value else None
        if isinstance(held, Buffered):
            return 1 if held.layout and held.layout[-1] == axis else 2
        if isinstance(let.value, Load):
            index = tuple(i for i in let.value.index if isinstance(i, Affine))
            if len(index) < len(let.value.index):
                return None
            return flatten(self.program.tensor(let.value.tensor), index).coefficient(axis)
        strides = [self._stride(v, axis, storage) for v in operands(let.value)]
        return next((s for s in strides if s not in (0, 1)), 1 if 1 in strides else 0)

    def _inside(self, storage: Mapping[int, Storage]) -> frozenset[int]:
        """Loads read in the loop of a contraction, directly or through computed factors."""
        found: set[int] = set()

        def visit(value: int) -> None:
            owner = self.graph.phase_of(value)
            if owner is not None and owner.value == value:
                if isinstance(storage.get(owner.number), Buffered):
                    return
                if owner.kind is PhaseKind.LOAD:
                    found.add(owner.number)
            for operand in operands(self.facts.lets[value].value):
                visit(operand)

        for value in self.values:
            visit(value)
        return frozenset(found)

    def _transfer(
        self, phase: Phase, lanes: tuple[int, ...], storage: Mapping[int, Storage], inside: frozenset[int]
    ) -> Transfer:
        if phase.kind is PhaseKind.STORE:
            across = self.across(lanes, self.domain(phase))
            return Transfer.TRANSPOSE if self._strided(phase, across) else Transfer.NONE
        if phase.kind is not PhaseKind.LOAD or phase.number in inside:
            return Transfer.NONE
        kept = storage[phase.number]
        if isinstance(kept, Buffered):
            across = kept.layout[-1] if kept.layout else None
            return self._wide_transfer(phase) if self._strided(phase, across) else Transfer.NONE
        lanes_read = (self._sink_lane(self.phases[sink], lanes, storage) for sink in self.sinks(phase, storage))
        strided = any(self._strided(phase, axis) for axis in lanes_read)
        return self._wide_transfer(phase) if strided else Transfer.NONE

    def _sink_lane(self, sink: Phase, lanes: tuple[int, ...], storage: Mapping[int, Storage]) -> int | None:
        """The axis across the lanes of a sink's nest: a kept factor is written along its contiguous axis."""
        kept = storage.get(sink.number)
        if isinstance(kept, Buffered) and kept.layout and sink.value in self.values:
            return kept.layout[-1]
        return self.across(lanes, self.domain(sink))

    def _wide_transfer(self, phase: Phase) -> Transfer:
        assert phase.value is not None
        let = self.facts.lets[phase.value]
        assert isinstance(let.value, Load)
        gathered = let.dtype is DType.BOOL or any(isinstance(i, Indirect) for i in let.value.index)
        return Transfer.GATHER if gathered else Transfer.TRANSPOSE

    def _strided(self, phase: Phase, axis: int | None) -> bool:
        if axis is None or phase.access is None:
            return False
        return dict(phase.access.strides).get(axis, 0) not in (0, 1)
