"""The part of a candidate that fixes its nests, the choices left to each nest, and how both make a candidate.
Must not know which are legal or good."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.ir.buffer import InlineReduction, Nest, NestLoop, Planner, ReduceInto, Sink, Tail, Transfer
from autotune.realizations.candidate import (
    Block,
    Candidate,
    Clones,
    Compute,
    Contribution,
    Mapping,
    Storage,
    Tile,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """A reduction computed inside a nest: its phase and value, and the axis across lanes of its own if it has any."""

    phase: int
    value: int
    axis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Blocks, lane axes, storage, fusion, transfers, clones and splits: what decides which nests there are.

    `lanes` names axes in order of preference: a nest has the first one it walks across its lanes, or the one that
    `across` names for it. `inside` are the
    reductions computed inside a nest.
    """

    tiles: tuple[Tile, ...]
    lanes: tuple[int, ...]
    storage: tuple[tuple[int, Storage], ...]
    nests: tuple[tuple[int, int], ...]
    transfer: tuple[tuple[int, Transfer], ...]
    packet: Clones
    across: tuple[tuple[int, int], ...] = ()
    inside: tuple[Inside, ...] = ()
    predicates: tuple[int, ...] = ()
    planner: Planner = Planner.LINEAR

    @property
    def nest_numbers(self) -> tuple[int, ...]:
        return tuple(sorted({nest for _, nest in self.nests}))

    def vector_axis(self, nest: Nest) -> int | None:
        """The axis across the lanes of a nest, None for a scalar one."""
        axes = tuple(loop.axis for loop in nest.loops)
        named = dict(self.across).get(nest.number)
        if named in axes:
            return named
        return next((axis for axis in self.lanes if axis in axes), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineChoice:
    """What is left to decide for one reduction computed inside a nest."""

    phase: int
    value: int
    contribution: Contribution

    def apply(self, spec: InlineReduction) -> InlineReduction:
        """The inline reduction with these loops and chains."""
        chosen = self.contribution
        factors = {block.axis: block.factor for block in chosen.blocks}

        def loop(old: NestLoop) -> NestLoop:
            lanes = chosen.lanes if old.axis == chosen.axis else 1
            return NestLoop(axis=old.axis, factor=factors.get(old.axis, 1), lanes=lanes)

        return replace(
            spec,
            loops=tuple(loop(old) for old in spec.loops),
            chains=chosen.chains,
            group=chosen.group,
            prefetch_bytes=chosen.prefetch_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NestChoice:
    """What is left to decide for one nest."""

    axis: int | None
    lanes: int
    blocks: tuple[Block, ...]
    chains: int
    tail: Tail
    variants: tuple[tuple[str, str], ...]
    order: tuple[int, ...] = ()
    inline: tuple[InlineChoice, ...] = ()

    def apply(self, nest: Nest) -> Nest:
        """The nest with these loops, chains, tail and polynomials."""
        factors = {block.axis: block.factor for block in self.blocks}
        used = {name for name, _ in nest.variants}
        inner = {choice.value: choice for choice in self.inline}

        def loop(old: NestLoop) -> NestLoop:
            lanes = self.lanes if old.axis == self.axis else 1
            return NestLoop(axis=old.axis, factor=factors.get(old.axis, 1), lanes=lanes)

        def sink(old: Sink) -> Sink:
            return replace(old, chains=self.chains) if isinstance(old, ReduceInto) else old

        def place(old: NestLoop) -> int:
            return self.order.index(old.axis) if old.axis in self.order else len(self.order)

        return replace(
            nest,
            loops=tuple(loop(old) for old in sorted(nest.loops, key=place)),
            sinks=tuple(sink(old) for old in nest.sinks),
            tail=self.tail,
            variants=tuple(v for v in self.variants if v[0] in used),
            inline=tuple(inner[s.value].apply(s) if s.value in inner else s for s in nest.inline),
        )


def assemble(structure: Structure, choices: dict[int, NestChoice]) -> Candidate:
    """The candidate that a structure and one choice for each of its nests make."""
    mapping: dict[int, Mapping] = {}
    compute: dict[int, Compute] = {}
    for phase, nest in structure.nests:
        choice = choices[nest]
        mapping[phase] = Mapping(axis=choice.axis, lanes=choice.lanes)
        compute[phase] = Compute(
            blocks=choice.blocks, chains=choice.chains, variants=choice.variants, order=choice.order
        )
    contribution = {i.phase: Contribution() for i in structure.inside}
    contribution.update((i.phase, i.contribution) for choice in choices.values() for i in choice.inline)
    return Candidate(
        tiles=structure.tiles,
        mapping=tuple(sorted(mapping.items())),
        storage=structure.storage,
        nests=structure.nests,
        transfer=structure.transfer,
        compute=tuple(sorted(compute.items())),
        tail=tuple((nest, choices[nest].tail) for nest in structure.nest_numbers),
        packet=structure.packet,
        contribution=tuple(sorted(contribution.items())),
        predicates=structure.predicates,
        planner=structure.planner,
    )
