"""The meaning of a program: its values in float64 over all axes at once, each with a rounding error bound.
Must not know how a program is realized; the slow and plain evaluation here is what every realization is held to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autotune.ir import affine as index_expressions
from autotune.ir.affine import Affine, Atom
from autotune.ir.arguments import memory_of, scalar_of, tensors_of
from autotune.ir.bounds import (
    Approx,
    Array,
    cast,
    elementwise,
    exact,
    round_to,
)
from autotune.ir.chunks import boxes
from autotune.ir.errors import StoreOutside, UnboundProgram, UndefinedIndex
from autotune.ir.grids import Grid, Term, below, combine, conjunction, merge, rename, spread, stretch, union
from autotune.ir.program import (
    Axis,
    AxisKind,
    Carried,
    Const,
    Elementwise,
    Final,
    For,
    IndexValue,
    Indirect,
    Let,
    Load,
    Number,
    Program,
    Reduce,
    Region,
    Reindex,
    Scalar,
    ScalarArgument,
    Store,
    Tensor,
)
from autotune.ir.reductions import argmax, reduce, started_from
from autotune.ir.types import DType, Op, ReduceOp


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """What one output must hold after the call.

    Shapes: `values` and `bound` have the tensor's shape. `values` are float64 for float tensors, else exact in the
    tensor's own type. An infinite bound accepts anything, NaN included.
    """

    name: str
    values: Array
    bound: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interpretation:
    """The expected contents of every tensor that a program stores to, in parameter order."""

    outputs: tuple[Expected, ...]

    def __getitem__(self, name: str) -> Expected:
        """Raises: KeyError where the program stores to no tensor of that name."""
        return {output.name: output for output in self.outputs}[name]


def interpret(
    program: Program, arguments: Mapping[str, Array | Number], *, blocks: Mapping[int, int] | None = None
) -> Interpretation:
    """Evaluate a bound program: expected outputs and how far a correct kernel may be from them.

    Shapes: arrays as the program's tensors; an output may be left out of `arguments`, what it does not store is then
    unknown. bfloat16 tensors are given as float arrays or as their uint16 bit patterns.
    Units: `blocks` maps tile axes to block sizes in elements; an axis left out is one block.
    Raises: UnboundProgram, MissingArgument, ArgumentMismatch, StoreOutside, UndefinedIndex.
    Source: running error analysis as in Higham, Accuracy and Stability of Numerical Algorithms, chapter 3.
    """
    if not program.is_bound:
        raise UnboundProgram(program=program.name, dims=program.dims)
    memories = {k: memory_of(p, arguments, k in program.stored_tensors()) for k, p in tensors_of(program)}
    scalars = {k: scalar_of(p, arguments) for k, p in enumerate(program.parameters) if isinstance(p, Scalar)}
    with np.errstate(all="ignore"):
        for box in boxes(program, blocks or {}):
            run = _Run(program=program, blocks=blocks or {}, box=box, memories=memories, scalars=scalars)
            run.region(program.body)
    outputs = (
        Expected(name=program.tensor(k).name, values=memories[k].value, bound=memories[k].bound)
        for k in program.stored_tensors()
    )
    return Interpretation(outputs=tuple(outputs))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Frame:
    """Where an axis stands: its coordinates, its block, and which coordinates exist (None: all)."""

    coordinates: Grid
    start: Grid
    stop: Grid
    valid: Grid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Execution of the programs in one box of the parallel domain."""

    program: Program
    blocks: Mapping[int, int]
    box: Mapping[int, range]
    memories: dict[int, Approx]
    scalars: dict[int, Approx]
    values: dict[int, Term] = field(default_factory=dict)
    dtypes: dict[int, DType] = field(default_factory=dict)
    states: dict[tuple[int, int], Term] = field(default_factory=dict)
    finals: dict[tuple[int, int], Term] = field(default_factory=dict)
    frames: dict[int, _Frame] = field(default_factory=dict)
    active: list[Grid] = field(default_factory=list)
    open_sums: dict[int, int] = field(default_factory=dict)  # reassociating sums: how many terms each has

    def region(self, region: Region) -> None:
        for statement in region:
            match statement:
                case Let(id=number, dtype=dtype):
                    self.dtypes[number] = dtype
                    self.values[number] = self.let(statement)
                case Store():
                    self.store(statement)
                case For():
                    self.loop(statement)

    # --- values ---------------------------------------------------------------------------------------------------

    def let(self, let: Let) -> Term:
        match let.value:
            case Const(value=value):
                return Term(axes=(), number=exact(round_to(let.dtype, np.asarray(value))))
            case ScalarArgument(parameter=parameter):
                return Term(axes=(), number=self.scalars[parameter])
            case IndexValue(expression=expression):
                grid = self.evaluate(expression)
                return Term(axes=grid.axes, number=exact(round_to(let.dtype, grid.array)))
            case Load():
                return self.load(let.value)
            case Elementwise(op=op, args=args, math=policy):
                terms = [self.values[a] for a in args]
                axes = union(*(t.axes for t in terms))
                numbers = [spread(t, axes) for t in terms]
                number = elementwise(op, numbers, self.dtypes[args[-1]], let.dtype, policy)
                for arg, other in zip(args, reversed(numbers), strict=True):
                    if op is Op.ADD and arg in self.open_sums:
                        number = started_from(other, self.open_sums[arg], number, let.dtype)
                return Term(axes=axes, number=number)
            case Reduce(op=reduce_op, axes=axes, math=policy):
                if reduce_op is ReduceOp.SUM and policy.reassociate and let.dtype.is_float:
                    self.open_sums[let.id] = math.prod(self.frame(a).coordinates.array.size for a in axes)
                return self.reduce(let.value, let.dtype)
            case Reindex(value=value, source=source, target=target):
                return rename(self.values[value], source, target)
            case Carried(axis=axis, slot=slot):
                return self.states[axis, slot]
            case Final(axis=axis, slot=slot):
                return self.finals[axis, slot]

    def load(self, load: Load) -> Term:
        memory = self.memories[load.tensor]
        grids: list[Grid] = []
        doubt: Term | None = None
        for entry in load.index:
            if isinstance(entry, Indirect):
                term = self.values[entry.value]
                grids.append(Grid(axes=term.axes, array=term.number.value.astype(np.int64)))
                doubt = term if term.number.bound.any() else doubt
            else:
                grids.append(self.evaluate(entry))
        axes = union(*(g.axes for g in grids))
        index, inside = self.positions(grids, axes, memory.value.shape)
        fill = round_to(self.program.tensor(load.tensor).dtype, np.asarray(load.fill))
        if 0 in memory.value.shape:
            number = exact(np.broadcast_to(fill, np.broadcast_shapes(*(i.shape for i in index))))
            return Term(axes=axes, number=number)
        value = np.asarray(memory.value[index])
        bound = np.asarray(memory.bound[index]) if memory.bound.any() else exact(value).bound
        if inside is not None:
            value, bound = np.where(inside, value, fill), np.where(inside, bound, 0.0)
        if doubt is not None:
            bound = np.where(spread(doubt, axes).bound > 0, np.inf, bound)
        return Term(axes=axes, number=Approx(value=value, bound=bound))

    def positions(
        self, grids: list[Grid], axes: tuple[int, ...], shape: tuple[int, ...]
    ) -> tuple[tuple[Array, ...], Array | None]:
        """Index arrays clipped into a tensor, and where they were inside it (None: everywhere)."""
        inside: Array | None = None
        index = []
        for grid, extent in zip(grids, shape, strict=True):
            array = stretch(grid, axes)
            if array.size and (array.min() < 0 or array.max() >= extent):
                here = (array >= 0) & (array < extent)
                inside = here if inside is None else inside & here
                array = np.where(here, array, 0)
            index.append(array)
        return tuple(np.broadcast_arrays(*index)), inside

    def reduce(self, value: Reduce, dtype: DType) -> Term:
        source, init = self.values[value.body], None if value.init is None else self.values[value.init]
        frames = {a: self.frame(a) for a in value.axes}
        valid = [f.valid for f in frames.values() if f.valid is not None]
        axes = union(source.axes, value.axes, *(v.axes for v in valid), init.axes if init else ())
        if value.op is not ReduceOp.ARGMAX:
            source = Term(axes=source.axes, number=cast(source.number, self.dtypes[value.body], dtype))
        body = spread(source, axes)
        sizes = zip(axes, body.value.shape, strict=True)
        full = [frames[a].coordinates.array.size if a in frames else size for a, size in sizes]
        body = Approx(value=np.broadcast_to(body.value, full), bound=body.bound)
        mask = conjunction(valid, axes)
        dims = tuple(k for k, a in enumerate(axes) if a in frames)
        kept = tuple(a for a in axes if a not in frames)
        if value.op is ReduceOp.ARGMAX:
            (frame,) = frames.values()
            return Term(axes=kept, number=argmax(body, dims[0], frame.coordinates.array, mask))
        start = None if init is None else spread(init, kept)
        return Term(axes=kept, number=reduce(value.op, body, dims, dtype, mask, start))

    # --- statements -----------------------------------------------------------------------------------------------

    def store(self, store: Store) -> None:
        memory, tensor = self.memories[store.tensor], self.program.tensor(store.tensor)
        term, grids = self.values[store.value], [self.evaluate(i) for i in store.index]
        number = cast(term.number, self.dtypes[store.value], tensor.dtype)
        mask = None if store.mask is None else self.values[store.mask]
        touched = union(*(g.axes for g in grids), term.axes, mask.axes if mask else ())
        conditions = [f.valid for f in map(self.frame, touched) if f.valid is not None] + self.active
        if mask is not None:
            conditions.append(Grid(axes=mask.axes, array=mask.number.value | (mask.number.bound > 0)))
        axes = union(touched, *(c.axes for c in conditions))
        number = spread(Term(axes=term.axes, number=number), axes)
        if mask is not None and mask.number.bound.any():
            doubt = spread(mask, axes).bound > 0
            number = Approx(value=number.value, bound=np.where(doubt, np.inf, number.bound))
        index = [stretch(g, axes) for g in grids]
        condition = conjunction(conditions, axes)
        parts = np.broadcast_arrays(*index, number.value, number.bound, *(() if condition is None else (condition,)))
        if condition is not None:
            parts = tuple(p[parts[-1]] for p in parts[:-1])
        *index, value, bound = parts
        self.check_inside(index, tensor, memory.value.shape, store.line)
        memory.value[tuple(index)] = value
        memory.bound[tuple(index)] = bound

    def check_inside(self, index: list[Array], tensor: Tensor, shape: tuple[int, ...], line: int) -> None:
        for array, extent in zip(index, shape, strict=True):
            if array.size and (array.min() < 0 or array.max() >= extent):
                place = np.unravel_index(np.argmax((array < 0) | (array >= extent)), array.shape)
                where = tuple(int(a[place]) for a in index)
                raise StoreOutside(name=tensor.name, index=where, shape=shape, line=line)

    def loop(self, loop: For) -> None:
        axis = self.program.axes[loop.axis]
        extent = self.evaluate(axis.extent)
        longest = int(extent.array.max(initial=0))
        block = 1 if axis.kind is AxisKind.RANGE else self.blocks.get(axis.id, max(longest, 1))
        state = [self.values[c.initial] for c in loop.carries]
        for first in range(0, longest, block):
            self.frames[axis.id] = self.trip(axis, extent, first, min(first + block, longest))
            self.states.update({(axis.id, slot): term for slot, term in enumerate(state)})
            running = Grid(axes=extent.axes, array=extent.array > first)
            partial = not running.array.all()
            if partial:
                self.active.append(running)
            self.region(loop.body)
            updated = [self.values[c.updated] for c in loop.carries]
            state = [merge(running, u, s) for u, s in zip(updated, state, strict=True)] if partial else updated
            if partial:
                self.active.pop()
        self.frames.pop(axis.id, None)
        self.finals.update({(axis.id, slot): term for slot, term in enumerate(state)})

    def trip(self, axis: Axis, extent: Grid, first: int, end: int) -> _Frame:
        """One trip: a block of coordinates of a tile axis, or the one coordinate of a range axis."""
        if axis.kind is AxisKind.RANGE:
            start = self.evaluate(axis.start)
            here = Grid(axes=start.axes, array=start.array + axis.step * first)
            return _Frame(coordinates=here, start=here, stop=Grid(axes=here.axes, array=here.array + 1))
        coordinates = Grid(axes=(axis.id,), array=np.arange(first, end))
        return _Frame(
            coordinates=coordinates,
            start=Grid(axes=(), array=np.asarray(first)),
            stop=Grid(axes=extent.axes, array=np.minimum(end, extent.array)),
            valid=below(coordinates, extent),
        )

    # --- axes and index expressions -------------------------------------------------------------------------------

    def frame(self, axis: int) -> _Frame:
        if axis in self.frames:
            return self.frames[axis]
        frame = self.place(self.program.axes[axis])
        if not self.program.axes[axis].extent.axes():  # else its extent moves with a loop around it
            self.frames[axis] = frame
        return frame

    def place(self, axis: Axis) -> _Frame:
        """Frame of a parallel axis within the box, or of a full axis."""
        if axis.id in self.box:
            part, extent = self.box[axis.id], axis.extent.evaluate({})
            here = np.arange(part.start, part.stop)
            block = self.blocks.get(axis.id, max(extent, 1)) if axis.kind is AxisKind.PROGRAM_TILE else 1
            first = here // block * block
            coordinates, start = Grid(axes=(axis.id,), array=here), Grid(axes=(axis.id,), array=first)
            stop = Grid(axes=(axis.id,), array=np.minimum(first + block, extent))
            return _Frame(coordinates=coordinates, start=start, stop=stop)
        size = self.evaluate(axis.extent)
        coordinates = Grid(axes=(axis.id,), array=np.arange(max(int(size.array.max(initial=0)), 0)))
        zero = Grid(axes=(), array=np.asarray(0))
        return _Frame(coordinates=coordinates, start=zero, stop=size, valid=below(coordinates, size))

    def evaluate(self, expression: Affine) -> Grid:
        total = Grid(axes=(), array=np.asarray(expression.constant, dtype=np.int64))
        for a, c in expression.terms:
            here = self.atom(a)
            total = combine(np.add, total, Grid(axes=here.axes, array=here.array * c))
        return total

    def atom(self, a: Atom) -> Grid:
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
                return combine(np.floor_divide, self.evaluate(n), self.divisor(d))
            case index_expressions.Remainder(numerator=n, denominator=d):
                return combine(np.mod, self.evaluate(n), self.divisor(d))

    def divisor(self, expression: Affine) -> Grid:
        grid = self.evaluate(expression)
        if not grid.array.all():
            raise UndefinedIndex(expression=str(expression))
        return grid
