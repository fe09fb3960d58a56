"""Subscripts: loads, stores, slices, tiles, new axes.
Must not know loops or how the value stored was computed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autotune.errors import BadIndex, LiteralDoesNotFit, TooManyIndices
from autotune.ir.affine import Affine, Product, as_affine, coord
from autotune.ir.program import AxisKind, Index, Indirect, Load, Number, Store, operands
from autotune.ir.types import DType
from autotune.language.arithmetic import as_array, typed
from autotune.language.broadcasting import onto, rename
from autotune.language.context import Context
from autotune.language.drafted import SliceInside
from autotune.language.operands import (
    Array,
    IndexTerm,
    Literal,
    Numeric,
    Operand,
    Positions,
    TileName,
    kind_name,
)

Evaluate: TypeAlias = Callable[[ast.expr], Operand]
INDEX_FORMS = "an integer, an index expression such as i + 1, a tile, a slice, None, or an integer tensor's element"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place in a tensor: one index per dimension, and the positions that a value there has."""

    tensor: int
    index: tuple[Index, ...]
    positions: Positions


def spot(context: Context, tensor: int, subscript: ast.expr, evaluate: Evaluate) -> Spot:
    """The place that `tensor[subscript]` names; dimensions left out at the end are taken whole.

    Raises: TooManyIndices, BadIndex.
    """
    shape, name = context.tensor(tensor).shape, context.tensor(tensor).name
    entries = list(subscript.elts) if isinstance(subscript, ast.Tuple) else [subscript]
    given = sum(not _is_none(e) for e in entries)
    if given > len(shape):
        raise TooManyIndices(context.place, target=name, expected=len(shape), found=given)
    index: list[Index] = []
    positions: list[int | None] = []
    for entry in entries:
        if _is_none(entry):
            positions.append(None)
            continue
        with context.at(entry):
            one, over = _entry(context, name, shape[len(index)], entry, evaluate)
            one, over = _apart(context, one, over, positions)
        index.append(one)
        positions.extend(over)
    for extent in shape[len(index) :]:
        one, over = _whole(context, extent)
        index.append(one)
        positions.extend(over)
    return Spot(tensor=tensor, index=tuple(index), positions=tuple(positions))


def load(context: Context, where: Spot, fill: Number = 0) -> Array:
    """The tensor's elements at a spot.

    Raises: LiteralDoesNotFit for a fill that the tensor's type lacks.
    """
    dtype = context.tensor(where.tensor).dtype
    if not dtype.is_float and isinstance(fill, float):
        raise LiteralDoesNotFit(context.place, value=fill, dtype=dtype.value)
    typed_fill = float(fill) if dtype.is_float else bool(fill) if dtype is DType.BOOL else int(fill)
    return context.draft.emit(Load(tensor=where.tensor, index=where.index, fill=typed_fill), dtype, where.positions)


def store(context: Context, where: Spot, value: Numeric, mask: Numeric | None = None) -> None:
    """Write a value, cast to the tensor's type and broadcast, at a spot.

    Raises: TooManyPositions, BadIndex for a store through an integer tensor, and what broadcasting raises.
    """
    tensor = context.tensor(where.tensor)
    index: list[Affine] = []
    for entry in where.index:
        if isinstance(entry, Indirect):
            expected = "an index expression; no store goes through an integer tensor"
            raise BadIndex(context.place, found="a value", target=f"{tensor.name} in a store", expected=expected)
        index.append(entry)
    written = _fitted(context, where, typed(context, value, tensor.dtype))
    condition = None if mask is None else _fitted(context, where, typed(context, mask, DType.BOOL)).value
    line = context.source.line(context.node)
    context.draft.add(Store(tensor=where.tensor, index=tuple(index), value=written.value, mask=condition, line=line))


def reshaped(context: Context, operand: Numeric, subscript: ast.expr) -> Numeric:
    """A value indexed with `:` and `None` only.

    Raises: BadIndex, TooManyIndices.
    """
    entries = list(subscript.elts) if isinstance(subscript, ast.Tuple) else [subscript]
    before = list(context.positions(operand))
    expected = sum(not _is_none(e) for e in entries)
    if expected > len(before):
        raise TooManyIndices(context.place, target="the value", expected=len(before), found=expected)
    positions: list[int | None] = []
    for entry in entries:
        if _is_none(entry):
            positions.append(None)
        elif isinstance(entry, ast.Slice) and entry.lower is entry.upper is entry.step is None:
            positions.append(before.pop(0))
        else:
            with context.at(entry):
                raise BadIndex(
                    context.place,
                    found=f"{ast.unparse(entry)}",
                    target="a computed value",
                    expected="only : and None here; index the tensor it was loaded from instead",
                )
    moved = (*positions, *before)
    if isinstance(operand, IndexTerm):
        return IndexTerm(expression=operand.expression, positions=moved)
    array = as_array(context, operand)
    return Array(value=array.value, dtype=array.dtype, positions=moved)


def _fitted(context: Context, where: Spot, value: Array) -> Array:
    return onto(context, value, where.positions, f"{context.tensor(where.tensor).name}[...]")


