"""Loop headers: the extents and axes that at.parallel, at.tile and at.range ask for.
Must not know loop bodies or carried variables."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from autotune.ir.affine import Affine, Dim, as_affine, coord, greatest
from autotune.ir.program import AxisKind
from autotune.language.builtins import INTRINSICS, Intrinsic
from autotune.language.calls import arguments, bad_call
from autotune.language.context import Context
from autotune.language.operands import IndexTerm, Literal, Operand, Outside, TileName, kind_name

Evaluate: TypeAlias = Callable[[ast.expr], Operand]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopAxis:
    """The axis that one entry of a loop header asks for."""

    kind: AxisKind
    extent: Affine
    start: Affine = field(default_factory=Affine)
    step: int = 1
    merge: Operand | None = None

    def variable(self, axis: int) -> Operand:
        """What the loop variable stands for inside."""
        if self.kind in (AxisKind.TILE, AxisKind.PROGRAM_TILE):
            return TileName(axis=axis)
        return IndexTerm(expression=coord(axis))


def parallel_axes(context: Context, intrinsic: Intrinsic, node: ast.Call, evaluate: Evaluate) -> list[LoopAxis]:
    """Axes of `at.parallel(M, at.tile(N))`.

    Raises: WrongArguments.
    """
    if not node.args:
        bad_call(context, intrinsic, "no extent is given")
    positional, _ = arguments(context, intrinsic, node, len(node.args))
    result: list[LoopAxis] = []
    for entry in positional:
        with context.at(entry):
            if isinstance(entry, ast.Call) and _is_tile(entry, evaluate):
                tile = tile_axis(context, INTRINSICS["tile"], entry, evaluate)
                if tile.merge is not None:
                    bad_call(context, intrinsic, "merge= belongs to a loop inside a program; programs never meet")
                result.append(LoopAxis(kind=AxisKind.PROGRAM_TILE, extent=tile.extent))
            else:
                extent = _index(context, intrinsic, evaluate(entry), "an extent")
                result.append(LoopAxis(kind=AxisKind.PROGRAM, extent=extent))
            if result[-1].extent.axes():
                bad_call(context, intrinsic, "an extent of a parallel axis depends on dimensions only")
    return result


def tile_axis(context: Context, intrinsic: Intrinsic, node: ast.Call, evaluate: Evaluate) -> LoopAxis:
    """Axis of `at.tile(extent, merge=rule)`.

    Raises: WrongArguments.
    """
    positional, named = arguments(context, intrinsic, node, 1, {"merge"})
    extent = _index(context, intrinsic, evaluate(positional[0]), "an extent")
    merge = evaluate(named["merge"]) if "merge" in named else None
    return LoopAxis(kind=AxisKind.TILE, extent=extent, merge=merge)


def range_axis(context: Context, intrinsic: Intrinsic, node: ast.Call, evaluate: Evaluate) -> LoopAxis:
    """Axis of `at.range(stop)`, `at.range(start, stop)` or `at.range(start, stop, step)`.

    Raises: WrongArguments.
    """
    positional, _ = arguments(context, intrinsic, node, 1, optional=2)
    bounds = [_index(context, intrinsic, evaluate(a), "a bound") for a in positional]
    start, stop = (as_affine(0), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    step = bounds[2].constant if len(bounds) == 3 else 1
    if step == 0 or (len(bounds) == 3 and not bounds[2].is_constant):
        bad_call(context, intrinsic, "the step is no integer other than 0")
    distance = stop - start if step > 0 else start - stop
    count = (distance + (abs(step) - 1)) // abs(step)
    extent = count if _is_extent(count) else greatest(count, as_affine(0))
    return LoopAxis(kind=AxisKind.RANGE, extent=extent, start=start, step=step)


def _is_extent(count: Affine) -> bool:
    """True where a count is never negative by its form: a dimension or a constant of at least 0."""
    if count.is_constant:
        return count.constant >= 0
    return count.constant >= 0 and all(isinstance(a, Dim) and c > 0 for a, c in count.terms)


def _is_tile(node: ast.Call, evaluate: Evaluate) -> bool:
    function = evaluate(node.func)
    return isinstance(function, Outside) and function.thing is INTRINSICS["tile"]


def _index(context: Context, intrinsic: Intrinsic, operand: Operand, what: str) -> Affine:
    match operand:
        case Literal(value=value) if type(value) is int:
            return as_affine(value)
        case IndexTerm(expression=expression, positions=()):
            return expression
        case _:
            bad_call(context, intrinsic, f"{kind_name(operand)} is no integer and no index expression for {what}")
