"""The road's first steps: which shape, which target, and what is refused before anything is measured."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from autotune.language.load import load_kernels
from autotune.search.errors import CannotRunHere, NoWorkload, SeveralWorkloads
from autotune.tune import search

KERNELS = """
import autotune as at

@at.kernel
def bare(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] + x[i]

@at.kernel(workloads=[dict(N=8), dict(N=16)])
def several(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] + x[i]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


def test_a_kernel_without_workloads_needs_a_shape(file: Path) -> None:
    with pytest.raises(NoWorkload, match=r"'bare' has no workloads and no shape was given\n.*bare, dict\(N=128\)"):
        search(load_kernels(file)["bare"])


def test_a_kernel_with_several_workloads_needs_a_shape(file: Path) -> None:
    with pytest.raises(SeveralWorkloads, match=r"'several' has 2 workloads .*\n.*dict\(N=8\)"):
        search(load_kernels(file)["several"])


def test_a_target_of_another_machine_is_not_searched(file: Path) -> None:
    foreign = "neon" if platform.machine() in ("x86_64", "AMD64") else "sse2"
    with pytest.raises(CannotRunHere, match=f"cannot run code for {foreign}"):
        search(load_kernels(file)["bare"], {"N": 8}, f"simd:{foreign}")
