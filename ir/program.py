"""The tile program: axes, values and statements, one union each.
Must not know how a program is realized, priced or measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from autotune.ir.affine import Affine, Atom, Dim
from autotune.ir.types import DType, MathPolicy, Op, ReduceOp

Number: TypeAlias = float | int | bool


class AxisKind(Enum):
    """How an axis is walked."""

    PROGRAM = "program"  # a parallel extent: one coordinate a program
    PROGRAM_TILE = "program_tile"  # a parallel tile: a block of coordinates a program, block size chosen later
    TILE = "tile"  # a sequential loop over blocks of coordinates, block size chosen later
    RANGE = "range"  # a sequential loop over single coordinates
    WHILE = "while"  # trips of a while loop: no extent, no coordinate is ever read
    FULL = "full"  # a whole dimension, or a slice of one, inside a program


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A named direction of iteration; its coordinates are `start + step·k` for `0 ≤ k < extent`.

    `start` and `step` differ from 0 and 1 only for a RANGE axis. A slice `x[a:b:c]` is a FULL axis of extent
    `ceil((b-a)/c)` read at the index `a + c·coord`.
    """

    id: int
    kind: AxisKind
    extent: Affine
    start: Affine = Affine()
    step: int = 1
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor parameter. Strides are in elements, None for row-major contiguous."""

    name: str
    dtype: DType
    shape: tuple[Affine, ...]
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A scalar parameter: a run-time argument, never specialised."""

    name: str
    dtype: DType
    default: Number | None = None


Parameter: TypeAlias = Tensor | Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Indirect:
    """An index read from memory: the integer value number `value` (one level of indirection)."""

    value: int


Index: TypeAlias = Affine | Indirect


@dataclass(frozen=True, slots=True, kw_only=True)
class Const:
    value: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarArgument:
    """The run-time value of scalar parameter number `parameter`."""

    parameter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexValue:
    """An index expression as a number of type i64: `i.index`, `N` in `x / N`, `i.start`."""

    expression: Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What tensor parameter number `tensor` held at this place of the program; `fill` where an index leaves it."""

    tensor: int
    index: tuple[Index, ...]
    fill: Number = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """`op` of values of one element type (bool first for WHERE; any type for CAST), broadcast over missing axes."""

    op: Op
    args: tuple[int, ...]
    math: MathPolicy = MathPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """What a sum of products contracts: the values `lhs` and `rhs`, and the part each axis plays.

    `batch` axes belong to both factors and the result, `m` to the left factor and the result, `n` to the right factor
    and the result, `k` to both factors alone; each ascending. `accumulator` is the type the sum runs in.
    """

    lhs: int
    rhs: int
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    accumulator: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """Reduction of `body` over `axes`; `init` is a value merged in once; `ordered` keeps ascending order.

    A sum of products that was written as a contraction keeps its descriptor: `body` is then the product of its factors
    and `axes` are its `k`.
    """

    op: ReduceOp
    body: int
    axes: tuple[int, ...]
    init: int | None = None
    ordered: bool = False
    math: MathPolicy = MathPolicy()
    contraction: Contraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindex:
    """`value` read with axis `source` renamed to axis `target` of equal extent."""

    value: int
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """State of the enclosing loop over `axis` at the start of a trip; slot number `slot` of its carries."""

    axis: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """State number `slot` after the loop over `axis`: its initial value where the loop makes no trip."""

    axis: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Value number `slot` that the two arms of branch number `branch` agree on, read after it."""

    branch: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSide:
    """One of the two states that a loop's merge rule combines: `side` 0 is the earlier part of the loop."""

    axis: int
    side: int
    slot: int


