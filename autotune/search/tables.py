"""Per-nest tables of legal choices with their predicted times and code sizes, shared between structures.
Must not know how tables are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from autotune.calibration.price import price
from autotune.calibration.prior import Prices
from autotune.ir.buffer import Buffer, BufferProgram, StoreBuffer, StoreTensor
from autotune.ir.program import operands
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.compute import refuse_block
from autotune.realizations.enumerate import chain_options, loop_choices, variant_choices
from autotune.realizations.events import Events
from autotune.realizations.legality import refuse_nest
from autotune.realizations.predict import Count, count_nest, only_body, whole_packets
from autotune.realizations.structure import NestChoice, Structure
from autotune.realizations.verdict import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A legal choice of one nest. Units: `ns` of one entry; builder instructions of the general and the full body."""

    choice: NestChoice
    ns: float
    general: int
    full: int


@dataclass(slots=True)
class RefusalCounts:
    """How many choices each rule refused, with one sentence as an example."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, reasons: Iterable[Refusal]) -> bool:
        """Count every rule that speaks against a choice; True where any does."""
        refused = False
        for reason in reasons:
            refused = True
            self.counts[reason.rule] += 1
            self.examples.setdefault(reason.rule, reason.sentence)
        return refused

    def table(self) -> tuple[tuple[str, int, str], ...]:
        """Rule, count and example, most frequent first."""
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple((rule, count, self.examples[rule]) for rule, count in ordered)


class Tables:
    """Builds each distinct table once, and counts each distinct nest once."""

    def __init__(self, facts: ProgramFacts, prices: Prices) -> None:
        self._facts = facts
        self._prices = prices
        self._known: dict[Hashable, tuple[Row, ...]] = {}
        self._counts: dict[Hashable, Count] = {}
        self.refusals = RefusalCounts()

    def rows(
        self, plan: BufferProgram, structure: Structure, bodies: Sequence[Sequence[NestContext]]
    ) -> tuple[Row, ...]:
        """The table of one nest number, cheapest first; `bodies` are its nests in each body of the plan."""
        keys = tuple(
            (plan.blocks, body.role, tuple(table_key(context) for context in contexts))
            for body, contexts in zip(plan.bodies, bodies, strict=True)
        )
        key = (structure.lane_axis, structure.packed_axis, keys)
        if key not in self._known:
            self._known[key] = self._build(plan, structure, bodies, keys)
        return self._known[key]

    def _build(
        self,
        plan: BufferProgram,
        structure: Structure,
        bodies: Sequence[Sequence[NestContext]],
        keys: Sequence[Hashable],
    ) -> tuple[Row, ...]:
        contexts = bodies[-1]
        main = max(contexts, key=lambda c: len(c.nest.loops))
        extra = _ExtraCosts(self, plan, main, keys)
        rows = []
        for choice in loop_choices(main, structure):
            reasons = (r for context in contexts for r in refuse_nest(context.exchanged(choice.apply(context.nest))))
            if self.refusals.add(reasons):
                continue
            counts = self.counts(plan, main.nest.number, choice, keys)
            for chains in chain_options(main, choice):
                chained = replace(choice, chains=chains)
                trial = main.exchanged(chained.apply(main.nest))
                if self.refusals.add(refuse_block(trial)):
                    continue
                for variants in variant_choices(main):
                    rows.append(self._row(plan, replace(chained, variants=variants), counts, extra))
        return tuple(sorted(rows, key=lambda row: row.ns))

    def _row(self, plan: BufferProgram, choice: NestChoice, counts: dict[bool, Count], extra: _ExtraCosts) -> Row:
        """Chains shorten the dependent steps; polynomials add what they cost more than the first ones."""
        whole = whole_packets(plan) / plan.packets
        share = {True: whole, False: 1.0 - whole} if len(counts) > 1 else dict.fromkeys(counts, 1.0)
        ns, sizes = 0.0, {}
        for full, counted in counts.items():
            more_events, more_instructions = extra.of(full, choice)
            events = counted.events + more_events
            ns += share[full] * price(events, counted.dependent_steps / choice.chains, self._prices)
            sizes[full] = counted.instructions + more_instructions
        return Row(choice=choice, ns=ns, general=sizes.get(False, sizes.get(True, 0)), full=sizes.get(True, 0))

    def counts(
        self, plan: BufferProgram, number: int, choice: NestChoice, keys: Sequence[Hashable]
    ) -> dict[bool, Count]:
        return {
            body.full: self._count(plan, body.full, number, choice, key)
            for body, key in zip(plan.bodies, keys, strict=True)
        }

    def _count(self, plan: BufferProgram, full: bool, number: int, choice: NestChoice, key: Hashable) -> Count:
        key = (key, choice)
        if key not in self._counts:
            self._counts[key] = count_nest(only_body(plan, full), number, choice.apply, self._facts.target)
        return self._counts[key]


class _ExtraCosts:
    """What other polynomials cost more than the first ones of a nest, counted once for each lane count.

    They are counted at the plainest register block of the lanes; the evaluations of a function are the same at every
    block, and so is the difference.
    """

    def __init__(self, tables: Tables, plan: BufferProgram, context: NestContext, keys: Sequence[Hashable]) -> None:
        self._tables = tables
        self._plan = plan
        self._context = context
        self._keys = keys
        self._plainest: dict[int, NestChoice] = {}
        self._known: dict[Hashable, tuple[Events, int]] = {}

    def of(self, full: bool, choice: NestChoice) -> tuple[Events, int]:
        """Events and builder instructions more than those of the first polynomials."""
        plain = self._plainest.setdefault(choice.lanes, replace(choice, chains=1))
        key = (full, choice.lanes, choice.variants)
        if key not in self._known:
            number = self._context.nest.number
            first = self._tables.counts(self._plan, number, _with_first_variants(plain, self._context), self._keys)[full]
            other = self._tables.counts(self._plan, number, replace(plain, variants=choice.variants), self._keys)[full]
            difference = other.events + first.events.scaled(-1.0)
            self._known[key] = (difference, other.instructions - first.instructions)
        return self._known[key]


def _with_first_variants(choice: NestChoice, context: NestContext) -> NestChoice:
    return replace(choice, variants=next(iter(variant_choices(context))))


def table_key(context: NestContext) -> Hashable:
    """What a nest's table depends on: its sinks and loops, and the shape and place of the buffers it touches."""
    buffers = {b.id: b for b in context.body.buffers}
    materialized = dict(context.body.materialized)
    touched: set[tuple[object, ...]] = set()
    reads = {o for let in context.computed for o in operands(let.value)} | {
        root for sink in context.nest.sinks for root in context.roots(sink)
    }
    for value in reads:
        if value in materialized and value not in context.produced:
            touched.add((value, *_shape(buffers[materialized[value]])))
    sinks = []
    for sink in context.nest.sinks:
        match sink:
            case StoreTensor(store=number):
                sinks.append(("store", number))
            case StoreBuffer(buffer=buffer, value=value):
                sinks.append(("buffer", value, value in context.produced, *_shape(buffers[buffer])))
            case _:
                sinks.append(("reduce", sink.value, *_shape(buffers[sink.buffer])))
    nest = context.nest
    axes = tuple(loop.axis for loop in nest.loops)
    tiles = tuple(sorted(context.tile_blocks.items()))
    return axes, tuple(sinks), frozenset(touched), nest.transfers, nest.store_transfers, tiles


def _shape(buffer: Buffer) -> tuple[object, ...]:
    return buffer.dtype, buffer.axes, buffer.storage
