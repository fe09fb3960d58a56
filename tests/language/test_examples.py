"""Every example kernel means what its independent NumPy reference says."""

from pathlib import Path

import numpy as np
import pytest

import autotune as at
from autotune.errors import MismatchedExtents
from autotune.ir.program import Tensor
from autotune.ir.types import DType
from autotune.language.load import load_kernels

EXAMPLES = Path(__file__).parents[2] / "examples"
KERNELS = {name: kernel for path in sorted(EXAMPLES.glob("*.py")) for name, kernel in load_kernels(path).items()}
SIZES = {
    "ones": {"M": 1, "N": 1, "H": 1, "S": 1, "D": 2, "B": 1, "K": 1, "Hq": 1, "Hkv": 1, "Q": 1, "Dv": 1},
    "odd": {"M": 3, "N": 7, "H": 2, "S": 3, "D": 6, "B": 2, "K": 5, "Hq": 4, "Hkv": 2, "Q": 3, "Dv": 3},
    "prime": {"M": 5, "N": 17, "H": 3, "S": 5, "D": 14, "B": 1, "K": 11, "Hq": 3, "Hkv": 1, "Q": 7, "Dv": 13},
    "square": {"M": 4, "N": 4, "H": 4, "S": 4, "D": 4, "B": 3, "K": 4, "Hq": 2, "Hkv": 2, "Q": 4, "Dv": 4},
}
SCALE = 0.375
"""For scalars that have no default."""


def arguments(kernel, sizes, rng):
    given = kernel.inputs_function(rng, "normal", **sizes) if kernel.inputs_function else {}
    for parameter in kernel.bind(**sizes).parameters:
        if not isinstance(parameter, Tensor):
            given.setdefault(parameter.name, SCALE if parameter.default is None else parameter.default)
            continue
        shape = tuple(extent.constant for extent in parameter.shape)
        default = rng.random(shape) < 0.8 if parameter.dtype is DType.BOOL else rng.standard_normal(shape)
        given.setdefault(parameter.name, default.astype(bool if parameter.dtype is DType.BOOL else np.float32))
    return given


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("name", KERNELS)
def test_example_equals_its_reference(name, sizes):
    kernel = KERNELS[name]
    sizes = {dim: sizes[dim] for dim in kernel.program.dims}
    given = arguments(kernel, sizes, np.random.default_rng(1))
    expected = kernel.reference_function(**{n: given[n] for n in kernel.input_names})
    result = at.interpret(kernel, **given)
    assert set(expected) == set(kernel.output_names)
    for output, values in expected.items():
        np.testing.assert_allclose(result[output].values, values, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", KERNELS)
def test_example_binds_at_every_workload(name):
    kernel = KERNELS[name]
    assert kernel.workloads
    for workload in kernel.workloads:
        assert kernel.bind(**workload).is_bound


def test_there_is_one_example_for_each_file():
    assert sorted(KERNELS) == [
        *("attention", "attention_bias", "attention_full", "batched_small_matmul", "column_softmax", "dot", "gelu"),
        *("gemv", "layernorm", "linear_gelu", "masked_softmax", "matmul", "matmul_bt", "mlp", "qk_norm_rope"),
        *("rmsnorm", "rope", "short_rows", "sparsemax", "swiglu"),
    ]


def test_rope_refuses_an_odd_head_size():
    with pytest.raises(MismatchedExtents, match="mismatched extents"):
        KERNELS["rope"].bind(H=2, S=3, D=5)
