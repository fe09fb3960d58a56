"""at.reshape: the same elements under other positions, by reading what a value is computed from at other indices.
Must not know syntax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from autotune.errors import ReshapeMisfit, ReshapeOfState, TileReshaped
from autotune.ir.affine import Affine, Atom, Coord, as_affine, coord
from autotune.ir.program import AxisKind
from autotune.language.context import Context
from autotune.language.draft import RenameRefused
from autotune.language.drafted import EqualCounts
from autotune.language.operands import Array, IndexTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A position that is a tile, in the shape asked for."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The extent -1: what the other extents leave."""


Wanted: TypeAlias = Affine | Tile | Rest
ONE = as_affine(1)


@dataclass(slots=True, kw_only=True)
class _Regrouping:
    """New positions, and the old coordinates in terms of theirs."""

    positions: list[int | None]
    coordinates: dict[Atom, Affine]


def reshape(context: Context, operand: Array | IndexTerm, shape: Sequence[Wanted]) -> Array | IndexTerm:
    """`operand` with the positions `shape`, its elements in row-major order as before.

    Tiles stay positions of their own; between them extents are regrouped, the smallest groups of equal size at a time.
    Raises: ReshapeMisfit, TileReshaped, ReshapeOfState.
    """
    result = _Regrouping(positions=[], coordinates={})
    old, new = _between_tiles(context, context.positions(operand)), _wanted_between_tiles(context, shape)
    tiles = [tile for tile, _ in old]
    if tiles != [tile for tile, _ in new]:
        raise TileReshaped(context.place, shape=context.shape_text(context.positions(operand)))
    for (tile, before), (_, after) in zip(old, new, strict=True):
        if tile is not None:
            result.positions.append(tile)
        _regroup(context, before, _with_rest(context, before, after), result)
    try:
        return context.draft.rewritten(operand, result.coordinates, tuple(result.positions))
    except RenameRefused:
        raise ReshapeOfState(context.place) from None


def _between_tiles(
    context: Context, positions: Sequence[int | None]
) -> list[tuple[int | None, list[tuple[int | None, Affine]]]]:
    """Positions in parts that begin with a tile each, the first with none; other positions with their extents."""
    parts: list[tuple[int | None, list[tuple[int | None, Affine]]]] = [(None, [])]
    for position in positions:
        if position is not None and context.draft.axis(position).kind is not AxisKind.FULL:
            parts.append((position, []))
        else:
            extent = ONE if position is None else context.draft.axis(position).extent
            parts[-1][1].append((position, extent))
    return parts


def _wanted_between_tiles(context: Context, shape: Sequence[Wanted]) -> list[tuple[int | None, list[Affine | Rest]]]:
    parts: list[tuple[int | None, list[Affine | Rest]]] = [(None, [])]
    for entry in shape:
        if isinstance(entry, Tile):
            parts.append((context.draft.root(entry.axis), []))
        else:
            parts[-1][1].append(entry)
    return parts


def _with_rest(
    context: Context, before: Sequence[tuple[int | None, Affine]], after: Sequence[Affine | Rest]
) -> list[Affine]:
    """The extents asked for, -1 replaced by what the others leave.

    Raises: ReshapeMisfit.
    """
    given = [e for e in after if isinstance(e, Affine)]
    if len(given) < len(after) - 1:
        raise ReshapeMisfit(context.place, before="some", after="two extents of -1")
    kept, divided = [extent for _, extent in before], []
    for extent in given:
        if extent in kept:
            kept.remove(extent)
        else:
            divided.append(extent)
    left = _product(kept) if not divided else _product(kept) // _product(divided)
    extents = [left if isinstance(e, Rest) else e for e in after]
    total, wanted = _product([extent for _, extent in before]), _product(extents)
    if total != wanted:
        undecided = not (total - wanted).is_constant and not (total.axes() or wanted.axes())
        if not undecided:
            raise ReshapeMisfit(context.place, before=context.text(total), after=context.text(wanted))
        context.draft.requirements.append(EqualCounts(before=total, after=wanted, place=context.place))
    return extents


def _product(extents: Sequence[Affine]) -> Affine:
    return reduce(lambda left, right: left * right, sorted(extents, key=repr), ONE)


def _regroup(
    context: Context, before: list[tuple[int | None, Affine]], after: list[Affine], result: _Regrouping
) -> None:
    """Match the smallest leading groups of old and new extents whose products are equal, one after another."""
    while before or after:
        some, many = _leading_group(before, after)
        _group(context, before[:some], after[:many], result)
        before, after = before[some:], after[many:]


def _leading_group(before: list[tuple[int | None, Affine]], after: list[Affine]) -> tuple[int, int]:
    """How many old and new extents the first group has; all of them where no shorter ones are seen to agree."""
    for total in range(2, len(before) + len(after)):
        for some in range(1, total):
            many = total - some
            exist = some <= len(before) and many <= len(after)
            if exist and _product([extent for _, extent in before[:some]]) == _product(after[:many]):
                return some, many
    return len(before), len(after)


def _group(
    context: Context, before: Sequence[tuple[int | None, Affine]], after: Sequence[Affine], result: _Regrouping
) -> None:
    """New axes for one group, and its old coordinates: digits of the element's number within the group."""
    old = [(axis, extent) for axis, extent in before if axis is not None]
    if len(old) == 1 and [extent for extent in after if extent != ONE] == [old[0][1]]:
        result.positions.extend(None if extent == ONE else old[0][0] for extent in after)
        return
    number = Affine()
    for extent in after:
        if extent == ONE:
            result.positions.append(None)
            continue
        axis = context.draft.new_axis(AxisKind.FULL, extent, context.text(extent))
        result.positions.append(axis)
        number = number * extent + coord(axis)
    for k, (axis, extent) in enumerate(old):
        assert axis is not None
        digit = number // _product([e for _, e in old[k + 1 :]])
        result.coordinates[Coord(axis=axis)] = digit % extent if k else digit
