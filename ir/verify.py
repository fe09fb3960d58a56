"""The rules of form of a program, one named check each.
Must not know where programs come from or what is done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from autotune.ir.affine import Affine, Coord, Dim, Start, Stop
from autotune.ir.dependence import axes_needed, varying
from autotune.ir.element_types import type_fault
from autotune.ir.errors import InvalidProgram
from autotune.ir.program import (
    AxisKind,
    Carried,
    Elementwise,
    Final,
    For,
    IndexValue,
    Let,
    Load,
    Program,
    Reduce,
    Region,
    Reindex,
    Scalar,
    ScalarArgument,
    Store,
    Tensor,
    operands,
    statements,
)
from autotune.ir.text import Item, program_lines
from autotune.ir.types import APPROXIMABLE, DType, ReduceOp

PARALLEL_KINDS = frozenset({AxisKind.PROGRAM, AxisKind.PROGRAM_TILE})
LOOP_KINDS = frozenset({AxisKind.TILE, AxisKind.RANGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong, and the part of the program where it shows."""

    item: Item
    message: str


Check: TypeAlias = Callable[[Program], Iterator[Fault]]


def verify(program: Program) -> None:
    """Check the form of a program; every later check relies on the ones before it.

    Raises: InvalidProgram with the name of the first check that fails and the marked line of the program's text.
    """
    for check in CHECKS:
        for fault in check(program):
            excerpt = _excerpt(program, fault.item)
            raise InvalidProgram(check=check.__name__, message=fault.message, excerpt=excerpt)


def check_dense_numbering(program: Program) -> Iterator[Fault]:
    """Axes are numbered by position, values in program order."""
    for k, axis in enumerate(program.axes):
        if axis.id != k:
            yield Fault(item=axis, message=f"axis number {axis.id} stands at position {k}")
    lets = [s for s in statements(program.body) if isinstance(s, Let)]
    for k, let in enumerate(lets):
        if let.id != k:
            yield Fault(item=let, message=f"value %{let.id} is number {k} in program order")


def check_references(program: Program) -> Iterator[Fault]:
    """Every number of a dimension, axis, value and parameter names one that exists and is of the right sort."""
    values = {s.id for s in statements(program.body) if isinstance(s, Let)}
    for item, expression in _expressions(program):
        for a in expression.atoms():
            match a:
                case Dim(index=index) if not 0 <= index < len(program.dims):
                    yield Fault(item=item, message=f"there is no dimension number {index}")
                case Coord(axis=axis) | Start(axis=axis) | Stop(axis=axis) if not 0 <= axis < len(program.axes):
                    yield Fault(item=item, message=f"there is no axis number {axis}")
    for number in program.parallel:
        if not 0 <= number < len(program.axes):
            yield Fault(item=program, message=f"there is no axis number {number}")
    for statement in statements(program.body):
        for sort, number in _mentioned(statement):
            if not _exists(program, values, sort, number):
                yield Fault(item=statement, message=f"there is no {sort} number {number}")


def check_affine_form(program: Program) -> Iterator[Fault]:
    """Index expressions name every atom once, with a coefficient, in canonical order."""
    for item, expression in _expressions(program):
        if expression + 0 != expression:
            yield Fault(item=item, message="an index expression is not in canonical form; build it with + - * // %")


def check_tensor_ranks(program: Program) -> Iterator[Fault]:
    """Strides and indices have one entry a dimension; shapes depend on dimensions only."""
    for p in program.parameters:
        if isinstance(p, Tensor):
            if p.strides is not None and len(p.strides) != len(p.shape):
                yield Fault(item=p, message=f"{len(p.strides)} strides for {len(p.shape)} dimensions")
            if any(extent.axes() for extent in p.shape):
                yield Fault(item=p, message="a shape depends on an axis")
    for statement in statements(program.body):
        match statement:
            case Let(value=Load(tensor=tensor, index=index)) | Store(tensor=tensor, index=index):
                rank = len(program.tensor(tensor).shape)
                if len(index) != rank:
                    yield Fault(item=statement, message=f"{len(index)} indices for a tensor of {rank} dimensions")


