"""Byte offsets of a packet's private buffers in one workspace, by the planner a candidate names.
Must not know targets, nor whether a placement is right: `placement.py` checks that on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from autotune.ir.buffer import Body, Buffer, Planner, StorageClass
from autotune.ir.errors import NoFitFound
from autotune.ir.lifetimes import Lifetime, Timeline, timeline
from autotune.ir.packing import (
    Demand,
    Offsets,
    aligned,
    first_fit_offsets,
    linear_offsets,
    packed_offsets,
    peak,
)
from autotune.ir.program import Program


def place(
    program: Program, body: Body, planner: Planner, capacity_bytes: int | None = None
) -> tuple[tuple[Buffer, ...], int]:
    """The buffers of a body with their places, and the workspace bytes that they take.

    Before: offsets of workspace buffers are meaningless.
    After: they are multiples of 64 bytes, and buffers needed at the same time share no byte; LLVM places every one of
    them in the entry's stack frame instead. Register and stack buffers are left as they are and take no space.
    Raises: NoFitFound where the placement found is larger than `capacity_bytes`.
    Source: mechanisms.md rows 48 and 65.
    """
    if planner is Planner.LLVM:
        return tuple(_on_stack(buffer) for buffer in body.buffers), 0
    if planner is Planner.LINEAR and capacity_bytes is None:
        return linear(body.buffers)  # looks at no lifetimes
    chosen = [buffer for buffer in body.buffers if buffer.storage is StorageClass.WORKSPACE]
    demands = demands_of(chosen, timeline(program, body))
    offsets = _offsets(demands, planner)
    used = peak(demands, offsets)
    if capacity_bytes is not None and used > capacity_bytes:
        raise NoFitFound(planner=planner.value, needed_bytes=used, capacity_bytes=capacity_bytes)
    at = dict(zip((buffer.id for buffer in chosen), offsets, strict=True))
    return tuple(replace(b, offset_bytes=at[b.id]) if b.id in at else b for b in body.buffers), used


def linear(buffers: Sequence[Buffer]) -> tuple[tuple[Buffer, ...], int]:
    """Workspace buffers one after the other, each aligned and staggered within its page; also the bytes used."""
    sizes = [Demand(size_bytes=aligned(b.size_bytes)) for b in buffers if b.storage is StorageClass.WORKSPACE]
    offsets = linear_offsets(sizes)
    left = iter(offsets)
    placed = (replace(b, offset_bytes=next(left)) if b.storage is StorageClass.WORKSPACE else b for b in buffers)
    return tuple(placed), peak(sizes, offsets)


def demands_of(buffers: Sequence[Buffer], times: Timeline) -> tuple[Demand, ...]:
    """What each of the given buffers asks of a placement, the others named by their place in the list."""
    number = {buffer.id: n for n, buffer in enumerate(buffers)}
    lives = {life.buffer: life for life in times.lifetimes}
    touched, read_with = _neighbours(times)

    def numbers(ids: set[int]) -> frozenset[int]:
        return frozenset(number[b] for b in ids if b in number)

    def demand(buffer: Buffer) -> Demand:
        life = lives.get(buffer.id)
        return Demand(
            size_bytes=aligned(buffer.size_bytes),
            first_use=life.first if life else 0,
            uses=life.last - life.first + 1 if life else 0,
            conflicts=numbers({other for other, their in lives.items() if _apart(buffer.id, life, their)}),
            touched=numbers(touched.get(buffer.id, set()) - {buffer.id}),
            read_with=numbers(read_with.get(buffer.id, set()) - {buffer.id}),
        )

    return tuple(demand(buffer) for buffer in buffers)


def _apart(buffer: int, life: Lifetime | None, other: Lifetime) -> bool:
    return life is not None and other.buffer != buffer and life.overlaps(other)


def _neighbours(times: Timeline) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """For each buffer those that a nest right before or after touches, and those read by nests that write it."""
    touched: dict[int, set[int]] = {}
    read_with: dict[int, set[int]] = {}
    used = [access.buffers_read | access.writes for access in times.accesses]
    for earlier, later in times.follows:
        for buffer in used[earlier]:
            touched.setdefault(buffer, set()).update(used[later])
        for buffer in used[later]:
            touched.setdefault(buffer, set()).update(used[earlier])
    for access in times.accesses:
        for buffer in access.writes:
            read_with.setdefault(buffer, set()).update(access.buffers_read)
    return touched, read_with


def _offsets(demands: Sequence[Demand], planner: Planner) -> Offsets:
    match planner:
        case Planner.LINEAR:
            return linear_offsets(demands)
        case Planner.FIRST_FIT:
            return first_fit_offsets(demands)
        case Planner.PACKED:
            return packed_offsets(demands)
        case Planner.LLVM:
            raise AssertionError("LLVM finds no offsets")
        case _:
            assert_never(planner)


def _on_stack(buffer: Buffer) -> Buffer:
    if buffer.storage is StorageClass.WORKSPACE:
        return replace(buffer, storage=StorageClass.STACK, offset_bytes=0)
    return buffer
