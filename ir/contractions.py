"""Meaning of a sum of products without its products: float64 matrix products of the factors and of their magnitudes.
Must not know programs, statements or loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.ir.bounds import INTEGER_TYPES, LARGEST, SMALLEST_NORMAL, Approx, Array, elementwise, roundoff, settle
from autotune.ir.grids import Grid, Term, conjunction, spread, stretch, union
from autotune.ir.reductions import gamma, reduce, started_from
from autotune.ir.types import STRICT, DType, Op, ReduceOp

# Products that are formed at once where no matrix product says what the sum is.
PRODUCTS = 1 << 21
EXACT_INTEGERS = 2.0**53
"""Whole numbers up to here are float64 numbers, all of them."""


def contract(
    lhs: Term, rhs: Term, sizes: Mapping[int, int], valid: Sequence[Grid], dtype: DType, init: Term | None
) -> Term:
    """Sum of `lhs · rhs` over the axes in `sizes`, each of that many coordinates, of which those not `valid` do not
    exist.

    The bound holds in any order of evaluation, with and without fused multiply-add: the propagated errors of the
    factors and `γ_k · Σ |lhs| |rhs|` for k terms.
    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.5.
    """
    left, right, covered = (lhs, rhs, True) if not valid else _existing(lhs, rhs, valid)
    if not covered:
        return _product_by_product(lhs, rhs, sizes, valid, dtype, init)
    plan = _Layout.of(left, right, sizes)
    if not dtype.is_float:
        number = _integers(plan, left.number, right.number, dtype)
    else:
        number = _floats(plan, left.number, right.number, dtype, init)
    if init is None or dtype.is_float:
        return Term(axes=union(plan.axes, init.axes if init else ()), number=number)
    axes = union(plan.axes, init.axes)
    total = spread(Term(axes=plan.axes, number=number), axes)
    return Term(axes=axes, number=elementwise(Op.ADD, (total, spread(init, axes)), dtype, dtype, STRICT))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How two factors lie as stacks of matrices: axes of the stack, of rows, of columns, and those summed over."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    sizes: Mapping[int, int]

    @staticmethod
    def of(left: Term, right: Term, sizes: Mapping[int, int]) -> _Layout:
        return _Layout(left=left.axes, right=right.axes, sizes=sizes)

    @property
    def stack(self) -> tuple[int, ...]:
        return tuple(a for a in self.left if a in self.right and a not in self.sizes)

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(a for a in self.left if a not in self.right and a not in self.sizes)

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(a for a in self.right if a not in self.left and a not in self.sizes)

    @property
    def axes(self) -> tuple[int, ...]:
        return union(self.stack, self.rows, self.columns)

    def matrices(self, array: Array, *, of_left: bool) -> Array:
        """A factor as a stack of matrices, rows × summed or summed × columns."""
        have, own = (self.left, self.rows) if of_left else (self.right, self.columns)
        summed = tuple(sorted(self.sizes))
        order = (*self.stack, *own, *summed) if of_left else (*self.stack, *summed, *own)
        axes = union(have, summed)
        array = stretch(Grid(axes=have, array=array), axes)
        full = [self.sizes.get(a, size) for a, size in zip(axes, array.shape, strict=True)]
        array = np.broadcast_to(array, full).transpose([axes.index(a) for a in order])
        stack, length = array.shape[: len(self.stack)], math.prod(self.sizes.values())
        wide = math.prod(array.shape[order.index(a)] for a in own)
        shape = (wide, length) if of_left else (length, wide)
        return np.ascontiguousarray(array.reshape(*stack, *shape))

    def restored(self, product: Array, left: Array, right: Array) -> Array:
        """A stack of products with one dimension an axis, ascending."""
        widths = dict(zip(self.left, left.shape, strict=True)) | dict(zip(self.right, right.shape, strict=True))
        order = (*self.stack, *self.rows, *self.columns)
        stack = product.shape[: len(self.stack)]
        array = product.reshape((*stack, *(widths[a] for a in (*self.rows, *self.columns))))
        return array.transpose([order.index(a) for a in self.axes])


def _floats(plan: _Layout, left: Approx, right: Approx, dtype: DType, init: Term | None) -> Approx:
    a, b = plan.matrices(left.value, of_left=True), plan.matrices(right.value, of_left=False)
    doubts = _errors(plan, left, of_left=True), _errors(plan, right, of_left=False)
    product = a @ b
    magnitudes = [product, *_propagated(np.abs(a), np.abs(b), doubts)]
    if not np.isfinite(product).all():  # an infinite sum is certain unless others of its parts overflow as well
        finite = [np.where(np.isfinite(f), np.abs(f), 0.0) for f in (a, b)]
        overflowing = ~np.isfinite(product) & (finite[0] @ finite[1] > LARGEST[dtype])
        magnitudes[3] = np.where(overflowing, np.inf, magnitudes[3])
    parts = [plan.restored(np.broadcast_to(p, product.shape), left.value, right.value) for p in magnitudes]
    terms = math.prod(plan.sizes.values())
    if init is not None:
        axes, terms = union(plan.axes, init.axes), terms + 1
        value, sizes, error, unknown = (stretch(Grid(axes=plan.axes, array=p), axes) for p in parts)
        start = spread(init, axes)
        unknown = np.where(np.isinf(start.bound), np.inf, unknown)
        parts = [value + start.value, sizes + np.abs(start.value) + start.bound, error + start.bound, unknown]
    value, sizes, error, unknown = parts
    return _rounded(value, sizes, error, unknown, terms, dtype)


def _propagated(
    a: Array, b: Array, doubts: tuple[Array | None, Array | None]
) -> tuple[Array, Array | float, Array | float]:
    """The sum of all magnitudes, what the factors' errors make of the sum, and infinity where nothing is known."""
    error: Array | float = 0.0
    unknown: Array | float = 0.0
    if doubts[0] is not None:
        error = doubts[0] @ b
        a = a + doubts[0]
        unknown = np.where(np.isinf(doubts[0]).any(axis=-1, keepdims=True), np.inf, unknown)
    if doubts[1] is not None:
        error = error + a @ doubts[1]
        b = b + doubts[1]
        unknown = np.where(np.isinf(doubts[1]).any(axis=-2, keepdims=True), np.inf, unknown)
    return a @ b, error, unknown


