"""The program under construction: axes with their unification, regions of statements, new values and renamed ones.
Must not know syntax or the rules of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import assert_never

from autotune.ir.affine import Affine, Atom, Coord, Quotient, Remainder, Start, Stop, atom, coord
from autotune.ir.program import (
    Axis,
    AxisKind,
    Carried,
    Const,
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
    operands,
)
from autotune.ir.types import DType
from autotune.language.drafted import DraftFor, DraftIf, DraftLet, DraftStatement, DraftWhile, Requirement
from autotune.language.operands import Array, IndexTerm, Positions

STATES = (Carried, Final, Joined, MergeSide)
"""Values that control flow hands on: what they are follows from elsewhere in the program."""


class RenameRefused(Exception):
    """The state of a loop or branch, which is no expression of coordinates, cannot be read at other ones."""


class Draft:
    """Axes, values and statements built so far."""

    def __init__(self) -> None:
        self.axes: list[Axis] = []
        self.requirements: list[Requirement] = []
        self.strict = False
        self.line = 0
        self.body: list[DraftStatement] = []
        self.lets: dict[int, DraftLet] = {}
        self._parents: list[int] = []
        self._homes: dict[int, list[DraftStatement]] = {}
        self._region = self.body
        self._branches = 0
        self._together: set[frozenset[int]] = set()

    # Axes

    def new_axis(self, kind: AxisKind, extent: Affine, name: str, start: Affine | None = None, step: int = 1) -> int:
        number = len(self.axes)
        axis = Axis(id=number, kind=kind, extent=extent, start=start or Affine(), step=step, name=name)
        self.axes.append(axis)
        self._parents.append(number)
        return number

    def root(self, axis: int) -> int:
        while self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis

    def axis(self, number: int) -> Axis:
        return self.axes[self.root(number)]

    def resolve(self, positions: Positions) -> Positions:
        return tuple(None if p is None else self.root(p) for p in positions)

    def resolve_affine(self, expression: Affine) -> Affine:
        moved: dict[Atom, Affine] = {Coord(axis=a): coord(self.root(a)) for a in expression.axes() if self.root(a) != a}
        return expression.substitute(moved) if moved else expression

    def live_together(self, positions: Positions) -> None:
        """Remember that these axes occur in one value, so they may never become one axis."""
        axes = frozenset(p for p in positions if p is not None)
        if len(axes) > 1:
            self._together.add(axes)

    def unify(self, left: int, right: int) -> bool:
        """Make two full axes one; False where some value has both."""
        left, right = sorted((self.root(left), self.root(right)))
        if left == right:
            return True
        for axes in self._together:
            roots = {self.root(a) for a in axes}
            if left in roots and right in roots:
                return False
        self._parents[right] = left
        return True

    def fresh_like(self, axis: int) -> int:
        """A new full axis that walks the coordinates of `axis`: all of them, or the block of a tile."""
        original = self.axis(axis)
        extent = original.extent if original.kind is AxisKind.FULL else atom(Stop(axis=axis)) - atom(Start(axis=axis))
        return self.new_axis(AxisKind.FULL, extent, original.name)

    # Values

    def emit(self, value: Value, dtype: DType, positions: Positions) -> Array:
        """Define a new value at the current place."""
        self._append(value, dtype, positions, self._region, len(self._region))
        self.live_together(positions)
        return Array(value=len(self.lets) - 1, dtype=dtype, positions=positions)

    def add(self, statement: Store | DraftFor | DraftWhile | DraftIf) -> None:
        self._region.append(statement)

    @contextmanager
    def into(self, region: list[DraftStatement]) -> Iterator[None]:
        """Statements made inside go to the end of `region`."""
        outer, self._region = self._region, region
        try:
            yield
        finally:
            self._region = outer

    def new_branch(self) -> int:
        self._branches += 1
        return self._branches - 1

    def _append(self, value: Value, dtype: DType, positions: Positions, region: list[DraftStatement], at: int) -> int:
        number = len(self.lets)
        state = positions if isinstance(value, STATES) else ()
        let = DraftLet(id=number, value=value, dtype=dtype, positions=state, line=self.line)
        self.lets[number] = let
        self._homes[number] = region
        region.insert(at, let)
        return number

    def reached(self, value: int) -> frozenset[int]:
        """A value and all that its definition reads, the insides of loops and branches apart."""
        found: set[int] = set()
        pending = [value]
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending.extend(operands(self.lets[one].value))
        return frozenset(found)

    def depends(self, value: int) -> frozenset[int]:
        """Axes (roots) that a value depends on; those of a loop's state are its positions."""
        return self._depends(value, {})

    def _depends(self, number: int, memo: dict[int, frozenset[int]]) -> frozenset[int]:
        if number not in memo:
            memo[number] = frozenset(self.root(a) for a in self._raw_axes(self.lets[number], memo))
        return memo[number]

    def _raw_axes(self, let: DraftLet, memo: dict[int, frozenset[int]]) -> frozenset[int]:
        match let.value:
            case Const() | ScalarArgument():
                return frozenset()
            case IndexValue(expression=expression):
                return expression.axes()
            case Load(index=index):
                parts = (self._depends(i.value, memo) if isinstance(i, Indirect) else i.axes() for i in index)
                return frozenset().union(*parts)
            case Elementwise(args=args):
                return frozenset().union(*(self._depends(a, memo) for a in args))
            case Reduce(body=body, axes=axes, init=init):
                kept = self._depends(body, memo) - {self.root(a) for a in axes}
                return kept if init is None else kept | self._depends(init, memo)
            case Reindex(value=value, source=source, target=target):
                return (self._depends(value, memo) - {self.root(source)}) | {target}
            case Carried() | Final() | Joined() | MergeSide():
                return frozenset(p for p in let.positions if p is not None)
            case _:
                assert_never(let.value)

    # The same value on other axes

    def renamed(self, operand: Array | IndexTerm, moves: Mapping[int, int]) -> Array | IndexTerm:
        """`operand` with axes renamed all at once (roots to roots); loads are made anew beside the original.

        Raises: RenameRefused where the state of a loop or branch varies along a tile that is renamed.
        """
        positions = tuple(p if p is None else moves.get(self.root(p), self.root(p)) for p in operand.positions)
        self.live_together(positions)
        if isinstance(operand, IndexTerm):
            expression = self.resolve_affine(operand.expression).substitute(self._substitution(moves))
            return IndexTerm(expression=expression, positions=positions)
        return Array(value=self._renamed_value(operand.value, moves), dtype=operand.dtype, positions=positions)

    def rewritten(
        self, operand: Array | IndexTerm, coordinates: Mapping[Atom, Affine], positions: Positions
    ) -> Array | IndexTerm:
        """`operand` computed anew with other expressions for some coordinates, and its positions then.

        Raises: RenameRefused where the state of a loop or branch varies along one of them.
        """
        self.live_together(positions)
        if isinstance(operand, IndexTerm):
            expression = self.resolve_affine(operand.expression).substitute(coordinates)
            return IndexTerm(expression=expression, positions=positions)
        value = self._computed_anew(operand.value, coordinates, {})
        return Array(value=value, dtype=operand.dtype, positions=positions)

    def _substitution(self, moves: Mapping[int, int]) -> dict[Atom, Affine]:
        result: dict[Atom, Affine] = {}
        for source, target in moves.items():
            tile_to_full = self.axis(source).kind is not AxisKind.FULL and self.axis(target).kind is AxisKind.FULL
            start = atom(Start(axis=source)) if tile_to_full else Affine()
            result[Coord(axis=source)] = start + coord(target)
        return result

    def _renamed_value(self, number: int, moves: Mapping[int, int]) -> int:
        """A load or index at other coordinates; of other values full axes are renamed, along tiles they are recomputed.

        Renaming keeps one computation, but only full axes have a length that a value could be kept for.
        """
        depends = self.depends(number)
        moves = {s: t for s, t in moves.items() if s in depends}
        if not moves:
            return number
        if isinstance(self.lets[number].value, Load | IndexValue) and self._is_movable(number, moves):
            return self._computed_anew(number, self._substitution(moves), {})
        tiles = {s: t for s, t in moves.items() if self.axis(s).kind is not AxisKind.FULL}
        if tiles:
            number = self._computed_anew(number, self._substitution(tiles), {})
        rest = {s: t for s, t in moves.items() if s not in tiles}
        return self._reindexed(self.lets[number], rest) if rest else number

    def _is_movable(self, number: int, moves: Mapping[int, int]) -> bool:
        """True where a renamed copy can stand beside the original: a load at indices that are loads in turn."""
        match self.lets[number].value:
            case Load(index=index):
                return all(self._is_movable(i.value, moves) for i in index if isinstance(i, Indirect))
            case IndexValue():
                return True
            case _:
                return not (self.depends(number) & set(moves))

    def _computed_anew(self, number: int, coordinates: Mapping[Atom, Affine], made: dict[int, int]) -> int:
        """A copy of a value, and of what it is computed from, beside the originals; `made` maps those to their copies.

        The expressions name fresh axes only, so no reduction inside can take one of them for its own.
        """
        sources = {a.axis for a in coordinates if isinstance(a, Coord)} & self.depends(number)
        if not sources:
            return number
        if number in made:
            return made[number]
        let = self.lets[number]

        def copy(operand: int) -> int:
            return self._computed_anew(operand, coordinates, made)

        match let.value:
            case Load(index=index):
                entries = tuple(
                    Indirect(value=copy(i.value))
                    if isinstance(i, Indirect)
                    else self.resolve_affine(i).substitute(coordinates)
                    for i in index
                )
                value: Value = replace(let.value, index=entries)
            case IndexValue(expression=expression):
                value = IndexValue(expression=self.resolve_affine(expression).substitute(coordinates))
            case Elementwise(args=args):
                value = replace(let.value, args=tuple(copy(a) for a in args))
            case Reduce():
                value = self._reduction_anew(let.value, coordinates)
            case _:
                raise RenameRefused
        made[number] = self._beside(let, value)
        return made[number]

    def _reduction_anew(self, value: Reduce, coordinates: Mapping[Atom, Affine]) -> Reduce:
        own = {self.root(a) for a in value.axes}
        inside = {a: e for a, e in coordinates.items() if not (isinstance(a, Coord) and a.axis in own)}
        made: dict[int, int] = {}
        body = self._computed_anew(value.body, inside, made)
        start = None if value.init is None else self._computed_anew(value.init, coordinates, {})
        contraction = value.contraction
        if contraction is not None:
            lhs, rhs = (made.get(v, v) for v in (contraction.lhs, contraction.rhs))
            contraction = replace(contraction, lhs=lhs, rhs=rhs)
        return replace(value, body=body, init=start, contraction=contraction)

    def _beside(self, let: DraftLet, value: Value) -> int:
        region = self._homes[let.id]
        return self._append(value, let.dtype, (), region, region.index(let) + 1)

    def _reindexed(self, let: DraftLet, moves: Mapping[int, int]) -> int:
        number, axes = let.id, self.depends(let.id)
        for source, target in self._one_by_one(moves):
            self.live_together((*axes, target))  # a step needs its target to stay an axis of its own
            axes = axes - {source} | {target}
            value = Reindex(value=number, source=source, target=target)
            number = self._append(value, let.dtype, (), self._region, len(self._region))
        return number

    def _one_by_one(self, moves: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Renamings to do in order that together rename all at once; a cycle goes through one fresh axis."""
        pending = dict(moves)
        while pending:
            free = next((s for s, t in pending.items() if t not in pending), None)
            if free is not None:
                yield free, pending.pop(free)
                continue
            source = next(iter(pending))
            aside = self.fresh_like(source)
            yield source, aside
            pending[aside] = pending.pop(source)


def is_opaque(expression: Affine) -> bool:
    """True where structural comparison of extents says nothing: the expression divides."""
    return any(isinstance(a, Quotient | Remainder) for a in expression.atoms())
