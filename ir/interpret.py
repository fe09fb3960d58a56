"""The meaning of a program: its values in float64 over all axes at once, each with a rounding error bound.
Must not know how a program is realized; the slow and plain evaluation here is what every realization is held to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.ir.arguments import memory_of, scalar_of, tensors_of
from autotune.ir.bounds import Approx, Array, cast, elementwise, exact, round_to
from autotune.ir.chunks import boxes
from autotune.ir.contractions import contract
from autotune.ir.dependence import bare_products
from autotune.ir.errors import EndlessLoop, StoreOutside, UnboundProgram
from autotune.ir.frames import Frames, Mask
from autotune.ir.grids import (
    Grid,
    Term,
    both,
    certain,
    conjunction,
    doubted,
    either,
    merge,
    negated,
    rename,
    spread,
    stretch,
    union,
    unknown_where,
)
from autotune.ir.program import (
    AxisKind,
    Carried,
    Const,
    Elementwise,
    Final,
    For,
    If,
    IndexValue,
    Indirect,
    Joined,
    Let,
    Load,
    MergeSide,
    Number,
    Program,
    Reduce,
    Region,
    Reindex,
    Scalar,
    ScalarArgument,
    Store,
    Tensor,
    While,
)
from autotune.ir.reductions import argmax, reduce, started_from
from autotune.ir.types import STRICT, DType, Op, ReduceOp

# Trips after which a while loop counts as one that never ends.
MAX_TRIPS = 100_000


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
    program: Program,
    arguments: Mapping[str, Array | Number],
    *,
    blocks: Mapping[int, int] | None = None,
    cuts: Mapping[int, Sequence[float]] | None = None,
) -> Interpretation:
    """Evaluate a bound program: expected outputs and how far a correct kernel may be from them.

    Shapes: arrays as the program's tensors; an output may be left out of `arguments`, what it does not store is then
    unknown. bfloat16 tensors are given as float arrays or as their uint16 bit patterns.
    Units: `blocks` maps tile axes to block sizes in elements; an axis left out is one block. `cuts` maps axes of loops
    with a merge rule to shares of their extent, ascending: the loop then runs in parts, each from the initial state,
    and the rule combines them from left to right.
    Raises: UnboundProgram, MissingArgument, ArgumentMismatch, StoreOutside, UndefinedIndex, EndlessLoop.
    Source: running error analysis as in Higham, Accuracy and Stability of Numerical Algorithms, chapter 3.
    """
    if not program.is_bound:
        raise UnboundProgram(program=program.name, dims=program.dims)
    memories = {k: memory_of(p, arguments, k in program.stored_tensors()) for k, p in tensors_of(program)}
    scalars = {k: scalar_of(p, arguments) for k, p in enumerate(program.parameters) if isinstance(p, Scalar)}
    unmade = bare_products(program)
    with np.errstate(all="ignore"):
        for box in boxes(program, blocks or {}):
            run = _Run(
                program=program,
                frames=Frames(program=program, blocks=blocks or {}, box=box),
                cuts=cuts or {},
                unmade=unmade,
                memories=memories,
                scalars=scalars,
            )
            run.region(program.body)
    outputs = (
        Expected(name=program.tensor(k).name, values=memories[k].value, bound=memories[k].bound)
        for k in program.stored_tensors()
    )
    return Interpretation(outputs=tuple(outputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Execution of the programs in one box of the parallel domain."""

    program: Program
    frames: Frames
    cuts: Mapping[int, Sequence[float]]
    unmade: frozenset[int]
    memories: dict[int, Approx]
    scalars: dict[int, Approx]
    values: dict[int, Term] = field(default_factory=dict)
    dtypes: dict[int, DType] = field(default_factory=dict)
    states: dict[tuple[int, int], Term] = field(default_factory=dict)
    finals: dict[tuple[int, int], Term] = field(default_factory=dict)
    joined: dict[tuple[int, int], Term] = field(default_factory=dict)
    sides: dict[tuple[int, int, int], Term] = field(default_factory=dict)
    open_sums: dict[int, int] = field(default_factory=dict)  # reassociating sums: how many terms each has

    def region(self, region: Region) -> None:
        for statement in region:
            match statement:
                case Let(id=number, dtype=dtype):
                    self.dtypes[number] = dtype
                    if number not in self.unmade:
                        self.values[number] = self.let(statement)
                case Store():
                    self.store(statement)
                case For():
                    self.loop(statement)
                case While():
                    self.while_loop(statement)
                case If():
                    self.branch(statement)

    # --- values ---------------------------------------------------------------------------------------------------

    def let(self, let: Let) -> Term:
        match let.value:
            case Const(value=value):
                return Term(axes=(), number=exact(round_to(let.dtype, np.asarray(value))))
            case ScalarArgument(parameter=parameter):
                return Term(axes=(), number=self.scalars[parameter])
            case IndexValue(expression=expression):
                grid = self.frames.evaluate(expression)
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
                    self.open_sums[let.id] = math.prod(self.frames.frame(a).coordinates.array.size for a in axes)
                return self.reduce(let.value, let.dtype)
            case Reindex(value=value, source=source, target=target):
                return rename(self.values[value], source, target)
            case Carried(axis=axis, slot=slot):
                return self.states[axis, slot]
            case Final(axis=axis, slot=slot):
                return self.finals[axis, slot]
            case Joined(branch=branch, slot=slot):
                return self.joined[branch, slot]
            case MergeSide(axis=axis, side=side, slot=slot):
                return self.sides[axis, side, slot]

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
                grids.append(self.frames.evaluate(entry))
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
        init = None if value.init is None else self.values[value.init]
        frames = {a: self.frames.frame(a) for a in value.axes}
        valid = [f.valid for f in frames.values() if f.valid is not None]
        if value.contraction is not None:
            lhs, rhs = self.values[value.contraction.lhs], self.values[value.contraction.rhs]
            sizes = {a: frames[a].coordinates.array.size for a in value.axes}
            return contract(lhs, rhs, sizes, valid, dtype, init)
        source = self.values[value.body]
        axes = union(source.axes, value.axes, *(v.axes for v in valid), init.axes if init else ())
        if value.op is not ReduceOp.ARGMAX:
            source = Term(axes=source.axes, number=cast(source.number, self.dtypes[value.body], dtype))
        body = spread(source, axes)
        shape = zip(axes, body.value.shape, strict=True)
        full = [frames[a].coordinates.array.size if a in frames else size for a, size in shape]
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
        term, grids = self.values[store.value], [self.frames.evaluate(i) for i in store.index]
        number = cast(term.number, self.dtypes[store.value], tensor.dtype)
        mask = None if store.mask is None else self.values[store.mask]
        touched = union(*(g.axes for g in grids), term.axes, mask.axes if mask else ())
        conditions = [f.valid for f in map(self.frames.frame, touched) if f.valid is not None]
        conditions += [m.holds for m in self.frames.active]
        doubts = [m.doubt for m in self.frames.active if m.doubt is not None]
        if mask is not None:
            conditions.append(Grid(axes=mask.axes, array=mask.number.value | (mask.number.bound > 0)))
            doubts += [Grid(axes=mask.axes, array=mask.number.bound > 0)] if mask.number.bound.any() else []
        axes = union(touched, *(c.axes for c in conditions), *(d.axes for d in doubts))
        number = spread(Term(axes=term.axes, number=number), axes)
        for doubt in doubts:
            number = Approx(value=number.value, bound=np.where(stretch(doubt, axes), np.inf, number.bound))
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
        extent = self.frames.evaluate(axis.extent)
        longest = max(int(extent.array.max(initial=0)), 0)
        shares = self.cuts.get(axis.id, ()) if loop.merge is not None else ()
        ends = [0, *(int(share * longest) for share in shares), longest]
        state = self.trips(loop, extent, ends[0], ends[1])
        for first, end in itertools.pairwise(ends[1:]):
            state = self.merged(loop, state, self.trips(loop, extent, first, end))
        self.finals.update({(axis.id, slot): term for slot, term in enumerate(state)})

    def trips(self, loop: For, extent: Grid, start: int, end: int) -> list[Term]:
        """The state after the trips over the coordinates from `start` to `end`, from the initial state."""
        axis = self.program.axes[loop.axis]
        block = 1 if axis.kind is AxisKind.RANGE else self.frames.blocks.get(axis.id, max(end, 1))
        state = [self.values[c.initial] for c in loop.carries]
        for first in range(start, end, block):
            running = Grid(axes=extent.axes, array=extent.array > first)
            partial = not running.array.all()
            if partial and not self.anywhere(running):
                continue
            self.frames.enter(axis, extent, first, min(first + block, end))
            self.states.update({(axis.id, slot): term for slot, term in enumerate(state)})
            if partial:
                self.frames.active.append(Mask(holds=running))
            self.region(loop.body)
            updated = [self.values[c.updated] for c in loop.carries]
            state = [merge(running, u, s) for u, s in zip(updated, state, strict=True)] if partial else updated
            if partial:
                self.frames.active.pop()
        self.frames.leave(axis)
        return state

    def merged(self, loop: For, earlier: list[Term], later: list[Term]) -> list[Term]:
        """Two states combined by the loop's merge rule."""
        assert loop.merge is not None
        for side, state in enumerate((earlier, later)):
            self.sides.update({(loop.axis, side, slot): term for slot, term in enumerate(state)})
        self.region(loop.merge.body)
        return [self.values[v] for v in loop.merge.merged]

    def while_loop(self, loop: While) -> None:
        """Trips until no program goes on; a program that has stopped keeps its state.

        After a condition that rounding may turn nothing is known of a program's state.
        """
        state = [self.values[c.initial] for c in loop.carries]
        going, doubt = Grid(axes=(), array=np.asarray(True)), Grid(axes=(), array=np.asarray(False))
        for _ in range(MAX_TRIPS):
            self.states.update({(loop.axis, slot): term for slot, term in enumerate(state)})
            self.region(loop.test)
            condition = self.values[loop.condition]
            doubt = either(doubt, both(going, doubted(condition)))
            going = both(going, certain(condition))
            if not self.anywhere(going):
                break
            self.frames.active.append(Mask(holds=either(going, doubt), doubt=doubt))
            self.region(loop.body)
            self.frames.active.pop()
            updated = [self.values[c.updated] for c in loop.carries]
            state = [merge(going, u, s) for u, s in zip(updated, state, strict=True)]
        else:
            raise EndlessLoop(trips=MAX_TRIPS, line=loop.line)
        self.finals.update({(loop.axis, slot): unknown_where(doubt, term) for slot, term in enumerate(state)})

    def branch(self, branch: If) -> None:
        """Both arms, each under its condition; an arm that no program enters is left out."""
        condition = self.values[branch.condition]
        doubt, holds = doubted(condition), certain(condition)
        entered = []
        for arm, chosen in ((branch.then, holds), (branch.otherwise, negated(holds))):
            mask = Mask(holds=either(chosen, doubt), doubt=doubt)
            entered.append(self.anywhere(mask.holds))
            if entered[-1]:
                self.frames.active.append(mask)
                self.region(arm)
                self.frames.active.pop()
        for slot, choice in enumerate(branch.choices):
            if not all(entered):
                term = self.values[choice.otherwise if entered[1] else choice.then]
            else:
                sides = self.values[choice.then], self.values[choice.otherwise]
                axes = union(condition.axes, *(t.axes for t in sides))
                numbers = [spread(t, axes) for t in (condition, *sides)]
                term = Term(axes=axes, number=elementwise(Op.WHERE, numbers, choice.dtype, choice.dtype, STRICT))
            self.joined[branch.branch, slot] = term

    def anywhere(self, here: Grid) -> bool:
        """Whether some program that executes what stands here is one of these."""
        conditions = [here, *(mask.holds for mask in self.frames.active)]
        found = conjunction(conditions, union(*(c.axes for c in conditions)))
        return found is not None and bool(found.any())
