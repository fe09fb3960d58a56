"""The optional mechanisms of a candidate by name: what each one is, and what uses it.
Must not know which are legal or what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from autotune.ir.buffer import Transfer
from autotune.ir.phases import Phase, PhaseKind
from autotune.ir.program import AxisKind, Program
from autotune.realizations.candidate import Block, Buffered, Candidate, Clones, Compute, Contribution
from autotune.realizations.context import ProgramFacts
from autotune.realizations.storage import forced_copies
from autotune.realizations.structure import NestChoice, Structure
from autotune.realizations.target import Target
from autotune.realizations.tiled import Tiled, tiled

Fixed: TypeAlias = Structure | Candidate
"""What decides which nests there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The choices around the nests, with the program they refer to and the copies that it needs in any case."""

    view: Tiled
    forced: frozenset[int]
    fixed: Fixed

    def optional_copies(self) -> Iterator[tuple[Phase, Buffered]]:
        """Loads that are copied although they may be read in place."""
        phases = self.view.graph.phases
        for number, kept in self.fixed.storage:
            if isinstance(kept, Buffered) and phases[number].kind is PhaseKind.LOAD and number not in self.forced:
                yield phases[number], kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops:
    """The loops of one nest; `across` runs over its lanes (None: scalar)."""

    program: Program
    across: int | None
    chains: int
    order: tuple[int, ...]


def _never(*_parts: object) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A named mechanism and what uses it: the choices around the nests, the register block of a nest (with the axes
    that its own sinks sum), its loops, a reduction inside it, or the axes across the lanes of all nests together."""

    name: str
    meaning: str
    whole: Callable[[Whole], bool] = _never
    block: Callable[[Sequence[Block], frozenset[int]], bool] = _never
    loops: Callable[[Loops], bool] = _never
    inside: Callable[[Contribution], bool] = _never
    lanes: Callable[[frozenset[int | None]], bool] = _never


# ---- predicates -----------------------------------------------------------------------------------------------------
def _contracts_inside(part: Whole) -> bool:
    phases = part.view.graph.phases
    return any(phases[number].kind is PhaseKind.REDUCTION for number, _ in part.fixed.storage)


def _shares_nests(part: Whole) -> bool:
    numbers = [nest for _, nest in part.fixed.nests]
    return len(set(numbers)) < len(numbers)


def _is_transposed(phase: Phase, kept: Buffered) -> bool:
    """Whether a copy is contiguous along another axis than its tensor."""
    strides = {} if phase.access is None else dict(phase.access.strides)
    unit = [axis for axis in kept.layout if strides.get(axis) == 1]
    return bool(unit) and kept.layout[-1] not in unit


def _joins_programs(part: Whole) -> bool:
    program = part.view.program
    kinds = ((program.axes[tile.axis].kind, tile.block) for tile in part.fixed.tiles)
    return any(kind is AxisKind.PROGRAM and block > 1 for kind, block in kinds)


def _blocked_outputs(blocks: Sequence[Block], reduced: frozenset[int]) -> int:
    return sum(1 for block in blocks if block.factor > 1 and block.axis not in reduced)


def _unrolls(blocks: Sequence[Block], reduced: frozenset[int]) -> bool:
    return any(block.factor > 1 and block.axis in reduced for block in blocks)


