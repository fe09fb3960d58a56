"""Arrays whose dimensions run along axes, lined up by axis number.
Must not know programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.ir.bounds import Approx, Array, select


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Term:
    """Numbers over some axes, in ascending order: array dimension d runs along `axes[d]` or has size 1."""

    axes: tuple[int, ...]
    number: Approx


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Exact index numbers or truth values over some axes, ascending."""

    axes: tuple[int, ...]
    array: Array


def union(*groups: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set().union(*groups)))


def _expand(array: Array, have: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    return array if have == axes else array[tuple(slice(None) if a in have else None for a in axes)]


def stretch(grid: Grid, axes: tuple[int, ...]) -> Array:
    return _expand(grid.array, grid.axes, axes)


def spread(term: Term, axes: tuple[int, ...]) -> Approx:
    number = term.number
    return Approx(value=_expand(number.value, term.axes, axes), bound=_expand(number.bound, term.axes, axes))


def rename(term: Term, source: int, target: int) -> Term:
    """The same numbers with one axis renamed, dimensions put back into ascending order."""
    renamed = tuple(target if a == source else a for a in term.axes)
    order = sorted(range(len(renamed)), key=renamed.__getitem__)
    number = Approx(value=term.number.value.transpose(order), bound=term.number.bound.transpose(order))
    return Term(axes=tuple(renamed[k] for k in order), number=number)


def combine(function: np.ufunc, left: Grid, right: Grid) -> Grid:
    axes = union(left.axes, right.axes)
    return Grid(axes=axes, array=np.asarray(function(stretch(left, axes), stretch(right, axes))))


def below(coordinates: Grid, extent: Grid) -> Grid | None:
    """Which coordinates lie below an extent; None where all do."""
    valid = combine(np.less, coordinates, extent)
    return None if valid.array.all() else valid


def conjunction(conditions: list[Grid], axes: tuple[int, ...]) -> Array | None:
    result: Array | None = None
    for condition in conditions:
        here = stretch(condition, axes)
        result = here if result is None else result & here
    return result


def merge(running: Grid, updated: Term, state: Term) -> Term:
    """The new state where the loop still runs, the old one where it has ended."""
    axes = union(running.axes, updated.axes, state.axes)
    return Term(axes=axes, number=select(stretch(running, axes), spread(updated, axes), spread(state, axes)))


def certain(condition: Term) -> Grid:
    """The value of a condition, whatever its error."""
    return Grid(axes=condition.axes, array=condition.number.value)


def doubted(condition: Term) -> Grid:
    """Where an error may turn a condition."""
    return Grid(axes=condition.axes, array=condition.number.bound > 0)


def both(left: Grid, right: Grid) -> Grid:
    return combine(np.logical_and, left, right)


def either(left: Grid, right: Grid) -> Grid:
    return combine(np.logical_or, left, right)


def negated(grid: Grid) -> Grid:
    return Grid(axes=grid.axes, array=~grid.array)


def unknown_where(doubt: Grid, term: Term) -> Term:
    """The same numbers, of which nothing is known where there is doubt."""
    if not doubt.array.any():
        return term
    axes = union(doubt.axes, term.axes)
    number = spread(term, axes)
    return Term(
        axes=axes, number=Approx(value=number.value, bound=np.where(stretch(doubt, axes), np.inf, number.bound))
    )