def check_parallel_axes(program: Program) -> Iterator[Fault]:
    """The parallel axes are exactly the program axes, each once; their extents are the same in every program."""
    if not program.parallel:
        yield Fault(item=program, message="there is no parallel axis")
    if len(set(program.parallel)) != len(program.parallel):
        yield Fault(item=program, message="an axis is parallel twice")
    for axis in program.axes:
        if (axis.kind in PARALLEL_KINDS) != (axis.id in program.parallel):
            listed = "is" if axis.id in program.parallel else "is not"
            yield Fault(item=axis, message=f"an axis of kind {axis.kind.value} {listed} among the parallel axes")
        if axis.kind in PARALLEL_KINDS and axis.extent.axes():
            yield Fault(item=axis, message="the extent of a parallel axis depends on another axis")


def check_axis_steps(program: Program) -> Iterator[Fault]:
    """Only a range axis starts elsewhere than at 0 or steps by other than 1; a step is never 0."""
    for axis in program.axes:
        if axis.kind is not AxisKind.RANGE and (axis.start != Affine() or axis.step != 1):
            yield Fault(item=axis, message=f"an axis of kind {axis.kind.value} with a start or step")
        if axis.step == 0:
            yield Fault(item=axis, message="a step of 0")
        if axis.id in axis.extent.axes() | axis.start.axes():
            yield Fault(item=axis, message="an axis whose extent depends on itself")


def check_loops(program: Program) -> Iterator[Fault]:
    """Every tile and range axis is walked by exactly one loop, and no other axis by any."""
    walked: set[int] = set()
    for statement in statements(program.body):
        if isinstance(statement, For):
            kind = program.axes[statement.axis].kind
            if kind not in LOOP_KINDS:
                yield Fault(item=statement, message=f"a loop over an axis of kind {kind.value}")
            if statement.axis in walked:
                yield Fault(item=statement, message="a second loop over the same axis")
            walked.add(statement.axis)
    for axis in program.axes:
        if axis.kind in LOOP_KINDS and axis.id not in walked:
            yield Fault(item=axis, message=f"no loop walks this axis of kind {axis.kind.value}")


def check_defined_before_use(program: Program) -> Iterator[Fault]:
    """Values are used after their definition and inside its region; loop state only where its loop provides it."""
    yield from _undefined(program.body, frozenset(), {}, {})


def check_axes_in_scope(program: Program) -> Iterator[Fault]:
    """A tile or range axis occurs only inside its own loop, also in the extents of other axes."""
    for statement, loops in _with_loops(program.body, ()):
        inside = {loop.axis for loop in loops}
        for axis in sorted(axes_needed(program, statement)):
            if program.axes[axis].kind in LOOP_KINDS and axis not in inside:
                yield Fault(item=statement, message=f"axis number {axis} is used outside its loop")


def check_axes(program: Program) -> Iterator[Fault]:
    """A value's axes ascend and hold every axis its definition varies along."""
    for statement in statements(program.body):
        match statement:
            case Let(axes=axes):
                named = [axes]
            case For(carries=carries):
                named = [c.axes for c in carries]
            case Store():
                named = []
        if any(list(axes) != sorted(set(axes)) for axes in named):
            yield Fault(item=statement, message="axes do not ascend")
    along = varying(program)
    for let in program.lets().values():
        lacking = sorted(along[let.id] - set(let.axes))
        if lacking:
            yield Fault(item=let, message=f"the value varies along axis number {lacking[0]}, which it does not name")


def check_reindexes(program: Program) -> Iterator[Fault]:
    """A value is re-read along a full axis of the same extent, one it does not have yet."""
    lets = program.lets()
    for let in lets.values():
        if isinstance(let.value, Reindex):
            source, target = program.axes[let.value.source], program.axes[let.value.target]
            if source.kind is not AxisKind.FULL or target.kind is not AxisKind.FULL:
                yield Fault(item=let, message="only full axes can be renamed")
            extents = source.extent, target.extent  # two symbols may still turn out to be the same number
            if all(e.is_constant for e in extents) and source.extent != target.extent:
                yield Fault(item=let, message="the two axes have different extents")
            if target.id in lets[let.value.value].axes:
                yield Fault(item=let, message="the value already varies along the new axis")


