"""Axes and values of a draft under new numbers, and walks over what mentions them.
Must not know what the numbers are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from autotune.ir.affine import Affine, Atom, Coord, Start, Stop, atom
from autotune.ir.program import (
    Carried,
    Const,
    Contraction,
    Elementwise,
    Final,
    IndexValue,
    Indirect,
    Joined,
    Load,
    MergeSide,
    Reduce,
    Reindex,
    ScalarArgument,
    Store,
    Value,
)
from autotune.language.drafted import DraftStatement, inner_regions


def map_value(value: Value, axes: Mapping[int, int], values: Mapping[int, int]) -> Value:
    """A value with its axes and operands renumbered; numbers that are missing stay."""

    def a(axis: int) -> int:
        return axes.get(axis, axis)

    def v(number: int) -> int:
        return values.get(number, number)

    match value:
        case Const() | ScalarArgument() | Joined():
            return value
        case IndexValue(expression=expression):
            return IndexValue(expression=map_affine(expression, axes))
        case Load(index=index):
            entries = tuple(
                Indirect(value=v(i.value)) if isinstance(i, Indirect) else map_affine(i, axes) for i in index
            )
            return replace(value, index=entries)
        case Elementwise(args=args):
            return replace(value, args=tuple(v(x) for x in args))
        case Reduce(body=body, axes=reduced, init=init):
            moved = tuple(a(x) for x in reduced)
            moved = moved if value.ordered else tuple(sorted(moved))
            contraction = None if value.contraction is None else _map_contraction(value.contraction, axes, values)
            start = None if init is None else v(init)
            return replace(value, body=v(body), axes=moved, init=start, contraction=contraction)
        case Reindex(value=inner, source=source, target=target):
            return Reindex(value=v(inner), source=a(source), target=a(target))
        case Carried(axis=axis, slot=slot):
            return Carried(axis=a(axis), slot=slot)
        case Final(axis=axis, slot=slot):
            return Final(axis=a(axis), slot=slot)
        case MergeSide(axis=axis):
            return replace(value, axis=a(axis))
        case _:
            assert_never(value)


def _map_contraction(this: Contraction, axes: Mapping[int, int], values: Mapping[int, int]) -> Contraction:
    def moved(part: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(axes.get(axis, axis) for axis in part))

    return replace(
        this,
        lhs=values.get(this.lhs, this.lhs),
        rhs=values.get(this.rhs, this.rhs),
        batch=moved(this.batch),
        m=moved(this.m),
        n=moved(this.n),
        k=moved(this.k),
    )


def map_affine(expression: Affine, axes: Mapping[int, int]) -> Affine:
    """An index expression with its axes renumbered; axes that are missing stay."""
    mapping: dict[Atom, Affine] = {}
    for kind in (Coord, Start, Stop):
        mapping.update({kind(axis=a): atom(kind(axis=axes[a])) for a in expression.axes() if a in axes})
    return expression.substitute(mapping) if mapping else expression


def walk(region: list[DraftStatement]) -> Iterator[DraftStatement]:
    """Every statement of a region in order, loops and branches before what is inside them."""
    for statement in region:
        yield statement
        for inner in inner_regions(statement):
            yield from walk(inner)


def stored_tensors(region: list[DraftStatement]) -> frozenset[int]:
    """Parameter numbers of the tensors that a region stores to."""
    return frozenset(s.tensor for s in walk(region) if isinstance(s, Store))


def mentioned(expression: Affine) -> list[int]:
    """Axes of an index expression, in the order of its terms."""
    return list(dict.fromkeys(a.axis for a in expression.atoms() if isinstance(a, Coord | Start | Stop)))
