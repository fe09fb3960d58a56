"""Sums of products: at.dot by NumPy's matmul rules, at.einsum pairwise from left to right.
Must not know syntax or loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from autotune.errors import MismatchedExtents, WrongArguments, WrongType
from autotune.ir.program import Contraction, Elementwise, Reduce
from autotune.ir.types import REASSOCIATING, STRICT, DType, Op, ReduceOp
from autotune.language.arithmetic import common_dtype, typed
from autotune.language.broadcasting import broadcast, check_alike
from autotune.language.context import Context
from autotune.language.operands import Array, IndexTerm, Literal, Numeric, Positions
from autotune.language.reductions import accumulator_of, reduce, reduced_axes

DOT_USAGE = "at.dot(a, b) of values with at least one position each"
EINSUM_USAGE = "at.einsum('ij,jk->ik', a, b): one letter a position, '->' before those of the result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A value whose positions have labels; a label names one direction in every factor and in the result."""

    value: Array | IndexTerm
    labels: tuple[str, ...]


def dot(context: Context, left: Numeric, right: Numeric) -> Array:
    """The matrix product by NumPy's rules: vectors and matrices, positions before the last two are batches.

    Raises: WrongArguments, WrongType, MismatchedExtents, TileMismatch, ProgramTileReduction.
    """
    if isinstance(left, Literal) or isinstance(right, Literal) or not (left.positions and right.positions):
        problem = "a single number has no position to contract"
        raise WrongArguments(context.place, name="at.dot", problem=problem, usage=f"x * y, or {DOT_USAGE}")
    a = ("k",) if len(left.positions) == 1 else (*_batches(left), "m", "k")
    b = ("k",) if len(right.positions) == 1 else (*_batches(right), "k", "n")
    batch = max(a[:-2], b[:-2], key=len)
    out = (*batch, *(label for label in ("m", "n") if label in (*a, *b)))
    return _product(context, "at.dot", Factor(value=left, labels=a), Factor(value=right, labels=b), out)


def _batches(operand: Array | IndexTerm) -> tuple[str, ...]:
    """Labels of the batch positions, numbered from the right as broadcasting counts them."""
    return tuple(f"batch {k}" for k in range(len(operand.positions) - 2, 0, -1))


def einsum(context: Context, subscripts: str, operands: Sequence[Numeric]) -> Array:
    """The sum of products that `subscripts` names; of three and more factors the leftmost two are taken first.

    Raises: WrongArguments, WrongType, MismatchedExtents, TileMismatch, ProgramTileReduction.
    """
    factors, out = _parsed(context, subscripts, operands)
    for k, factor in enumerate(factors):
        others = {label for other in (*factors[:k], *factors[k + 1 :]) for label in other.labels}
        factors[k] = _summed(context, factor, others | set(out))
    result = factors[0]
    for k, factor in enumerate(factors[1:], 1):
        later = {label for other in factors[k + 1 :] for label in other.labels} | set(out)
        known = dict.fromkeys((*result.labels, *factor.labels))
        kept = out if k == len(factors) - 1 else tuple(label for label in known if label in later)
        result = Factor(value=_product(context, "at.einsum", result, factor, kept), labels=kept)
    assert isinstance(result.value, Array)
    return result.value


def _summed(context: Context, factor: Factor, needed: set[str]) -> Factor:
    """A factor summed over the labels that it alone has."""
    own = tuple(k for k, label in enumerate(factor.labels) if label not in needed)
    if not own:
        return factor
    value = reduce(context, ReduceOp.SUM, factor.value, axis=own, ordered=False, init=None)
    return Factor(value=value, labels=tuple(label for label in factor.labels if label in needed))