def check_reduction_axes(program: Program) -> Iterator[Fault]:
    """A reduction consumes full or tile axes of its body, each once; its start varies along none of them."""
    lets = program.lets()
    for let in lets.values():
        if not isinstance(let.value, Reduce):
            continue
        value = let.value
        kinds = [program.axes[a].kind for a in value.axes]
        if any(k not in (AxisKind.FULL, AxisKind.TILE) for k in kinds):
            yield Fault(item=let, message="a reduction over an axis that is neither full nor a tile")
        if len(set(value.axes)) != len(value.axes) or (not value.axes and value.init is None):
            yield Fault(item=let, message="a reduction names an axis twice, or none and no start")
        if not set(value.axes) <= set(lets[value.body].axes):
            yield Fault(item=let, message="a reduction over an axis that its body lacks")
        if value.init is not None and set(value.axes) & set(lets[value.init].axes):
            yield Fault(item=let, message="the start varies along an axis that is reduced")
        if value.op is ReduceOp.ARGMAX and (len(value.axes) != 1 or value.init is not None):
            yield Fault(item=let, message="argmax takes one axis and no start")


def check_dtypes(program: Program) -> Iterator[Fault]:
    """Operands and results have the element types that their operation asks for."""
    lets = program.lets()
    for statement in statements(program.body):
        message = None
        match statement:
            case Let(value=value, dtype=dtype):
                message = type_fault(program, value, dtype, lets)
            case Store(tensor=tensor, value=stored, mask=mask):
                wanted = program.tensor(tensor).dtype
                if lets[stored].dtype is not wanted:
                    message = f"a value of type {lets[stored].dtype.value} is stored to a tensor of {wanted.value}"
                if mask is not None and lets[mask].dtype is not DType.BOOL:
                    message = "a mask is not of type bool_"
        if message:
            yield Fault(item=statement, message=message)


def check_math(program: Program) -> Iterator[Fault]:
    """Functions computed by one of several variants declare their error; an ordered reduction is not reassociated."""
    for let in program.lets().values():
        match let.value:
            case Elementwise(op=op, math=math) if op in APPROXIMABLE and not math.max_ulp > 0:
                yield Fault(item=let, message=f"{op.value} declares no max_ulp")
            case Reduce(ordered=True, math=math) if math.reassociate:
                yield Fault(item=let, message="an ordered reduction allows reassociation")


def check_loop_carries(program: Program) -> Iterator[Fault]:
    """A carry has one type, and axes that hold those of its states and exclude the loop's own."""
    lets = program.lets()
    loops = {s.axis: s for s in statements(program.body) if isinstance(s, For)}
    for loop in loops.values():
        for slot, carry in enumerate(loop.carries):
            for state in (lets[carry.initial], lets[carry.updated]):
                if state.dtype is not carry.dtype:
                    yield Fault(item=loop, message=f"%{state.id} has another type than slot {slot}")
                if not set(state.axes) - {loop.axis} <= set(carry.axes):
                    yield Fault(item=loop, message=f"%{state.id} varies along axes that slot {slot} lacks")
            if loop.axis in carry.axes:
                yield Fault(item=loop, message=f"slot {slot} varies along the loop's own axis")
    for let in lets.values():
        if isinstance(let.value, Carried | Final):
            carry = loops[let.value.axis].carries[let.value.slot]
            if let.dtype is not carry.dtype or let.axes != carry.axes:
                yield Fault(item=let, message="type or axes differ from those of the carry it reads")


def check_store_indices(program: Program) -> Iterator[Fault]:
    """A store names every axis its value varies along, and every parallel axis, so no two values share a place."""
    along = varying(program)
    for statement in statements(program.body):
        if not isinstance(statement, Store):
            continue
        named = frozenset[int]().union(*(i.axes() for i in statement.index))
        values = [statement.value] if statement.mask is None else [statement.value, statement.mask]
        needed = set().union(*(along[v] for v in values)) | set(program.parallel)
        for axis in sorted(needed - named):
            this = program.axes[axis]
            if this.kind is not AxisKind.RANGE and this.extent != Affine(constant=1):
                yield Fault(item=statement, message=f"the index does not name axis number {axis}")


def check_outputs(program: Program) -> Iterator[Fault]:
    """Something is stored."""
    if not program.stored_tensors():
        yield Fault(item=program, message="the program stores nothing")


CHECKS: tuple[Check, ...] = (
    check_dense_numbering,
    check_references,
    check_affine_form,
    check_tensor_ranks,
    check_parallel_axes,
    check_axis_steps,
    check_loops,
    check_defined_before_use,
    check_axes_in_scope,
    check_reduction_axes,
    check_loop_carries,
    check_axes,
    check_reindexes,
    check_dtypes,
    check_math,
    check_store_indices,
    check_outputs,
)