INLINE_CONTRACTIONS = "inline-contractions"
REGISTER_BLOCKS, TWO_AXIS_BLOCKS = "register-blocks", "two-axis-blocks"
BLOCKS = frozenset({REGISTER_BLOCKS, TWO_AXIS_BLOCKS})
SHARED_NESTS = "shared-nests"
LOOP_SPLITS = "loop-splits"
PANELS = "panels"
LANES_OVER_PROGRAMS = "lanes-over-programs"
MIXED_LANES = "mixed-lanes"
MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism(
        name=REGISTER_BLOCKS,
        meaning="a step of a nest computes several outputs a lane",
        block=lambda blocks, reduced: _blocked_outputs(blocks, reduced) > 0,
    ),
    Mechanism(
        name=TWO_AXIS_BLOCKS,
        meaning="a register block takes several steps along two output axes",
        block=lambda blocks, reduced: _blocked_outputs(blocks, reduced) > 1,
    ),
    Mechanism(
        name="own-lanes",
        meaning="a contraction inside a nest has what it sums across its lanes",
        inside=lambda part: part.axis is not None,
    ),
    Mechanism(
        name="grouped-outputs",
        meaning="several outputs of a contraction with lanes of its own are brought together by one transposition",
        inside=lambda part: part.group > 1,
    ),
    Mechanism(
        name="chains",
        meaning="a sum runs in several independent chains",
        loops=lambda part: part.chains > 1,
        inside=lambda part: part.chains > 1,
    ),
    Mechanism(
        name="unrolled-contributions",
        meaning="a step of a sum takes several contributions a lane",
        block=_unrolls,
        inside=lambda part: any(block.factor > 1 for block in part.blocks),
    ),
    Mechanism(
        name=INLINE_CONTRACTIONS,
        meaning="contractions are computed inside the nests that use them",
        whole=_contracts_inside,
    ),
    Mechanism(name=SHARED_NESTS, meaning="several sinks share one nest", whole=_shares_nests),
    Mechanism(
        name="copies",
        meaning="an operand is copied, contiguous along the axis that its tensor has contiguous, in panels or not",
        whole=lambda part: any(not _is_transposed(*copy) for copy in part.optional_copies()),
    ),
    Mechanism(
        name="transposed-copies",
        meaning="an operand is copied with another axis contiguous than its tensor has",
        whole=lambda part: any(_is_transposed(*copy) for copy in part.optional_copies()),
    ),
    Mechanism(
        name=PANELS,
        meaning="a copy of an operand is cut into panels",
        whole=lambda part: any(kept.panel for _, kept in part.optional_copies()),
    ),
    Mechanism(
        name="register-transposes",
        meaning="strided memory is reached by contiguous accesses that are transposed in registers",
        whole=lambda part: any(transfer is Transfer.TRANSPOSE for _, transfer in part.fixed.transfer),
    ),
    Mechanism(
        name="joined-programs",
        meaning="a packet joins several programs along an axis of single programs",
        whole=_joins_programs,
    ),
    Mechanism(
        name=LANES_OVER_PROGRAMS,
        meaning="a parallel axis runs across the lanes",
        loops=lambda part: part.across is not None and part.across in part.program.parallel,
    ),
    Mechanism(
        name=MIXED_LANES,
        meaning="nests of one candidate have different axes across their lanes",
        lanes=lambda axes: len(axes) > 1,
    ),
    Mechanism(
        name=LOOP_SPLITS,
        meaning="a loop is split where a comparison of indices is known to hold",
        whole=lambda part: bool(part.fixed.predicates),
    ),
    Mechanism(
        name="full-clones",
        meaning="packets whose blocks are all whole have a body of their own",
        whole=lambda part: part.fixed.packet is Clones.FULL,
    ),
    Mechanism(
        name="loop-orders",
        meaning="the loops of a nest stand in another order than the program's",
        loops=lambda part: bool(part.order),
    ),
    Mechanism(
        name="prefetch",
        meaning="streams of a contraction are asked for ahead of their use",
        inside=lambda part: part.prefetch_bytes > 0,
    ),
)
NAMES = tuple(mechanism.name for mechanism in MECHANISMS)
OFF_BY_DEFAULT = frozenset({PANELS})
"""Mechanisms that a search leaves out unless it is asked to allow them: docs/ablations.md found no gain in them."""


def kept_lanes(program: Program, lanes: tuple[int, ...], forbidden: frozenset[str]) -> tuple[int, ...]:
    """An order of preference of lane axes less those that are forbidden."""
    if LANES_OVER_PROGRAMS in forbidden:
        lanes = tuple(axis for axis in lanes if axis not in program.parallel)
    return lanes[:1] if MIXED_LANES in forbidden else lanes


