"""The rules of form of a program, one named check each.
Must not know where programs come from or what is done with them."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ir.affine import Affine, Coord, Dim, Start, Stop
from autotune.ir.control_checks import (
    check_branches,
    check_conditions,
    check_loop_carries,
    check_loops,
    check_merge_rules,
    check_while_axes,
)
from autotune.ir.dependence import varying
from autotune.ir.element_types import type_fault
from autotune.ir.errors import InvalidProgram
from autotune.ir.faults import Check, Fault
from autotune.ir.program import (
    AxisKind,
    Carried,
    Contraction,
    Elementwise,
    Final,
    For,
    If,
    IndexValue,
    Let,
    Load,
    MergeSide,
    Program,
    Reduce,
    Reindex,
    Scalar,
    ScalarArgument,
    Statement,
    Store,
    Tensor,
    While,
    operands,
    statements,
)
from autotune.ir.scopes import check_axes_in_scope, check_defined_before_use
from autotune.ir.text import Item, program_lines
from autotune.ir.types import APPROXIMABLE, DType, Op, ReduceOp

PARALLEL_KINDS = frozenset({AxisKind.PROGRAM, AxisKind.PROGRAM_TILE})


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


def check_axes(program: Program) -> Iterator[Fault]:
    """A value's axes ascend and hold every axis its definition varies along."""
    for statement in statements(program.body):
        match statement:
            case Let(axes=axes):
                named = [axes]
            case For(carries=carries) | While(carries=carries):
                named = [c.axes for c in carries]
            case If(choices=choices):
                named = [c.axes for c in choices]
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


def check_contractions(program: Program) -> Iterator[Fault]:
    """A contraction sums the product of its factors; every axis of the factors plays exactly one part."""
    lets = program.lets()
    for let in lets.values():
        if isinstance(let.value, Reduce) and let.value.contraction is not None:
            yield from (Fault(item=let, message=m) for m in _misdescribed(let, let.value, let.value.contraction, lets))


def _misdescribed(let: Let, value: Reduce, contraction: Contraction, lets: dict[int, Let]) -> Iterator[str]:
    body, factors = lets[value.body].value, (contraction.lhs, contraction.rhs)
    if value.op is not ReduceOp.SUM:
        yield f"a contraction by {value.op.value}; it is a sum"
    if not isinstance(body, Elementwise) or body.op is not Op.MUL or sorted(body.args) != sorted(factors):
        yield f"%{value.body} is not the product of %{contraction.lhs} and %{contraction.rhs}"
    if contraction.accumulator is not let.dtype:
        yield f"the sum runs in {contraction.accumulator.value}, its result is of type {let.dtype.value}"
    if contraction.k != tuple(sorted(value.axes)):
        yield "the axes k are not those that are reduced"
    left, right = (set(lets[f].axes) for f in factors)
    if not set(contraction.k) <= left & right:
        yield "a factor lacks an axis of k"
    parts = {"batch": (left & right) - set(contraction.k), "m": left - right, "n": right - left}
    for part, axes in parts.items():
        if getattr(contraction, part) != tuple(sorted(axes)):
            yield f"the axes {part} are not {sorted(axes)}, as those of the factors say"
        if not axes <= set(let.axes):
            yield f"the result lacks an axis of {part}"


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
    check_while_axes,
    check_defined_before_use,
    check_axes_in_scope,
    check_reduction_axes,
    check_contractions,
    check_loop_carries,
    check_branches,
    check_merge_rules,
    check_axes,
    check_conditions,
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


def _mentioned(statement: Statement) -> Iterator[tuple[str, int]]:
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
                case Reduce(axes=reduced, contraction=contraction):
                    yield from (("axis", a) for a in reduced)
                    if contraction is not None:
                        yield from (("value", contraction.lhs), ("value", contraction.rhs))
                case Reindex(source=source, target=target):
                    yield from (("axis", source), ("axis", target))
                case Carried(axis=axis) | Final(axis=axis) | MergeSide(axis=axis):
                    yield "axis", axis
        case Store(tensor=tensor, value=stored, mask=mask):
            yield from (("tensor", tensor), ("value", stored))
            if mask is not None:
                yield "value", mask
        case For(axis=axis, carries=carries) | While(axis=axis, carries=carries):
            yield "axis", axis
            for carry in carries:
                yield from (("value", carry.initial), ("value", carry.updated))
                yield from (("axis", a) for a in carry.axes)
            if isinstance(statement, While):
                yield "value", statement.condition
            elif statement.merge is not None:
                yield from (("value", v) for v in statement.merge.merged)
        case If(condition=condition, choices=choices):
            yield "value", condition
            for choice in choices:
                yield from (("value", choice.then), ("value", choice.otherwise))
                yield from (("axis", a) for a in choice.axes)


def _exists(program: Program, values: set[int], sort: str, number: int) -> bool:
    match sort:
        case "value":
            return number in values
        case "axis":
            return 0 <= number < len(program.axes)
        case _:
            kind = Tensor if sort == "tensor" else Scalar
            return 0 <= number < len(program.parameters) and isinstance(program.parameters[number], kind)