def _rounded(value: Array, sizes: Array, error: Array, unknown: Array, terms: int, dtype: DType) -> Approx:
    """The sum with the error of `terms` roundings of parts that add up to `sizes`, products that underflow among
    them."""
    lost = terms * roundoff(dtype) * SMALLEST_NORMAL[dtype]
    bound = np.where(sizes > 0, error + gamma(terms, dtype) * sizes + lost, error)
    against = sizes - np.abs(value)  # twice what has the other sign than the sum
    some_overflow = (np.abs(value) <= LARGEST[dtype]) | (against > 2.0 * LARGEST[dtype])
    risky = np.isfinite(value) & (sizes > LARGEST[dtype]) & some_overflow  # in some orders, on the way
    return settle(np.asarray(value), np.where(risky, np.inf, bound), dtype, (unknown,))


def _errors(plan: _Layout, factor: Approx, *, of_left: bool) -> Array | None:
    """The bounds of a factor as matrices, None where it is exact."""
    if not factor.bound.any():
        return None
    return plan.matrices(np.broadcast_to(factor.bound, factor.value.shape), of_left=of_left)


def _integers(plan: _Layout, left: Approx, right: Approx, dtype: DType) -> Approx:
    """Integers wrap; float64 products give them where no sum leaves its whole numbers."""
    terms, kind = math.prod(plan.sizes.values()), INTEGER_TYPES[dtype]
    largest = [float(np.abs(f.value.astype(np.float64)).max(initial=0.0)) for f in (left, right)]
    wide = np.float64 if terms * largest[0] * largest[1] < EXACT_INTEGERS else kind
    a, b = plan.matrices(left.value.astype(wide), of_left=True), plan.matrices(right.value.astype(wide), of_left=False)
    value = (a @ b).astype(np.int64).astype(kind)
    doubts = _errors(plan, left, of_left=True), _errors(plan, right, of_left=False)
    _, error, _ = _propagated(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)), doubts)
    bound = np.broadcast_to(np.where(np.isnan(error), np.inf, error), value.shape)
    value, bound = (plan.restored(part, left.value, right.value) for part in (value, bound))
    return Approx(value=value, bound=bound)


