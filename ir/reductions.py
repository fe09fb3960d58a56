"""Meaning of every reduction on float64 arrays, with a rounding error bound that holds in any order of evaluation.
Must not know programs, axes or loops."""

from __future__ import annotations

import math

import numpy as np

from autotune.ir.bounds import INTEGER_TYPES, LARGEST, SMALLEST_NORMAL, Approx, Array, roundoff, settle
from autotune.ir.types import DType, ReduceOp


def reduce(
    op: ReduceOp, body: Approx, dims: tuple[int, ...], dtype: DType, valid: Array | None, init: Approx | None
) -> Approx:
    """Reduction over array dimensions `dims`, which disappear; entries that are not `valid` do not exist.

    `body` has its full size along `dims`. The order of evaluation is left open: the bound covers all of them.
    """
    neutral = identity(op, dtype)
    value, bound = body.value, np.broadcast_to(body.bound, body.value.shape)
    if valid is not None:
        value, bound = np.where(valid, value, neutral), np.where(valid, bound, 0.0)
    match op:
        case ReduceOp.SUM | ReduceOp.PROD:
            terms = math.prod(value.shape[d] for d in dims) + (init is not None)
            result = _accumulate(op, value, bound, dims, dtype, terms, init)
        case ReduceOp.MAX | ReduceOp.MIN:
            pick = np.fmax if op is ReduceOp.MAX else np.fmin
            result = Approx(
                value=pick.reduce(value, axis=dims, initial=neutral), bound=np.max(bound, axis=dims, initial=0.0)
            )
            if init is not None:
                result = Approx(value=pick(result.value, init.value), bound=np.maximum(result.bound, init.bound))
        case ReduceOp.ANY | ReduceOp.ALL:
            result = _quantify(op, value, bound, dims, init)
        case ReduceOp.ARGMAX:
            raise AssertionError("argmax needs coordinates and is evaluated by argmax()")
    return result


def argmax(body: Approx, dim: int, coordinates: Array, valid: Array | None) -> Approx:
    """Coordinate of the largest value along `dim`, the lowest among equals; NaN is never the largest.

    The bound is the distance to the farthest coordinate whose value could be the largest.
    """
    lowest = -np.inf if body.value.dtype.kind == "f" else identity(ReduceOp.MAX, _integer_type(body.value))
    value, bound = body.value, np.broadcast_to(body.bound, body.value.shape)
    value = np.where(np.isnan(value), lowest, value) if value.dtype.kind == "f" else value
    if valid is not None:
        value, bound = np.where(valid, value, lowest), np.where(valid, bound, 0.0)
    position = np.expand_dims(np.argmax(value, axis=dim), dim)
    best = np.take_along_axis(value, position, axis=dim)
    rivals = (bound > 0) | (np.take_along_axis(bound, position, axis=dim) > 0)
    rivals &= value + bound >= best - np.take_along_axis(bound, position, axis=dim)
    shape = [1] * value.ndim
    shape[dim] = coordinates.size
    along = coordinates.reshape(shape)
    chosen = coordinates[position]
    spread = np.where(rivals, np.abs(along - chosen), 0).max(axis=dim)
    return Approx(value=np.squeeze(chosen, axis=dim).astype(np.int64), bound=spread.astype(np.float64))


def started_from(start: Approx, terms: int, total: Approx, dtype: DType) -> Approx:
    """`total` = start + a sum of `terms` terms, where a kernel may also have started the sum's accumulators there."""
    bound = total.bound + gamma(terms, dtype) * (np.abs(start.value) + start.bound)
    return settle(total.value, bound, dtype, (total.bound,))


def gamma(steps: int, dtype: DType) -> float:
    """Relative error of `steps` roundings, one after another."""
    error = steps * roundoff(dtype)
    return error / (1.0 - error) if error < 1.0 else math.inf


