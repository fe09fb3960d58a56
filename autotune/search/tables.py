"""Per-nest tables of legal choices with their predicted times and code sizes, shared between structures.
Must not know how tables are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from autotune.calibration.price import price
from autotune.calibration.prior import Prices
from autotune.ir.buffer import Buffer, BufferProgram, Role, StoreBuffer, StoreTensor
from autotune.ir.program import Elementwise, Program, operands
from autotune.realizations.choices import chain_options, loop_choices, variant_choices
from autotune.realizations.compute import refuse_block
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.events import Events
from autotune.realizations.legality import refuse_nest
from autotune.realizations.predict import Count, count_nest, only_body, whole_packets
from autotune.realizations.structure import NestChoice, Structure
from autotune.realizations.target import Target
from autotune.realizations.traffic import Traffic, traffic
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

    def __init__(self, target: Target, prices: Prices) -> None:
        self._target = target
        self._facts: dict[int, ProgramFacts] = {}
        self._prices = prices
        self._known: dict[Hashable, tuple[Row, ...]] = {}
        self._counts: dict[Hashable, Count] = {}
        self._extras: dict[Hashable, tuple[tuple[Events, int], ...]] = {}
        self.refusals = RefusalCounts()

    def facts(self, program: Program) -> ProgramFacts:
        """What every nest of a program shares; programs that tiles leave equal are one object."""
        if id(program) not in self._facts:
            self._facts[id(program)] = ProgramFacts(program, self._target)
        return self._facts[id(program)]

    def rows(
        self, plan: BufferProgram, structure: Structure, bodies: Sequence[Sequence[NestContext]]
    ) -> tuple[Row, ...]:
        """The table of one nest number, cheapest first; `bodies` are its nests in each body of the plan."""
        keys = tuple(
            (id(plan.program), plan.blocks, body.role, tuple(table_key(context) for context in contexts))
            for body, contexts in zip(plan.bodies, bodies, strict=True)
        )
        key = (structure.lanes, structure.inside, structure.predicates, keys)
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
        main = max(contexts, key=lambda c: (len(c.nest.inline), len(c.nest.loops)))
        plainest: dict[int, NestChoice] = {}
        rows = []
        for choice in loop_choices(main, structure, contexts):
            reasons = (r for context in contexts for r in refuse_nest(context.exchanged(choice.apply(context.nest))))
            if self.refusals.add(reasons):
                continue
            plain = plainest.setdefault(choice.lanes, choice)
            counts = self._both(plan, main.nest.number, choice, keys)
            moved = sum((traffic(c.exchanged(choice.apply(c.nest)), plan) for c in contexts), Traffic())
            for chains in chain_options(main, choice):
                chained = replace(choice, chains=chains)
                trial = main.exchanged(chained.apply(main.nest))
                if self.refusals.add(refuse_block(trial)):
                    continue
                for variants in variant_choices(*contexts):
                    extra = self._extra(plan, main, plain, variants, keys)
                    rows.append(self._row(plan, replace(chained, variants=variants), counts, extra, moved))
        return tuple(sorted(rows, key=lambda row: row.ns))

    def _row(
        self,
        plan: BufferProgram,
        choice: NestChoice,
        counts: Sequence[Count],
        extra: Sequence[tuple[Events, int]],
        moved: Traffic,
    ) -> Row:
        """Chains shorten the dependent steps; polynomials add what they cost more than the first ones."""
        whole = whole_packets(plan) / plan.packets
        share = {Role.WHOLE: whole, Role.REST: 1.0 - whole, Role.ANY: 1.0} if len(counts) > 1 else {}
        ns, sizes = 0.0, {}
        for body, counted, (more_events, more_instructions) in zip(plan.bodies, counts, extra, strict=True):
            cost = price(counted.events + more_events, counted.dependent_steps / choice.chains, self._prices, moved)
            ns += share.get(body.role, 1.0) * cost
            sizes[body.full] = counted.instructions + more_instructions
        return Row(choice=choice, ns=ns, general=sizes.get(False, sizes.get(True, 0)), full=sizes.get(True, 0))

    def _both(
        self, plan: BufferProgram, number: int, choice: NestChoice, keys: Sequence[Hashable]
    ) -> tuple[Count, ...]:
        return tuple(
            self._count(plan, body.full, number, choice, key) for body, key in zip(plan.bodies, keys, strict=True)
        )

    def _extra(
        self,
        plan: BufferProgram,
        context: NestContext,
        plain: NestChoice,
        variants: tuple[tuple[str, str], ...],
        keys: Sequence[Hashable],
    ) -> tuple[tuple[Events, int], ...]:
        """Events and builder instructions, a body, that polynomials cost more than the first ones of a nest.

        They are counted at the plainest register block of the lanes; a function is evaluated as often at every block.
        """
        if variants == plain.variants:
            return ((Events(), 0),) * len(plan.bodies)
        roles = tuple(body.role for body in plan.bodies)
        key = (id(plan.program), evaluations_key(context), plan.blocks, roles, plain.lanes, plain.tail, variants)
        if key not in self._extras:
            number = context.nest.number
            first = self._both(plan, number, plain, keys)
            other = self._both(plan, number, replace(plain, variants=variants), keys)
            self._extras[key] = tuple(
                (o.events + f.events.scaled(-1.0), o.instructions - f.instructions)
                for f, o in zip(first, other, strict=True)
            )
        return self._extras[key]

    def _count(self, plan: BufferProgram, full: bool, number: int, choice: NestChoice, key: Hashable) -> Count:
        key = (key, choice)
        if key not in self._counts:
            self._counts[key] = count_nest(only_body(plan, full), number, choice.apply, self._target)
        return self._counts[key]


def evaluations_key(context: NestContext) -> Hashable:
    """What the number of evaluations of functions in a nest depends on, beside lanes and tail."""
    ops = {op for op, _, _ in context.functions}
    values = (let for let in context.computed if isinstance(let.value, Elementwise) and let.value.op in ops)
    return tuple(loop.axis for loop in context.nest.loops), tuple(sorted(let.id for let in values))


def table_key(context: NestContext) -> Hashable:
    """What a nest's table depends on: its sinks and loops, and the shape and place of the buffers it touches."""
    buffers = {b.id: b for b in context.body.buffers}
    materialized = dict(context.body.materialized)
    touched: set[tuple[object, ...]] = set()
    reads = {o for let in context.computed for o in operands(let.value)} | {
        root for sink in context.nest.sinks for root in context.roots(sink)
    }
    for value in sorted(reads):
        if value in materialized and value not in context.produced:
            touched.add((value, *_shape(buffers[materialized[value]])))
    sinks: list[tuple[object, ...]] = []
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
    inline = tuple(spec.value for spec in nest.inline)
    return axes, tuple(sinks), frozenset(touched), nest.transfers, nest.store_transfers, tiles, inline, context.parts


def _shape(buffer: Buffer) -> tuple[object, ...]:
    return buffer.dtype, buffer.axes, buffer.storage
