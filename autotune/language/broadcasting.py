"""Lining up the positions of several operands, as NumPy does, and unifying or renaming the axes that meet.
Must not know element types or operations."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import MismatchedExtents, NotRealizedYet, TileMismatch, TooManyPositions
from autotune.ir.program import AxisKind
from autotune.language.context import Context
from autotune.language.draft import RenameRefused, is_opaque
from autotune.language.drafted import EqualExtents
from autotune.language.operands import Array, IndexTerm, Literal, Numeric, Positions


def broadcast(context: Context, operands: Sequence[Numeric]) -> tuple[tuple[Numeric, ...], Positions]:
    """The operands on common axes, and the positions of what is computed from them.

    Raises: MismatchedExtents, TileMismatch, NotRealizedYet.
    """
    shaped = [o for o in operands if not isinstance(o, Literal)]
    _unify_all(context, shaped)
    result: Positions = ()
    aligned: list[Numeric] = []
    for operand in operands:
        if isinstance(operand, Literal):
            aligned.append(operand)
            continue
        moved, result = _onto(context, operand, result)
        aligned.append(moved)
    context.draft.live_together(result)
    return tuple(aligned), result


def onto(context: Context, operand: Array, target: Positions, name: str) -> Array:
    """`operand` with its positions on the axes of `target`; `name` says what the target is.

    Raises: TooManyPositions, MismatchedExtents, TileMismatch, NotRealizedYet.
    """
    found, expected = len(operand.positions), len(target)
    if found > expected:
        raise TooManyPositions(context.place, found=found, expected=expected, target=name)
    for k, (mine, theirs) in enumerate(zip(operand.positions[::-1], target[::-1], strict=False)):
        if mine is not None and theirs is None:
            position = found - 1 - k
            raise MismatchedExtents(context.place, left=context.axis_text(mine), right=1, position=position)
    _unify_all(context, [Array(value=-1, dtype=operand.dtype, positions=target), operand])
    moved, _ = _onto(context, operand, context.draft.resolve(target))
    assert isinstance(moved, Array)
    return moved


def check_alike(context: Context, left: int, right: int, position: int) -> None:
    """Refuse two axes that cannot line up; note those whose extents only numbers can compare."""
    a, b = context.draft.axis(left), context.draft.axis(right)
    if a.id == b.id:
        return
    facts = {"left": context.axis_text(left), "right": context.axis_text(right), "position": position}
    if a.kind is not AxisKind.FULL or b.kind is not AxisKind.FULL:
        raise TileMismatch(context.place, **facts)
    difference = a.extent - b.extent
    if difference.is_constant and difference.constant == 0:
        return
    if difference.is_constant or not is_opaque(difference):
        raise MismatchedExtents(context.place, **facts)
    requirement = EqualExtents(left=a.extent, right=b.extent, position=position, place=context.place)
    context.draft.requirements.append(requirement)


def _unify_all(context: Context, operands: Sequence[Array | IndexTerm]) -> None:
    """Unify every pair of axes that meet, where no value forbids it."""
    seen: list[int | None] = []
    for operand in operands:
        positions = context.draft.resolve(operand.positions)[::-1]
        seen.extend([None] * (len(positions) - len(seen)))
        for k, axis in enumerate(positions):
            present = seen[k]
            if axis is not None and present is not None:
                check_alike(context, present, axis, len(positions) - 1 - k)
                context.draft.unify(present, axis)
            elif axis is not None:
                seen[k] = axis


def _onto(context: Context, operand: Array | IndexTerm, result: Positions) -> tuple[Array | IndexTerm, Positions]:
    """`operand` renamed so that it meets `result` axis by axis, and both together."""
    draft = context.draft
    own, result = draft.resolve(operand.positions), draft.resolve(result)
    width = max(len(own), len(result))
    own_wide: Positions = (None,) * (width - len(own)) + own
    result_wide: Positions = (None,) * (width - len(result)) + result
    used = {r for r in result if r is not None}
    moves: dict[int, int] = {}
    for mine, theirs in zip(own_wide, result_wide, strict=True):
        if mine is None:
            continue
        target = theirs if theirs is not None else mine if mine not in used else draft.fresh_like(mine)
        used.add(target)
        if target != mine:
            moves[mine] = target
    moved = rename(context, operand, moves) if moves else operand
    joined = tuple(
        theirs if theirs is not None else None if mine is None else moves.get(mine, mine)
        for mine, theirs in zip(own_wide, result_wide, strict=True)
    )
    return moved, joined


def rename(context: Context, operand: Array | IndexTerm, moves: dict[int, int]) -> Array | IndexTerm:
    """`operand` on other axes.

    Raises: NotRealizedYet for the state of a loop or branch along a tile.
    """
    try:
        return context.draft.renamed(operand, moves)
    except RenameRefused:
        raise NotRealizedYet(
            context.place,
            feature="the state of a loop or branch that meets itself along a tile",
            instead="compute the value again with the tile at the other position",
        ) from None