# One entry of a subscript


def _is_none(entry: ast.expr) -> bool:
    return isinstance(entry, ast.Constant) and entry.value is None


def _entry(context: Context, name: str, extent: Affine, entry: ast.expr, evaluate: Evaluate) -> tuple[Index, Positions]:
    if isinstance(entry, ast.Slice):
        return _slice(context, name, extent, entry, evaluate)
    operand = evaluate(entry)
    match operand:
        case Literal(value=value) if type(value) is int:
            return (as_affine(value) if value >= 0 else extent + value), ()
        case TileName(axis=axis):
            return coord(axis), (axis,)
        case IndexTerm(expression=expression, positions=positions):
            _check_affine(context, name, expression)
            return expression, positions
        case Array(dtype=dtype, value=value, positions=positions) if dtype.is_integer:
            _check_one_level(context, name, value)
            return Indirect(value=value), positions
        case _:
            raise BadIndex(context.place, found=kind_name(operand), target=name, expected=INDEX_FORMS)


def _whole(context: Context, extent: Affine) -> tuple[Index, Positions]:
    if extent == as_affine(1):
        return as_affine(0), (None,)
    axis = context.draft.new_axis(AxisKind.FULL, extent, context.text(extent))
    return coord(axis), (axis,)


def _slice(
    context: Context, name: str, extent: Affine, entry: ast.Slice, evaluate: Evaluate
) -> tuple[Index, Positions]:
    if entry.lower is entry.upper is entry.step is None:
        return _whole(context, extent)
    step = 1 if entry.step is None else _step(context, name, evaluate(entry.step))
    lower = None if entry.lower is None else _bound(context, name, extent, entry.lower, evaluate)
    upper = None if entry.upper is None else _bound(context, name, extent, entry.upper, evaluate)
    if step > 0:
        first, end = lower or as_affine(0), extent if upper is None else upper
        count = (end - first + (step - 1)) // step
    else:
        first, end = extent - 1 if lower is None else lower, as_affine(-1) if upper is None else upper
        count = (first - end + (-step - 1)) // -step
    if not (first.axes() or end.axes()):
        last = first + (count - 1) * step
        context.draft.requirements.append(
            SliceInside(tensor=name, first=first, last=last, extent=extent, count=count, place=context.place)
        )
    if count == as_affine(1):
        return first, (None,)
    if count.axes():
        expected = "slice bounds whose distance is constant, or a tile for a block that moves"
        raise BadIndex(context.place, found=f"a slice of extent {context.text(count)}", target=name, expected=expected)
    axis = context.draft.new_axis(AxisKind.FULL, count, context.text(count))
    return first + coord(axis) * step, (axis,)


def _bound(context: Context, name: str, extent: Affine, entry: ast.expr, evaluate: Evaluate) -> Affine:
    operand = evaluate(entry)
    match operand:
        case Literal(value=value) if type(value) is int:
            return as_affine(value) if value >= 0 else extent + value
        case IndexTerm(expression=expression, positions=()):
            return expression
        case _:
            expected = "integers or dimensions as slice bounds"
            raise BadIndex(context.place, found=kind_name(operand), target=name, expected=expected)


def _step(context: Context, name: str, operand: Operand) -> int:
    if isinstance(operand, Literal) and type(operand.value) is int and operand.value:
        return operand.value
    raise BadIndex(
        context.place, found=kind_name(operand), target=name, expected="an integer other than 0 as slice step"
    )


def _check_affine(context: Context, name: str, expression: Affine) -> None:
    for a in expression.atoms():
        if isinstance(a, Product) and a.left.axes() and a.right.axes():
            expected = "an affine index: coordinates times constants or dimensions, and sums of them"
            raise BadIndex(context.place, found=context.text(expression), target=name, expected=expected)


def _check_one_level(context: Context, name: str, value: int) -> None:
    """Refuse an index that was itself read through an index from memory."""
    pending = [value]
    while pending:
        inner = context.draft.lets[pending.pop()].value
        if isinstance(inner, Load) and any(isinstance(i, Indirect) for i in inner.index):
            expected = "one level of indirection only, as in x[r, label[r]]"
            raise BadIndex(context.place, found="an index read through another one", target=name, expected=expected)
        pending.extend(operands(inner))


def _apart(context: Context, entry: Index, over: Positions, before: Sequence[int | None]) -> tuple[Index, Positions]:
    """An index entry moved off the axes that entries before it use: `x[i, i]` is the square block."""
    used = {p for p in context.draft.resolve(tuple(before)) if p is not None}
    moves = {p: context.draft.fresh_like(p) for p in context.draft.resolve(over) if p is not None and p in used}
    if not moves:
        return entry, over
    if isinstance(entry, Indirect):
        moved = rename(context, Array(value=entry.value, dtype=DType.I64, positions=over), moves)
        assert isinstance(moved, Array)
        return Indirect(value=moved.value), moved.positions
    moved = rename(context, IndexTerm(expression=entry, positions=over), moves)
    assert isinstance(moved, IndexTerm)
    return moved.expression, moved.positions
