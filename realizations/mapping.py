"""Which axis runs across the lanes, and which programs a packet joins: values and refusals.
Must not know costs or instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from autotune.ir.types import DType, ReduceOp
from autotune.realizations.candidate import Candidate, Mapping
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.target import Target
from autotune.realizations.verdict import Refusal

LANES = (4, 8, 16)
MAX_REGISTERS_A_VALUE = 2
EXACT_IN_ANY_ORDER = frozenset({ReduceOp.MAX, ReduceOp.MIN, ReduceOp.ANY, ReduceOp.ALL, ReduceOp.ARGMAX})


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesTooWide(Refusal):
    rule: ClassVar[str] = "lanes-too-wide"
    lanes: int
    dtype: str
    registers: int
    limit: int

    @property
    def sentence(self) -> str:
        return (
            f"{self.lanes} lanes of {self.dtype} take {self.registers} vector registers a value; "
            f"at most {self.limit} are allowed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesExceedBlock(Refusal):
    rule: ClassVar[str] = "lanes-exceed-block"
    axis: int
    lanes: int
    block: int

    @property
    def sentence(self) -> str:
        return f"{self.lanes} lanes along axis a{self.axis} do not divide its block of {self.block} programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedAcrossLanes(Refusal):
    rule: ClassVar[str] = "ordered-across-lanes"
    value: int
    axis: int

    @property
    def sentence(self) -> str:
        return f"reduction %{self.value} keeps its order, so its axis a{self.axis} cannot run across the lanes"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockExceedsExtent(Refusal):
    rule: ClassVar[str] = "block-exceeds-extent"
    axis: int
    block: int
    extent: int

    @property
    def sentence(self) -> str:
        return f"a block of {self.block} along axis a{self.axis} is larger than its extent of {self.extent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralPackedAxes(Refusal):
    rule: ClassVar[str] = "several-packed-axes"
    axes: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return f"programs are packed along {len(self.axes)} parallel axes; one packet joins programs along one"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBoundVaries(Refusal):
    rule: ClassVar[str] = "loop-bound-varies"
    loop: int
    axis: int
    block: int

    @property
    def sentence(self) -> str:
        return (
            f"the bounds of loop a{self.loop} vary along axis a{self.axis}, "
            f"so a packet cannot join {self.block} programs along it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionVaries(Refusal):
    rule: ClassVar[str] = "condition-varies"
    condition: int
    axis: int
    block: int

    @property
    def sentence(self) -> str:
        return (
            f"the condition %{self.condition} of a branch or while loop varies along axis a{self.axis}, "
            f"so a packet cannot join {self.block} programs along it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NestMappingsDisagree(Refusal):
    rule: ClassVar[str] = "nest-mappings-disagree"
    nest: int

    @property
    def sentence(self) -> str:
        return f"phases of nest {self.nest} name different vector axes, lanes or blocks; a nest has one of each"


def lanes_of(target: Target) -> tuple[int, ...]:
    """Lane counts worth trying, widest first: those of the language and the target's own for single precision."""
    return tuple(sorted({*LANES, target.lanes(DType.F32)}, reverse=True))


def refuse_tiles(facts: ProgramFacts, candidate: Candidate) -> Iterator[Refusal]:
    """Rules on the blocks of tile loops and packed programs that the sizes decide."""
    axes = facts.program.axes
    packed = tuple(
        t.axis
        for t in candidate.tiles
        if t.axis in facts.program.parallel and t.block > 1 and axes[t.axis].extent.constant > 1
    )
    extents = {t.axis: facts.ranges.most(t.axis) for t in candidate.tiles}
    for tile in candidate.tiles:
        if tile.block > max(1, extents[tile.axis]):
            yield BlockExceedsExtent(axis=tile.axis, block=tile.block, extent=extents[tile.axis])
    program_axes = tuple(a for a in packed if axes[a].kind.value == "program")
    if len(program_axes) > 1:
        yield SeveralPackedAxes(axes=program_axes)


def refuse_packing(facts: ProgramFacts, candidate: Candidate) -> Iterator[Refusal]:
    """Rules on joined programs that the loops and branches of the program they leave decide."""
    for tile in candidate.tiles:
        if tile.block > 1 and tile.axis in facts.program.parallel:
            for loop in facts.loops_varying_along(tile.axis):
                yield LoopBoundVaries(loop=loop, axis=tile.axis, block=tile.block)
            for condition in facts.conditions_varying_along(tile.axis):
                yield ConditionVaries(condition=condition, axis=tile.axis, block=tile.block)


def refuse_agreement(candidate: Candidate) -> Iterator[Refusal]:
    """Phases of one nest share its vector axis, lanes, blocks and variants."""
    mapping, compute = dict(candidate.mapping), dict(candidate.compute)
    seen: dict[int, tuple[Mapping, object, object]] = {}
    for phase, nest in candidate.nests:
        choice = (mapping[phase], compute[phase].blocks, compute[phase].variants)
        if seen.setdefault(nest, choice) != choice:
            yield NestMappingsDisagree(nest=nest)


def refuse_nest(context: NestContext) -> Iterator[Refusal]:
    """Rules on the vector axis of one nest."""
    loop = context.vector_loop
    if loop is None:
        return
    target = context.facts.target
    registers = target.registers(context.widest, loop.lanes)
    if registers > MAX_REGISTERS_A_VALUE:
        yield LanesTooWide(
            lanes=loop.lanes, dtype=context.widest.value, registers=registers, limit=MAX_REGISTERS_A_VALUE
        )
    block = context.blocks.get(loop.axis)
    whole = block == context.facts.program.axes[loop.axis].extent.constant  # one packet, its tail like any other's
    if block is not None and block % loop.lanes and not whole:
        yield LanesExceedBlock(axis=loop.axis, lanes=loop.lanes, block=block)
    for sink in context.reductions:
        reduce = context.reduce(sink)
        if loop.axis in reduce.axes and not reduce.math.reassociate and reduce.op not in EXACT_IN_ANY_ORDER:
            yield OrderedAcrossLanes(value=sink.value, axis=loop.axis)
