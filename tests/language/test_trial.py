"""The trial of a kernel before it is searched: at which shape, on which data, and what it refuses."""
# ruff: noqa: F821

from collections.abc import Mapping

import numpy as np
import pytest

import autotune as at
from autotune.errors import DependsOnBlocks, MissingDimension
from autotune.ir.program import Number, Program, Tensor
from autotune.language import trial
from autotune.language.trial import refuse_block_dependent


@at.kernel
def square_block(x: at.f32["N", "N"], y: at.f32["N"]):
    for i in at.parallel(at.tile(x.shape[0])):
        y[i] = at.sum(x[i, i], axis=1)


@at.kernel
def tiled_sum(x: at.f32["M", "N"], y: at.f32["M"], scale: at.f32):
    M, N = x.shape
    for row in at.parallel(M):
        acc = 0.0
        for j in at.tile(N):
            acc += at.sum(x[row, j])
        y[row] = scale * acc


@at.kernel
def halves(x: at.f32["N"], y: at.f32["N"]):
    half = x.shape[0] // 2
    for i in at.parallel(at.tile(half)):
        y[i] = x[i] + x[i + half]


@at.kernel
def scaled(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] + x[i]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, tuple[int, ...]]]:
    """Shapes of the tensors of every trial that is made."""
    made: list[dict[str, tuple[int, ...]]] = []
    judged = trial.refuse_block_dependence

    def note(program: Program, arguments: Mapping[str, Number]) -> None:
        tensors = [p for p in program.parameters if isinstance(p, Tensor)]
        made.append({t.name: tuple(extent.evaluate({}) for extent in t.shape) for t in tensors})
        judged(program, arguments)

    monkeypatch.setattr(trial, "refuse_block_dependence", note)
    return made


def test_a_kernel_that_passes_every_structural_rule_is_refused_by_its_results() -> None:
    assert square_block.program.parallel
    with pytest.raises(DependsOnBlocks, match="'square_block' depends on block sizes: at block size"):
        refuse_block_dependent(square_block, {"N": 4096}, seed=0)


def test_a_trial_of_a_large_shape_is_small(tried: list[dict[str, tuple[int, ...]]]) -> None:
    refuse_block_dependent(tiled_sum, {"M": 100_000, "N": 5, "scale": 2.0}, seed=0)
    assert tried == [{"x": (13, 5), "y": (13,)}]


def test_the_first_shape_that_the_author_s_data_fits_is_taken(tried: list[dict[str, tuple[int, ...]]]) -> None:
    @halves.inputs
    def even(rng: np.random.Generator, kind: str, N: int) -> dict[str, np.ndarray]:
        assert N % 2 == 0
        return {"x": rng.standard_normal(N, dtype=np.float32)}

    refuse_block_dependent(halves, {"N": 64}, seed=0)
    assert tried == [{"x": (12,), "y": (12,)}]


def test_a_kernel_that_knows_one_shape_is_tried_at_it(tried: list[dict[str, tuple[int, ...]]]) -> None:
    @halves.inputs
    def only(rng: np.random.Generator, kind: str, N: int) -> dict[str, np.ndarray]:
        return {"x": {64: np.ones(64, np.float32)}[N]}

    refuse_block_dependent(halves, {"N": 64}, seed=0)
    assert tried == [{"x": (64,), "y": (64,)}]


def test_what_is_wrong_with_the_given_shape_is_said() -> None:
    with pytest.raises(MissingDimension):
        refuse_block_dependent(tiled_sum, {"M": 4, "scale": 1.0}, seed=0)


def test_a_kernel_without_tiles_is_not_run(tried: list[dict[str, tuple[int, ...]]]) -> None:
    refuse_block_dependent(scaled, {"N": 64}, seed=0)
    assert tried == []
