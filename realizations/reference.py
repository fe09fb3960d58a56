"""The reference candidate: no optional mechanism, lanes along the innermost contiguous output axis.
Must not know costs; it is always legal."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.ir.buffer import Tail, Transfer
from autotune.ir.phases import PhaseKind
from autotune.ir.program import AxisKind, Program
from autotune.realizations.candidate import Buffered, Candidate, Clones, Direct, Inline, Storage, Tile
from autotune.realizations.choices import variant_choices
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.enumerate import Enumerator
from autotune.realizations.legality import contexts, refuse_nest
from autotune.realizations.lower import lower
from autotune.realizations.storage import forced_copies
from autotune.realizations.structure import NestChoice, Structure, assemble
from autotune.realizations.target import Target
from autotune.realizations.tensor_access import contiguous_axis, flatten
from autotune.realizations.tiled import tiled


def reference_candidate(program: Program, target: Target) -> Candidate:
    """The candidate every search starts from and every call may fall back to.

    One nest a sink, nothing buffered, no unrolling, one chain, a scalar tail, one general body; gathers where the
    lanes are not contiguous; a nest that its rules keep from those lanes is scalar.
    """
    structure = reference_structure(program, target)
    facts = ProgramFacts(tiled(program, structure.tiles).program, target)
    plain = {n: _scalar_choice() for n in structure.nest_numbers}
    plan = lower(program, assemble(structure, plain))
    choices = dict(plain)
    around = contexts(facts, plan, plan.bodies[-1], assemble(structure, plain))
    for number in structure.nest_numbers:
        choices[number] = _choice([context for context in around if context.nest.number == number], structure)
    return assemble(structure, choices)


def reference_structure(program: Program, target: Target) -> Structure:
    """Nests, blocks and transfers of the reference candidate."""
    facts = ProgramFacts(program, target)
    contiguous = (contiguous_axis(flatten(program.tensor(s.tensor), s.index)) for s in facts.stores)
    lane_axis = next((axis for axis in contiguous if axis is not None), None)
    lanes = target.lanes(program.tensor(facts.stores[0].tensor).dtype)
    if lane_axis in program.parallel and (
        program.axes[lane_axis].extent.constant < lanes or not facts.joins_programs_along(lane_axis)
    ):
        lane_axis = None
    tiles: list[Tile] = []
    for axis in program.axes:
        extent = max(1, facts.ranges.most(axis.id))
        if axis.kind is AxisKind.TILE:
            tiles.append(Tile(axis=axis.id, block=min(256, extent)))
        elif axis.id in program.parallel:
            packed = axis.id == lane_axis and extent >= lanes
            tiles.append(Tile(axis=axis.id, block=lanes if packed else 1))
    enumerator = Enumerator(program, tuple(tiles), target)
    across = () if lane_axis is None else (lane_axis,)
    storage: dict[int, Storage] = {
        p.number: Direct() if p.kind is PhaseKind.LOAD else Inline()
        for p in enumerator.phases
        if p.kind in (PhaseKind.LOAD, PhaseKind.ELEMENTWISE)
    }
    for number in forced_copies(enumerator.facts, enumerator.graph):
        storage[number] = Buffered(layout=enumerator.layout(enumerator.phases[number], across))
    nests = list(enumerator.partitions(tuple(storage.items()), None))[-1]
    transfer: tuple[tuple[int, Transfer], ...] = ()
    if lane_axis is not None:
        strided = (p for p in enumerator.phases if p.kind in (PhaseKind.LOAD, PhaseKind.STORE))
        transfer = tuple((p.number, Transfer.GATHER) for p in strided if enumerator.strided(p, lane_axis))
    return Structure(
        tiles=tuple(tiles),
        lanes=across,
        storage=tuple(sorted(storage.items())),
        nests=nests,
        transfer=transfer,
        packet=Clones.GENERAL,
    )


def _scalar_choice() -> NestChoice:
    return NestChoice(axis=None, lanes=1, blocks=(), chains=1, tail=Tail.MASK, variants=())


def _choice(contexts: Sequence[NestContext], structure: Structure) -> NestChoice:
    """Lanes of the target if the rules allow them with a scalar tail in every nest of one number, else scalar."""
    main = max(contexts, key=lambda context: len(context.nest.loops))
    variants = next(iter(variant_choices(*contexts)))
    axis = structure.vector_axis(main.nest)
    lanes = 1 if axis is None else min(main.facts.target.lanes(context.widest) for context in contexts)
    for tail in (Tail.MASK, Tail.SCALAR):
        choice = NestChoice(axis=axis, lanes=lanes, blocks=(), chains=1, tail=tail, variants=variants)
        trials = (context.exchanged(choice.apply(context.nest)) for context in contexts)
        if lanes > 1 and not any(reason for trial in trials for reason in refuse_nest(trial)):
            return choice
    return NestChoice(axis=None, lanes=1, blocks=(), chains=1, tail=Tail.MASK, variants=variants)
