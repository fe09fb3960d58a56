"""The buffer program: private buffers, loop nests over them and the packets that run them, as data.
Must not know how choices are made or how instructions are written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from autotune.ir.affine import Affine
from autotune.ir.program import Program
from autotune.ir.types import DType


class StorageClass(Enum):
    """Where a private buffer lives."""

    WORKSPACE = "workspace"  # the worker's workspace, at a planned byte offset
    STACK = "stack"  # the entry's stack frame, placed by LLVM
    REGISTER = "register"  # accessed at fixed places only, so that the emitter keeps it in registers


class Planner(Enum):
    """How the offsets of workspace buffers are found."""

    LINEAR = "linear"  # one after the other, staggered within a page
    FIRST_FIT = "first-fit"  # largest first, into the lowest gap that no buffer alive at the same time takes
    PACKED = "packed"  # greedy over canonical offsets, reuse of memory just read or written penalised
    LLVM = "llvm"  # one stack slot a buffer, no offsets of our own


class Tail(Enum):
    """What happens to the coordinates of the vector axis that do not fill a vector."""

    MASK = "mask"
    SCALAR = "scalar"
    OVERLAP = "overlap"  # the last vector is shifted back over coordinates already done; pure stores only


class Transfer(Enum):
    """How lanes reach memory that is not contiguous along the vector axis."""

    NONE = "none"  # contiguous, or the same element for every lane
    GATHER = "gather"  # one address a lane (a scatter for a store)
    TRANSPOSE = "transpose"  # contiguous accesses along another blocked axis, transposed in registers


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAxis:
    """One dimension of a buffer; coordinates count from the start of the axis's current block.

    Units: elements. Coordinate c lies at `c·stride`; where `panel` is not 0 the axis is cut into panels of that many
    coordinates, and c lies at `(c // panel)·panel_stride + (c % panel)·stride`.
    """

    axis: int
    extent: int
    stride: int
    panel: int = 0
    panel_stride: int = 0

    @property
    def last(self) -> int:
        """Distance in elements from the first coordinate to the farthest one (panels are whole)."""
        if not self.panel:
            return (self.extent - 1) * self.stride
        panels = -(-self.extent // self.panel)
        return (panels - 1) * self.panel_stride + (self.panel - 1) * self.stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Private memory of one packet; `offset_bytes` is 0 outside the workspace."""

    id: int
    dtype: DType
    axes: tuple[BufferAxis, ...]
    storage: StorageClass
    offset_bytes: int = 0

    @property
    def elements(self) -> int:
        return 1 + sum(axis.last for axis in self.axes) if all(axis.extent for axis in self.axes) else 0

    @property
    def size_bytes(self) -> int:
        return self.elements * self.dtype.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTensor:
    """Store number `store` of the program (in program order) at every point of the nest."""

    store: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreBuffer:
    """Write of value number `value` to a buffer at every point of the nest.

    `source` is a buffer that holds the value for this sink instead of the usual one: a loop's old state, set aside
    before its own buffer is written.
    """

    buffer: int
    value: int
    source: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceInto:
    """Reduction value number `value`, finished into a buffer; `chains` independent partial results."""

    buffer: int
    value: int
    chains: int


Sink: TypeAlias = StoreTensor | StoreBuffer | ReduceInto


@dataclass(frozen=True, slots=True, kw_only=True)
class NestLoop:
    """One loop of a nest: `factor` unrolled steps of `lanes` coordinates a trip; one loop at most has several lanes."""

    axis: int
    factor: int = 1
    lanes: int = 1

    @property
    def step(self) -> int:
        return self.factor * self.lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineReduction:
    """A reduction computed inside a nest for its whole register block: loops over its own axes, outermost first.

    `chains` independent partial results a point; contiguous loads of tensors ask for their stream `prefetch_bytes`
    ahead. Where one of the loops has lanes, those lanes are contributions, and
    the outputs across the nest's own lanes are computed `group` at a time and brought together by transposition.
    """

    value: int
    loops: tuple[NestLoop, ...]
    chains: int = 1
    group: int = 1
    prefetch_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """Loops, outermost first, around sinks. Loops over reduced axes stand innermost.

    `number` is the candidate's own; the copies of a carried value share one. `variants` names the polynomial of each
    math operation; `transfers` the transfer of each load (by value number), `store_transfers` that of each tensor store
    (by store number).
    """

    number: int
    loops: tuple[NestLoop, ...]
    sinks: tuple[Sink, ...]
    tail: Tail
    variants: tuple[tuple[str, str], ...] = ()
    inline: tuple[InlineReduction, ...] = ()
    transfers: tuple[tuple[int, Transfer], ...] = ()
    store_transfers: tuple[tuple[int, Transfer], ...] = ()


class Part(Enum):
    """Which blocks of a loop a copy of its body runs over."""

    ALL = "all"
    HEAD = "head"  # the whole blocks that end at or before `bound`
    REST = "rest"  # the blocks that a HEAD leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLoop:
    """A sequential loop over blocks of a tile axis, or single coordinates of a range axis.

    A loop may be split at a coordinate: in its HEAD the bool values `assumed` are known to be true.
    """

    axis: int
    block: int
    body: tuple[Step, ...]
    part: Part = Part.ALL
    bound: Affine | None = None
    assumed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileLoop:
    """Trips of a while loop: the steps of its test, then its body as long as the condition holds."""

    axis: int
    test: tuple[Step, ...]
    condition: int
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One of two lists of steps, by a scalar bool value."""

    condition: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


Step: TypeAlias = Nest | BlockLoop | WhileLoop | Branch


class Role(Enum):
    """Which packets a body is for."""

    WHOLE = "whole"  # packets whose blocks along every parallel axis are whole: assumed
    REST = "rest"  # the packets that a WHOLE body leaves
    ANY = "any"  # every packet


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What one packet does.

    `materialized` maps value numbers (reductions, buffered values, loop state) to buffers.
    """

    role: Role
    buffers: tuple[Buffer, ...]
    materialized: tuple[tuple[int, int], ...]
    steps: tuple[Step, ...]

    @property
    def full(self) -> bool:
        """Whether every block along a parallel axis is assumed whole."""
        return self.role is Role.WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferProgram:
    """A bound program with every choice made.

    `blocks` gives each parallel axis, in program order, the number of coordinates one packet takes along it. Packets
    are numbered with the last parallel axis fastest. Bodies: the general one, and before it the full one if cloned.
    """

    program: Program
    blocks: tuple[tuple[int, int], ...]
    bodies: tuple[Body, ...]
    workspace_bytes: int

    def packets_along(self) -> tuple[int, ...]:
        """Number of packets along each parallel axis."""
        axes = {a.id: a for a in self.program.axes}
        return tuple(-(-axes[axis].extent.constant // block) for axis, block in self.blocks)

    @property
    def packets(self) -> int:
        total = 1
        for count in self.packets_along():
            total *= count
        return total
