"""Values at points: index arithmetic with signs, dead lanes that divide by one, memory that is never touched."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import jit
from autotune.ir.affine import Affine, coord
from autotune.ir.types import DType
from autotune.realizations.builder import Vector
from autotune.realizations.count import CountingBuilder
from autotune.realizations.index_lanes import IndexWriter
from autotune.realizations.llvm import LlvmBuilder
from autotune.realizations.memo import Memo
from autotune.realizations.memory_access import transpose
from autotune.realizations.points import AxisPoint, Span, lanes_at
from autotune.realizations.ranges import Ranges
from autotune.realizations.tensor_access import contiguous_axis, flatten, may_meet, prepare
from tests.realizations import cases, execute

TARGET = jit.host_target("avx2")


def test_memo_forgets_scope_by_scope() -> None:
    memo = Memo()
    memo.keep("outer", 1)
    memo.push()
    memo.keep("inner", 2)
    assert (memo.find("outer"), memo.find("inner")) == (1, 2)
    memo.pop()
    assert (memo.find("outer"), memo.find("inner")) == (1, None)


def test_lanes_of_axes_that_a_point_lacks_do_not_count() -> None:
    iv = Vector(DType.I64, 1, None)
    point = {1: AxisPoint(start=None, iv=iv, offset=0, lanes=8)}
    assert lanes_at(point, (0, 1)) == 8
    assert lanes_at(point, (0,)) == 1


@pytest.mark.parametrize("lanes", [1, 8])
def test_division_of_negative_indices_floors(lanes: int) -> None:
    """Coordinates minus ten, over three and modulo four, as Python has them: one number and a lane each."""
    program = cases.bound("shifted", (5, 65))
    expressions = [(coord(1) - 10) // Affine(constant=3), (coord(1) - 10) % Affine(constant=4)]
    out = np.zeros((2, 64), np.int64)

    def kernel(b: LlvmBuilder) -> None:
        base = b.argument_pointer(0, DType.I64)
        writer = IndexWriter(b, Ranges(program), Memo(), {1: Span(None, 65)})
        for row, expression in enumerate(expressions):
            for start in range(0, 64, lanes):
                point = {1: AxisPoint(start=None, iv=b.index(start), offset=0, lanes=lanes)}
                b.store(base, b.index(64 * row + start), writer.lanes(expression, point, DType.I64))

    execute.run(kernel, TARGET, out)
    k = np.arange(64) - 10
    assert np.array_equal(out, [k // 3, k % 4])


def test_uniform_division_of_plain_indices_is_one_step() -> None:
    """A numerator that is never negative needs no sign correction."""
    program = cases.bound("shifted", (5, 65))
    builder = CountingBuilder(TARGET)
    writer = IndexWriter(builder, Ranges(program), Memo(), {})
    point = {1: AxisPoint(start=None, iv=builder.first, offset=0)}
    before = builder.instructions
    writer.uniform(coord(1) // Affine(constant=3), point)
    plain = builder.instructions - before
    writer.uniform((coord(1) - 10) // Affine(constant=3), point)
    assert plain < builder.instructions - before - plain


def test_transposition() -> None:
    x = execute.aligned(64, np.float32)
    x[:] = np.arange(64)
    y = execute.aligned(64, np.float32)

    def kernel(b: LlvmBuilder) -> None:
        source, target = b.argument_pointer(0, DType.F32), b.argument_pointer(1, DType.F32)
        rows = [b.load(source, b.index(8 * k), 8) for k in range(8)]
        for k, column in enumerate(transpose(b, rows)):
            b.store(target, b.index(8 * k), column)

    execute.run(kernel, TARGET, x, y)
    assert np.array_equal(y.reshape(8, 8), x.reshape(8, 8).T)


def test_accesses_are_taken_apart() -> None:
    program = cases.bound("shifted", (5, 17))
    ranges, tensor = Ranges(program), program.tensor(0)
    access = prepare(tensor, (coord(0), coord(1) + 1), ranges)
    assert access.coefficients == ((0, 17), (1, 1)) and access.flat.constant == 1 and access.simple
    assert [position for position, _ in access.unproven] == [1]
    assert not prepare(tensor, (coord(0), coord(1)), ranges).unproven
    assert contiguous_axis(flatten(tensor, (coord(0), coord(1)))) == 1
    assert contiguous_axis(flatten(tensor, (coord(0), coord(1).scaled(2)))) is None


def test_stores_that_cannot_meet() -> None:
    program = cases.bound("shifted", (5, 17))
    ranges, even = Ranges(program), coord(1).scaled(2)
    assert not may_meet((coord(0), even), (coord(0), even + 1), ranges)
    assert not may_meet((coord(1),), (coord(1) + 17,), ranges)
    assert may_meet((coord(1),), (coord(1) + 16,), ranges)
    assert may_meet((coord(0), coord(1)), (coord(0), coord(1)), ranges)
