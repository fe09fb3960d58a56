"""Comparisons of indices that hold for the first coordinates of a loop: where the loop may be split.
Must not know nests, candidates or instructions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from autotune.ir.affine import Affine, Coord, Start, Stop, atom, least
from autotune.ir.program import AxisKind, Elementwise, For, Let, Program, statements
from autotune.ir.specialize import index_expression
from autotune.ir.types import Op


def known_prefix(program: Program, loop: For) -> tuple[Affine, tuple[int, ...]] | None:
    """The coordinate of a loop below which comparisons of indices inside it hold at every point, and those values.

    None where there is none, and for a loop over single coordinates. A comparison counts where it is linear in the
    coordinate and the blocks bound the rest.
    """
    if program.axes[loop.axis].kind is not AxisKind.TILE:
        return None
    lets = program.lets()
    bounds: list[Affine] = []
    assumed: list[int] = []
    for statement in statements(loop.body):
        if isinstance(statement, Let) and isinstance(statement.value, Elementwise):
            bound = _holds_below(program, lets, statement.value, loop.axis)
            if bound is not None:
                bounds.append(bound)
                assumed.append(statement.id)
    if not bounds:
        return None
    return reduce(least, bounds), tuple(assumed)


def _holds_below(program: Program, lets: Mapping[int, Let], value: Elementwise, axis: int) -> Affine | None:
    """The first coordinate along an axis at which a comparison may fail, where it holds at every one below."""
    if value.op not in (Op.LE, Op.LT, Op.GE, Op.GT):
        return None
    left, right = (index_expression(lets, a) for a in value.args)
    if left is None or right is None:
        return None
    slack = right - left if value.op in (Op.LE, Op.LT) else left - right
    if value.op in (Op.LT, Op.GT):
        slack = slack - 1
    step = slack.coefficient(axis)
    if step is None or step >= 0 or any(not isinstance(a, Coord | Start | Stop) for a, _ in slack.terms):
        return None
    worst = Affine(constant=slack.constant)
    for a, c in slack.terms:
        if isinstance(a, Coord) and a.axis == axis:
            continue
        worst = worst + (_extreme(program, a, c) if isinstance(a, Coord) else atom(a)).scaled(c)
    return worst // -step + 1


def _extreme(program: Program, at: Coord, coefficient: int) -> Affine:
    """The coordinate of the current block at which a term is least."""
    axis = program.axes[at.axis]
    if axis.kind is AxisKind.FULL:
        return Affine() if coefficient > 0 else axis.extent - 1
    return atom(Start(axis=at.axis)) if coefficient > 0 else atom(Stop(axis=at.axis)) - 1
