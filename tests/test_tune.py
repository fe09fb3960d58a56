"""The road's first steps: which shape, which target, and what is refused before anything is measured."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from autotune.errors import DependsOnBlocks
from autotune.language.load import load_kernels
from autotune.measure.states import State
from autotune.search.errors import NoWorkload, SeveralWorkloads
from autotune.search.foreign import MODEL_BEST
from autotune.search.progress import Event, Phase, PhaseStarted
from autotune.search.result import Ending
from autotune.search.stop import Budget, MaxTrials
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

@at.kernel
def square_block(x: at.f32["N", "N"], y: at.f32["N"]):
    for i in at.parallel(at.tile(x.shape[0])):
        y[i] = at.sum(x[i, i], axis=1)
"""
FOREIGN = "neon" if platform.machine() in ("x86_64", "AMD64") else "sse2"


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


def test_a_target_of_another_machine_is_compiled_for_and_not_measured(file: Path, tmp_path: Path) -> None:
    store = tmp_path / "policies.sqlite"
    phases: list[Phase] = []

    def listen(event: Event) -> None:
        if isinstance(event, PhaseStarted):
            phases.append(event.phase)

    result = search(load_kernels(file)["bare"], {"N": 8}, f"simd:{FOREIGN}", database=store, on_event=listen)
    assert result.ending is Ending.COMPILED
    assert [each.reference for each in result.compiled] == [True] + [False] * (len(result.compiled) - 1)
    assert 1 < len(result.compiled) <= 1 + MODEL_BEST
    assert all(each.code_bytes and each.compile_seconds and each.failure is None for each in result.compiled)
    assert (result.winner, result.reference, result.trials) == (None, None, 0)
    assert State.MEASURED not in {entry.state for entry in result.counts}
    assert not store.exists()
    assert phases == [Phase.TRACE, Phase.ENUMERATE, Phase.COMPILE, Phase.DONE]


def test_the_limits_hold_for_compiling_too(file: Path) -> None:
    kernel = load_kernels(file)["bare"]
    few = search(kernel, {"N": 8}, f"simd:{FOREIGN}", max_trials=3)
    assert (len(few.compiled), few.stopped_by) == (3, MaxTrials(count=3))
    none = search(kernel, {"N": 8}, f"simd:{FOREIGN}", budget_s=0.0)
    assert [each.reference for each in none.compiled] == [True]
    assert none.stopped_by == Budget(seconds=0.0)


def test_results_that_depend_on_blocks_are_refused_before_anything_is_measured(file: Path, tmp_path: Path) -> None:
    store = tmp_path / "policies.sqlite"
    with pytest.raises(DependsOnBlocks, match="the result of kernel 'square_block' depends on block sizes: at block"):
        search(load_kernels(file)["square_block"], {"N": 4096}, database=store)
    assert not store.exists()
