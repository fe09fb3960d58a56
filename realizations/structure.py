"""The part of a candidate that fixes its nests, the choices left to each nest, and how both make a candidate.
Must not know which are legal or good."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.ir.buffer import Nest, NestLoop, ReduceInto, Sink, Tail, Transfer
from autotune.realizations.candidate import (
    Block,
    Candidate,
    Clones,
    Compute,
    Mapping,
    Storage,
    Tile,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Blocks, lane axis, storage, fusion, transfers and clones: what decides which nests there are.

    `lane_axis` runs across the lanes of every nest that has it; `packed_axis` of the others that have that.
    """

    tiles: tuple[Tile, ...]
    lane_axis: int | None
    packed_axis: int | None
    storage: tuple[tuple[int, Storage], ...]
    nests: tuple[tuple[int, int], ...]
    transfer: tuple[tuple[int, Transfer], ...]
    packet: Clones

    @property
    def nest_numbers(self) -> tuple[int, ...]:
        return tuple(sorted({nest for _, nest in self.nests}))

    def vector_axis(self, axes: tuple[int, ...]) -> int | None:
        """The axis across the lanes of a nest over `axes`, None for a scalar nest."""
        if self.lane_axis is None:
            return None
        if self.lane_axis in axes:
            return self.lane_axis
        return self.packed_axis if self.packed_axis in axes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NestChoice:
    """What is left to decide for one nest."""

    axis: int | None
    lanes: int
    blocks: tuple[Block, ...]
    chains: int
    tail: Tail
    variants: tuple[tuple[str, str], ...]

    def apply(self, nest: Nest) -> Nest:
        """The nest with these loops, chains, tail and polynomials."""
        factors = {block.axis: block.factor for block in self.blocks}
        used = {name for name, _ in nest.variants}

        def loop(old: NestLoop) -> NestLoop:
            lanes = self.lanes if old.axis == self.axis else 1
            return NestLoop(axis=old.axis, factor=factors.get(old.axis, 1), lanes=lanes)

        def sink(old: Sink) -> Sink:
            return replace(old, chains=self.chains) if isinstance(old, ReduceInto) else old

        return replace(
            nest,
            loops=tuple(loop(old) for old in nest.loops),
            sinks=tuple(sink(old) for old in nest.sinks),
            tail=self.tail,
            variants=tuple(v for v in self.variants if v[0] in used),
        )


def assemble(structure: Structure, choices: dict[int, NestChoice]) -> Candidate:
    """The candidate that a structure and one choice for each of its nests make."""
    mapping: list[tuple[int, Mapping]] = []
    compute: list[tuple[int, Compute]] = []
    for phase, nest in structure.nests:
        choice = choices[nest]
        mapping.append((phase, Mapping(axis=choice.axis, lanes=choice.lanes)))
        compute.append((phase, Compute(blocks=choice.blocks, chains=choice.chains, variants=choice.variants)))
    return Candidate(
        tiles=structure.tiles,
        mapping=tuple(mapping),
        storage=structure.storage,
        nests=structure.nests,
        transfer=structure.transfer,
        compute=tuple(compute),
        tail=tuple((nest, choices[nest].tail) for nest in structure.nest_numbers),
        packet=structure.packet,
    )