# --- reading a program --------------------------------------------------------------------------------------------


def _excerpt(program: Program, item: Item) -> str:
    """The line that shows `item` with its number, and a line of marks under it."""
    for number, line in enumerate(program_lines(program), 1):
        if line.item is item:
            margin = f"{number:4} | "
            marks = "^" * len(line.text.strip())
            indent = len(line.text) - len(line.text.lstrip())
            return f"{margin}{line.text}\n{' ' * (len(margin) + indent)}{marks}"
    raise AssertionError("a fault names a part of its program")


def _expressions(program: Program) -> Iterator[tuple[Item, Affine]]:
    """Every index expression with the part of the program it stands in."""
    for p in program.parameters:
        if isinstance(p, Tensor):
            yield from ((p, extent) for extent in p.shape)
    for axis in program.axes:
        yield axis, axis.extent
        yield axis, axis.start
    for statement in statements(program.body):
        match statement:
            case Let(value=IndexValue(expression=expression)):
                yield statement, expression
            case Let(value=Load(index=index)) | Store(index=index):
                yield from ((statement, i) for i in index if isinstance(i, Affine))


def _mentioned(statement: Let | Store | For) -> Iterator[tuple[str, int]]:
    """The sort and number of what a statement refers to, index expressions apart."""
    match statement:
        case Let(value=value, axes=axes):
            yield from (("axis", a) for a in axes)
            yield from (("value", v) for v in operands(value))
            match value:
                case Load(tensor=tensor):
                    yield "tensor", tensor
                case ScalarArgument(parameter=parameter):
                    yield "scalar", parameter
                case Reduce(axes=reduced):
                    yield from (("axis", a) for a in reduced)
                case Reindex(source=source, target=target):
                    yield from (("axis", source), ("axis", target))
                case Carried(axis=axis) | Final(axis=axis):
                    yield "axis", axis
        case Store(tensor=tensor, value=stored, mask=mask):
            yield from (("tensor", tensor), ("value", stored))
            if mask is not None:
                yield "value", mask
        case For(axis=axis, carries=carries):
            yield "axis", axis
            for carry in carries:
                yield from (("value", carry.initial), ("value", carry.updated))
                yield from (("axis", a) for a in carry.axes)


def _exists(program: Program, values: set[int], sort: str, number: int) -> bool:
    match sort:
        case "value":
            return number in values
        case "axis":
            return 0 <= number < len(program.axes)
        case _:
            kind = Tensor if sort == "tensor" else Scalar
            return 0 <= number < len(program.parameters) and isinstance(program.parameters[number], kind)


def _with_loops(region: Region, loops: tuple[For, ...]) -> Iterator[tuple[Let | Store | For, tuple[For, ...]]]:
    """Every statement with the loops around it, outermost first."""
    for statement in region:
        yield statement, loops
        if isinstance(statement, For):
            yield from _with_loops(statement.body, (*loops, statement))


def _undefined(
    region: Region, visible: frozenset[int], running: dict[int, int], ended: dict[int, int]
) -> Iterator[Fault]:
    """Uses of values and loop states where they are not visible; loops map to their number of slots."""
    ended = dict(ended)
    for statement in region:
        match statement:
            case Let(id=number, value=value):
                yield from _unseen(statement, operands(value), visible)
                if isinstance(value, Carried | Final):
                    loops = running if isinstance(value, Carried) else ended
                    if not 0 <= value.slot < loops.get(value.axis, 0):
                        where = "inside" if isinstance(value, Carried) else "after"
                        yield Fault(item=statement, message=f"this is not {where} a loop that has such a slot")
                visible |= {number}
            case Store(value=stored, mask=mask):
                yield from _unseen(statement, (stored,) if mask is None else (stored, mask), visible)
            case For(axis=axis, carries=carries, body=body):
                yield from _unseen(statement, tuple(c.initial for c in carries), visible)
                yield from _undefined(body, visible, running | {axis: len(carries)}, ended)
                inside = visible | {s.id for s in body if isinstance(s, Let)}
                yield from _unseen(statement, tuple(c.updated for c in carries), inside)
                ended[axis] = len(carries)


def _unseen(item: Item, used: tuple[int, ...], visible: frozenset[int]) -> Iterator[Fault]:
    for value in used:
        if value not in visible:
            yield Fault(item=item, message=f"%{value} is not defined here")
