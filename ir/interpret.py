"""The meaning of a program: its values in float64 over all axes at once, each with a rounding error bound.
Must not know how a program is realized; the slow and plain evaluation here is what every realization is held to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from autotune.ir import affine as index_expressions
from autotune.ir.affine import Affine, Atom
from autotune.ir.bounds import (
    INTEGER_TYPES,
    Approx,
    Array,
    cast,
    elementwise,
    exact,
    round_to,
    select,
)
from autotune.ir.errors import ArgumentMismatch, MissingArgument, StoreOutside, UnboundProgram, UndefinedIndex
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
    statements,
)
from autotune.ir.reductions import argmax, reduce
from autotune.ir.types import DType, ReduceOp

# Values are evaluated for so many programs at once that the largest one takes about this much: a few times L2.
CHUNK_BYTES = 8 << 20


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
        return next(output for output in self.outputs if output.name == name)


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
    memories = {k: _memory(p, arguments, k in program.stored_tensors()) for k, p in _tensors(program)}
    scalars = {k: _scalar(p, arguments) for k, p in enumerate(program.parameters) if isinstance(p, Scalar)}
    with np.errstate(all="ignore"):
        for box in _boxes(program, blocks or {}):
            run = _Run(program=program, blocks=blocks or {}, box=box, memories=memories, scalars=scalars)
            run.region(program.body)
    outputs = (
        Expected(name=program.tensor(k).name, values=memories[k].value, bound=memories[k].bound)
        for k in program.stored_tensors()
    )
    return Interpretation(outputs=tuple(outputs))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Term:
    """Numbers over some axes, in ascending order: array dimension d runs along `axes[d]` or has size 1."""

    axes: tuple[int, ...]
    number: Approx


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Grid:
    """Exact index numbers or truth values over some axes, ascending."""

    axes: tuple[int, ...]
    array: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Frame:
    """Where an axis stands: its coordinates, its block, and which coordinates exist (None: all)."""

    coordinates: _Grid
    start: _Grid
    stop: _Grid
    valid: _Grid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Execution of the programs in one box of the parallel domain."""

    program: Program
    blocks: Mapping[int, int]
    box: Mapping[int, range]
    memories: dict[int, Approx]
    scalars: dict[int, Approx]
    values: dict[int, _Term] = field(default_factory=dict)
    dtypes: dict[int, DType] = field(default_factory=dict)
    states: dict[tuple[int, int], _Term] = field(default_factory=dict)
    finals: dict[tuple[int, int], _Term] = field(default_factory=dict)
    frames: dict[int, _Frame] = field(default_factory=dict)
    active: list[_Grid] = field(default_factory=list)

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

    def let(self, let: Let) -> _Term:
        match let.value:
            case Const(value=value):
                return _Term(axes=(), number=exact(round_to(let.dtype, np.asarray(value))))
            case ScalarArgument(parameter=parameter):
                return _Term(axes=(), number=self.scalars[parameter])
            case IndexValue(expression=expression):
                grid = self.evaluate(expression)
                return _Term(axes=grid.axes, number=exact(round_to(let.dtype, grid.array)))
            case Load():
                return self.load(let.value)
            case Elementwise(op=op, args=args, math=policy):
                terms = [self.values[a] for a in args]
                axes = _union(*(t.axes for t in terms))
                numbers = [_spread(t, axes) for t in terms]
                return _Term(axes=axes, number=elementwise(op, numbers, self.dtypes[args[-1]], let.dtype, policy))
            case Reduce():
                return self.reduce(let.value, let.dtype)
            case Reindex(value=value, source=source, target=target):
                return _rename(self.values[value], source, target)
            case Carried(axis=axis, slot=slot):
                return self.states[axis, slot]
            case Final(axis=axis, slot=slot):
                return self.finals[axis, slot]

    def load(self, load: Load) -> _Term:
        memory = self.memories[load.tensor]
        grids: list[_Grid] = []
        doubt: _Term | None = None
        for entry in load.index:
            if isinstance(entry, Indirect):
                term = self.values[entry.value]
                grids.append(_Grid(axes=term.axes, array=term.number.value.astype(np.int64)))
                doubt = term if term.number.bound.any() else doubt
            else:
                grids.append(self.evaluate(entry))
        axes = _union(*(g.axes for g in grids))
        index, inside = self.positions(grids, axes, memory.value.shape)
        fill = round_to(self.program.tensor(load.tensor).dtype, np.asarray(load.fill))
        if 0 in memory.value.shape:
            number = exact(np.broadcast_to(fill, np.broadcast_shapes(*(i.shape for i in index))))
            return _Term(axes=axes, number=number)
        value = np.asarray(memory.value[index])
        bound = np.asarray(memory.bound[index]) if memory.bound.any() else exact(value).bound
        if inside is not None:
            value, bound = np.where(inside, value, fill), np.where(inside, bound, 0.0)
        if doubt is not None:
            bound = np.where(_spread(doubt, axes).bound > 0, np.inf, bound)
        return _Term(axes=axes, number=Approx(value=value, bound=bound))

    def positions(
        self, grids: list[_Grid], axes: tuple[int, ...], shape: tuple[int, ...]
    ) -> tuple[tuple[Array, ...], Array | None]:
        """Index arrays clipped into a tensor, and where they were inside it (None: everywhere)."""
        inside: Array | None = None
        index = []
        for grid, extent in zip(grids, shape, strict=True):
            array = _stretch(grid, axes)
            if array.size and (array.min() < 0 or array.max() >= extent):
                here = (array >= 0) & (array < extent)
                inside = here if inside is None else inside & here
                array = np.where(here, array, 0)
            index.append(array)
        return tuple(np.broadcast_arrays(*index)), inside

    def reduce(self, value: Reduce, dtype: DType) -> _Term:
        source, init = self.values[value.body], None if value.init is None else self.values[value.init]
        frames = {a: self.frame(a) for a in value.axes}
        valid = [f.valid for f in frames.values() if f.valid is not None]
        axes = _union(source.axes, value.axes, *(v.axes for v in valid), init.axes if init else ())
        if value.op is not ReduceOp.ARGMAX:
            source = _Term(axes=source.axes, number=cast(source.number, self.dtypes[value.body], dtype))
        body = _spread(source, axes)
        sizes = zip(axes, body.value.shape, strict=True)
        full = [frames[a].coordinates.array.size if a in frames else size for a, size in sizes]
        body = Approx(value=np.broadcast_to(body.value, full), bound=body.bound)
        mask = _conjunction(valid, axes)
        dims = tuple(k for k, a in enumerate(axes) if a in frames)
        kept = tuple(a for a in axes if a not in frames)
        if value.op is ReduceOp.ARGMAX:
            (frame,) = frames.values()
            return _Term(axes=kept, number=argmax(body, dims[0], frame.coordinates.array, mask))
        start = None if init is None else _spread(init, kept)
        return _Term(axes=kept, number=reduce(value.op, body, dims, dtype, mask, start))

    # --- statements -----------------------------------------------------------------------------------------------

    def store(self, store: Store) -> None:
        memory, tensor = self.memories[store.tensor], self.program.tensor(store.tensor)
        term, grids = self.values[store.value], [self.evaluate(i) for i in store.index]
        number = cast(term.number, self.dtypes[store.value], tensor.dtype)
        mask = None if store.mask is None else self.values[store.mask]
        touched = _union(*(g.axes for g in grids), term.axes, mask.axes if mask else ())
        conditions = [f.valid for f in map(self.frame, touched) if f.valid is not None] + self.active
        if mask is not None:
            conditions.append(_Grid(axes=mask.axes, array=mask.number.value | (mask.number.bound > 0)))
        axes = _union(touched, *(c.axes for c in conditions))
        number = _spread(_Term(axes=term.axes, number=number), axes)
        if mask is not None and mask.number.bound.any():
            doubt = _spread(mask, axes).bound > 0
            number = Approx(value=number.value, bound=np.where(doubt, np.inf, number.bound))
        index = [_stretch(g, axes) for g in grids]
        condition = _conjunction(conditions, axes)
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
            running = _Grid(axes=extent.axes, array=extent.array > first)
            partial = not running.array.all()
            if partial:
                self.active.append(running)
            self.region(loop.body)
            updated = [self.values[c.updated] for c in loop.carries]
            state = [_merge(running, u, s) for u, s in zip(updated, state, strict=True)] if partial else updated
            if partial:
                self.active.pop()
        self.frames.pop(axis.id, None)
        self.finals.update({(axis.id, slot): term for slot, term in enumerate(state)})

    def trip(self, axis: Axis, extent: _Grid, first: int, end: int) -> _Frame:
        """One trip: a block of coordinates of a tile axis, or the one coordinate of a range axis."""
        if axis.kind is AxisKind.RANGE:
            start = self.evaluate(axis.start)
            here = _Grid(axes=start.axes, array=start.array + axis.step * first)
            return _Frame(coordinates=here, start=here, stop=_Grid(axes=here.axes, array=here.array + 1))
        coordinates = _Grid(axes=(axis.id,), array=np.arange(first, end))
        return _Frame(
            coordinates=coordinates,
            start=_Grid(axes=(), array=np.asarray(first)),
            stop=_Grid(axes=extent.axes, array=np.minimum(end, extent.array)),
            valid=_below(coordinates, extent),
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
            part, extent = self.box[axis.id], _constant(axis.extent)
            here = np.arange(part.start, part.stop)
            block = self.blocks.get(axis.id, max(extent, 1)) if axis.kind is AxisKind.PROGRAM_TILE else 1
            first = here // block * block
            coordinates, start = _Grid(axes=(axis.id,), array=here), _Grid(axes=(axis.id,), array=first)
            stop = _Grid(axes=(axis.id,), array=np.minimum(first + block, extent))
            return _Frame(coordinates=coordinates, start=start, stop=stop)
        size = self.evaluate(axis.extent)
        coordinates = _Grid(axes=(axis.id,), array=np.arange(max(int(size.array.max(initial=0)), 0)))
        zero = _Grid(axes=(), array=np.asarray(0))
        return _Frame(coordinates=coordinates, start=zero, stop=size, valid=_below(coordinates, size))

    def evaluate(self, expression: Affine) -> _Grid:
        total = _Grid(axes=(), array=np.asarray(expression.constant, dtype=np.int64))
        for a, c in expression.terms:
            here = self.atom(a)
            total = _combine(np.add, total, _Grid(axes=here.axes, array=here.array * c))
        return total

    def atom(self, a: Atom) -> _Grid:
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
                return _combine(np.minimum, self.evaluate(left), self.evaluate(right))
            case index_expressions.Greatest(left=left, right=right):
                return _combine(np.maximum, self.evaluate(left), self.evaluate(right))
            case index_expressions.Product(left=left, right=right):
                return _combine(np.multiply, self.evaluate(left), self.evaluate(right))
            case index_expressions.Quotient(numerator=n, denominator=d):
                return _combine(np.floor_divide, self.evaluate(n), self.divisor(d))
            case index_expressions.Remainder(numerator=n, denominator=d):
                return _combine(np.mod, self.evaluate(n), self.divisor(d))

    def divisor(self, expression: Affine) -> _Grid:
        grid = self.evaluate(expression)
        if not grid.array.all():
            raise UndefinedIndex(expression=str(expression))
        return grid


# --- arrays over axes ---------------------------------------------------------------------------------------------


def _union(*groups: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set().union(*groups)))


