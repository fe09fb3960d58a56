"""Index expressions: integer combinations of axis coordinates, dimensions and a few opaque atoms.
Must not know values, statements or targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Dim:
    """Extent of the program's dimension number `index`."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Coord:
    """Coordinate along an axis, counted from the start of its dimension (never from the start of a block)."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Start:
    """First coordinate of the current block of a tile axis."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stop:
    """One past the last valid coordinate of the current block of a tile axis."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient:
    """Floor division of two index expressions."""

    numerator: Affine
    denominator: Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """Remainder of the floor division of two index expressions."""

    numerator: Affine
    denominator: Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """The smaller of two index expressions."""

    left: Affine
    right: Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class Greatest:
    """The larger of two index expressions."""

    left: Affine
    right: Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Product of two index expressions neither of which is a constant."""

    left: Affine
    right: Affine


Atom: TypeAlias = Dim | Coord | Start | Stop | Quotient | Remainder | Least | Greatest | Product


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """`constant + Σ coefficient · atom`, atoms in canonical order and each named once."""

    constant: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    def __add__(self, other: Affine | int) -> Affine:
        other = as_affine(other)
        return _combine(self.constant + other.constant, (*self.terms, *other.terms))

    def __sub__(self, other: Affine | int) -> Affine:
        return self + as_affine(other).scaled(-1)

    def __mul__(self, other: Affine | int) -> Affine:
        other = as_affine(other)
        if other.is_constant:
            return self.scaled(other.constant)
        if self.is_constant:
            return other.scaled(self.constant)
        left, right = sorted((self, other), key=repr)
        return atom(Product(left=left, right=right))

    def __floordiv__(self, other: Affine | int) -> Affine:
        other = as_affine(other)
        if self.is_constant and other.is_constant and other.constant:
            return Affine(constant=self.constant // other.constant)
        if other.is_constant and other.constant and all(c % other.constant == 0 for _, c in self.terms):
            quotient = tuple((a, c // other.constant) for a, c in self.terms)
            return Affine(constant=self.constant // other.constant, terms=quotient)
        return atom(Quotient(numerator=self, denominator=other))

    def __mod__(self, other: Affine | int) -> Affine:
        other = as_affine(other)
        if other.is_constant and other.constant and all(c % other.constant == 0 for _, c in self.terms):
            return Affine(constant=self.constant % other.constant)
        return atom(Remainder(numerator=self, denominator=other))

    def scaled(self, factor: int) -> Affine:
        return _combine(self.constant * factor, tuple((a, c * factor) for a, c in self.terms))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def atoms(self) -> Iterator[Atom]:
        """Every atom, also those inside other atoms, outermost first."""
        for a, _ in self.terms:
            yield a
            for inner in _operands(a):
                yield from inner.atoms()

    def axes(self) -> frozenset[int]:
        """Axes whose coordinate or block bounds the expression depends on."""
        return frozenset(a.axis for a in self.atoms() if isinstance(a, Coord | Start | Stop))

    def coefficient(self, axis: int) -> int | None:
        """Change of the expression for one step along `axis`, or None where that is not a constant."""
        total = 0
        for a, c in self.terms:
            if a == Coord(axis=axis):
                total += c
            elif any(axis in inner.axes() for inner in _operands(a)):
                return None
        return total

    def substitute(self, mapping: Mapping[Atom, Affine]) -> Affine:
        """Replace atoms, also inside other atoms, and simplify."""
        result = Affine(constant=self.constant)
        for a, c in self.terms:
            result = result + _substitute_atom(a, mapping).scaled(c)
        return result

    def evaluate(self, values: Mapping[Atom, int]) -> int:
        """The number this stands for, given one for every leaf atom.

        Raises: KeyError where a leaf has no value; ZeroDivisionError as Python does.
        """
        return self.constant + sum(c * _evaluate_atom(a, values) for a, c in self.terms)

    def range(self, ranges: Mapping[Atom, tuple[int, int]]) -> tuple[int, int] | None:
        """Inclusive bounds of the value over inclusive bounds of the leaves; None where nothing is known."""
        low = high = self.constant
        for a, c in self.terms:
            bounds = _range_atom(a, ranges)
            if bounds is None:
                return None
            ends = (bounds[0] * c, bounds[1] * c)
            low, high = low + min(ends), high + max(ends)
        return low, high


def as_affine(value: Affine | int) -> Affine:
    return value if isinstance(value, Affine) else Affine(constant=value)


def atom(a: Atom) -> Affine:
    return Affine(terms=((a, 1),))


def coord(axis: int) -> Affine:
    return atom(Coord(axis=axis))


def dim(index: int) -> Affine:
    return atom(Dim(index=index))


def least(left: Affine, right: Affine) -> Affine:
    if left.is_constant and right.is_constant:
        return Affine(constant=min(left.constant, right.constant))
    return left if left == right else atom(Least(left=left, right=right))


def greatest(left: Affine, right: Affine) -> Affine:
    if left.is_constant and right.is_constant:
        return Affine(constant=max(left.constant, right.constant))
    return left if left == right else atom(Greatest(left=left, right=right))


def _combine(constant: int, terms: tuple[tuple[Atom, int], ...]) -> Affine:
    totals: dict[Atom, int] = {}
    for a, c in terms:
        totals[a] = totals.get(a, 0) + c
    kept = sorted(((a, c) for a, c in totals.items() if c), key=lambda term: _order(term[0]))
    return Affine(constant=constant, terms=tuple(kept))


def _order(a: Atom) -> tuple[int, str]:
    kinds = (Dim, Coord, Start, Stop, Quotient, Remainder, Least, Greatest, Product)
    match a:
        case Dim(index=number) | Coord(axis=number) | Start(axis=number) | Stop(axis=number):
            return kinds.index(type(a)), f"{number:06d}"
        case _:
            return kinds.index(type(a)), repr(a)


def _operands(a: Atom) -> tuple[Affine, ...]:
    match a:
        case Dim() | Coord() | Start() | Stop():
            return ()
        case Quotient(numerator=left, denominator=right) | Remainder(numerator=left, denominator=right):
            return left, right
        case Least(left=left, right=right) | Greatest(left=left, right=right) | Product(left=left, right=right):
            return left, right
        case _:
            assert_never(a)


def _substitute_atom(a: Atom, mapping: Mapping[Atom, Affine]) -> Affine:
    if a in mapping:
        return mapping[a]
    match a:
        case Dim() | Coord() | Start() | Stop():
            return atom(a)
        case Quotient(numerator=left, denominator=right):
            return left.substitute(mapping) // right.substitute(mapping)
        case Remainder(numerator=left, denominator=right):
            return left.substitute(mapping) % right.substitute(mapping)
        case Least(left=left, right=right):
            return least(left.substitute(mapping), right.substitute(mapping))
        case Greatest(left=left, right=right):
            return greatest(left.substitute(mapping), right.substitute(mapping))
        case Product(left=left, right=right):
            return left.substitute(mapping) * right.substitute(mapping)
        case _:
            assert_never(a)


def _evaluate_atom(a: Atom, values: Mapping[Atom, int]) -> int:
    match a:
        case Dim() | Coord() | Start() | Stop():
            return values[a]
        case Quotient(numerator=left, denominator=right):
            return left.evaluate(values) // right.evaluate(values)
        case Remainder(numerator=left, denominator=right):
            return left.evaluate(values) % right.evaluate(values)
        case Least(left=left, right=right):
            return min(left.evaluate(values), right.evaluate(values))
        case Greatest(left=left, right=right):
            return max(left.evaluate(values), right.evaluate(values))
        case Product(left=left, right=right):
            return left.evaluate(values) * right.evaluate(values)
        case _:
            assert_never(a)


def _range_atom(a: Atom, ranges: Mapping[Atom, tuple[int, int]]) -> tuple[int, int] | None:
    if a in ranges:
        return ranges[a]
    operands = tuple(inner.range(ranges) for inner in _operands(a))
    if not operands or any(bounds is None for bounds in operands):
        return None
    (low_l, high_l), (low_r, high_r) = (bounds for bounds in operands if bounds is not None)
    match a:
        case Quotient():
            if low_r <= 0 <= high_r:
                return None
            ends = [n // d for n in (low_l, high_l) for d in (low_r, high_r)]
            return min(ends), max(ends)
        case Remainder():
            return (0, high_r - 1) if low_r > 0 else None
        case Least():
            return min(low_l, low_r), min(high_l, high_r)
        case Greatest():
            return max(low_l, low_r), max(high_l, high_r)
        case Product():
            ends = [x * y for x in (low_l, high_l) for y in (low_r, high_r)]
            return min(ends), max(ends)
        case _:
            return None