def without_lanes(program: Program, structure: Structure, forbidden: frozenset[str]) -> Structure:
    """The structure with those nests scalar that would have lanes of a forbidden kind."""
    kept = kept_lanes(program, structure.lanes, forbidden)
    return replace(structure, lanes=kept, across=tuple((nest, axis) for nest, axis in structure.across if axis in kept))


# ---- what uses what -------------------------------------------------------------------------------------------------
def of_structure(view: Tiled, structure: Structure, target: Target) -> frozenset[str]:
    """Mechanisms that every candidate of a structure uses; `view` is the program under the structure's tiles."""
    return _of_whole(Whole(view=view, forced=_forced(view, target), fixed=structure))


def of_choice(program: Program, choice: NestChoice, reduced: frozenset[int]) -> frozenset[str]:
    """Mechanisms that the choice of one nest uses; `reduced` are the axes that the nest's own sinks sum."""
    loops = Loops(
        program=program,
        across=choice.axis if choice.lanes > 1 else None,
        chains=choice.chains,
        order=choice.order,
    )
    inside = (of_contribution(each.contribution) for each in choice.inline)
    return of_blocks(choice.blocks, reduced).union(_of_loops(loops), *inside)


def of_lanes(axes: frozenset[int | None]) -> frozenset[str]:
    """Mechanisms that follow from which axes run across lanes in the nests of one candidate."""
    return frozenset(m.name for m in MECHANISMS if m.lanes(axes))


def uses(program: Program, candidate: Candidate, target: Target) -> frozenset[str]:
    """Names of the mechanisms that a candidate of a bound program uses."""
    view = tiled(program, candidate.tiles)
    whole = _of_whole(Whole(view=view, forced=_forced(view, target), fixed=candidate))
    mapping = dict(candidate.mapping)
    across = frozenset(m.axis for m in mapping.values() if m.lanes > 1 and m.axis is not None)
    nests: dict[int, list[int]] = {}
    for phase, nest in candidate.nests:
        nests.setdefault(nest, []).append(phase)
    compute = dict(candidate.compute)
    found = [whole, of_lanes(across)]
    for phases in nests.values():
        mapped = mapping[phases[0]]
        choice = compute.get(phases[0], Compute())
        loops = Loops(
            program=view.program,
            across=mapped.axis if mapped.lanes > 1 else None,
            chains=choice.chains,
            order=choice.order,
        )
        found += [of_blocks(choice.blocks, _reduced(view, candidate, phases)), _of_loops(loops)]
    found += (of_contribution(contribution) for _, contribution in candidate.contribution)
    return frozenset().union(*found)


def _reduced(view: Tiled, candidate: Candidate, phases: Sequence[int]) -> frozenset[int]:
    """Axes that the sinks of a nest sum by loops of the nest."""
    inside = {number for number, _ in candidate.contribution}
    sinks = (view.graph.phases[number] for number in phases)
    return frozenset(axis for sink in sinks if sink.number not in inside for axis in sink.contribution)


@lru_cache(maxsize=2048)
def _forced(view: Tiled, target: Target) -> frozenset[int]:
    return forced_copies(ProgramFacts(view.program, target), view.graph)


def of_contribution(part: Contribution) -> frozenset[str]:
    """Mechanisms that the walk of one reduction inside a nest uses."""
    return frozenset(m.name for m in MECHANISMS if m.inside(part))


def of_blocks(blocks: Sequence[Block], reduced: frozenset[int]) -> frozenset[str]:
    """Mechanisms that a register block alone uses; `reduced` are the axes that the nest's own sinks sum."""
    return frozenset(m.name for m in MECHANISMS if m.block(blocks, reduced))


def _of_whole(part: Whole) -> frozenset[str]:
    return frozenset(m.name for m in MECHANISMS if m.whole(part))


def _of_loops(part: Loops) -> frozenset[str]:
    return frozenset(m.name for m in MECHANISMS if m.loops(part))
