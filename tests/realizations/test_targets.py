"""The named instruction sets say what they can do."""

from __future__ import annotations

import pytest

from autotune.ir.types import DType
from autotune.realizations.targets import TARGET_NAMES, UnknownTargetError, named_target, with_caches


def test_lanes_follow_the_register_width() -> None:
    lanes = {name: (named_target(name).lanes(DType.F32), named_target(name).lanes(DType.F64)) for name in TARGET_NAMES}
    assert lanes == {"avx512": (16, 8), "avx2": (8, 4), "sse2": (4, 2), "neon": (4, 2)}


def test_masks_by_element_size() -> None:
    masked = {name: [d for d in DType if named_target(name).masks(d)] for name in TARGET_NAMES}
    assert masked["avx512"] == list(DType)
    assert masked["avx2"] == [DType.F64, DType.F32, DType.I64, DType.I32]
    assert masked["sse2"] == masked["neon"] == []


def test_registers_of_wide_and_narrow_vectors() -> None:
    target = named_target("avx2")
    assert target.registers(DType.F32, 16) == 2
    assert target.registers(DType.F32, 1) == 1
    assert target.registers(DType.BOOL, 64) == 1


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownTargetError, match=r"unknown target 'avx1024'.*avx512, avx2, sse2, neon"):
        named_target("avx1024")


def test_caches_change_nothing_else() -> None:
    target = with_caches(named_target("avx2"), 1, 2, 3, "znver4")
    assert (target.l1_bytes, target.l2_bytes, target.l3_bytes, target.tune) == (1, 2, 3, "znver4")
    assert (target.name, target.features) == ("avx2", named_target("avx2").features)
