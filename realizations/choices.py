"""The choices of one nest: lanes, register blocks, loop order, tails, chains, polynomials, contributions.
Must not know costs; some of what it yields is illegal on purpose of being named so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product
from math import prod

from autotune.ir.buffer import InlineReduction, Tail, Transfer
from autotune.ir.program import Reduce
from autotune.realizations import compute, mechanisms, vector_math
from autotune.realizations.candidate import Block, Contribution
from autotune.realizations.context import NestContext
from autotune.realizations.mapping import lanes_of
from autotune.realizations.ranges import state_type
from autotune.realizations.structure import InlineChoice, NestChoice, Structure
from autotune.realizations.tilings import ROW_BLOCKS
from autotune.realizations.traffic import tensor_bytes

MAX_UNROLLED_POINTS = 16
OUTPUT_ROWS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16)
OUTPUT_VECTORS = (1, 2, 3, 4, 6)
MAX_OUTPUT_BLOCKS = 6
GROUPS = (1, 2, 4, 8)
SPARE_REGISTERS = 3
PREFETCH_BYTES = (0, 16384)
FEW_USES = 8  # multiply-adds a byte below which reading operands bounds a contraction
STREAMED_L2S = 4  # tensors this many times the second level come from beyond it in every call


def loop_choices(
    context: NestContext,
    structure: Structure,
    together: Sequence[NestContext] = (),
    forbidden: frozenset[str] = frozenset(),
) -> Iterator[NestChoice]:
    """Lanes, register blocks, order and tails of a nest with one chain and the first polynomials, plainest first.

    `together` are the nests that share its number, and with it these choices; mechanisms in `forbidden` are not used.
    """
    everything = together or (context,)
    program = context.facts.program
    reduced = frozenset(axis for c in everything for axis in c.reduced_axes)
    for choice in _loop_choices(context, structure, everything, forbidden):
        if not forbidden or not mechanisms.of_choice(program, choice, reduced) & forbidden:
            yield choice


def _loop_choices(
    context: NestContext, structure: Structure, everything: Sequence[NestContext], forbidden: frozenset[str]
) -> Iterator[NestChoice]:
    axis = structure.vector_axis(context.nest)
    variants = next(iter(variant_choices(*everything)))
    if any(c.nest.inline for c in everything):
        main = max(everything, key=lambda c: len(c.nest.inline))
        yield from _contracting(main, structure, axis, variants, everything, forbidden)
        return
    for lanes in lane_options(context, axis):
        across = None if lanes == 1 else axis
        for blocks in block_options(context, across, lanes, forbidden):
            for tail in tail_options(context, across, lanes):
                yield NestChoice(axis=across, lanes=lanes, blocks=blocks, chains=1, tail=tail, variants=variants)


def chain_options(context: NestContext, choice: NestChoice, forbidden: frozenset[str] = frozenset()) -> tuple[int, ...]:
    """Numbers of partial chains that the register block of a choice has contributions for."""
    steps = prod(block.factor for block in choice.blocks if block.axis in context.reduced_axes)
    wanted = tuple(c for c in compute.CHAINS if c == 1 or (context.reductions and c <= steps))
    if not forbidden:
        return wanted
    program, reduced = context.facts.program, context.reduced_axes
    used = ((c, mechanisms.of_choice(program, replace(choice, chains=c), reduced)) for c in wanted)
    return tuple(c for c, names in used if not names & forbidden)


def lane_options(context: NestContext, axis: int | None) -> tuple[int, ...]:
    """Lane counts, the target's own first; other ones only where a packet is one program or one vector of them, and
    where no contraction outweighs what they could save."""
    if axis is None:
        return (1,)
    native = context.facts.target.lanes(context.widest)
    panel = min((p for p in context.panels(axis)), default=native)
    if panel < native:
        return (next((n for n in lanes_of(context.facts.target) if panel % n == 0), 1),)
    options = sorted(lanes_of(context.facts.target), key=lambda lanes: (lanes != native, -lanes))
    block = context.blocks.get(axis)
    if block is not None and block < native:
        return tuple(lanes for lanes in options if block % lanes == 0)[:1] or (1,)
    if context.facts.multiply_adds or prod(context.blocks.values()) not in (1, native):
        return (native,)
    return tuple(lanes for lanes in options if block is None or block % lanes == 0) or tuple(options)


def block_options(
    context: NestContext, axis: int | None, lanes: int, forbidden: frozenset[str] = frozenset()
) -> Iterator[tuple[Block, ...]]:
    """Register blocks: steps along the vector axis, programs side by side, columns of a transposition.

    Programs stand side by side as a whole, and one after another only where blocks are forbidden.
    """
    native = lanes == context.facts.target.lanes(context.widest) or axis is None
    tables = []
    for loop in context.nest.loops:
        extent = context.extent(loop.axis)
        factors = _factors(context, loop.axis, axis, lanes, extent, native)
        if 1 not in factors and mechanisms.BLOCKS & forbidden:
            factors = (1, *factors)
        tables.append([(loop.axis, f) for f in factors])
    for combination in product(*tables):
        if prod(f for _, f in combination) <= MAX_UNROLLED_POINTS:
            yield tuple(Block(axis=a, factor=f) for a, f in combination if f > 1)


def _factors(
    context: NestContext, loop_axis: int, axis: int | None, lanes: int, extent: int, native: bool
) -> tuple[int, ...]:
    transposes = Transfer.TRANSPOSE in {t for _, t in (*context.nest.transfers, *context.nest.store_transfers)}
    if loop_axis == axis:
        wanted = (1,) if transposes else compute.FACTORS if native else (1, 4)
        return tuple(f for f in wanted if f == 1 or f * lanes <= extent)
    if transposes and loop_axis not in _contiguous_axes(context):
        return (1,)
    if loop_axis in context.blocks and extent <= max(ROW_BLOCKS):
        return (extent,)
    if transposes:
        return (min(lanes, extent),)
    if loop_axis in context.blocks:
        return (1,)
    if axis is None and loop_axis == context.nest.loops[-1].axis:
        return tuple(f for f in (1, 4) if f <= max(1, extent))
    if loop_axis == context.nest.loops[-1].axis:
        return tuple(f for f in (1, 2, 4) if f <= max(1, extent))
    return (1,)


def _contiguous_axes(context: NestContext) -> frozenset[int]:
    """Axes along which what a nest transposes is contiguous in memory."""
    loads = {v for v, t in context.nest.transfers if t is Transfer.TRANSPOSE}
    stores = (s for s, t in context.nest.store_transfers if t is Transfer.TRANSPOSE)
    flats = [a.flat for a in context.accesses if a.let.id in loads and a.flat is not None]
    flats += [context.flat_store(number) for number in stores]
    return frozenset(a for flat in flats for a in flat.axes() if flat.coefficient(a) == 1)


def tail_options(context: NestContext, axis: int | None, lanes: int) -> tuple[Tail, ...]:
    if axis is None:
        return (Tail.MASK,)
    uneven = context.dynamic(axis) or any(extent % lanes for extent in context.extents(axis))
    return (Tail.MASK, Tail.SCALAR, Tail.OVERLAP) if uneven else (Tail.MASK,)


def variant_choices(*contexts: NestContext) -> Iterator[tuple[tuple[str, str], ...]]:
    """One polynomial for each function of some nests, among those that every use permits."""
    permitted: dict[str, list[str]] = {}
    uses = dict.fromkeys(function for context in contexts for function in context.functions)
    for op, dtype, max_ulp in uses:
        names = [v.name for v in vector_math.variants(op, dtype, contexts[0].facts.target, max_ulp)]
        known = permitted.get(op.value)
        permitted[op.value] = names if known is None else [n for n in known if n in names]
    tables = [[(op, name) for name in names] for op, names in sorted(permitted.items())]
    yield from (tuple(chosen) for chosen in product(*tables))


# ---- nests with contractions ------------------------------------------------------------------------------------
def _contracting(
    context: NestContext,
    structure: Structure,
    axis: int | None,
    variants: tuple[tuple[str, str], ...],
    together: Sequence[NestContext],
    forbidden: frozenset[str],
) -> Iterator[NestChoice]:
    """Output blocks of rows by vectors up to the register file, with contributions unrolled."""
    target = context.facts.target
    lanes = 1 if axis is None else target.lanes(context.widest)
    if axis in context.blocks and lanes > context.extent(axis):
        lanes = next((n for n in lanes_of(target) if context.extent(axis) % n == 0), 1)
        axis = axis if lanes > 1 else None
    masked = target.masks(context.widest)
    tails = tail_options(context, axis, lanes)
    tail = Tail.MASK if len(tails) == 1 or masked else Tail.SCALAR
    inner = {spec.value: spec for c in together for spec in c.nest.inline}
    for blocks in output_blocks(context, structure, axis, lanes, forbidden):
        for order in loop_orders(context, blocks):
            inside = (contributions(context, structure, s, blocks, axis, forbidden) for s in inner.values())
            for inline in product(*inside):
                yield NestChoice(
                    axis=axis,
                    lanes=lanes,
                    blocks=blocks,
                    chains=1,
                    tail=tail,
                    variants=variants,
                    order=order,
                    inline=inline,
                )


def loop_orders(context: NestContext, blocks: Sequence[Block]) -> Iterator[tuple[int, ...]]:
    """Orders of the loops that make more than one trip; reduced ones stay innermost."""
    factors = {b.axis: b.factor for b in blocks}
    moving = [
        loop.axis
        for loop in context.nest.loops
        if loop.axis not in context.reduced_axes and context.extent(loop.axis) > factors.get(loop.axis, 1)
    ]
    yield ()
    if len(moving) > 1:
        yield from (order for order in permutations(moving) if order != tuple(moving) and order[0] != moving[0])


def output_blocks(
    context: NestContext,
    structure: Structure,
    axis: int | None,
    lanes: int,
    forbidden: frozenset[str] = frozenset(),
) -> Iterator[tuple[Block, ...]]:
    """The permitted register blocks with the fewest operand loads and the least waste, one and two axes blocked."""
    own = {inside.value: inside.axis for inside in structure.inside}
    grouped = any(own[spec.value] is not None for spec in context.nest.inline)
    tables = []
    for loop in context.nest.loops:
        extent = context.extent(loop.axis)
        if loop.axis == axis:
            wanted: tuple[int, ...] = (1,) if grouped else OUTPUT_VECTORS
            tables.append([(loop.axis, f) for f in wanted if f == 1 or f * lanes < extent + lanes])
        else:
            whole = {extent} if 0 < extent <= max(OUTPUT_ROWS) else set()
            rows = {f for f in OUTPUT_ROWS if f <= max(1, extent)} | whole
            tables.append([(loop.axis, f) for f in sorted(rows)])
    ranked = []
    for combination in product(*tables):
        cost = _block_cost(context, dict(combination), axis, lanes, grouped)
        blocks = tuple(Block(axis=a, factor=f) for a, f in combination if f > 1)
        if cost is not None and not (forbidden and mechanisms.of_blocks(blocks, context.reduced_axes) & forbidden):
            ranked.append((cost, combination, blocks))
    ranked.sort(key=lambda item: item[:2])
    for *_, blocks in ranked[:MAX_OUTPUT_BLOCKS]:
        yield blocks


def _block_cost(
    context: NestContext, factors: dict[int, int], axis: int | None, lanes: int, grouped: bool
) -> float | None:
    """Issue slots an output and step by closed form: multiply-adds or operand loads, whichever bounds, and waste.

    None where the accumulators do not fit the register file.
    """
    target = context.facts.target
    cost = 0.0
    held = 0
    for spec in context.nest.inline:
        axes = context.facts.lets[spec.value].axes
        dtype = state_type(context.facts.lets, spec.value, context.facts.ranges)
        mine = {a: f for a, f in factors.items() if a in axes}
        across = lanes if axis in axes and not grouped else 1
        wide = target.registers(dtype, across)
        outputs = prod(mine.values())
        held += outputs * wide
        loads = 0.0
        reduce = context.facts.lets[spec.value].value
        assert isinstance(reduce, Reduce)
        contraction = reduce.contraction
        for factor in () if contraction is None else (contraction.lhs, contraction.rhs):
            its = context.facts.lets[factor].axes
            count = prod(f for a, f in mine.items() if a in its)
            loads += count * wide * (1.0 if axis in its or grouped else 0.5)
        work = outputs * wide
        latency = max(1.0, 5.0 / max(work, 1)) if not grouped else 1.0
        cost += max(work * latency, loads) / (outputs * (across if across > 1 else 1))
    if held + SPARE_REGISTERS > target.vector_registers:
        return None
    waste = 1.0
    for a, f in factors.items():
        extent = max(1, context.extent(a))
        step = f * (lanes if a == axis else 1)
        waste *= -(-extent // step) * step / extent if f > 1 else 1.0
    return round(cost * (1.0 + 0.5 * (waste - 1.0)), 6)


def contributions(
    context: NestContext,
    structure: Structure,
    spec: InlineReduction,
    blocks: Sequence[Block],
    axis: int | None,
    forbidden: frozenset[str] = frozenset(),
) -> Iterator[InlineChoice]:
    """How a contraction walks what it sums: unrolled along its last axis; across lanes of its own in groups."""
    inside = next(i for i in structure.inside if i.value == spec.value)
    phase, own = inside.phase, inside.axis
    target = context.facts.target
    last = spec.loops[-1].axis
    outputs = prod(b.factor for b in blocks if b.axis in context.facts.lets[spec.value].axes)
    extent = context.extent(last)
    prefetches = PREFETCH_BYTES if _streams(context) else (0,)
    if own is None:
        wanted = (1,) if outputs >= 12 else (1, 2) if outputs >= 6 else (1, 2, 4)
        chains = (1,) if outputs >= 4 else (1, 4)
        for factor, chain in product(wanted, chains):
            if factor <= max(1, extent) and chain <= factor:
                block = (Block(axis=last, factor=factor),) if factor > 1 else ()
                for ahead in prefetches:
                    chosen = Contribution(blocks=block, chains=chain, prefetch_bytes=ahead)
                    yield InlineChoice(phase=phase, value=spec.value, contribution=chosen)
        return
    dtype = state_type(context.facts.lets, spec.value, context.facts.ranges)
    lanes = min(target.lanes(dtype), 1 << (max(context.extent(own), 1).bit_length() - 1))
    steps = -(-context.extent(own) // lanes)
    rows = max(1, outputs)
    if axis not in context.facts.lets[spec.value].axes:
        for factor, ahead in product((f for f in (1, 2, 4, 8) if f <= steps), prefetches):
            for chain in sorted({1, min(factor, 4), factor}):
                if rows * chain + SPARE_REGISTERS <= target.vector_registers:
                    block = (Block(axis=own, factor=factor),) if factor > 1 else ()
                    chosen = Contribution(axis=own, lanes=lanes, blocks=block, chains=chain, prefetch_bytes=ahead)
                    yield InlineChoice(phase=phase, value=spec.value, contribution=chosen)
        return
    fitting = [g for g in GROUPS if g * rows + SPARE_REGISTERS + 4 <= target.vector_registers]
    groups = [g for g in fitting if not mechanisms.of_contribution(Contribution(group=g)) & forbidden] or [1]
    factors = sorted({1, min(2, steps), min(4, steps)})
    for group, factor, ahead in product(groups[-3:], factors, prefetches):
        block = (Block(axis=own, factor=factor),) if factor > 1 else ()
        chosen = Contribution(axis=own, lanes=lanes, blocks=block, group=group, prefetch_bytes=ahead)
        yield InlineChoice(phase=phase, value=spec.value, contribution=chosen)


def _streams(context: NestContext) -> bool:
    """Whether contractions wait for tensors that come from beyond the second level in every call."""
    touched = tensor_bytes(context)
    far = touched > STREAMED_L2S * context.facts.target.l2_bytes
    return far and context.facts.multiply_adds < FEW_USES * touched
