"""Per-nest tables of legal choices with their predicted times and code sizes, shared between structures.
Must not know how tables are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from autotune.calibration.price import issue_ns, overlapped
from autotune.calibration.prior import Prices
from autotune.ir.buffer import Buffer, BufferProgram, Nest, Role, StoreBuffer, StoreTensor, Transfer
from autotune.ir.program import Program, operands
from autotune.realizations.choices import chain_options, loop_choices, variant_choices
from autotune.realizations.compute import refuse_block
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.evaluate import ProgramValues
from autotune.realizations.legality import refuse_blocks, refuse_lanes
from autotune.realizations.mechanisms import OFF_BY_DEFAULT
from autotune.realizations.nest_key import CanonicalNest
from autotune.realizations.predict import DependentSteps, only_body, whole_packets
from autotune.realizations.structure import NestChoice, Structure
from autotune.realizations.target import Target
from autotune.realizations.traffic import Movement, Traffic
from autotune.realizations.verdict import Refusal
from autotune.realizations.visits import Frame, frame, skeleton
from autotune.search.cache_file import CacheFile
from autotune.search.tallies import Copy, Tallies


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A legal choice of one nest. Units: `ns` of one entry; builder instructions of the general and the full body."""

    choice: NestChoice
    ns: float
    general: int
    full: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What a program costs beside its nests. Units as in `Row`."""

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
            if reason.rule not in self.examples:
                self.examples[reason.rule] = reason.sentence
        return refused

    def table(self) -> tuple[tuple[str, int, str], ...]:
        """Rule, count and example, most frequent first."""
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple((rule, count, self.examples[rule]) for rule, count in ordered)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The nests of one number in one body: every copy of them in the text, and the share of packets that run it."""

    share: float
    full: bool
    copies: tuple[Copy, ...]
    nests: tuple[tuple[Nest, float], ...]
    """Each nest with how often the loops around it repeat its dependent steps in one call."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Issue time, dependent steps and builder instructions of the nests of one number in one body."""

    issue: float
    steps: float
    instructions: int