Value: TypeAlias = (
    Const | ScalarArgument | IndexValue | Load | Elementwise | Reduce | Reindex | Carried | Final | Joined | MergeSide
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Let:
    """Definition of value number `id`: a function of `axes` (ascending axis ids) with elements of `dtype`.

    `line` is the source line it came from, 0 where it has none; it is no part of the program's identity.
    """

    id: int
    value: Value
    dtype: DType
    axes: tuple[int, ...]
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Write of `value` to tensor parameter number `tensor`, where `mask` (a bool value) holds if there is one."""

    tensor: int
    index: tuple[Affine, ...]
    value: int
    mask: int | None = None
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """One carried variable: value numbers of its state before the loop and after a trip.

    Inside the loop it is read through `Carried`, after it through `Final`; `axes` are those of the state.
    """

    initial: int
    updated: int
    dtype: DType
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """How two states of a loop combine: a region over `MergeSide` values and the combined state, one value a slot."""

    body: Region
    merged: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class For:
    """A sequential loop over a TILE or RANGE axis."""

    axis: int
    carries: tuple[Carry, ...]
    body: Region
    merge: Merge | None = None
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class While:
    """A loop over a WHILE axis: before each trip `test` computes the scalar bool `condition` from the carried state."""

    axis: int
    carries: tuple[Carry, ...]
    test: Region
    condition: int
    body: Region
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value that a branch leaves behind: from its first arm or from its second; `axes` are those of both."""

    then: int
    otherwise: int
    dtype: DType
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class If:
    """Branch number `branch` (dense, in program order) on a scalar bool value; `Joined` reads its results."""

    branch: int
    condition: int
    choices: tuple[Choice, ...]
    then: Region
    otherwise: Region
    line: int = 0


Statement: TypeAlias = Let | Store | For | While | If
Region: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kernel: parameters, axes and one region that every point of the `parallel` axes executes independently.

    Value and axis numbers are dense and in program order. `dims` names the dimensions that `Dim` refers to; names are
    for people and no part of the program's identity (`autotune.ir.text.canonical`).
    """

    name: str
    dims: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    axes: tuple[Axis, ...]
    parallel: tuple[int, ...]
    body: Region

    @property
    def is_bound(self) -> bool:
        """True once every extent is a number or depends on blocks only."""
        return not any(isinstance(a, Dim) for axis in self.axes for a in axis.extent.atoms())

    def tensor(self, number: int) -> Tensor:
        parameter = self.parameters[number]
        assert isinstance(parameter, Tensor)
        return parameter

    def slots(self) -> dict[int, int]:
        """Position of each parameter among the entry's 64-bit arguments: tensors first, then scalars."""
        numbers = range(len(self.parameters))
        tensors = [n for n in numbers if isinstance(self.parameters[n], Tensor)]
        scalars = [n for n in numbers if isinstance(self.parameters[n], Scalar)]
        return {number: slot for slot, number in enumerate((*tensors, *scalars))}

    def lets(self) -> dict[int, Let]:
        """Every value definition by its number."""
        return {s.id: s for s in statements(self.body) if isinstance(s, Let)}

    def stored_tensors(self) -> tuple[int, ...]:
        """Parameter numbers of the outputs, ascending."""
        return tuple(sorted({s.tensor for s in statements(self.body) if isinstance(s, Store)}))

    def loaded_tensors(self) -> tuple[int, ...]:
        """Parameter numbers of the tensors read, ascending."""
        lets = (s.value for s in statements(self.body) if isinstance(s, Let))
        return tuple(sorted({v.tensor for v in lets if isinstance(v, Load)}))


def statements(region: Region) -> Iterator[Statement]:
    """Every statement of a region in program order, loops and branches before what is inside them."""
    for statement in region:
        yield statement
        for inner in regions(statement):
            yield from statements(inner)


def regions(statement: Statement) -> tuple[Region, ...]:
    """The regions inside a statement, in program order."""
    match statement:
        case Let() | Store():
            return ()
        case For(body=body, merge=merge):
            return (body,) if merge is None else (body, merge.body)
        case While(test=test, body=body):
            return test, body
        case If(then=then, otherwise=otherwise):
            return then, otherwise


def operands(value: Value) -> tuple[int, ...]:
    """Value numbers that a value reads directly; a loop's state is reached through the loop instead."""
    match value:
        case Load(index=index):
            return tuple(i.value for i in index if isinstance(i, Indirect))
        case Elementwise(args=args):
            return args
        case Reduce(body=body, init=init):
            return (body,) if init is None else (body, init)
        case Reindex(value=inner):
            return (inner,)
        case _:
            return ()


def bind(program: Program, sizes: Mapping[str, int]) -> Program:
    """Specialise a program to one shape: every dimension becomes a number.

    Raises: KeyError where `sizes` lacks a dimension of the program.
    """
    mapping: dict[Atom, Affine] = {Dim(index=k): Affine(constant=sizes[name]) for k, name in enumerate(program.dims)}

    def index(entry: Index) -> Index:
        return entry.substitute(mapping) if isinstance(entry, Affine) else entry

    def value(v: Value) -> Value:
        match v:
            case IndexValue(expression=expression):
                return IndexValue(expression=expression.substitute(mapping))
            case Load():
                return replace(v, index=tuple(index(i) for i in v.index))
            case _:
                return v

    def region(statements: Region) -> Region:
        return tuple(statement(s) for s in statements)

    def statement(s: Statement) -> Statement:
        match s:
            case Let():
                return replace(s, value=value(s.value))
            case Store():
                return replace(s, index=tuple(i.substitute(mapping) for i in s.index))
            case For(merge=merge):
                bound = None if merge is None else replace(merge, body=region(merge.body))
                return replace(s, body=region(s.body), merge=bound)
            case While():
                return replace(s, test=region(s.test), body=region(s.body))
            case If():
                return replace(s, then=region(s.then), otherwise=region(s.otherwise))

    def parameter(p: Parameter) -> Parameter:
        if isinstance(p, Scalar):
            return p
        return replace(p, shape=tuple(extent.substitute(mapping) for extent in p.shape))

    return Program(
        name=program.name,
        dims=program.dims,
        parameters=tuple(parameter(p) for p in program.parameters),
        axes=tuple(
            replace(a, extent=a.extent.substitute(mapping), start=a.start.substitute(mapping)) for a in program.axes
        ),
        parallel=program.parallel,
        body=region(program.body),
    )
