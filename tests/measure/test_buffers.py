"""Arenas, guard bands, fenced pages and shared objects."""

from __future__ import annotations

import mmap
import os
import signal
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from autotune.ir.affine import Affine
from autotune.ir.program import Program, Tensor
from autotune.ir.serial import from_json, to_json
from autotune.ir.types import DType
from autotune.measure.bench import fill_slot, gaps_intact
from autotune.measure.buffers import (
    ALIGNMENT_BYTES,
    GUARD_BYTES,
    NAN_POISON,
    Arena,
    Edge,
    FencedBuffer,
    Layout,
    SharedObject,
    Workspace,
    plan_layout,
)
from autotune.measure.cases import Case
from autotune.measure.inputs import InputKind


def tensors(*parameters: Tensor) -> Program:
    return Program(name="p", dims=(), parameters=parameters, axes=(), parallel=(), body=())


def tensor(name: str, dtype: DType, *shape: int, strides: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=tuple(Affine(constant=n) for n in shape), strides=strides)


@pytest.fixture
def layout() -> Layout:
    return plan_layout(tensors(tensor("a", DType.F32, 3, 5), tensor("b", DType.BOOL, 7), tensor("c", DType.F64, 2)))


def test_every_tensor_is_aligned_and_guarded_on_both_sides(layout: Layout) -> None:
    end = 0
    for slot in layout.slots:
        assert slot.offset_bytes % ALIGNMENT_BYTES == 0
        assert slot.offset_bytes - end >= GUARD_BYTES
        end = slot.offset_bytes + slot.size_bytes
    assert layout.size_bytes - end >= GUARD_BYTES
    assert layout.data_bytes == 60 + 7 + 16
    assert from_json(Layout, to_json(layout)) == layout


def test_an_arena_starts_on_a_huge_page_with_guards_intact(layout: Layout) -> None:
    arena = Arena(layout)
    assert arena.memory.ctypes.data % (2 << 20) == 0
    for slot in layout.slots:
        arena.tensor(slot)[...] = 1
        assert arena.tensor(slot).ctypes.data == arena.address(slot)
    assert arena.broken_guard() is None


@pytest.mark.parametrize(
    ("slot", "offset", "place"),
    [
        (0, -1, "guard before a"),
        (0, 60, "guard after a"),
        (1, -1, "guard before b"),
        (2, 16, "guard after c"),
        (2, 16 + GUARD_BYTES - 1, "guard after c"),
    ],
)
def test_one_byte_beside_a_tensor_is_noticed_and_named(layout: Layout, slot: int, offset: int, place: str) -> None:
    arena = Arena(layout)
    arena.memory[layout.slots[slot].offset_bytes + offset] = 0
    assert arena.broken_guard() == place
    arena.heal()
    assert arena.broken_guard() is None


def test_a_workspace_is_poisoned_guarded_and_grows() -> None:
    workspace = Workspace()
    small = workspace.prepare(100, NAN_POISON)
    assert small % ALIGNMENT_BYTES == 0 and workspace.broken_guard() is None
    large = workspace.prepare(5 << 20, NAN_POISON)
    assert large % ALIGNMENT_BYTES == 0 and workspace.broken_guard() is None


def strided() -> tuple[Layout, Case]:
    layout = plan_layout(tensors(tensor("x", DType.F32, 2, 3, strides=(5, 1))))
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected: Any = None
    return layout, Case(kind=InputKind.NORMAL, arguments={"x": data}, expected=expected, untouched={})


def test_the_gaps_of_a_strided_tensor_are_poisoned_and_watched() -> None:
    layout, case = strided()
    (slot,) = layout.slots
    assert slot.size_bytes == 8 * 4
    arena = Arena(layout)
    fill_slot(arena.raw(slot), slot, case, NAN_POISON)
    assert np.array_equal(arena.tensor(slot), case.arguments["x"])
    assert gaps_intact(arena.raw(slot), slot, NAN_POISON)
    arena.raw(slot)[4 * 4] = 0
    assert not gaps_intact(arena.raw(slot), slot, NAN_POISON)


@pytest.mark.parametrize(("edge", "offset"), [(Edge.END, 1000), (Edge.START, -1)])
def test_a_fenced_buffer_faults_one_byte_past_its_edge(edge: Edge, offset: int) -> None:
    buffer = FencedBuffer(1000, 4, edge)
    buffer.raw[:] = 7
    touched = buffer.address + offset
    if edge is Edge.END:
        assert (buffer.address + 1000) % mmap.PAGESIZE == 0
    else:
        assert buffer.address % mmap.PAGESIZE == 0
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * 1).from_address(touched))[0] = 1
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV
    buffer.close()


@dataclass(frozen=True)
class Pair:
    name: str
    array: Any


def test_a_shared_object_comes_back_with_read_only_arrays() -> None:
    original = [Pair(name="a", array=np.arange(5000.0)), Pair(name="b", array=np.zeros((0, 3), np.float32))]
    shared = SharedObject.store(original)
    a, b = shared.load()
    shared.close()
    assert a.name == "a" and np.array_equal(a.array, np.arange(5000.0))
    assert b.array.shape == (0, 3)
    with pytest.raises(ValueError, match="read-only"):
        a.array[0] = 1
    assert a.array.ctypes.data % ALIGNMENT_BYTES == 0


def test_a_lesser_alignment_moves_every_tensor_off_the_start_of_a_line() -> None:
    program = tensors(tensor("a", DType.F32, 3, 5), tensor("b", DType.BOOL, 7), tensor("c", DType.F64, 2))
    layout = plan_layout(program, alignment_bytes=16)
    arena = Arena(layout)
    assert [arena.address(slot) % ALIGNMENT_BYTES for slot in layout.slots] == [16, 16, 16]
    assert arena.broken_guard() is None