def _existing(lhs: Term, rhs: Term, valid: Sequence[Grid]) -> tuple[Term, Term, bool]:
    """Both factors with zeros where coordinates do not exist, and whether that takes exactly those products away.

    One factor is spread over every axis that decides what exists. The other keeps its axes; zeros in the first one
    take its entries away where those are finite.
    """
    axes = union(*(v.axes for v in valid))
    exists = Grid(axes=axes, array=np.asarray(conjunction(list(valid), axes)))
    first, second = sorted((lhs, rhs), key=lambda term: len(set(axes) - set(term.axes)))
    gone = tuple(k for k, a in enumerate(axes) if a not in second.axes)
    somewhere = Grid(axes=tuple(a for a in axes if a in second.axes), array=np.asarray(exists.array.any(axis=gone)))
    first, second = _zeroed(first, exists), _zeroed(second, somewhere)
    covered = not gone or bool(np.isfinite(second.number.value).all() and np.isfinite(second.number.bound).all())
    return first, second, covered


def _zeroed(term: Term, exists: Grid) -> Term:
    axes = union(term.axes, exists.axes)
    number, mask = spread(term, axes), stretch(exists, axes)
    bound = np.where(mask, number.bound, 0.0) if number.bound.any() else number.bound
    return Term(axes=axes, number=Approx(value=np.where(mask, number.value, 0), bound=bound))


def _product_by_product(
    lhs: Term, rhs: Term, sizes: Mapping[int, int], valid: Sequence[Grid], dtype: DType, init: Term | None
) -> Term:
    """The plain definition, a part of the longest axis of the result at a time."""
    axes = union(lhs.axes, rhs.axes, tuple(sizes), *(v.axes for v in valid))
    mask, factors = conjunction(list(valid), axes), (spread(lhs, axes), spread(rhs, axes))
    shape = np.broadcast_shapes(*(f.value.shape for f in factors), *(() if mask is None else (mask.shape,)))
    shape = tuple(sizes.get(a, size) for a, size in zip(axes, shape, strict=True))
    dims = tuple(k for k, a in enumerate(axes) if a in sizes)
    kept = tuple(a for a in axes if a not in sizes)
    cut = max((k for k in range(len(axes)) if k not in dims), key=lambda k: shape[k], default=None)
    if cut is None:
        numbers = [_summed(factors, mask, shape, dims, dtype)]
    else:
        step = max(PRODUCTS * shape[cut] // max(math.prod(shape), 1), 1)
        parts = [(cut, slice(k, k + step), shape[cut]) for k in range(0, shape[cut], step)]
        numbers = [_summed(factors, mask, shape, dims, dtype, part) for part in parts]
    along = 0 if cut is None else kept.index(axes[cut])
    value, bound = (_joined([part(n) for n in numbers], along) for part in (_value, _bound))
    total = Term(axes=kept, number=Approx(value=value, bound=bound))
    if init is None:
        return total
    axes = union(kept, init.axes)
    parts_of_sum = spread(init, axes), spread(total, axes)
    number = elementwise(Op.ADD, parts_of_sum, dtype, dtype, STRICT)
    if dtype.is_float:
        number = started_from(parts_of_sum[0], math.prod(sizes.values()), number, dtype)
    return Term(axes=axes, number=number)


def _summed(
    factors: tuple[Approx, Approx],
    mask: Array | None,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    dtype: DType,
    part: tuple[int, slice, int] | None = None,
) -> Approx:
    a, b = (Approx(value=_part(f.value, part), bound=_part(f.bound, part)) for f in factors)
    here = list(shape)
    if part is not None:
        here[part[0]] = len(range(*part[1].indices(part[2])))
    product = elementwise(Op.MUL, (a, b), dtype, dtype, STRICT)
    body = Approx(value=np.broadcast_to(product.value, here), bound=product.bound)
    return reduce(ReduceOp.SUM, body, dims, dtype, None if mask is None else _part(mask, part), None)


def _part(array: Array, part: tuple[int, slice, int] | None) -> Array:
    if part is None or array.shape[part[0]] == 1:
        return array
    return array[(slice(None),) * part[0] + (part[1],)]


def _value(number: Approx) -> Array:
    return number.value


def _bound(number: Approx) -> Array:
    return np.broadcast_to(number.bound, number.value.shape)


def _joined(arrays: list[Array], along: int) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=along)
