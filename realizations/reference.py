"""The reference candidate: no optional mechanism, lanes along the innermost contiguous output axis.
Must not know costs; it is always legal."""

from __future__ import annotations

from autotune.ir.buffer import Tail, Transfer
from autotune.ir.phases import PhaseGraph, PhaseKind
from autotune.ir.program import AxisKind, Program
from autotune.realizations.candidate import Candidate, Clones, Direct, Inline, Storage, Tile
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.enumerate import Enumerator, variant_choices
from autotune.realizations.evaluate import contiguous_axis, flatten
from autotune.realizations.legality import contexts, refuse_nest
from autotune.realizations.lower import lower
from autotune.realizations.structure import NestChoice, Structure, assemble
from autotune.realizations.target import Target


def reference_candidate(program: Program, graph: PhaseGraph, target: Target) -> Candidate:
    """The candidate every search starts from and every call may fall back to.

    One nest a sink, nothing buffered, no unrolling, one chain, a scalar tail, one general body; gathers where the
    lanes are not contiguous; a nest that its rules keep from those lanes is scalar.
    """
    facts = ProgramFacts(program, target)
    structure = reference_structure(facts, graph)
    plain = {n: _scalar_choice() for n in structure.nest_numbers}
    plan = lower(program, graph, assemble(structure, plain))
    choices = dict(plain)
    for context in contexts(facts, plan, plan.bodies[-1], assemble(structure, plain)):
        choices[context.nest.number] = _choice(context, structure)
    return assemble(structure, choices)


def reference_structure(facts: ProgramFacts, graph: PhaseGraph) -> Structure:
    """Nests, blocks and transfers of the reference candidate."""
    program = facts.program
    enumerator = Enumerator(facts, graph)
    contiguous = (contiguous_axis(flatten(program.tensor(s.tensor), s.index)) for s in facts.stores)
    lane_axis = next((axis for axis in contiguous if axis is not None), None)
    lanes = facts.target.lanes(program.tensor(facts.stores[0].tensor).dtype)
    tiles: list[Tile] = []
    for axis in program.axes:
        extent = max(1, axis.extent.constant)
        if axis.kind is AxisKind.TILE:
            tiles.append(Tile(axis=axis.id, block=min(256, extent)))
        elif axis.id in program.parallel:
            packed = axis.id == lane_axis and extent >= lanes
            tiles.append(Tile(axis=axis.id, block=lanes if packed else 1))
    if lane_axis in program.parallel and program.axes[lane_axis].extent.constant < lanes:
        lane_axis = None
    storage: dict[int, Storage] = {
        p.number: Direct() if p.kind is PhaseKind.LOAD else Inline()
        for p in graph.phases
        if p.kind in (PhaseKind.LOAD, PhaseKind.ELEMENTWISE)
    }
    nests = list(enumerator.partitions(tuple(storage.items()), None))[-1]
    transfer: tuple[tuple[int, Transfer], ...] = ()
    if lane_axis is not None:
        strided = (p for p in graph.phases if p.kind in (PhaseKind.LOAD, PhaseKind.STORE))
        transfer = tuple((p.number, Transfer.GATHER) for p in strided if enumerator.strided(p, lane_axis))
    return Structure(
        tiles=tuple(tiles),
        lane_axis=lane_axis,
        packed_axis=lane_axis if lane_axis in program.parallel else None,
        storage=tuple(sorted(storage.items())),
        nests=nests,
        transfer=transfer,
        packet=Clones.GENERAL,
    )


def _scalar_choice() -> NestChoice:
    return NestChoice(axis=None, lanes=1, blocks=(), chains=1, tail=Tail.MASK, variants=())


def _choice(context: NestContext, structure: Structure) -> NestChoice:
    """Lanes of the target if the rules allow them with a scalar tail, else scalar."""
    variants = next(iter(variant_choices(context)))
    axis = structure.vector_axis(tuple(loop.axis for loop in context.nest.loops))
    lanes = 1 if axis is None else context.facts.target.lanes(context.widest)
    for tail in (Tail.MASK, Tail.SCALAR):
        choice = NestChoice(axis=axis, lanes=lanes, blocks=(), chains=1, tail=tail, variants=variants)
        trial = NestContext(
            context.facts, context.body, choice.apply(context.nest), context.blocks, context.tile_blocks
        )
        if lanes > 1 and not any(refuse_nest(trial)):
            return choice
    return NestChoice(axis=None, lanes=1, blocks=(), chains=1, tail=Tail.MASK, variants=variants)
