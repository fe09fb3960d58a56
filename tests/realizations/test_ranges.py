"""Intervals of integers: what fits 32 bits, which indices stay inside, how long a loop can be."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.ir.affine import Affine, Stop, atom, coord
from autotune.ir.affine import least as smaller
from autotune.ir.program import AxisKind, Elementwise, IndexValue, Reduce
from autotune.ir.types import DType, Op
from autotune.realizations.ranges import Ranges
from tests.realizations import cases


def _ranges(name: str, shape: tuple[int, int]) -> Ranges:
    return Ranges(cases.bound(name, shape))


def test_coordinates_stay_in_their_extents() -> None:
    ranges = _ranges("shifted", (5, 17))
    assert ranges.affine(coord(0)) == (0, 4)
    assert ranges.inside(coord(1), 17)
    assert not ranges.inside(coord(1) + 1, 17)
    assert not ranges.inside(coord(1) - 1, 17)
    assert ranges.inside(coord(1) + 1, 18)


def test_a_loop_that_steps_down_has_the_same_bounds() -> None:
    program = cases.bound("crossed", (5, 17))
    axis = next(a for a in program.axes if a.kind is AxisKind.RANGE)
    assert axis.step == -1
    assert Ranges(program).affine(coord(axis.id)) == (0, 16)


def test_the_most_of_a_loop_whose_bound_varies() -> None:
    program = cases.bound("triangular", (7, 7))
    loops = [a for a in program.axes if a.kind in (AxisKind.RANGE, AxisKind.TILE)]
    assert [Ranges(program).most(a.id) for a in loops] == [7, 7]
    program = cases.bound("up_to_diagonal", (5, 17))
    loop = next(a for a in program.axes if a.kind is AxisKind.TILE)
    assert loop.extent == smaller(Affine(constant=17), atom(Stop(axis=0)))
    assert Ranges(program).most(loop.id) == 5


def test_index_values_run_in_32_bits_where_they_fit() -> None:
    program = cases.bound("coordinates", (33, 7))
    ranges = Ranges(program)
    indices = [let for let in program.lets().values() if isinstance(let.value, IndexValue)]
    assert indices and {let.dtype for let in indices} == {DType.I64}
    assert {ranges.physical(let) for let in indices} == {DType.I32}


def test_sums_of_small_numbers_keep_64_bits() -> None:
    program = cases.bound("wide_index_sum", (5, 65))
    ranges = Ranges(program)
    sums = [let for let in program.lets().values() if isinstance(let.value, Reduce) and let.dtype is DType.I64]
    assert sums and all(ranges.physical(let) is DType.I64 for let in sums)
    integers = [let for let in program.lets().values() if let.dtype is DType.I64]
    scaled = [let for let in integers if ranges.interval(let.id) == (0, 64 * 100000000)]
    assert [ranges.physical(let) for let in scaled] == [DType.I64]


@pytest.mark.parametrize("name", ["integers", "divided", "narrow_integers"])
def test_intervals_hold_what_the_operation_gives(name: str) -> None:
    """Every interval of an operation contains its results at the ends of its operands' intervals."""
    program = cases.bound(name, (5, 17))
    ranges, lets = Ranges(program), program.lets()
    functions = {
        Op.ADD: np.add,
        Op.SUB: np.subtract,
        Op.MUL: np.multiply,
        Op.MINIMUM: np.minimum,
        Op.MAXIMUM: np.maximum,
        Op.FLOORDIV: np.floor_divide,
        Op.MOD: np.mod,
        Op.ABS: np.abs,
        Op.NEG: np.negative,
    }
    checked = 0
    for let in lets.values():
        if not isinstance(let.value, Elementwise) or not let.dtype.is_integer or let.value.op not in functions:
            continue
        low, high = ranges.interval(let.id)
        ends = [np.array(ranges.interval(a), dtype=object) for a in let.value.args]
        if any(0 in range(int(e[0]), int(e[1]) + 1) for e in ends[1:] if let.value.op in (Op.FLOORDIV, Op.MOD)):
            continue
        results = np.ravel(functions[let.value.op](*np.meshgrid(*ends)))
        wraps = any(
            not -(2 ** (8 * let.dtype.size_bytes - 1)) <= r < 2 ** (8 * let.dtype.size_bytes - 1) for r in results
        )
        assert wraps or all(low <= r <= high for r in results), let
        checked += 1
    assert checked