def _expand(array: Array, have: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    return array if have == axes else array[tuple(slice(None) if a in have else None for a in axes)]


def _stretch(grid: _Grid, axes: tuple[int, ...]) -> Array:
    return _expand(grid.array, grid.axes, axes)


def _spread(term: _Term, axes: tuple[int, ...]) -> Approx:
    number = term.number
    return Approx(value=_expand(number.value, term.axes, axes), bound=_expand(number.bound, term.axes, axes))


def _rename(term: _Term, source: int, target: int) -> _Term:
    """The same numbers with one axis renamed, dimensions put back into ascending order."""
    renamed = tuple(target if a == source else a for a in term.axes)
    order = sorted(range(len(renamed)), key=renamed.__getitem__)
    number = Approx(value=term.number.value.transpose(order), bound=term.number.bound.transpose(order))
    return _Term(axes=tuple(renamed[k] for k in order), number=number)


def _combine(function: np.ufunc, left: _Grid, right: _Grid) -> _Grid:
    axes = _union(left.axes, right.axes)
    return _Grid(axes=axes, array=np.asarray(function(_stretch(left, axes), _stretch(right, axes))))


def _below(coordinates: _Grid, extent: _Grid) -> _Grid | None:
    """Which coordinates lie below an extent; None where all do."""
    valid = _combine(np.less, coordinates, extent)
    return None if valid.array.all() else valid


def _conjunction(conditions: list[_Grid], axes: tuple[int, ...]) -> Array | None:
    result: Array | None = None
    for condition in conditions:
        here = _stretch(condition, axes)
        result = here if result is None else result & here
    return result


def _merge(running: _Grid, updated: _Term, state: _Term) -> _Term:
    """The new state where the loop still runs, the old one where it has ended."""
    axes = _union(running.axes, updated.axes, state.axes)
    return _Term(axes=axes, number=select(_stretch(running, axes), _spread(updated, axes), _spread(state, axes)))


# --- arguments ----------------------------------------------------------------------------------------------------


def _tensors(program: Program) -> Iterator[tuple[int, Tensor]]:
    return ((k, p) for k, p in enumerate(program.parameters) if isinstance(p, Tensor))


def _memory(tensor: Tensor, arguments: Mapping[str, Array | Number], stored: bool) -> Approx:
    """A private copy of a tensor argument; an output that was not given holds unknown contents."""
    shape = tuple(_constant(extent) for extent in tensor.shape)
    if tensor.name not in arguments:
        if not stored:
            raise MissingArgument(name=tensor.name)
        kind = np.float64 if tensor.dtype.is_float else INTEGER_TYPES.get(tensor.dtype, np.bool_)
        return Approx(value=np.zeros(shape, dtype=kind), bound=np.full(shape, np.inf))
    array = np.asarray(arguments[tensor.name])
    if array.shape != shape:
        raise ArgumentMismatch(name=tensor.name, expected=f"shape {list(shape)}", found=f"shape {list(array.shape)}")
    return Approx(value=_elements(tensor, array), bound=np.zeros(shape))


def _elements(tensor: Tensor, array: Array) -> Array:
    match tensor.dtype:
        case DType.BF16 if array.dtype == np.uint16:
            return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        case DType.BF16 if array.dtype.kind == "f":
            return array.astype(np.float64)
        case DType.F64 | DType.F32 | DType.F16 if array.dtype == f"f{tensor.dtype.size_bytes}":
            return array.astype(np.float64)
        case DType.BOOL if array.dtype == np.bool_:
            return array.copy()
        case DType.I64 | DType.I32 | DType.I8 if array.dtype == INTEGER_TYPES[tensor.dtype]:
            return array.copy()
        case _:
            raise ArgumentMismatch(
                name=tensor.name, expected=f"elements of type {tensor.dtype.value}", found=str(array.dtype)
            )


def _scalar(scalar: Scalar, arguments: Mapping[str, Array | Number]) -> Approx:
    value = arguments.get(scalar.name, scalar.default)
    if value is None:
        raise MissingArgument(name=scalar.name)
    array = np.asarray(value)
    if array.shape != ():
        raise ArgumentMismatch(name=scalar.name, expected="a number", found=f"an array of shape {list(array.shape)}")
    return exact(round_to(scalar.dtype, array))


def _constant(expression: Affine) -> int:
    return expression.evaluate({})


# --- chunks of programs -------------------------------------------------------------------------------------------


def _boxes(program: Program, blocks: Mapping[int, int]) -> Iterator[dict[int, range]]:
    """The parallel domain in boxes small enough for the largest value; none where an extent is 0."""
    extents = {a: _constant(program.axes[a].extent) for a in program.parallel}
    largest = max((_elements_of(s, program, blocks) for s in statements(program.body) if isinstance(s, Let)), default=1)
    room = max(CHUNK_BYTES // 8, 1)
    chunks = {}
    for axis, extent in extents.items():
        chunks[axis] = min(extent, max(extent * room // max(largest, 1), 1))
        largest = -(-largest * chunks[axis] // max(extent, 1))
    ranges = [[range(k, min(k + chunks[a], n)) for k in range(0, n, max(chunks[a], 1))] for a, n in extents.items()]
    return (dict(zip(extents, choice, strict=True)) for choice in itertools.product(*ranges))


def _elements_of(let: Let, program: Program, blocks: Mapping[int, int]) -> int:
    """Upper estimate of a value's number of elements over the whole parallel domain."""
    return math.prod(_longest(program.axes[a], program, blocks) for a in {*let.axes, *program.parallel})


def _longest(axis: Axis, program: Program, blocks: Mapping[int, int]) -> int:
    if axis.kind is AxisKind.RANGE:
        return 1
    ranges: dict[Atom, tuple[int, int]] = {}
    for a in axis.extent.atoms():
        if isinstance(a, index_expressions.Coord | index_expressions.Start | index_expressions.Stop):
            ranges[a] = (0, _longest(program.axes[a.axis], program, {}))
    bounds = axis.extent.range(ranges)
    longest = max(bounds[1], 1) if bounds else 1
    return min(longest, blocks.get(axis.id, longest)) if axis.kind is AxisKind.TILE else longest
