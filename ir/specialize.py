"""A program as one choice of blocks sees it: what the blocks decide is decided, loops of one trip are gone.
Must not know targets, nests or candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from autotune.ir.affine import Affine, Atom, Coord, Greatest, Least, Quotient, Remainder, Start, Stop, atom, coord
from autotune.ir.dependence import varying
from autotune.ir.program import (
    Axis,
    AxisKind,
    Carried,
    Carry,
    Const,
    Contraction,
    Elementwise,
    Final,
    For,
    If,
    Index,
    IndexValue,
    Indirect,
    Let,
    Load,
    Program,
    Reduce,
    Region,
    Reindex,
    Statement,
    Store,
    Value,
    While,
    operands,
    statements,
)
from autotune.ir.types import Op

Blocks = tuple[tuple[int, int], ...]
"""Pairs of an axis and the number of its coordinates that a packet or a trip takes."""


@lru_cache(maxsize=512)
def specialize(program: Program, blocks: Blocks) -> Program:
    """The program under the given blocks; axes without one have blocks of one coordinate.

    Before: a bound program; every TILE axis has a block.
    After: the same results. Axis numbers are the program's; value numbers are dense again. Where packed programs share
    an index (`h // g` with aligned packets that lie inside a group), the index no longer varies along their axis.
    Loops that make one trip at most are dissolved, comparisons that the index ranges decide are constants.
    """
    chosen = dict(blocks)
    index = _Indices(program, chosen)
    body = _Dissolve(index).region(program.body)
    decided = _decided(body, index)
    live = _live(decided)
    numbered = _Numbering().region(_kept(decided, live))
    result = replace(program, axes=index.settled_axes(), body=numbered)
    return replace(result, body=_with_axes(result))


# ---- axes and index expressions ------------------------------------------------------------------------------------
class _Indices:
    """Index expressions simplified by what the blocks fix."""

    def __init__(self, program: Program, blocks: Mapping[int, int]) -> None:
        self.blocks = blocks
        self.axes: list[Axis] = []
        self.known: dict[Atom, Affine] = {}
        self.bounds: dict[Atom, tuple[int, int]] = {}
        for axis in program.axes:
            self._enter(replace(axis, extent=self.simplify(axis.extent), start=self.simplify(axis.start)))

    def _enter(self, axis: Axis) -> None:
        self.axes.append(axis)
        extent = axis.extent.range(self.bounds) or (0, 2**31)
        first = axis.start.range(self.bounds) or (0, 0)
        last = first[1] + axis.step * max(extent[1] - 1, 0)
        low, high = min(first[0], last), max(first[1], last)
        block = self.blocks.get(axis.id, 1)
        self.bounds[Coord(axis=axis.id)] = (low, high)
        self.bounds[Start(axis=axis.id)] = (low, high // block * block if axis.step == 1 else high)
        self.bounds[Stop(axis=axis.id)] = (low, high + 1)
        if axis.kind not in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE, AxisKind.TILE):
            return
        if axis.extent.is_constant:
            total = axis.extent.constant
            if total <= block:
                self.known[Start(axis=axis.id)] = Affine()
                self.known[Stop(axis=axis.id)] = Affine(constant=total)
            elif total % block == 0:
                self.known[Stop(axis=axis.id)] = atom(Start(axis=axis.id)) + block
            if total == 1 and axis.kind is not AxisKind.TILE:
                self.known[Coord(axis=axis.id)] = Affine()

    def settled_axes(self) -> tuple[Axis, ...]:
        """The axes, a dissolved loop's now a whole dimension."""
        return tuple(replace(a, kind=AxisKind.FULL) if self.dissolves(a.id) else a for a in self.axes)

    def dissolves(self, axis: int) -> bool:
        """Whether a tile loop makes one trip at most, whatever the program."""
        this = self.axes[axis]
        return this.kind is AxisKind.TILE and this.extent.is_constant and this.extent.constant <= self.blocks[axis]

    def simplify(self, expression: Affine) -> Affine:
        result = Affine(constant=expression.constant)
        for a, c in expression.terms:
            result = result + self._atom(a).scaled(c)
        return result

    def _atom(self, a: Atom) -> Affine:
        if a in self.known:
            return self.known[a]
        match a:
            case Least(left=left, right=right):
                return self._extreme(self.simplify(left), self.simplify(right), smaller=True)
            case Greatest(left=left, right=right):
                return self._extreme(self.simplify(left), self.simplify(right), smaller=False)
            case Quotient(numerator=numerator, denominator=denominator):
                n, d = self.simplify(numerator), self.simplify(denominator)
                return self._aligned(n, d) // d
            case Remainder(numerator=numerator, denominator=denominator):
                n, d = self.simplify(numerator), self.simplify(denominator)
                aligned = self._aligned(n, d)
                return n % d if aligned == n else n - (aligned // d) * d
            case _:
                return atom(a).substitute(self.known)

    def _extreme(self, left: Affine, right: Affine, *, smaller: bool) -> Affine:
        difference = (left - right).range(self.bounds)
        if difference is not None and (difference[1] <= 0 or difference[0] >= 0):
            return left if (difference[1] <= 0) is smaller else right
        if left.is_constant and right.is_constant:
            pick = min if smaller else max
            return Affine(constant=pick(left.constant, right.constant))
        return atom(Least(left=left, right=right) if smaller else Greatest(left=left, right=right))

    def _aligned(self, numerator: Affine, denominator: Affine) -> Affine:
        """The numerator with packed coordinates moved to their packet's start, where the quotient is the same."""
        if not denominator.is_constant or denominator.constant <= 0:
            return numerator
        group = denominator.constant
        moved: dict[Atom, Affine] = {}
        for a, c in numerator.terms:
            block = self.blocks.get(a.axis, 1) if isinstance(a, Coord) else 1
            if isinstance(a, Coord) and block > 1 and c == 1 and group % block == 0:
                moved[a] = self.known.get(Start(axis=a.axis), atom(Start(axis=a.axis)))
            elif c % group:
                return numerator
        if len(moved) != 1 or numerator.constant % group:
            return numerator
        return numerator.substitute(moved)

    def decides(self, op: Op, left: Affine, right: Affine) -> bool | None:
        """The outcome of a comparison that the ranges settle, else None."""
        bounds = (left - right).range(self.bounds)
        if bounds is None:
            return None
        low, high = bounds
        outcomes = {
            Op.LT: (high < 0, low >= 0),
            Op.LE: (high <= 0, low > 0),
            Op.GT: (low > 0, high <= 0),
            Op.GE: (low >= 0, high < 0),
            Op.EQ: (low == high == 0, low > 0 or high < 0),
            Op.NE: (low > 0 or high < 0, low == high == 0),
        }
        true, false = outcomes.get(op, (False, False))
        return True if true else False if false else None


# ---- statements ----------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Dissolve:
    """Substitutes index expressions and splices the bodies of dissolved loops into their surroundings."""

    index: _Indices
    stands_for: dict[int, int] = field(default_factory=dict)
    states: dict[tuple[str, int, int], int] = field(default_factory=dict)

    def region(self, region: Region) -> Region:
        return tuple(s for statement in region for s in self.statement(statement))

    def statement(self, s: Statement) -> Iterator[Statement]:
        match s:
            case Let():
                yield from self.let(s)
            case Store():
                index = tuple(self.index.simplify(i) for i in s.index)
                mask = None if s.mask is None else self.value(s.mask)
                yield replace(s, index=index, value=self.value(s.value), mask=mask)
            case For() if self.index.dissolves(s.axis):
                yield from self.dissolve(s)
            case For():
                before = tuple(replace(c, initial=self.value(c.initial)) for c in s.carries)
                body = self.region(s.body)
                carries = tuple(replace(c, updated=self.value(c.updated)) for c in before)
                yield replace(s, carries=carries, body=body, merge=None)
            case While():
                before = tuple(replace(c, initial=self.value(c.initial)) for c in s.carries)
                test = self.region(s.test)
                condition = self.value(s.condition)
                body = self.region(s.body)
                carries = tuple(replace(c, updated=self.value(c.updated)) for c in before)
                yield replace(s, carries=carries, test=test, condition=condition, body=body)
            case If():
                condition = self.value(s.condition)
                then, otherwise = self.region(s.then), self.region(s.otherwise)
                choices = tuple(
                    replace(c, then=self.value(c.then), otherwise=self.value(c.otherwise)) for c in s.choices
                )
                yield replace(s, condition=condition, then=then, otherwise=otherwise, choices=choices)

    def dissolve(self, s: For) -> Iterator[Statement]:
        empty = self.index.axes[s.axis].extent.constant <= 0
        for slot, carry in enumerate(s.carries):
            self.states["carried", s.axis, slot] = self.value(carry.initial)
        if not empty:
            yield from self.region(s.body)
        for slot, carry in enumerate(s.carries):
            self.states["final", s.axis, slot] = self.value(carry.initial if empty else carry.updated)

    def let(self, let: Let) -> Iterator[Statement]:
        value = let.value
        match value:
            case Carried(axis=axis, slot=slot) if ("carried", axis, slot) in self.states:
                self.stands_for[let.id] = self.states["carried", axis, slot]
                return
            case Final(axis=axis, slot=slot) if ("final", axis, slot) in self.states:
                self.stands_for[let.id] = self.states["final", axis, slot]
                return
            case IndexValue(expression=expression):
                value = IndexValue(expression=self.index.simplify(expression))
            case Load(index=index):
                value = replace(value, index=tuple(self.entry(i) for i in index))
            case _:
                value = mapped(value, self.value)
        yield replace(let, value=value)

    def entry(self, entry: Index) -> Index:
        return self.index.simplify(entry) if isinstance(entry, Affine) else Indirect(value=self.value(entry.value))

    def value(self, number: int) -> int:
        return self.stands_for.get(number, number)


def mapped(value: Value, look: Callable[[int], int]) -> Value:
    """The value with every value number it reads replaced."""
    match value:
        case Load(index=index):
            return replace(
                value, index=tuple(Indirect(value=look(i.value)) if isinstance(i, Indirect) else i for i in index)
            )
        case Elementwise(args=args):
            return replace(value, args=tuple(look(a) for a in args))
        case Reduce(body=body, init=init, contraction=contraction):
            if contraction is not None:
                contraction = replace(contraction, lhs=look(contraction.lhs), rhs=look(contraction.rhs))
            first = None if init is None else look(init)
            return replace(value, body=look(body), init=first, contraction=contraction)
        case Reindex(value=inner):
            return replace(value, value=look(inner))
        case _:
            return value


# ---- decided comparisons -------------------------------------------------------------------------------------------
def _decided(region: Region, index: _Indices) -> Region:
    """Comparisons of index expressions that are always true or false become constants; selects by them vanish."""
    lets = {s.id: s for s in statements(region) if isinstance(s, Let)}
    constants: dict[int, bool] = {}
    stands_for: dict[int, int] = {}
    for number, let in lets.items():
        value = let.value
        if not isinstance(value, Elementwise):
            continue
        args = tuple(stands_for.get(a, a) for a in value.args)
        if value.op is Op.WHERE and args[0] in constants:
            stands_for[number] = args[1] if constants[args[0]] else args[2]
        sides = [index_expression(lets, a) for a in args]
        if len(sides) == 2 and sides[0] is not None and sides[1] is not None:
            outcome = index.decides(value.op, sides[0], sides[1])
            if outcome is not None:
                constants[number] = outcome
        if value.op is Op.AND and all(a in constants for a in args):
            constants[number] = all(constants[a] for a in args)

    def rewritten(region: Region) -> Region:
        return tuple(one(s) for s in region)

    def look(value: int) -> int:
        return stands_for.get(value, value)

    def one(s: Statement) -> Statement:
        match s:
            case Let(id=value) if value in constants:
                return replace(s, value=Const(value=constants[value]))
            case Let():
                return replace(s, value=mapped(s.value, look))
            case Store(mask=mask):
                return replace(s, value=look(s.value), mask=None if mask is None else look(mask))
            case For():
                return replace(s, carries=tuple(carry(c) for c in s.carries), body=rewritten(s.body))
            case While():
                carries = tuple(carry(c) for c in s.carries)
                test, body = rewritten(s.test), rewritten(s.body)
                return replace(s, carries=carries, test=test, condition=look(s.condition), body=body)
            case If():
                choices = tuple(replace(c, then=look(c.then), otherwise=look(c.otherwise)) for c in s.choices)
                then, otherwise = rewritten(s.then), rewritten(s.otherwise)
                return replace(s, condition=look(s.condition), choices=choices, then=then, otherwise=otherwise)

    def carry(c: Carry) -> Carry:
        return replace(c, initial=look(c.initial), updated=look(c.updated))

    return rewritten(region)


def index_expression(lets: Mapping[int, Let], number: int) -> Affine | None:
    """A value as an index expression, None where it is none."""
    value = lets[number].value
    match value:
        case IndexValue(expression=expression):
            return expression
        case Const(value=constant) if type(constant) is int:
            return Affine(constant=constant)
        case Elementwise(op=Op.CAST, args=(inner,)) if lets[number].dtype.is_integer and lets[inner].dtype.is_integer:
            return index_expression(lets, inner)
        case Elementwise(op=Op.ADD | Op.SUB as op, args=(left, right)) if lets[number].dtype.is_integer:
            a, b = index_expression(lets, left), index_expression(lets, right)
            if a is None or b is None:
                return None
            return a + b if op is Op.ADD else a - b
        case Reindex(value=inner, source=source, target=target):
            moved = index_expression(lets, inner)
            return None if moved is None else moved.substitute({Coord(axis=source): coord(target)})
        case _:
            return None


# ---- what is left --------------------------------------------------------------------------------------------------
def _live(region: Region) -> frozenset[int]:
    """Values that some store, state, branch or condition needs."""
    lets = {s.id: s for s in statements(region) if isinstance(s, Let)}
    pending: list[int] = []
    for s in statements(region):
        match s:
            case Store(value=value, mask=mask):
                pending.extend((value,) if mask is None else (value, mask))
            case For(carries=carries):
                pending.extend(v for c in carries for v in (c.initial, c.updated))
            case While(carries=carries, condition=condition):
                pending.extend((condition, *(v for c in carries for v in (c.initial, c.updated))))
            case If(choices=choices, condition=condition):
                pending.extend((condition, *(v for c in choices for v in (c.then, c.otherwise))))
            case Let():
                pass
    found: set[int] = set()
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending.extend(operands(lets[value].value))
    return frozenset(found)


def _kept(region: Region, live: frozenset[int]) -> Region:
    def one(s: Statement) -> Statement:
        match s:
            case For():
                return replace(s, body=_kept(s.body, live))
            case While():
                return replace(s, test=_kept(s.test, live), body=_kept(s.body, live))
            case If():
                return replace(s, then=_kept(s.then, live), otherwise=_kept(s.otherwise, live))
            case _:
                return s

    return tuple(one(s) for s in region if not (isinstance(s, Let) and s.id not in live))


@dataclass(slots=True)
class _Numbering:
    """Dense value numbers in program order."""

    numbers: dict[int, int] = field(default_factory=dict)

    def region(self, region: Region) -> Region:
        return tuple(self.statement(s) for s in region)

    def of(self, values: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.numbers[v] for v in values)

    def statement(self, s: Statement) -> Statement:
        look = self.numbers.__getitem__
        match s:
            case Let():
                value = mapped(s.value, self.numbers.__getitem__)
                self.numbers[s.id] = len(self.numbers)
                return replace(s, id=self.numbers[s.id], value=value)
            case Store(mask=mask):
                return replace(s, value=look(s.value), mask=None if mask is None else look(mask))
            case For():
                initial = self.of(c.initial for c in s.carries)
                body = self.region(s.body)
                carries = tuple(
                    replace(c, initial=first, updated=look(c.updated))
                    for c, first in zip(s.carries, initial, strict=True)
                )
                return replace(s, carries=carries, body=body)
            case While():
                initial = self.of(c.initial for c in s.carries)
                test = self.region(s.test)
                condition = look(s.condition)
                body = self.region(s.body)
                carries = tuple(
                    replace(c, initial=first, updated=look(c.updated))
                    for c, first in zip(s.carries, initial, strict=True)
                )
                return replace(s, carries=carries, test=test, condition=condition, body=body)
            case If():
                condition = look(s.condition)
                then, otherwise = self.region(s.then), self.region(s.otherwise)
                choices = tuple(replace(c, then=look(c.then), otherwise=look(c.otherwise)) for c in s.choices)
                return replace(s, condition=condition, then=then, otherwise=otherwise, choices=choices)


def _with_axes(program: Program) -> Region:
    """The body with the axes along which values vary now; those of states grow until they no longer change."""
    program = replace(program, body=_without_state_axes(program.body))
    while True:
        vary = varying(program)
        body = _refreshed(program.body, vary)
        if body == program.body:
            return body
        program = replace(program, body=body)


def _without_state_axes(region: Region) -> Region:
    def one(s: Statement) -> Statement:
        match s:
            case For():
                bare = tuple(replace(c, axes=()) for c in s.carries)
                return replace(s, carries=bare, body=_without_state_axes(s.body))
            case While():
                bare = tuple(replace(c, axes=()) for c in s.carries)
                return replace(s, carries=bare, body=_without_state_axes(s.body))
            case If():
                then, otherwise = _without_state_axes(s.then), _without_state_axes(s.otherwise)
                choices = tuple(replace(c, axes=()) for c in s.choices)
                return replace(s, choices=choices, then=then, otherwise=otherwise)
            case _:
                return s

    return tuple(one(s) for s in region)


def _refreshed(region: Region, vary: Mapping[int, frozenset[int]]) -> Region:
    def axes(*values: int) -> tuple[int, ...]:
        return tuple(sorted(frozenset().union(*(vary[v] for v in values))))

    def carry(c: Carry, axis: int, *deciding: int) -> Carry:
        return replace(c, axes=tuple(a for a in axes(c.initial, c.updated, *deciding) if a != axis))

    def one(s: Statement) -> Statement:
        match s:
            case Let(value=value):
                if isinstance(value, Reduce) and value.contraction is not None:
                    value = replace(value, contraction=_classified(value.contraction, vary))
                return replace(s, value=value, axes=axes(s.id))
            case For():
                carries = tuple(carry(c, s.axis) for c in s.carries)
                return replace(s, carries=carries, body=_refreshed(s.body, vary))
            case While():
                carries = tuple(carry(c, s.axis, s.condition) for c in s.carries)
                return replace(s, carries=carries, test=_refreshed(s.test, vary), body=_refreshed(s.body, vary))
            case If():
                choices = tuple(replace(c, axes=axes(c.then, c.otherwise, s.condition)) for c in s.choices)
                then, otherwise = _refreshed(s.then, vary), _refreshed(s.otherwise, vary)
                return replace(s, choices=choices, then=then, otherwise=otherwise)
            case Store():
                return s

    return tuple(one(s) for s in region)


def _classified(c: Contraction, vary: Mapping[int, frozenset[int]]) -> Contraction:
    """The part each axis plays now: packed programs that share an operand are outputs of the other one alone."""
    left, right, summed = vary[c.lhs], vary[c.rhs], frozenset(c.k)
    return replace(
        c,
        batch=tuple(sorted((left & right) - summed)),
        m=tuple(sorted(left - right - summed)),
        n=tuple(sorted(right - left - summed)),
    )
