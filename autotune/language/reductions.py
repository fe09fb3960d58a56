"""Reductions: which axes, which type, which start.
Must not know syntax or loops."""

from __future__ import annotations

from typing import NoReturn

from autotune.errors import BadAxis, ProgramTileReduction, WrongArguments
from autotune.ir.program import AxisKind, Number, Reduce
from autotune.ir.types import REASSOCIATING, STRICT, DType, Op, ReduceOp
from autotune.language.arithmetic import as_array, binary, common_dtype, typed
from autotune.language.broadcasting import onto
from autotune.language.context import Context
from autotune.language.operands import Array, Literal, Numeric

_LOGICAL = frozenset({ReduceOp.ANY, ReduceOp.ALL})
_ROUNDING = frozenset({ReduceOp.SUM, ReduceOp.PROD})


def reduce(
    context: Context,
    op: ReduceOp,
    operand: Numeric,
    *,
    axis: tuple[int, ...] | None,
    ordered: bool,
    init: Numeric | None,
) -> Array:
    """`operand` reduced over the positions `axis`, over all of them where it is None.

    Raises: BadAxis, ProgramTileReduction, WrongArguments.
    """
    body, dtype = _body(context, op, operand)
    positions = context.draft.resolve(body.positions)
    chosen = _chosen(context, op, positions, axis)
    axes = reduced_axes(context, f"at.{op.value}", body, positions, chosen)
    kept = tuple(p for k, p in enumerate(positions) if k not in chosen)
    start = None if init is None else onto(context, typed(context, init, dtype), kept, "of init=").value
    ordered = ordered or (context.draft.strict and op in _ROUNDING)
    if not axes and op is ReduceOp.ARGMAX:
        return context.constant(0, DType.I64, kept)
    if not axes and init is None:
        return Array(value=body.value, dtype=dtype, positions=kept)
    value = Reduce(
        op=op,
        body=body.value,
        axes=axes if ordered or op is ReduceOp.ARGMAX else tuple(sorted(axes)),
        init=start,
        ordered=ordered,
        math=REASSOCIATING if op in _ROUNDING and not ordered else STRICT,
    )
    return context.draft.emit(value, dtype, kept)


def _body(context: Context, op: ReduceOp, operand: Numeric) -> tuple[Array, DType]:
    """What is reduced, in the type it accumulates in, and the type of the result."""
    dtype = common_dtype(context, (operand,))
    if op in _LOGICAL:
        truth = operand if dtype is DType.BOOL else binary(context, Op.NE, operand, Literal(value=0))
        return typed(context, truth, DType.BOOL), DType.BOOL
    if op is ReduceOp.ARGMAX:
        return as_array(context, operand), DType.I64
    if op in _ROUNDING:
        dtype = DType.I64 if dtype is DType.BOOL else accumulator_of(dtype)
    return typed(context, operand, dtype), dtype


def accumulator_of(dtype: DType) -> DType:
    """The type in which numbers of a type are summed."""
    return {DType.F16: DType.F32, DType.BF16: DType.F32, DType.I8: DType.I32}.get(dtype, dtype)


def _chosen(
    context: Context, op: ReduceOp, positions: tuple[int | None, ...], axis: tuple[int, ...] | None
) -> frozenset[int]:
    """Position numbers to reduce over."""
    rank = len(positions)
    if axis is None:
        if op is ReduceOp.ARGMAX and rank != 1:
            usage = "at.argmax(x, axis=k) for a value with several positions"
            problem = f"the value has {rank} positions and no axis= is given"
            raise WrongArguments(context.place, name="at.argmax", problem=problem, usage=usage)
        axis = tuple(range(rank))
        if rank == 0:
            _refuse(context, f"at.{op.value}", "None", "it is a single number", "write the number itself")
    if op is ReduceOp.ARGMAX and len(axis) != 1:
        usage = "at.argmax(x, axis=k) with one axis"
        raise WrongArguments(context.place, name="at.argmax", problem="it takes one axis", usage=usage)
    for k in axis:
        if not -rank <= k < rank:
            _refuse(
                context,
                f"at.{op.value}",
                k,
                f"it has the positions {context.shape_text(positions)}",
                f"expected axis from {-rank} to {rank - 1}" if rank else "write the number itself",
            )
    return frozenset(k % rank for k in axis)


def reduced_axes(
    context: Context, function: str, body: Array, positions: tuple[int | None, ...], chosen: frozenset[int]
) -> tuple[int, ...]:
    """Axes of the positions `chosen` of a value that `function` reduces; positions of extent 1 have none.

    Raises: ProgramTileReduction, BadAxis where the value is the same all along an axis.
    """
    depends = context.draft.depends(body.value)
    axes: list[int] = []
    for k in sorted(chosen):
        axis = positions[k]
        if axis is None:
            continue
        this = context.draft.axis(axis)
        if this.kind is AxisKind.PROGRAM_TILE:
            extent = context.text(this.extent)
            raise ProgramTileReduction(context.place, function=function, name=this.name, extent=extent)
        if axis not in depends:
            reason = f"it is the same all along {context.axis_text(axis)}"
            _refuse(context, function, k, reason, "reduce before broadcasting, or multiply by the extent")
        axes.append(axis)
    return tuple(axes)


def _refuse(context: Context, function: str, axis: Number | str, reason: str, instead: str) -> NoReturn:
    raise BadAxis(context.place, function=function, axis=axis, reason=reason, instead=instead)
