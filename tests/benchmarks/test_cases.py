"""The cases' names, inputs and bounds, held against numpy in float32."""

import numpy as np
import pytest

from benchmarks.buffers import ALIGNMENT_BYTES, Arena, ArenaFull, Buffers
from benchmarks.case import Answer
from benchmarks.cases import KERNELS, case, row_cases
from benchmarks.peers import Style, numpy_arrays

SMALL = {name: (2, 5, 6) if name == "rope" else (5, 13) for name in KERNELS}


def test_a_case_is_named_by_its_example_and_dimensions_in_order() -> None:
    assert case("softmax", 129, 512).name == "softmax:M=129,N=512"
    assert case("rope", 32, 128, 128).name == "rope:H=32,S=128,D=128"


def test_the_suite_has_every_kernel_at_every_width() -> None:
    names = [each.name for each in row_cases(quick=False)]
    assert len(names) == len(set(names)) == 6 * 4 + 2
    assert {"column_softmax:M=129,N=4096", "short_rows:M=4096,N=7"} < set(names)
    assert {each.kernel for each in row_cases(quick=True)} == set(KERNELS)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("style", Style)
def test_numpy_in_float32_is_within_the_bound(name: str, style: Style) -> None:
    each = case(name, *SMALL[name])
    buffers = Buffers(each, seed=7)
    answer = each.answer(buffers.inputs)
    for label, attempt in numpy_arrays.attempts(each, buffers, style):
        buffers.poison()
        assert answer.error(attempt().outcome()) <= 1.0, label


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_element_is_far_outside_the_bound(name: str) -> None:
    each = case(name, *SMALL[name])
    answer = each.answer(each.inputs(7))
    wrong = answer.value.astype(np.float32)
    assert answer.error(wrong) <= 1.0
    largest = np.unravel_index(np.abs(answer.value).argmax(), answer.value.shape)
    wrong[largest] *= 1.001
    assert answer.error(wrong) > 1.0
    wrong[largest] = np.nan
    assert answer.error(wrong) == float("inf")


def test_an_exact_answer_is_no_error_even_under_a_bound_of_zero() -> None:
    answer = Answer(value=np.zeros(2), bound=np.zeros(2))
    assert answer.error(np.zeros(2, np.float32)) == 0.0
    assert answer.error(np.array([0, 1e-30], np.float32)) == float("inf")


def test_equal_seeds_give_equal_inputs() -> None:
    each = case("softmax", 3, 9)
    first, second = each.inputs(1), each.inputs(1)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first["x"], each.inputs(2)["x"])


def test_buffers_are_aligned_and_apart() -> None:
    buffers = Buffers(case("layernorm", 3, 5), seed=0)
    arrays = (*buffers.inputs.values(), buffers.y)
    starts = [array.ctypes.data for array in arrays]
    assert all(start % ALIGNMENT_BYTES == 0 for start in (*starts, buffers.scratch(100)))
    ends = [array.ctypes.data + array.nbytes for array in arrays]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert buffers.pages in {"huge", "small", "mixed"}


def test_an_arena_says_when_it_is_full() -> None:
    with pytest.raises(ArenaFull, match="raise its size"):
        Arena(1000).array((64 << 20,), np.uint8)
