"""Contractions and attention: their names, inputs and operations, and their bounds held against numpy in float32."""

import numpy as np
import pytest

from autotune.ir.program import Program, Tensor
from benchmarks.attention_cases import (
    ATTENTION,
    ATTENTION_BIAS,
    ATTENTION_CASES,
    ATTENTION_FULL,
    DECODE,
    PREFILL,
    visible,
)
from benchmarks.buffers import Buffers
from benchmarks.case import Case, case_of
from benchmarks.contraction_cases import (
    BATCHED,
    CONTRACTION_CASES,
    DOT,
    GEMV,
    LINEAR_GELU,
    MATMUL,
    MATMUL_BT,
    MLP,
    QK_NORM_ROPE,
)
from benchmarks.ours import kernel_of
from benchmarks.peers import Style, numpy_arrays

SMALL = (
    case_of(MATMUL, 5, 7, 3),
    case_of(MATMUL_BT, 5, 7, 3),
    case_of(GEMV, 5, 7),
    case_of(BATCHED, 3, 2, 5, 4),
    case_of(LINEAR_GELU, 5, 7, 3),
    case_of(MLP, 3, 4, 9),
    case_of(QK_NORM_ROPE, 2, 3, 6),
    case_of(DOT, 3, 11),
    case_of(ATTENTION, 2, 4, 2, 3, 7, 5, 6),
    case_of(ATTENTION, 1, 3, 1, 5, 5, 4, 4),
    case_of(ATTENTION, 1, 2, 2, 1, 9, 4, 3),
    case_of(ATTENTION_FULL, 2, 4, 2, 3, 7, 5, 6),
    case_of(ATTENTION_BIAS, 1, 4, 2, 3, 7, 5, 6),
)
by_name = pytest.mark.parametrize("each", SMALL, ids=lambda each: each.name)


def parameter_shapes(program: Program) -> list[tuple[int, ...]]:
    tensors = (parameter for parameter in program.parameters if isinstance(parameter, Tensor))
    return [tuple(extent.constant for extent in tensor.shape) for tensor in tensors]


def test_cases_are_named_as_examples_at_their_dimensions() -> None:
    names = {each.name for each in (*CONTRACTION_CASES, *ATTENTION_CASES)}
    assert len(names) == len(CONTRACTION_CASES) + len(ATTENTION_CASES)
    assert {"matmul:M=512,K=512,N=512", "gemv:M=4096,K=4096", "attention:B=1,Hq=8,Hkv=2,Q=1,K=2048,D=64,Dv=64"} < names


def test_every_spec_of_the_tests_is_one_of_the_suites_and_the_other_way_round() -> None:
    assert {each.spec.name for each in SMALL} == {each.spec.name for each in (*CONTRACTION_CASES, *ATTENTION_CASES)}


@pytest.mark.parametrize("each", (*CONTRACTION_CASES, *ATTENTION_CASES), ids=lambda each: each.name)
def test_an_example_has_the_tensors_and_scalars_of_its_case(each: Case) -> None:
    kernel = kernel_of(each)
    program = kernel.bind(**each.extents)
    small = case_of(each.spec, *(min(extent, 6) if extent % 2 == 0 else 3 for extent in each.extents.values()))
    shapes = [array.shape for array in small.inputs(0).values()]
    assert parameter_shapes(kernel.bind(**small.extents)) == [*shapes, small.output]
    assert parameter_shapes(program)[-1] == each.output
    assert tuple(kernel.scalar_defaults) == tuple(name for name, _ in each.scalars)


@by_name
@pytest.mark.parametrize("style", [Style.AS_WRITTEN, Style.BEST])
def test_numpy_in_float32_is_within_the_bound(each: Case, style: Style) -> None:
    buffers = Buffers(each, seed=7)
    answer = each.answer(buffers.inputs)
    attempts = list(numpy_arrays.attempts(each, buffers, style))
    assert len(attempts) > (style is Style.BEST)
    for label, attempt in attempts:
        buffers.poison()
        assert answer.error(attempt().outcome()) <= 1.0, label


@by_name
def test_a_wrong_element_is_far_outside_the_bound(each: Case) -> None:
    answer = each.answer(each.inputs(7))
    wrong = answer.value.astype(np.float32)
    assert answer.error(wrong) <= 1.0
    largest = np.unravel_index(np.abs(answer.value).argmax(), answer.value.shape)
    wrong[largest] *= 1.001
    assert answer.error(wrong) > 1.0


@pytest.mark.parametrize("shape", [(1, 2, 1, 1, 32768, 8, 8), (1, 2, 2, 3, 4096, 8, 8)])
def test_zeros_are_outside_the_bound_of_attention_over_many_keys(shape: tuple[int, ...]) -> None:
    each = case_of(ATTENTION, *shape)
    answer = each.answer(each.inputs(0))
    assert answer.error(np.zeros(each.output, np.float32)) > 10.0


def test_attention_counts_the_operations_of_visible_keys_only() -> None:
    for shape in (*PREFILL, *DECODE):
        batch, heads, _, queries, keys, depth, values = shape
        seen = sum(min(keys, i + keys - queries + 1) for i in range(queries))
        assert case_of(ATTENTION, *shape).flops == 2 * batch * heads * seen * (depth + values)
    assert case_of(ATTENTION_FULL, 1, 2, 2, 3, 5, 4, 6).flops == 2 * 2 * 3 * 5 * 10


def test_the_mask_is_aligned_bottom_right() -> None:
    assert visible(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]
    assert visible(1, 3).all()


def test_a_case_counts_the_bytes_of_all_of_its_tensors() -> None:
    buffers = Buffers(case_of(MATMUL, 5, 7, 3), seed=0)
    assert buffers.tensor_bytes == 4 * (5 * 7 + 7 * 3 + 5 * 3)
