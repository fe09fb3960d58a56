"""A candidate: one joint realization of a whole program, as data with a hash and a JSON form.
Must not know what is legal, what anything costs or how it is emitted."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from autotune.ir.buffer import Planner, Tail, Transfer
from autotune.ir.serial import Json, from_json, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Block of `block` coordinates along a tile axis, or of programs packed along a parallel axis."""

    axis: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """The axis that runs across the SIMD lanes of a phase (None: scalar) and how many lanes.

    A parallel axis makes a packet (each lane is its own program); a tile or full axis makes a team inside a program.
    """

    axis: int | None
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """Recomputed, or kept in registers, where it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """A load that reads the tensor at each use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffered:
    """Computed once into private memory whose axes are laid out as named, the last one contiguous.

    With a `panel` the last axis is cut into panels of that many coordinates, each holding every other axis: `[panel
    number][other axes][coordinate in the panel]`.
    """

    layout: tuple[int, ...]
    panel: int = 0


Storage: TypeAlias = Inline | Direct | Buffered


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Register block: `factor` consecutive steps along an axis in one unrolled body."""

    axis: int
    factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Register blocks of a phase, its number of partial chains, and the polynomial of each function it evaluates.

    `variants` names one variant of `realizations/vector_math` for each math operation used, by operation name. `order`
    names axes of the nest that stand before all others, outermost first.
    """

    blocks: tuple[Block, ...] = ()
    chains: int = 1
    variants: tuple[tuple[str, str], ...] = ()
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """How a reduction that is computed inside a nest walks the axes it reduces.

    `lanes` coordinates along `axis` run across lanes of its own (None: it has none, the nest's lanes are its outputs);
    `group` outputs are then computed at a time and brought together by transposition. Streams of tensors that the
    second level does not hold are asked for `prefetch_bytes` ahead (0: not).
    """

    axis: int | None = None
    lanes: int = 1
    blocks: tuple[Block, ...] = ()
    chains: int = 1
    group: int = 1
    prefetch_bytes: int = 0


class Clones(Enum):
    """Which copies of the body of a packet are emitted."""

    GENERAL = "general"  # one body for any number of active programs
    FULL = "full"  # one body that assumes whole blocks, and the general one for the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A sequential reduction split over `parts` programs; 1 is no split."""

    parts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Order of the program axes, packets a task takes at a time, and threads."""

    order: tuple[int, ...] = ()
    grain: int = 1
    threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One joint realization. Maps are tuples sorted by key; keys are phase numbers, `tail` is keyed by nest number.

    The phases are those of the program under the candidate's own tiles (`autotune.realizations.tiled`). Phases that
    compute no sink of their own (inline values, direct loads) have a storage but no mapping or nest. A reduction is a
    sink with loops of its own unless `contribution` says how it is computed inside a nest: at its use (inline) or where
    it is stored (buffered). `predicates` names the loops that are split where a comparison of
    indices is known to hold.
    """

    tiles: tuple[Tile, ...]
    mapping: tuple[tuple[int, Mapping], ...]
    storage: tuple[tuple[int, Storage], ...]
    nests: tuple[tuple[int, int], ...]
    transfer: tuple[tuple[int, Transfer], ...]
    compute: tuple[tuple[int, Compute], ...]
    tail: tuple[tuple[int, Tail], ...]
    packet: Clones
    contribution: tuple[tuple[int, Contribution], ...] = ()
    predicates: tuple[int, ...] = ()
    planner: Planner = Planner.LINEAR
    split: Split = Split()
    schedule: Schedule = Schedule()

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits of the content hash."""
        text = json.dumps(to_json(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> Json:
        return to_json(self)

    @staticmethod
    def from_json(data: Json) -> Candidate:
        """Raises: MalformedJson."""
        candidate = from_json(Candidate, data)
        assert isinstance(candidate, Candidate)
        return candidate