class Tables:
    """Builds each distinct table once, and counts each distinct nest once."""

    def __init__(
        self,
        target: Target,
        prices: Prices,
        file: CacheFile | None = None,
        *,
        forbidden: frozenset[str] = OFF_BY_DEFAULT,
    ) -> None:
        """`forbidden` names the mechanisms that no row of a table may use."""
        self.forbidden = forbidden
        self._target = target
        self._prices = prices
        self._facts: dict[int, ProgramFacts] = {}
        self._values: dict[int, ProgramValues] = {}
        self._known: dict[Hashable, tuple[Row, ...]] = {}
        self._frames: dict[Hashable, Frame] = {}
        self.tallies = Tallies(target, prices, file)
        self.refusals = RefusalCounts()

    def facts(self, program: Program) -> ProgramFacts:
        """What every nest of a program shares; programs that tiles leave equal are one object."""
        if id(program) not in self._facts:
            self._facts[id(program)] = ProgramFacts(program, self._target)
        return self._facts[id(program)]

    def values(self, program: Program) -> ProgramValues:
        """What every count of a program shares."""
        if id(program) not in self._values:
            self._values[id(program)] = ProgramValues(program)
        return self._values[id(program)]

    # ---- frames -------------------------------------------------------------------------------------------------
    def overhead(self, plan: BufferProgram) -> Overhead:
        """What a program costs beside its nests."""
        ns, sizes = 0.0, {}
        for body, share in zip(plan.bodies, _shares(plan), strict=True):
            found = self._frame(plan, body.full)
            ns += share * issue_ns(found.events, self._prices)
            sizes[body.full] = found.instructions
        return Overhead(ns=ns, general=sizes.get(False, sizes.get(True, 0)), full=sizes.get(True, 0))

    def _frame(self, plan: BufferProgram, full: bool) -> Frame:
        one = only_body(plan, full)
        (body,) = one.bodies
        steps = skeleton(body)
        key = (id(plan.program), plan.blocks, body.role, steps)
        if key not in self._frames:
            self._frames[key] = frame(one, self._target)
        return self._frames[key]

    # ---- tables -------------------------------------------------------------------------------------------------
    def rows(
        self, plan: BufferProgram, structure: Structure, bodies: Sequence[Sequence[NestContext]]
    ) -> tuple[Row, ...]:
        """The table of one nest number, cheapest first; `bodies` are its nests in each body of the plan."""
        key = tuple(
            (id(plan.program), plan.blocks, body.role, tuple(table_key(context, structure) for context in contexts))
            for body, contexts in zip(plan.bodies, bodies, strict=True)
        )
        if key not in self._known:
            parts = tuple(
                self._part(plan, number, contexts, share)
                for number, (contexts, share) in enumerate(zip(bodies, _shares(plan), strict=True))
            )
            self._known[key] = self._build(plan, structure, bodies[-1], parts)
        return self._known[key]

    def _part(self, plan: BufferProgram, number: int, contexts: Sequence[NestContext], share: float) -> _Part:
        body = plan.bodies[number]
        values = self.values(plan.program)
        visits = self._frame(plan, body.full).visits
        steps = DependentSteps(values, dict(plan.blocks))
        copies: list[Copy] = []
        nests: list[tuple[Nest, float]] = []
        for context in {id(c.nest): c for c in contexts}.values():
            form = CanonicalNest(values, body, context.nest)
            copies += [Copy.of(body, context.nest, visit, form) for visit in visits[context.place]]
            repeats = float(plan.packets)
            for axis in context.loops_around:
                repeats *= steps.trips(axis)
            nests.append((context.nest, repeats))
        return _Part(share, body.full, tuple(copies), tuple(nests))

    def _build(
        self, plan: BufferProgram, structure: Structure, contexts: Sequence[NestContext], parts: Sequence[_Part]
    ) -> tuple[Row, ...]:
        main = max(contexts, key=lambda c: (len(c.nest.inline), len(c.nest.loops)))
        distinct = list({id(c.nest): c for c in contexts}.values())
        moves = [Movement(c, plan) for c in distinct]
        judged: dict[Hashable, tuple[Refusal, ...]] = {}
        plainest: dict[int, NestChoice] = {}
        extras: dict[Hashable, tuple[_Cost, ...]] = {}
        rows = []
        everywhere = list(variant_choices(*contexts))
        for choice in loop_choices(main, structure, contexts, self.forbidden):
            nests = [choice.apply(c.nest) for c in distinct]
            trials = [c.exchanged(nest) for c, nest in zip(distinct, nests, strict=True)]
            lanes = _lanes_key(choice, distinct)
            if lanes not in judged:
                judged[lanes] = tuple(r for trial in trials for r in refuse_lanes(trial))
            if self.refusals.add((*judged[lanes], *(r for trial in trials for r in refuse_blocks(trial)))):
                continue
            plain = plainest.setdefault(choice.lanes, choice)
            costs = self._costs(plan, parts, choice)
            moved = sum((move.of(nest) for move, nest in zip(moves, nests, strict=True)), Traffic())
            for chains in chain_options(main, choice, self.forbidden):
                chained = choice
                if chains != choice.chains:
                    chained = replace(choice, chains=chains)
                    if self.refusals.add(refuse_block(main.exchanged(chained.apply(main.nest)))):
                        continue
                for variants in everywhere:
                    more = None
                    if variants != plain.variants:
                        key = (plain.lanes, variants)
                        if key not in extras:
                            extras[key] = self._extra(plan, parts, plain, variants)
                        more = extras[key]
                    named = chained if variants == chained.variants else replace(chained, variants=variants)
                    rows.append(self._row(named, parts, costs, more, moved))
        return tuple(sorted(rows, key=lambda row: row.ns))

    def _row(
        self,
        choice: NestChoice,
        parts: Sequence[_Part],
        costs: Sequence[_Cost],
        more: Sequence[_Cost] | None,
        moved: Traffic,
    ) -> Row:
        """Chains shorten the dependent steps; polynomials add what they cost more than the first ones."""
        ns, sizes = 0.0, {}
        for number, (part, cost) in enumerate(zip(parts, costs, strict=True)):
            issue = cost.issue + (more[number].issue if more else 0.0)
            ns += part.share * overlapped(issue, cost.steps / choice.chains, self._prices, moved)
            sizes[part.full] = cost.instructions + (more[number].instructions if more else 0)
        return Row(choice=choice, ns=ns, general=sizes.get(False, sizes.get(True, 0)), full=sizes.get(True, 0))

    def _costs(self, plan: BufferProgram, parts: Sequence[_Part], choice: NestChoice) -> tuple[_Cost, ...]:
        values = self.values(plan.program)
        steps = DependentSteps(values, dict(plan.blocks))
        found = []
        for part in parts:
            exchanged = {id(nest): choice.apply(nest) for nest, _ in part.nests}
            issue, instructions = 0.0, 0
            for copy in part.copies:
                priced = self.tallies.priced(values, copy, exchanged[id(copy.nest)])
                issue += copy.issue_ns(priced)
                instructions += priced.instructions
            dependent = sum(steps.of_nest(exchanged[id(nest)]) * repeats for nest, repeats in part.nests)
            found.append(_Cost(issue, dependent, instructions))
        return tuple(found)

    def _extra(
        self, plan: BufferProgram, parts: Sequence[_Part], plain: NestChoice, variants: tuple[tuple[str, str], ...]
    ) -> tuple[_Cost, ...]:
        """What polynomials cost more than the first ones of a nest, in each body.

        They are counted at the plainest register block of the lanes; a function is evaluated as often at every block.
        """
        first = self._costs(plan, parts, plain)
        other = self._costs(plan, parts, replace(plain, variants=variants))
        return tuple(
            _Cost(o.issue - f.issue, 0.0, o.instructions - f.instructions) for f, o in zip(first, other, strict=True)
        )


