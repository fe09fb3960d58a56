"""Judges a candidate: asks the rules of every kind of choice and adds up the budgets.
Must not know costs; never raises on a well-formed candidate."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ir.buffer import Body, BufferProgram
from autotune.ir.phases import PhaseGraph
from autotune.ir.program import Program
from autotune.realizations import compute, form, mapping, packet, schedule, split, storage, transfer
from autotune.realizations.candidate import Buffered, Candidate, Clones
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.lower import lower
from autotune.realizations.places import loops_of, nests_with_places
from autotune.realizations.predict import count, only_body
from autotune.realizations.regions import WRITTEN
from autotune.realizations.target import Target
from autotune.realizations.tiled import tiled
from autotune.realizations.verdict import Legal, Refusal, Refused, Verdict

RULES: tuple[type[Refusal], ...] = (
    form.NotWellFormed,
    mapping.LanesTooWide,
    mapping.LanesExceedBlock,
    mapping.OrderedAcrossLanes,
    mapping.BlockExceedsExtent,
    mapping.SeveralPackedAxes,
    mapping.LoopBoundVaries,
    mapping.ConditionVaries,
    mapping.NestMappingsDisagree,
    storage.ChoiceMissing,
    storage.LayoutAxesDiffer,
    storage.SnapshotLost,
    storage.ReadsUnfinishedStore,
    storage.StoresMayMeet,
    storage.ReadsUnfinishedReduction,
    storage.DomainsDisagree,
    storage.PanelCrossed,
    storage.NestsOutOfOrder,
    storage.WorkspaceTooLarge,
    transfer.NeedsTransfer,
    transfer.TransferWithoutNeed,
    transfer.TransposeImpossible,
    compute.ChainsExceedBlock,
    compute.ChainsNeedReassociation,
    compute.RegisterBlockTooLarge,
    compute.FactorExceedsExtent,
    compute.VariantNotPermitted,
    compute.MaskUnsupported,
    compute.OverlapUnsafe,
    compute.TailWithoutNeed,
    compute.InlineNotRealized,
    packet.NothingToSplitAt,
    packet.CloneIneligible,
    packet.OverSourceBudget,
    packet.OverCloneBudget,
    split.SplitWithoutMerge,
    schedule.OrderNotRealized,
    schedule.ThreadsNotRealized,
)


def judge(program: Program, candidate: Candidate, target: Target) -> Verdict:
    """Legal, or refused with every reason found at the first level that finds any.

    Levels: the candidate as data; its nests once lowered; workspace and code budgets.
    """
    reasons = tuple(refuse_tiles(program, candidate, target))
    if reasons:
        return Refused(reasons=reasons)
    view = tiled(program, candidate.tiles)
    facts = ProgramFacts(view.program, target)
    reasons = tuple(refuse_candidate(facts, view.graph, candidate))
    if reasons:
        return Refused(reasons=reasons)
    plan = lower(program, candidate)
    reasons = tuple(refuse_plan(facts, plan, candidate))
    if reasons:
        return Refused(reasons=reasons)
    reasons = tuple(refuse_budgets(plan, candidate, target))
    return Refused(reasons=reasons) if reasons else Legal()


def refuse_tiles(program: Program, candidate: Candidate, target: Target) -> Iterator[Refusal]:
    """Rules on the blocks, which decide what program the other choices refer to."""
    malformed = tuple(form.refuse_tiles(program, candidate))
    yield from malformed or mapping.refuse_tiles(ProgramFacts(program, target), candidate)


def refuse_candidate(facts: ProgramFacts, graph: PhaseGraph, candidate: Candidate) -> Iterator[Refusal]:
    """Rules that need no nests."""
    malformed = tuple(form.refuse(facts.program, graph, candidate))
    if malformed:
        yield from malformed
        return
    buffered = {phase for phase, choice in candidate.storage if isinstance(choice, Buffered)}
    inside = {phase for phase, _ in candidate.contribution} - buffered
    sinks = [p.number for p in graph.phases if (p.kind in WRITTEN or p.number in buffered) and p.number not in inside]
    missing = tuple(storage.refuse_missing(candidate, sinks))
    if missing:
        yield from missing
        return
    yield from mapping.refuse_packing(facts, candidate)
    yield from mapping.refuse_agreement(candidate)
    yield from storage.refuse_layouts(facts, candidate, {p.number: p.axes for p in graph.phases})
    yield from storage.refuse_nest_order(graph, candidate)
    yield from packet.refuse_predicates(facts.program, candidate.predicates)
    yield from split.refuse(candidate.split)
    yield from schedule.refuse(facts.program, candidate.schedule)


def contexts(facts: ProgramFacts, plan: BufferProgram, body: Body, candidate: Candidate) -> list[NestContext]:
    """Every nest of a body with what surrounds it, in order."""
    blocks = dict(plan.blocks)
    tiles = {tile.axis: tile.block for tile in candidate.tiles}
    return [
        NestContext(facts, body, nest, blocks, tiles, loops_of(around), around)
        for around, nest in nests_with_places(body.steps)
    ]


def refuse_nest(context: NestContext) -> Iterator[Refusal]:
    """Rules on one nest by itself."""
    yield from refuse_lanes(context)
    yield from refuse_blocks(context)


def refuse_lanes(context: NestContext) -> Iterator[Refusal]:
    """Rules that lanes, tails and polynomials decide, and register blocks only where a transfer transposes them."""
    yield from storage.refuse_nest(context)
    yield from mapping.refuse_nest(context)
    yield from transfer.refuse_nest(context)
    yield from compute.refuse_lanes(context)


def refuse_blocks(context: NestContext) -> Iterator[Refusal]:
    """Rules on register blocks, chains and the loops of reductions inside the nest."""
    yield from compute.refuse_block(context)
    yield from compute.refuse_inline(context)


def refuse_plan(facts: ProgramFacts, plan: BufferProgram, candidate: Candidate) -> Iterator[Refusal]:
    """Rules on the nests of a lowered candidate and on its workspace."""
    surroundings = contexts(facts, plan, plan.bodies[-1], candidate)
    for context in surroundings:
        yield from refuse_nest(context)
    yield from storage.refuse_snapshots(surroundings)
    yield from storage.refuse_workspace(facts, plan)


def clone_counts(plan: BufferProgram, target: Target) -> tuple[bool, int, int]:
    """Whether some packet is partial, and builder instructions of the body without and with whole blocks assumed."""
    partial = any(not body.full for body in plan.bodies)
    sizes = {body.full: count(only_body(plan, body.full), target).instructions for body in plan.bodies}
    general = sizes.get(False, sizes.get(True, 0))
    return partial, general, sizes.get(True, 0)


def refuse_budgets(plan: BufferProgram, candidate: Candidate, target: Target) -> Iterator[Refusal]:
    """Code budgets of the bodies."""
    partial, general, full = clone_counts(plan, target)
    yield from packet.refuse(candidate.packet, partial, general, full, target)


def decision(plan: BufferProgram, clones: Clones, target: Target) -> packet.CloneDecision:
    """What became of the candidate's request for a full clone."""
    partial, general, full = clone_counts(plan, target)
    return packet.decide(clones, partial, general, full, target)
