"""Every level of every enumeration, and every refusal rule that enumeration can meet, occurs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from autotune.ir.buffer import Tail, Transfer
from autotune.ir.phases import PhaseKind
from autotune.ir.types import DEFAULT_MAX_ULP, DType, Op
from autotune.language.load import load_kernels
from autotune.realizations import compute, mapping, tilings, vector_math
from autotune.realizations.candidate import Buffered, Clones, Direct, Inline
from autotune.realizations.targets import named_target
from autotune.realizations.tiled import tiled
from autotune.search.families import Family
from tests.conformance.cases import Workload, bound, families

_ON_AVX512 = (
    ("column_softmax", "M=5,N=13"),
    ("column_softmax", "M=19,N=67"),
    ("rmsnorm", "M=19,N=67"),
    ("gelu", "M=19,N=67"),
    ("swiglu", "M=5,N=13"),
)
_ELSEWHERE = (
    ("avx2", "column_softmax", "M=5,N=13"),
    ("avx2", "softmax", "M=1,N=1"),
    ("sse2", "column_softmax", "M=1,N=1"),
    ("avx512", "matmul", "M=5,K=3,N=17"),
)
_OTHER_KERNELS = """
# ruff: noqa: F821
import autotune as at


@at.kernel
def tiled_sum(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        total = 0.0
        for j in at.tile(x.shape[1]):
            total += at.sum(x[row, j])
        y[row] = total


@at.kernel
def ordered_sum(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        y[row] = at.sum(x[row, :], ordered=True)

"""


@lru_cache(maxsize=1)
def _on_avx512() -> tuple[tuple[Workload, tuple[Family, ...], frozenset[str]], ...]:
    target = named_target("avx512")
    found = []
    for example, shape in _ON_AVX512:
        workload = bound(example, shape)
        each, refusals = families(workload, target)
        found.append((workload, tuple(each), frozenset(refusals.counts)))
    return tuple(found)


def _structure_levels(workload: Workload, family: Family) -> dict[str, object]:
    structure = family.structure
    transfers = dict(structure.transfer)
    parallel = workload.program.parallel
    phases = tiled(workload.program, structure.tiles).graph.phases
    loads = [p.number for p in phases if p.kind is PhaseKind.LOAD]
    buffered = [p for p, storage in structure.storage if isinstance(storage, Buffered)]
    return {
        "storage": {type(storage) for _, storage in structure.storage},
        "transfer": set(transfers.values()) or {Transfer.NONE},
        "clones": {structure.packet},
        "fused": {len(structure.nest_numbers) < len(structure.nests)},
        "packed copy": {transfers.get(p, Transfer.NONE) for p in buffered if p in loads},
        "mapping": {"scalar" if not structure.lanes else "packet" if structure.lanes[0] in parallel else "team"},
    }


def _levels() -> dict[str, set[object]]:
    levels: dict[str, set[object]] = defaultdict(set)
    for workload, each, _ in _on_avx512():
        for family in each:
            for name, values in _structure_levels(workload, family).items():
                levels[name] |= values  # type: ignore[operator]
            for row in (row for table in family.tables for row in table):
                choice = row.choice
                levels["lanes"].add(choice.lanes)
                levels["chains"].add(choice.chains)
                levels["tail"].add(choice.tail)
                levels["factor"] |= {block.factor for block in choice.blocks}
                levels["variant"] |= set(choice.variants)
    return levels


def test_every_level_occurs() -> None:
    levels = _levels()
    assert levels["storage"] == {Inline, Direct, Buffered}
    assert levels["transfer"] == set(Transfer)
    assert levels["packed copy"] >= {Transfer.NONE, Transfer.TRANSPOSE}, "vector copies and transposed copies"
    assert levels["clones"] == set(Clones)
    assert levels["fused"] == {True, False}
    assert levels["mapping"] == {"packet", "team", "scalar"}
    assert levels["lanes"] >= {1, *mapping.LANES}
    assert levels["chains"] == set(compute.CHAINS)
    assert levels["factor"] >= set(compute.FACTORS) - {1}
    assert levels["tail"] == set(Tail)


def test_every_polynomial_of_the_functions_used_occurs() -> None:
    target, used = named_target("avx512"), _levels()["variant"]
    for op in (Op.EXP, Op.RSQRT, Op.TANH, Op.SIGMOID):
        permitted = vector_math.variants(op, DType.F32, target, DEFAULT_MAX_ULP[op])
        assert {(op.value, variant.name) for variant in permitted} == {pair for pair in used if pair[0] == op.value}
        assert len(permitted) > 1


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    path = Path(tmp_path_factory.mktemp("kernels")) / "others.py"
    path.write_text(_OTHER_KERNELS)
    return dict(load_kernels(str(path)))


def _workload(kernel: object, **sizes: int) -> Workload:
    program = kernel.bind(**sizes)  # type: ignore[attr-defined]
    return Workload(kernel=kernel, sizes=sizes, program=program)  # type: ignore[arg-type]


def test_every_block_size_of_a_tile_loop_occurs(others: dict[str, object]) -> None:
    workload = _workload(others["tiled_sum"], M=2, N=5000)
    found, _ = families(workload, named_target("avx512"))
    tile_axis = next(a.id for a in workload.program.axes if a.kind.value == "tile")
    blocks = {tile.block for family in found for tile in family.structure.tiles if tile.axis == tile_axis}
    assert blocks == {*tilings.TILE_BLOCKS, 5000}


def test_enumeration_meets_the_refusal_rules(others: dict[str, object]) -> None:
    met = {rule for _, _, rules in _on_avx512() for rule in rules}
    for name, example, shape in _ELSEWHERE:
        met |= set(families(bound(example, shape), named_target(name))[1].counts)
    assert met >= {
        "overlap-unsafe",
        "factor-exceeds-extent",
        "transpose-impossible",
        "mask-unsupported",
        "lanes-too-wide",
        "register-block-too-large",
    }
    avx512 = named_target("avx512")
    ordered = families(_workload(others["ordered_sum"], M=3, N=40), avx512)[1].counts
    assert {"ordered-across-lanes", "chains-need-reassociation"} <= set(ordered)
    small_cache = replace(avx512, l2_bytes=256)
    assert "workspace-too-large" in families(bound("rmsnorm", "M=5,N=13"), small_cache)[1].counts
