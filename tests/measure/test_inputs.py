"""Argument data: four kinds, the same for the same seed, or from the kernel's own generator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotune.ir.affine import Affine
from autotune.ir.program import Let, Load, Program, Scalar, Tensor
from autotune.ir.types import DType
from autotune.measure.inputs import (
    Generator,
    InputKind,
    MissingScalar,
    UnknownInput,
    WrongInput,
    make_arguments,
)


def loading(dtype: DType, shape: tuple[int, ...], *more: Scalar) -> Program:
    """A program that loads one tensor x, for its parameters' sake."""
    tensor = Tensor(name="x", dtype=dtype, shape=tuple(Affine(constant=n) for n in shape))
    index = tuple(Affine() for _ in shape)
    body = (Let(id=0, value=Load(tensor=0, index=index), dtype=dtype, axes=()),)
    return Program(name="loading", dims=(), parameters=(tensor, *more), axes=(), parallel=(), body=body)


def x_of(program: Program, kind: InputKind, seed: int = 3, generator: Generator | None = None) -> Any:
    return make_arguments(program, kind, seed, sizes={"N": 4}, scalars={}, generator=generator)["x"]


@pytest.mark.parametrize("kind", InputKind)
@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.I32, DType.I8, DType.BOOL])
def test_data_depends_on_seed_and_kind_only(dtype: DType, kind: InputKind) -> None:
    program = loading(dtype, (37, 19))
    first, again, other = x_of(program, kind), x_of(program, kind), x_of(program, kind, seed=4)
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert first.shape == (37, 19) and first.dtype.itemsize == dtype.size_bytes


def test_normal_data_is_what_the_language_says() -> None:
    floats = x_of(loading(DType.F32, (400, 100)), InputKind.NORMAL)
    assert abs(floats.mean()) < 0.05 and abs(floats.std() - 1) < 0.05
    truths = x_of(loading(DType.BOOL, (400, 100)), InputKind.NORMAL)
    assert abs(truths.mean() - 0.8) < 0.02
    integers = x_of(loading(DType.I32, (400, 100)), InputKind.NORMAL)
    assert sorted(np.unique(integers)) == list(range(8))


def test_cancelling_sums_are_small_beside_their_terms() -> None:
    x = x_of(loading(DType.F32, (4, 128)), InputKind.CANCELLING)
    for axis in (0, 1):
        assert np.all(np.abs(x.sum(axis=axis)) < 0.01 * np.abs(x).sum(axis=axis))


def test_wide_range_spans_many_binades_without_denormals() -> None:
    x = np.abs(x_of(loading(DType.F32, (64, 128)), InputKind.WIDE_RANGE))
    assert np.any(x == 0)
    assert x[x > 0].max() / x[x > 0].min() > 2.0**28 and x[x > 0].min() > 2.0**-30
    truths = x_of(loading(DType.BOOL, (8, 128)), InputKind.WIDE_RANGE)
    assert not truths[0].any() and truths[1:].any()


def test_the_tail_outweighs_the_rest() -> None:
    x = x_of(loading(DType.F32, (16, 65)), InputKind.RAGGED_TAIL)
    assert np.all(x[:, -1] > 2 * np.abs(x[0, :60]).max()) and np.all(x[-1] >= 4)


def test_a_generator_gives_some_and_defaults_the_rest() -> None:
    seen: dict[str, Any] = {}

    def generate(rng: np.random.Generator, kind: str, **dims: int) -> dict[str, Any]:
        seen.update(kind=kind, **dims)
        return {"x": rng.random(4, dtype=np.float32), "scale": 0.5}

    program = loading(DType.F32, (4,), Scalar(name="scale", dtype=DType.F32))
    found = make_arguments(program, InputKind.CANCELLING, 1, sizes={"N": 4}, scalars={}, generator=generate)
    assert seen == {"kind": "cancelling", "N": 4}
    assert found["scale"] == 0.5 and np.asarray(found["x"]).min() >= 0


def test_a_scalar_comes_from_the_workload_before_its_default() -> None:
    program = loading(DType.F32, (4,), Scalar(name="eps", dtype=DType.F32, default=0.1))
    given = make_arguments(program, InputKind.NORMAL, 1, sizes={}, scalars={"eps": 0.25})
    default = make_arguments(program, InputKind.NORMAL, 1, sizes={}, scalars={})
    assert given["eps"] == 0.25
    assert default["eps"] == np.float32(0.1)  # as the kernel sees it: rounded to its type


def test_a_scalar_without_a_value_is_an_error_that_says_where_to_put_it() -> None:
    program = loading(DType.F32, (4,), Scalar(name="scale", dtype=DType.F32))
    with pytest.raises(MissingScalar, match=r"needs a value for the scalar 'scale'(.|\n)*put scale="):
        make_arguments(program, InputKind.NORMAL, 1, sizes={}, scalars={})


@pytest.mark.parametrize("bad", [np.zeros(4), np.zeros(5, np.float32), [1, 2, 3, 4]])
def test_generated_data_of_another_type_or_shape_is_an_error(bad: Any) -> None:
    with pytest.raises(WrongInput, match=r"for 'x' \(normal\)\n.*float32 with shape \[4\]"):
        x_of(loading(DType.F32, (4,)), InputKind.NORMAL, generator=lambda rng, kind, **dims: {"x": bad})


def test_a_generated_name_that_is_no_parameter_is_an_error() -> None:
    with pytest.raises(UnknownInput, match="'z', which is no parameter"):
        x_of(loading(DType.F32, (4,)), InputKind.NORMAL, generator=lambda rng, kind, **dims: {"z": 1})


def test_tensors_that_are_only_stored_to_get_no_data(program: Program) -> None:
    assert set(make_arguments(program, InputKind.NORMAL, 1, sizes={}, scalars={})) == {"x"}
    renamed = replace(program, name="other")
    first = make_arguments(program, InputKind.NORMAL, 1, sizes={}, scalars={})["x"]
    assert np.array_equal(first, make_arguments(renamed, InputKind.NORMAL, 1, sizes={}, scalars={})["x"])
