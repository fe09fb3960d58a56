"""Register blocks, partial chains, polynomials and tails of one nest: values and refusals.
Must not know costs or instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from autotune.ir.buffer import InlineReduction, NestLoop, ReduceInto, StoreTensor, Tail
from autotune.ir.program import Reduce, Reindex
from autotune.ir.types import ReduceOp
from autotune.realizations import vector_math
from autotune.realizations.context import NestContext, inner_lanes
from autotune.realizations.mapping import EXACT_IN_ANY_ORDER
from autotune.realizations.verdict import Refusal

FACTORS = (1, 2, 4, 8)
CHAINS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainsExceedBlock(Refusal):
    rule: ClassVar[str] = "chains-exceed-block"
    chains: int
    steps: int

    @property
    def sentence(self) -> str:
        return f"{self.chains} partial chains, but the register block has only {self.steps} contributions to one result"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainsNeedReassociation(Refusal):
    rule: ClassVar[str] = "chains-need-reassociation"
    value: int
    chains: int

    @property
    def sentence(self) -> str:
        return f"reduction %{self.value} keeps its order, so it has one chain, not {self.chains}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBlockTooLarge(Refusal):
    rule: ClassVar[str] = "register-block-too-large"
    needed: int
    limit: int

    @property
    def sentence(self) -> str:
        return f"the register block keeps {self.needed} vector registers alive; the target has {self.limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorExceedsExtent(Refusal):
    rule: ClassVar[str] = "factor-exceeds-extent"
    axis: int
    step: int
    extent: int

    @property
    def sentence(self) -> str:
        return f"one trip along axis a{self.axis} takes {self.step} coordinates, but there are {self.extent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantNotPermitted(Refusal):
    rule: ClassVar[str] = "variant-not-permitted"
    op: str
    variant: str
    permitted: tuple[str, ...]

    @property
    def sentence(self) -> str:
        names = ", ".join(self.permitted) or "none"
        return f"{self.op} may not use {self.variant}: the error bound and the target permit {names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskUnsupported(Refusal):
    rule: ClassVar[str] = "mask-unsupported"
    dtype: str
    target: str

    @property
    def sentence(self) -> str:
        return f"a masked tail needs masked accesses of {self.dtype}, which {self.target} lacks"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapUnsafe(Refusal):
    rule: ClassVar[str] = "overlap-unsafe"
    reason: str

    @property
    def sentence(self) -> str:
        return f"the last vector may not overlap coordinates already done: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailWithoutNeed(Refusal):
    rule: ClassVar[str] = "tail-without-need"  # such nests name the mask, which none of their bodies emits
    tail: str

    @property
    def sentence(self) -> str:
        return f"whole vectors cover every coordinate, so a {self.tail} tail has nothing to do"


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineNotRealized(Refusal):
    rule: ClassVar[str] = "inline-not-realized"
    value: int
    reason: str

    @property
    def sentence(self) -> str:
        return f"reduction %{self.value} cannot be computed inside this nest: {self.reason}"


def ragged(context: NestContext) -> bool:
    """Whether some coordinates of the vector axis do not fill a vector."""
    loop = context.vector_loop
    if loop is None:
        return False
    return context.dynamic(loop.axis) or any(extent % loop.lanes for extent in context.extents(loop.axis))


def chain_steps(context: NestContext) -> int:
    """Contributions to one result in one register block."""
    return prod(loop.factor for loop in context.nest.loops if loop.axis in context.reduced_axes)


def refuse_nest(context: NestContext) -> Iterator[Refusal]:
    """Rules on the register block, chains, polynomials and tail of one nest."""
    yield from refuse_block(context)
    yield from refuse_inline(context)
    yield from refuse_lanes(context)


def refuse_lanes(context: NestContext) -> Iterator[Refusal]:
    """Rules on polynomials and tails, which register blocks and chains do not change."""
    yield from _refuse_variants(context)
    yield from _refuse_tail(context)


def refuse_block(context: NestContext) -> Iterator[Refusal]:
    """Rules on register blocks and chains."""
    yield from _refuse_chains(context)
    for loop in context.nest.loops:
        extent = context.extent(loop.axis)
        if loop.factor > 1 and loop.step > max(extent, loop.lanes):
            yield FactorExceedsExtent(axis=loop.axis, step=loop.step, extent=extent)
    needed = live_registers(context)
    if needed > context.facts.target.vector_registers:
        yield RegisterBlockTooLarge(needed=needed, limit=context.facts.target.vector_registers)


def live_registers(context: NestContext) -> int:
    """Accumulators of the register block plus the block of one operand, in vector registers."""
    target = context.facts.target
    vector = context.vector_loop
    lanes = 1 if vector is None else vector.lanes
    outer = prod(loop.factor for loop in context.nest.loops if loop.axis not in context.reduced_axes)
    accumulators = 0
    for sink in context.reductions:
        registers = target.registers(context.state_types[sink.value], lanes)
        pairs = 2 if context.reduce(sink).op is ReduceOp.ARGMAX else 1
        accumulators += outer * sink.chains * registers * pairs
    for spec in context.nest.inline:
        accumulators += inline_registers(context, spec)
    return accumulators + 2 * target.registers(context.widest, lanes)


def inline_registers(context: NestContext, spec: InlineReduction) -> int:
    """Accumulators of an inline reduction over the register block of its nest, in vector registers."""
    target = context.facts.target
    dtype = context.state_types[spec.value]
    axes = context.facts.lets[spec.value].axes
    own = inner_lanes(spec)
    outputs = prod(loop.factor for loop in context.nest.loops if loop.axis in axes and (own is None or loop.lanes == 1))
    vector = context.vector_loop
    if own is not None:
        across = vector is not None and vector.axis in axes
        held = 0
        if vector is not None and across:  # a tree an output: one vector for each level that a group leaves open
            held = outputs * (vector.lanes // spec.group).bit_length() if spec.group < vector.lanes else outputs
        if across and all(loop.step >= context.extent(loop.axis) for loop in spec.loops):
            steps = prod(loop.factor for loop in spec.loops)
            held += outputs * steps * target.registers(dtype, own.lanes)  # factors that every group reads again
        return outputs * (spec.group if across else 1) * spec.chains * target.registers(dtype, own.lanes) + held
    lanes = vector.lanes if vector is not None and vector.axis in axes else 1
    return outputs * spec.chains * target.registers(dtype, lanes)


def refuse_inline(context: NestContext) -> Iterator[Refusal]:
    """Rules on the reductions computed inside a nest."""
    lets = context.facts.lets
    for spec in context.nest.inline:
        reduce = lets[spec.value].value
        assert isinstance(reduce, Reduce)
        own = inner_lanes(spec)
        steps = prod(loop.factor for loop in spec.loops)
        if spec.chains > steps:
            yield ChainsExceedBlock(chains=spec.chains, steps=steps)
        reassociates = reduce.math.reassociate or reduce.op in EXACT_IN_ANY_ORDER
        if spec.chains > 1 and not reassociates:
            yield ChainsNeedReassociation(value=spec.value, chains=spec.chains)
        for loop in spec.loops:
            extent = context.extent(loop.axis)
            if loop.factor > 1 and loop.step > max(extent, loop.lanes):
                yield FactorExceedsExtent(axis=loop.axis, step=loop.step, extent=extent)
        reason = _inline_obstacle(context, spec, own, reassociates)
        if reason is not None:
            yield InlineNotRealized(value=spec.value, reason=reason)


def _inline_obstacle(
    context: NestContext, spec: InlineReduction, own: NestLoop | None, reassociates: bool
) -> str | None:
    reduce = context.facts.lets[spec.value].value
    assert isinstance(reduce, Reduce)
    inside = context.computed_for((reduce.body,))
    if any(other.value in inside for other in context.nest.inline):
        return "another reduction is computed inside it"
    moved = (let.id for let in context.computed if isinstance(let.value, Reindex))
    if any(spec.value in context.computed_for((value,)) for value in moved):
        return "it is read along other axes than its own"
    if own is None:
        if spec.group > 1:
            return "outputs are grouped although no lanes have to be brought together"
        return None
    if reduce.op is not ReduceOp.SUM or not reassociates:
        return "lanes of its own need a sum that may be reassociated"
    if context.nest.tail is Tail.OVERLAP:
        return "lanes of its own need a masked or a scalar tail"
    vector = context.vector_loop
    if vector is not None and vector.axis in context.facts.lets[spec.value].axes and own.lanes < vector.lanes:
        return f"{own.lanes} lanes of contributions cannot become {vector.lanes} results"
    if vector is not None and vector.axis == own.axis:
        return "its lanes run along the nest's own vector axis"
    return None


def _refuse_chains(context: NestContext) -> Iterator[Refusal]:
    steps = chain_steps(context)
    for sink in context.reductions:
        reduce = context.reduce(sink)
        if sink.chains > steps:
            yield ChainsExceedBlock(chains=sink.chains, steps=steps)
        if sink.chains > 1 and not reduce.math.reassociate and reduce.op not in EXACT_IN_ANY_ORDER:
            yield ChainsNeedReassociation(value=sink.value, chains=sink.chains)


def _refuse_variants(context: NestContext) -> Iterator[Refusal]:
    chosen = dict(context.nest.variants)
    for op, dtype, max_ulp in context.functions:
        permitted = tuple(v.name for v in vector_math.variants(op, dtype, context.facts.target, max_ulp))
        if chosen.get(op.value) not in permitted:
            yield VariantNotPermitted(op=op.value, variant=str(chosen.get(op.value)), permitted=permitted)


def _refuse_tail(context: NestContext) -> Iterator[Refusal]:
    loop = context.vector_loop
    if loop is None:
        return
    tail = context.nest.tail
    if not ragged(context):
        if tail is not Tail.MASK:
            yield TailWithoutNeed(tail=tail.value)
        return
    match tail:
        case Tail.MASK:
            for dtype in sorted(context.memory_types, key=lambda t: t.value):
                if not context.facts.target.masks(dtype):
                    yield MaskUnsupported(dtype=dtype.value, target=context.facts.target.name)
        case Tail.OVERLAP:
            reason = _overlap_obstacle(context, loop)
            if reason is not None:
                yield OverlapUnsafe(reason=reason)
        case Tail.SCALAR:
            pass


def _overlap_obstacle(context: NestContext, loop: NestLoop) -> str | None:
    if any(isinstance(s, ReduceInto) for s in context.nest.sinks):
        return "a reduction would count them twice"
    if context.dynamic(loop.axis):
        return "the extent of a partial packet is known at run time only"
    if any(extent < loop.lanes for extent in context.extents(loop.axis)):
        return f"there are fewer than {loop.lanes} coordinates"
    stored = {context.facts.stores[s.store].tensor for s in context.nest.sinks if isinstance(s, StoreTensor)}
    if stored & context.facts.in_out:
        return "the nest reads a tensor that it overwrites"
    written = {s.buffer for s in context.nest.sinks if not isinstance(s, StoreTensor)}
    produced = {b for v, b in context.body.materialized if v in context.produced}
    if written - produced:
        return "the nest updates a loop's state in place"
    return None
