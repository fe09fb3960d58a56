"""Per-nest tables of legal choices with their predicted times and code sizes, shared between structures.
Must not know how tables are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from autotune.calibration.price import price
from autotune.calibration.prior import Prices
from autotune.ir.buffer import Buffer, BufferProgram, StoreBuffer, StoreTensor
from autotune.ir.program import operands
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.enumerate import nest_choices
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
        keys = tuple((plan.blocks, tuple(table_key(context) for context in contexts)) for contexts in bodies)
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
        rows = []
        for choice in nest_choices(main, structure):
            reasons = (r for context in contexts for r in refuse_nest(exchanged(context, choice)))
            if not self.refusals.add(reasons):
                rows.append(self._row(plan, main.nest.number, choice, keys))
        return tuple(sorted(rows, key=lambda row: row.ns))

    def _row(self, plan: BufferProgram, number: int, choice: NestChoice, keys: Sequence[Hashable]) -> Row:
        counts = {
            body.full: self._count(plan, body.full, number, choice, key)
            for body, key in zip(plan.bodies, keys, strict=True)
        }
        whole = whole_packets(plan) / plan.packets
        share = {True: whole, False: 1.0 - whole} if len(counts) > 1 else dict.fromkeys(counts, 1.0)
        return Row(
            choice=choice,
            ns=sum(share[full] * price(c.events, c.dependent_steps, self._prices) for full, c in counts.items()),
            general=counts[False].instructions if False in counts else counts[True].instructions,
            full=counts[True].instructions if True in counts else 0,
        )

    def _count(self, plan: BufferProgram, full: bool, number: int, choice: NestChoice, key: Hashable) -> Count:
        key = (full, key, choice)
        if key not in self._counts:
            self._counts[key] = count_nest(only_body(plan, full), number, choice.apply, self._facts.target)
        return self._counts[key]


def exchanged(context: NestContext, choice: NestChoice) -> NestContext:
    """The same surroundings with a choice applied to the nest."""
    return NestContext(context.facts, context.body, choice.apply(context.nest), context.blocks, context.tile_blocks)


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
