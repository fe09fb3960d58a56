"""What a program under construction is made of: statements before their axes are settled, and what binding must check.
Must not know syntax or how they are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from autotune.errors import Place
from autotune.ir.affine import Affine
from autotune.ir.program import Store, Value
from autotune.ir.types import DType
from autotune.language.operands import Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLet:
    """A value before its axes are settled; `positions` only for states, whose axes follow from them."""

    id: int
    value: Value
    dtype: DType
    positions: Positions = ()
    line: int = 0


@dataclass(slots=True, kw_only=True)
class DraftMerge:
    """A merge rule under construction: the combined state, one value a carry."""

    body: list[DraftStatement] = field(default_factory=list)
    merged: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DraftFor:
    """A loop before its carries are settled; a carry is (initial, updated, dtype)."""

    axis: int
    line: int
    carries: list[tuple[int, int, DType]] = field(default_factory=list)
    body: list[DraftStatement] = field(default_factory=list)
    merge: DraftMerge | None = None


@dataclass(slots=True, kw_only=True)
class DraftWhile:
    """A while loop before its carries are settled; `condition` is a value of `test`."""

    axis: int
    line: int
    carries: list[tuple[int, int, DType]] = field(default_factory=list)
    test: list[DraftStatement] = field(default_factory=list)
    condition: int = -1
    body: list[DraftStatement] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DraftIf:
    """A branch before its choices are settled; a choice is (then, otherwise, dtype)."""

    branch: int
    condition: int
    line: int
    choices: list[tuple[int, int, DType]] = field(default_factory=list)
    then: list[DraftStatement] = field(default_factory=list)
    otherwise: list[DraftStatement] = field(default_factory=list)


DraftStatement: TypeAlias = DraftLet | DraftFor | DraftWhile | DraftIf | Store
DraftLoop: TypeAlias = DraftFor | DraftWhile


def inner_regions(statement: DraftStatement) -> tuple[list[DraftStatement], ...]:
    """The regions inside a statement, in program order."""
    match statement:
        case DraftLet() | Store():
            return ()
        case DraftFor(body=body, merge=merge):
            return (body,) if merge is None else (body, merge.body)
        case DraftWhile(test=test, body=body):
            return test, body
        case DraftIf(then=then, otherwise=otherwise):
            return then, otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualExtents:
    """Two extents that were lined up and can be compared only once dimensions are numbers."""

    left: Affine
    right: Affine
    position: int
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualCounts:
    """Numbers of elements before and after a reshape, which only numbers can compare."""

    before: Affine
    after: Affine
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceInside:
    """The smallest and largest index of a slice, which must lie inside its dimension."""

    tensor: str
    first: Affine
    last: Affine
    extent: Affine
    count: Affine
    place: Place


Requirement: TypeAlias = EqualExtents | EqualCounts | SliceInside