def _shares(plan: BufferProgram) -> tuple[float, ...]:
    """The part of the packets that each body runs."""
    if len(plan.bodies) == 1:
        return (1.0,)
    whole = whole_packets(plan) / plan.packets
    share = {Role.WHOLE: whole, Role.REST: 1.0 - whole, Role.ANY: 1.0}
    return tuple(share[body.role] for body in plan.bodies)


def _lanes_key(choice: NestChoice, contexts: Sequence[NestContext]) -> Hashable:
    """What the rules of `refuse_lanes` depend on in a choice; transposed accesses look at the register block too."""
    transposed = any(t is Transfer.TRANSPOSE for c in contexts for _, t in (*c.nest.transfers, *c.nest.store_transfers))
    inner = tuple((i.value, i.contribution.axis, i.contribution.lanes) for i in choice.inline)
    return choice.axis, choice.lanes, choice.tail, choice.variants, inner, choice.blocks if transposed else ()


def table_key(context: NestContext, structure: Structure) -> Hashable:
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
    walked = {*axes, *context.loops_around, *(loop.axis for spec in nest.inline for loop in spec.loops)}
    tiles = tuple(sorted(item for item in context.tile_blocks.items() if item[0] in walked))
    inside = {spec.value for spec in nest.inline}
    own = tuple((i.value, i.axis) for i in structure.inside if i.value in inside)
    lanes = structure.vector_axis(nest)
    around = (context.loops_around, context.parts)
    return axes, lanes, tuple(sinks), frozenset(touched), nest.transfers, nest.store_transfers, tiles, own, around


def _shape(buffer: Buffer) -> tuple[object, ...]:
    return buffer.dtype, buffer.axes, buffer.storage
