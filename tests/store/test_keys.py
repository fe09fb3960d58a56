"""Keys: one hash over all fields, and the name of the field that differs."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from importlib.metadata import version

import pytest

from autotune.ir.affine import Affine
from autotune.ir.program import Program, Scalar, Tensor
from autotune.ir.serial import MalformedJson
from autotune.ir.text import fingerprint
from autotune.ir.types import DType
from autotune.realizations.target import Target
from autotune.store.errors import UnknownAlignment, UnknownColdTensor
from autotune.store.keys import (
    SPACE_VERSION,
    AlignmentClass,
    CacheMode,
    Isa,
    StrideClass,
    Toolchain,
    WorkloadKey,
    cache_mode,
    current_toolchain,
    differences,
    isa_of,
    workload_of,
)
from tests.store.samples import ISA, KEY, TOOLCHAIN, WORKLOAD

CHANGES: dict[str, object] = {
    "kernel": "c" * 64,
    "shape": (129, 513),
    "dtypes": (DType.F64, DType.BOOL, DType.F64),
    "cache": CacheMode(cold=(0, 2)),
    "alignment": AlignmentClass.SIXTEEN,
    "threads": 2,
    "isa": replace(ISA, l2_bytes=2 * 1048576),
    "toolchain": replace(TOOLCHAIN, llvm="23.1.0"),
    "space": SPACE_VERSION + 1,
}


@pytest.mark.parametrize("field", sorted(CHANGES))
def test_every_field_is_part_of_the_identity(field: str) -> None:
    assert replace(KEY, **{field: CHANGES[field]}).id != KEY.id  # type: ignore[arg-type]


def test_no_field_is_left_untested() -> None:
    one_value_only = {"strides": StrideClass}
    assert all(len(kind) == 1 for kind in one_value_only.values())
    assert {f.name for f in fields(WorkloadKey)} == set(CHANGES) | set(one_value_only)


def test_key_round_trips_through_json() -> None:
    assert WorkloadKey.from_json(KEY.to_json()) == KEY


def test_a_hot_key_keeps_the_hash_it_had_before_tensors_could_be_cold() -> None:
    data = KEY.to_json()
    assert data["cache"] == "hot"
    cold = replace(KEY, cache=CacheMode(cold=(0, 2)))
    assert cold.to_json()["cache"] == "cold 0,2"
    assert WorkloadKey.from_json(cold.to_json()) == cold
    with pytest.raises(MalformedJson, match="found 'warm'"):
        WorkloadKey.from_json({**data, "cache": "warm"})


def test_cold_tensors_are_named_by_the_user_and_numbered_in_the_key() -> None:
    shape = (Affine(constant=1),)
    tensors = tuple(Tensor(name=name, dtype=DType.F32, shape=shape) for name in ("q", "k", "v"))
    scale = Scalar(name="scale", dtype=DType.F32)
    program = Program(name="p", dims=(), parameters=(scale, *tensors), axes=(), parallel=(), body=())
    mode = cache_mode(program, ("v", "k"))
    assert mode == CacheMode(cold=(2, 3)) and mode.names(program) == ("k", "v")
    assert cache_mode(program, ("all",)).names(program) == ("q", "k", "v")
    assert cache_mode(program, ()).value == "hot"
    with pytest.raises(UnknownColdTensor, match=r"no tensor 'scale'.*\n.*q,k,v"):
        cache_mode(program, ("scale",))


def test_an_alignment_is_asked_for_in_bytes() -> None:
    assert AlignmentClass.of(16) is AlignmentClass.SIXTEEN
    with pytest.raises(UnknownAlignment, match=r"32 bytes\n.*64 or 16"):
        AlignmentClass.of(32)


def test_difference_names_the_field_and_both_values() -> None:
    (difference,) = differences(KEY, replace(KEY, toolchain=replace(TOOLCHAIN, llvm="21.1.0")))
    assert str(difference) == "toolchain.llvm is 22.1.0 here, 21.1.0 in the record"
    (difference,) = differences(KEY, replace(KEY, shape=(129, 65)))
    assert str(difference) == "shape is (129, 512) here, (129, 65) in the record"


def test_equal_keys_have_no_difference() -> None:
    assert differences(KEY, replace(KEY)) == ()


def test_names_are_no_part_of_the_key() -> None:
    assert replace(WORKLOAD, kernel_name="other", dims=("P", "Q")).key.id == WORKLOAD.key.id
    assert WORKLOAD.title == "softmax:M=129,N=512"


def test_key_of_a_program_takes_dimensions_in_order() -> None:
    program = Program(
        name="scale",
        dims=("M", "N"),
        parameters=(
            Tensor(name="x", dtype=DType.F32, shape=(Affine(constant=1),)),
            Scalar(name="a", dtype=DType.F64),
        ),
        axes=(),
        parallel=(),
        body=(),
    )
    target = Target(
        name="sse2", triple="t", cpu="c", features="+sse2", vector_bytes=16, vector_registers=16, masked_sizes_bytes=(),
        has_fma=False, has_gather=False, has_scatter=False, has_scalef=False, has_table_permute=False,
    )  # fmt: skip
    toolchain = Toolchain(llvm="1", llvmlite="2", code_generation=3)
    found = workload_of(program, {"N": 5, "M": 3}, target, toolchain=toolchain)
    key = found.key
    assert found.title == "scale:M=3,N=5"
    assert key.kernel == fingerprint(program)
    assert key.shape == (3, 5)
    assert key.dtypes == (DType.F32, DType.F64)
    assert key.isa == isa_of(target)
    assert isinstance(key.isa, Isa) and key.isa.vector_bytes == 16
    with pytest.raises(KeyError, match="M"):
        workload_of(program, {"N": 5}, target, toolchain=toolchain)


def test_current_toolchain_names_the_installed_versions() -> None:
    toolchain = current_toolchain()
    assert toolchain.llvmlite == version("llvmlite")
    assert re.fullmatch(r"\d+\.\d+\.\d+", toolchain.llvm)
