"""How lanes reach memory: contiguous, gathered, or transposed in registers: values and refusals.
Must not know costs or instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from autotune.ir.affine import Affine
from autotune.ir.buffer import StoreTensor, Transfer
from autotune.ir.program import Load
from autotune.ir.types import DType
from autotune.realizations.context import LoadAccess, NestContext
from autotune.realizations.tensor_access import contiguous_axis
from autotune.realizations.verdict import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsTransfer(Refusal):
    rule: ClassVar[str] = "needs-transfer"
    what: str
    stride: int | None

    @property
    def sentence(self) -> str:
        stride = "no constant stride" if self.stride is None else f"a stride of {self.stride} elements"
        return f"{self.what} has {stride} across the lanes; a transfer (gather or transpose) has to be chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferWithoutNeed(Refusal):
    rule: ClassVar[str] = "transfer-without-need"
    what: str
    transfer: str

    @property
    def sentence(self) -> str:
        return f"{self.what} is contiguous or uniform across the lanes, so a {self.transfer} has nothing to do"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeImpossible(Refusal):
    rule: ClassVar[str] = "transpose-impossible"
    what: str
    reason: str

    @property
    def sentence(self) -> str:
        return f"{self.what} cannot be transposed in registers: {self.reason}"


def refuse_nest(context: NestContext) -> Iterator[Refusal]:
    """Every access across the lanes is contiguous, uniform, or has a transfer that can reach it."""
    if context.vector_loop is None and not context.nest.inline:
        return
    chosen = dict(context.nest.transfers)
    by_load: dict[int, list[LoadAccess]] = {}
    for access in context.accesses:
        by_load.setdefault(access.let.id, []).append(access)
    for value, ways in by_load.items():
        needing = [way for way in ways if not _free(context, way.flat, way)]
        for way in needing or ways[:1]:
            yield from _refuse(
                context, f"load %{value}", way.flat, chosen.get(value, Transfer.NONE), way.let.dtype, way
            )
    stores = dict(context.nest.store_transfers)
    for sink in context.nest.sinks:
        if isinstance(sink, StoreTensor):
            flat = context.flat_store(sink.store)
            dtype = context.facts.program.tensor(context.facts.stores[sink.store].tensor).dtype
            transfer = stores.get(sink.store, Transfer.NONE)
            yield from _refuse(context, f"store {sink.store}", flat, transfer, dtype, None)
            if transfer is Transfer.TRANSPOSE and context.facts.stores[sink.store].mask is not None:
                yield TransposeImpossible(what=f"store {sink.store}", reason="it is masked")


def _free(context: NestContext, flat: Affine | None, access: LoadAccess | None) -> bool:
    """Whether lanes are contiguous or all reach one element."""
    within = None if access is None else access.within
    if flat is None:
        loop = context.lanes_at(within)
        return access is not None and (loop is None or loop.axis not in access.axes)
    return context.lane_stride(flat, within) in (0, 1)


def _refuse(
    context: NestContext,
    what: str,
    flat: Affine | None,
    transfer: Transfer,
    dtype: DType,
    access: LoadAccess | None,
) -> Iterator[Refusal]:
    stride = None if flat is None else context.lane_stride(flat, None if access is None else access.within)
    free = _free(context, flat, access)
    if free and transfer is not Transfer.NONE:
        yield TransferWithoutNeed(what=what, transfer=transfer.value)
    elif not free and transfer is Transfer.NONE:
        yield NeedsTransfer(what=what, stride=stride)
    elif not free and transfer is Transfer.TRANSPOSE:
        reason = _transpose_obstacle(context, stride, flat, dtype, access)
        if reason is not None:
            yield TransposeImpossible(what=what, reason=reason)


def _transpose_obstacle(
    context: NestContext, stride: int | None, flat: Affine | None, dtype: DType, access: LoadAccess | None
) -> str | None:
    if access is not None and access.within is not None:
        return "it is read in the loop of a reduction"
    loop = context.vector_loop
    assert loop is not None
    if flat is None or stride is None:
        return "its elements have no constant stride across the lanes"
    column = contiguous_axis(flat, loop.axis)
    columns = None if column is None else context.loop(column)
    if column is None or columns is None:
        return "no axis of the nest is contiguous in memory"
    if dtype is DType.BOOL:
        return "bits have no register transpose"
    fills = all(extent % loop.lanes == 0 for extent in context.extents(column)) and not context.dynamic(column)
    whole = fills and columns.factor % loop.lanes == 0
    if not whole and not context.facts.target.masks(dtype):
        return "its last block is partial and the target cannot mask this type"
    if columns.factor % loop.lanes and columns.factor < min(context.extents(column)):
        return f"{columns.factor} columns are unrolled, not a multiple of {loop.lanes} and not all"
    if context.dynamic(loop.axis) and not context.facts.target.masks(dtype):
        return "a partial packet needs masked rows, which the target lacks for this type"
    if access is not None and access.moved:
        return "it is read along other axes than its own"
    if access is not None and not _stays_inside(context, access.load):
        return "an index may leave the tensor"
    return None


def _stays_inside(context: NestContext, load: Load) -> bool:
    shape = context.facts.program.tensor(load.tensor).shape
    return all(
        isinstance(entry, Affine) and context.facts.ranges.inside(entry, extent.constant)
        for entry, extent in zip(load.index, shape, strict=True)
    )
