"""Where every axis stands while a program is interpreted, and index expressions at that place.
Must not know values or statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autotune.ir import affine as index_expressions
from autotune.ir.affine import Affine, Atom
from autotune.ir.errors import UnboundProgram, UndefinedIndex
from autotune.ir.grids import Grid, below, combine, conjunction, union
from autotune.ir.program import Axis, AxisKind, Program


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """Where an axis stands: its coordinates, its block, and which coordinates exist (None: all)."""

    coordinates: Grid
    start: Grid
    stop: Grid
    valid: Grid | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mask:
    """Programs that may execute what stands here; those in `doubt` may as well not."""

    holds: Grid
    doubt: Grid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The axes of one box of programs, and the conditions under which its programs execute what stands here."""

    program: Program
    blocks: Mapping[int, int]
    box: Mapping[int, range]
    entered: dict[int, Frame] = field(default_factory=dict)
    active: list[Mask] = field(default_factory=list)

    def enter(self, axis: Axis, extent: Grid, first: int, end: int) -> None:
        """Go to one trip of a loop: a block of coordinates of a tile axis, or the one coordinate of a range axis."""
        if axis.kind is AxisKind.RANGE:
            start = self.evaluate(axis.start)
            here = Grid(axes=start.axes, array=start.array + axis.step * first)
            self.entered[axis.id] = Frame(coordinates=here, start=here, stop=_shifted(here, 1))
            return
        coordinates = Grid(axes=(axis.id,), array=np.arange(first, end))
        self.entered[axis.id] = Frame(
            coordinates=coordinates,
            start=Grid(axes=(), array=np.asarray(first)),
            stop=Grid(axes=extent.axes, array=np.minimum(end, extent.array)),
            valid=below(coordinates, extent),
        )

    def leave(self, axis: Axis) -> None:
        self.entered.pop(axis.id, None)

    def frame(self, axis: int) -> Frame:
        if axis in self.entered:
            return self.entered[axis]
        frame = self._place(self.program.axes[axis])
        if not self.program.axes[axis].extent.axes():  # else its extent moves with a loop around it
            self.entered[axis] = frame
        return frame

    def _place(self, axis: Axis) -> Frame:
        """Frame of a parallel axis within the box, or of a full axis."""
        if axis.id in self.box:
            part, extent = self.box[axis.id], axis.extent.evaluate({})
            here = np.arange(part.start, part.stop)
            block = self.blocks.get(axis.id, max(extent, 1)) if axis.kind is AxisKind.PROGRAM_TILE else 1
            first = here // block * block
            coordinates, start = Grid(axes=(axis.id,), array=here), Grid(axes=(axis.id,), array=first)
            stop = Grid(axes=(axis.id,), array=np.minimum(first + block, extent))
            return Frame(coordinates=coordinates, start=start, stop=stop)
        size = self.evaluate(axis.extent)
        coordinates = Grid(axes=(axis.id,), array=np.arange(max(int(size.array.max(initial=0)), 0)))
        zero = Grid(axes=(), array=np.asarray(0))
        return Frame(coordinates=coordinates, start=zero, stop=size, valid=below(coordinates, size))

    def evaluate(self, expression: Affine) -> Grid:
        total = Grid(axes=(), array=np.asarray(expression.constant, dtype=np.int64))
        for a, c in expression.terms:
            here = self._atom(a)
            total = combine(np.add, total, Grid(axes=here.axes, array=here.array * c))
        return total

    def _atom(self, a: Atom) -> Grid:
        match a:
            case index_expressions.Coord(axis=axis):
                return self.frame(axis).coordinates
            case index_expressions.Start(axis=axis):
                return self.frame(axis).start
            case index_expressions.Stop(axis=axis):
                return self.frame(axis).stop
            case index_expressions.Dim():
                raise UnboundProgram(program=self.program.name, dims=self.program.dims)
            case index_expressions.Least(left=left, right=right):
                return combine(np.minimum, self.evaluate(left), self.evaluate(right))
            case index_expressions.Greatest(left=left, right=right):
                return combine(np.maximum, self.evaluate(left), self.evaluate(right))
            case index_expressions.Product(left=left, right=right):
                return combine(np.multiply, self.evaluate(left), self.evaluate(right))
            case index_expressions.Quotient(numerator=n, denominator=d):
                return combine(np.floor_divide, self.evaluate(n), self._divisor(d))
            case index_expressions.Remainder(numerator=n, denominator=d):
                return combine(np.mod, self.evaluate(n), self._divisor(d))

    def _divisor(self, expression: Affine) -> Grid:
        """A divisor, 1 in place of the zeros of programs that do not execute what stands here."""
        grid = self.evaluate(expression)
        if grid.array.all():
            return grid
        conditions = [Grid(axes=grid.axes, array=grid.array == 0), *(mask.holds for mask in self.active)]
        divided = conjunction(conditions, union(*(c.axes for c in conditions)))
        if divided is not None and divided.any():
            raise UndefinedIndex(expression=str(expression))
        return Grid(axes=grid.axes, array=np.where(grid.array == 0, 1, grid.array))


def _shifted(grid: Grid, by: int) -> Grid:
    return Grid(axes=grid.axes, array=grid.array + by)
