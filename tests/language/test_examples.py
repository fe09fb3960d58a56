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
SIZES = [
    {"M": 1, "N": 1, "H": 1, "S": 1, "D": 2},
    {"M": 3, "N": 7, "H": 2, "S": 3, "D": 6},
    {"M": 5, "N": 17, "H": 3, "S": 5, "D": 14},
]


def arguments(kernel, sizes, rng):
    given = kernel.inputs_function(rng, "normal", **sizes) if kernel.inputs_function else {}
    for parameter in kernel.bind(**sizes).parameters:
        if not isinstance(parameter, Tensor):
            given.setdefault(parameter.name, parameter.default)
            continue
        shape = tuple(extent.constant for extent in parameter.shape)
        default = rng.random(shape) < 0.8 if parameter.dtype is DType.BOOL else rng.standard_normal(shape)
        given.setdefault(parameter.name, default.astype(bool if parameter.dtype is DType.BOOL else np.float32))
    return given


@pytest.mark.parametrize("sizes", SIZES, ids=["ones", "odd", "prime"])
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
        *("column_softmax", "gelu", "layernorm", "masked_softmax", "rmsnorm", "rope", "short_rows", "swiglu"),
    ]


def test_rope_refuses_an_odd_head_size():
    with pytest.raises(MismatchedExtents, match="mismatched extents"):
        KERNELS["rope"].bind(H=2, S=3, D=5)