def _parsed(context: Context, subscripts: str, operands: Sequence[Numeric]) -> tuple[list[Factor], tuple[str, ...]]:
    def refuse(problem: str) -> NoReturn:
        raise WrongArguments(context.place, name="at.einsum", problem=problem, usage=EINSUM_USAGE)

    text = subscripts.replace(" ", "")
    if "." in text:
        refuse("an ellipsis stands for positions that are not named; name each by a letter")
    inputs, arrow, result = text.partition("->")
    terms = inputs.split(",")
    if any(c not in ",->" and not (c.isascii() and c.isalpha()) for c in text) or "," in result or "->" in result:
        refuse(f"{subscripts!r} has signs other than letters, commas and one '->'")
    if len(operands) < 2:
        refuse("it takes two factors or more; at.sum and .T do what one factor could")
    if len(terms) != len(operands):
        refuse(f"{subscripts!r} names {len(terms)} factors, {len(operands)} are given")
    factors = []
    for term, operand in zip(terms, operands, strict=True):
        rank = 0 if isinstance(operand, Literal) else len(operand.positions)
        if len(set(term)) != len(term):
            refuse(f"a letter stands twice in {term!r}, which would be a diagonal")
        if rank != len(term):
            refuse(f"{term!r} names {len(term)} positions of a value that has {rank}")
        value = typed(context, operand, common_dtype(context, operands)) if isinstance(operand, Literal) else operand
        factors.append(Factor(value=value, labels=tuple(term)))
    if not arrow:
        result = "".join(sorted(c for c in set(inputs) - {","} if inputs.count(c) == 1))
    if len(set(result)) != len(result):
        refuse(f"a letter stands twice in the result {result!r}")
    if set(result) - set(inputs):
        refuse(f"no factor has the letter {min(set(result) - set(inputs))!r} of the result")
    return factors, tuple(result)


def _product(context: Context, function: str, left: Factor, right: Factor, out: tuple[str, ...]) -> Array:
    """The product of two factors on the labels `out`, summed over the other labels, which both have."""
    contracted = tuple(label for label in left.labels if label in right.labels and label not in out)
    dtype = _accumulator(context, function, left.value, right.value)
    _check_contracted(context, left, right, contracted)
    layout = (*out, *contracted)
    (a, b), positions = broadcast(context, (_spread(left, layout), _spread(right, layout)))
    a, b = typed(context, a, dtype), typed(context, b, dtype)
    body = context.draft.emit(Elementwise(op=Op.MUL, args=(a.value, b.value)), dtype, positions)
    chosen = frozenset(range(len(out), len(layout)))
    axes = reduced_axes(context, function, body, context.draft.resolve(positions), chosen)
    if not axes:
        return replace(body, positions=positions[: len(out)])
    strict = context.draft.strict
    value = Reduce(
        op=ReduceOp.SUM,
        body=body.value,
        axes=axes if strict else tuple(sorted(axes)),
        ordered=strict,
        math=STRICT if strict else REASSOCIATING,
        contraction=Contraction(
            lhs=a.value, rhs=b.value, batch=(), m=(), n=(), k=tuple(sorted(axes)), accumulator=dtype
        ),  # the parts of the other axes follow once axes are settled
    )
    return context.draft.emit(value, dtype, positions[: len(out)])


def _accumulator(context: Context, function: str, left: Numeric, right: Numeric) -> DType:
    dtype = common_dtype(context, (left, right))
    if dtype is DType.BOOL:
        instead = "write at.any(a & b, axis=...), or at.cast(a, at.f32)"
        raise WrongType(context.place, operation=function, found="truth values", instead=instead)
    return accumulator_of(dtype)


def _spread(factor: Factor, layout: tuple[str, ...]) -> Array | IndexTerm:
    """A factor with one position a label of `layout`, extent 1 where it lacks the label."""
    found = dict(zip(factor.labels, factor.value.positions, strict=True))
    positions: Positions = tuple(found.get(label) for label in layout)
    return replace(factor.value, positions=positions)


def _check_contracted(context: Context, left: Factor, right: Factor, contracted: tuple[str, ...]) -> None:
    """Contracted positions have equal extents; 1 is no exception.

    Raises: MismatchedExtents, TileMismatch.
    """
    a, b = context.positions(left.value), context.positions(right.value)
    for label in contracted:
        place = left.labels.index(label)
        mine, theirs = a[place], b[right.labels.index(label)]
        if mine is not None and theirs is not None:
            check_alike(context, mine, theirs, place)
        elif mine is not theirs:
            words = [1 if p is None else context.axis_text(p) for p in (mine, theirs)]
            raise MismatchedExtents(context.place, left=words[0], right=words[1], position=place)
