"""Blocks worth trying: of tile loops, of parallel tiles, and of programs joined into a packet.
Must not know costs or what runs across the lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from autotune.ir.affine import Affine, Coord, Quotient
from autotune.ir.program import AxisKind, For, IndexValue, Let, Load, Program, Reduce, statements
from autotune.ir.types import DType
from autotune.realizations.candidate import Tile
from autotune.realizations.mapping import lanes_of
from autotune.realizations.ranges import Ranges
from autotune.realizations.target import Target

ROW_BLOCKS = (1, 2, 4, 8)
PACKET_VECTORS = (1, 2, 4)
TILE_BLOCKS = (64, 256, 1024, 4096)
OUTPUT_BLOCKS = (32, 64, 128, 256)
SUMMED_BLOCKS = (256, 512)
ONE_TILE = (16, 32, 64)
TWO_TILES = (64, 128, 256)
MAX_WHOLE_TILE = 1024
MAX_GROUP = 16
JOINED_TILE = 16

Tiles = tuple[Tile, ...]


class Tilings:
    """Block choices of one bound program on one target."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program = program
        self.target = target
        self.ranges = Ranges(program)
        reductions = (let.value for let in program.lets().values() if isinstance(let.value, Reduce))
        self.contractions = tuple(r.contraction for r in reductions if r.contraction is not None)

    # ---- programs without contractions --------------------------------------------------------------------------
    def loops(self) -> Iterator[Tiles]:
        """Block sizes of the sequential tile loops."""
        tables = []
        for statement in statements(self.program.body):
            if isinstance(statement, For) and self.program.axes[statement.axis].kind is AxisKind.TILE:
                tables.append([Tile(axis=statement.axis, block=b) for b in self._loop_blocks(statement.axis)])
        yield from (tuple(tiles) for tiles in product(*tables))

    def _loop_blocks(self, axis: int) -> tuple[int, ...]:
        extent = max(1, self.ranges.most(axis))
        if not self.contractions:
            return tuple(sorted({min(b, extent) for b in TILE_BLOCKS} | {extent}))
        output = any(axis in (*c.batch, *c.m, *c.n) for c in self.contractions)
        wanted = OUTPUT_BLOCKS if output else SUMMED_BLOCKS
        whole = {extent} if not output or extent <= max(OUTPUT_BLOCKS) else set()
        return tuple(sorted({b for b in wanted if b < extent} | whole))

    def whole_programs(self) -> Tiles:
        """Small blocks of every parallel tile, for nests without lanes."""
        return tuple(
            Tile(axis=a, block=min(8, max(1, self.program.axes[a].extent.constant)))
            for a in self.program.parallel
            if self.program.axes[a].kind is AxisKind.PROGRAM_TILE
        )

    def rows(self) -> Iterator[Tile]:
        """How many programs a packet joins where the lanes run inside a program: along the last parallel axis."""
        axis = self.program.parallel[-1]
        extent = self.program.axes[axis].extent.constant
        for block in ROW_BLOCKS:
            if block <= max(1, extent):
                yield Tile(axis=axis, block=block)

    def packets(self) -> Iterator[Tile]:
        """Packets whose programs run across the lanes."""
        native = self.target.lanes(DType.F32)
        for axis in self.program.parallel:
            extent = self.program.axes[axis].extent.constant
            sizes = [native * vectors for vectors in PACKET_VECTORS if native * vectors <= extent]
            sizes = sizes or [lanes for lanes in lanes_of(self.target) if lanes <= extent][:1]
            for size in sizes:
                yield Tile(axis=axis, block=size)

    # ---- programs with contractions -----------------------------------------------------------------------------
    def joint(self) -> Iterator[Tiles]:
        """Blocks of loops and parallel tiles together, programs that share an operand joined or not."""
        tables = [self._parallel(axis) for axis in self.program.parallel]
        for loops in self.loops():
            for chosen in product(*tables):
                if self._joins_too_much(chosen):
                    continue
                yield tuple(sorted((*loops, *(t for t in chosen if t is not None)), key=lambda t: t.axis))

    def _joins_too_much(self, chosen: Sequence[Tile | None]) -> bool:
        """Whether programs are joined that already share their operands within a wide tile of their own."""
        kinds = [self.program.axes[t.axis].kind for t in chosen if t is not None]
        tiles = [t.block for t in chosen if t is not None and self.program.axes[t.axis].kind is AxisKind.PROGRAM_TILE]
        return AxisKind.PROGRAM in kinds and max(tiles, default=1) > JOINED_TILE

    def _parallel(self, axis: int) -> list[Tile | None]:
        this = self.program.axes[axis]
        extent = max(1, this.extent.constant)
        if this.kind is AxisKind.PROGRAM:
            groups = sorted(g for g in self.groups(axis) if 1 < g <= MAX_GROUP and extent % g == 0)
            return [None, *(Tile(axis=axis, block=g) for g in groups)]
        tiles = [a for a in self.program.parallel if self.program.axes[a].kind is AxisKind.PROGRAM_TILE]
        wanted = ONE_TILE if len(tiles) == 1 else TWO_TILES
        whole = {extent} if extent <= (max(wanted) if len(tiles) == 1 else MAX_WHOLE_TILE) else set()
        blocks = sorted({b for b in wanted if b < extent} | whole)
        return [Tile(axis=axis, block=b) for b in blocks]

    def groups(self, axis: int) -> frozenset[int]:
        """Numbers of neighbouring programs along an axis that read one place of a tensor: divisors of its index."""
        found: set[int] = set()
        for statement in statements(self.program.body):
            if isinstance(statement, Let) and isinstance(statement.value, Load | IndexValue):
                value = statement.value
                entries = value.index if isinstance(value, Load) else (value.expression,)
                for entry in entries:
                    if isinstance(entry, Affine):
                        found.update(_divisors(entry, axis))
        return frozenset(found)


def _divisors(expression: Affine, axis: int) -> Iterator[int]:
    for a in expression.atoms():
        if isinstance(a, Quotient) and a.denominator.is_constant and (Coord(axis=axis), 1) in a.numerator.terms:
            yield a.denominator.constant