def identity(op: ReduceOp, dtype: DType) -> float | int | bool:
    """The neutral element of a reduction: what a reduction over nothing gives."""
    info = np.iinfo(INTEGER_TYPES[dtype]) if dtype.is_integer else None
    match op:
        case ReduceOp.SUM:
            return 0
        case ReduceOp.PROD:
            return 1
        case ReduceOp.MAX | ReduceOp.ARGMAX:
            return info.min if info else (False if dtype is DType.BOOL else -math.inf)
        case ReduceOp.MIN:
            return info.max if info else (True if dtype is DType.BOOL else math.inf)
        case ReduceOp.ANY:
            return False
        case ReduceOp.ALL:
            return True


def _accumulate(
    op: ReduceOp,
    value: Array,
    bound: Array,
    dims: tuple[int, ...],
    dtype: DType,
    terms: int,
    init: Approx | None,
) -> Approx:
    """Sum or product of `terms` terms in any order."""
    combine = np.add if op is ReduceOp.SUM else np.multiply
    native = np.float64 if dtype.is_float else INTEGER_TYPES[dtype]
    result = combine.reduce(value, axis=dims, dtype=native)
    sizes = combine.reduce(np.abs(value.astype(np.float64)) + bound, axis=dims)
    if op is ReduceOp.SUM:
        error = np.add.reduce(bound, axis=dims)
    if init is not None:
        result = combine(result, init.value)
        sizes = combine(sizes, np.abs(init.value.astype(np.float64)) + init.bound)
        error = error + init.bound if op is ReduceOp.SUM else sizes
    if op is ReduceOp.PROD:
        error = np.maximum(sizes - np.abs(result), 0.0)
    if not dtype.is_float:
        return Approx(value=np.asarray(result), bound=error if bound.any() else np.zeros(np.shape(result)))
    total = np.where(sizes > 0, error + gamma(max(terms - 1, 0), dtype) * sizes, error)
    largest_part = sizes
    if op is ReduceOp.PROD:
        largest_part, lost = _partial_products(value, bound, dims, dtype)
        total = total + lost
    risky = (largest_part > LARGEST[dtype]) & (np.abs(result) <= LARGEST[dtype])  # some orders overflow on the way
    unknown = np.where(np.isinf(bound).any(axis=dims), np.inf, 0.0)
    return settle(np.asarray(result), np.where(risky, np.inf, total), dtype, (unknown,))


def _partial_products(value: Array, bound: Array, dims: tuple[int, ...], dtype: DType) -> tuple[Array, Array]:
    """The largest product of some of the factors, and what an order that underflows on the way may lose."""
    size = np.abs(value)
    growing = np.multiply.reduce(np.maximum(size + bound, 1.0), axis=dims)
    shrinking = np.multiply.reduce(np.where(size > 0, np.minimum(size, 1.0), 1.0), axis=dims)
    tiny = SMALLEST_NORMAL[dtype]
    return growing, np.where(shrinking < tiny, tiny * growing, 0.0)


def _quantify(op: ReduceOp, value: Array, bound: Array, dims: tuple[int, ...], init: Approx | None) -> Approx:
    """any / all; the answer is open where no certain entry decides it and an open one could."""
    decisive = op is ReduceOp.ANY
    value = value.astype(np.bool_)
    answer = value.any(axis=dims) if decisive else value.all(axis=dims)
    settled = ((value == decisive) & (bound == 0)).any(axis=dims)
    open_ = (bound > 0).any(axis=dims)
    if init is not None:
        answer = answer | init.value if decisive else answer & init.value
        settled, open_ = settled | ((init.value == decisive) & (init.bound == 0)), open_ | (init.bound > 0)
    return Approx(value=np.asarray(answer), bound=np.asarray(open_ & ~settled, dtype=np.float64))


def _integer_type(value: Array) -> DType:
    if value.dtype == np.bool_:
        return DType.BOOL
    return next(dtype for dtype, kind in INTEGER_TYPES.items() if value.dtype == kind)
