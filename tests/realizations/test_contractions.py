"""Candidates of contraction kernels match the oracle at odd shapes, and every kind of choice is among them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest

from autotune import jit
from autotune.ir.buffer import Planner, Transfer
from autotune.ir.interpret import Interpretation, interpret
from autotune.ir.phases import PhaseKind
from autotune.ir.program import AxisKind, Program
from autotune.realizations import factors, tilings
from autotune.realizations.candidate import Buffered, Candidate, Clones
from autotune.realizations.lower import lower
from autotune.realizations.target import Target
from autotune.realizations.tiled import tiled
from tests.conformance.cases import kernel_of, sizes_of
from tests.realizations.differential import Arguments, Sampler, arguments_of, difference, outputs_poisoned

SEED = 31
ENUMERATED, FREE = 4, 2
RUNNABLE = [t for t in (jit.host_target(n) for n in ("avx512", "avx2", "sse2")) if jit.can_run(t)]
ATTENTION = (
    "B=1,Hq=1,Hkv=1,Q=1,K=1,D=1,Dv=1",
    "B=1,Hq=4,Hkv=2,Q=1,K=37,D=17,Dv=5",
    "B=1,Hq=4,Hkv=1,Q=1,K=13,D=8,Dv=19",
    "B=2,Hq=2,Hkv=2,Q=7,K=11,D=5,Dv=16",
    "B=1,Hq=2,Hkv=1,Q=19,K=23,D=16,Dv=32",
)
SHAPES = {
    "matmul": ("M=1,K=1,N=1", "M=5,K=3,N=17", "M=17,K=31,N=67", "M=8,K=16,N=48"),
    "matmul_bt": ("M=1,K=1,N=1", "M=5,K=3,N=17", "M=17,K=31,N=33", "M=8,K=32,N=48"),
    "gemv": ("M=1,K=1", "M=17,K=3", "M=19,K=37", "M=32,K=16"),
    "dot": ("M=1,K=1", "M=3,K=37", "M=4,K=64"),
    "linear_gelu": ("M=1,K=1,N=1", "M=11,K=23,N=35"),
    "batched_small_matmul": ("B=1,M=1,K=1,N=1", "B=3,M=5,K=3,N=17", "B=2,M=8,K=8,N=8"),
    "mlp": ("M=1,D=1,H=1", "M=9,D=17,H=23"),
    "attention": ATTENTION,
    "attention_full": ATTENTION[1:4],
    "attention_bias": ATTENTION[2:5],
}
CASES = [(example, shape) for example, shapes in SHAPES.items() for shape in shapes]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that cut small shapes as the real ones cut large shapes."""
    monkeypatch.setattr(tilings, "OUTPUT_BLOCKS", (4, 8, 16))
    monkeypatch.setattr(tilings, "SUMMED_BLOCKS", (4, 16))
    monkeypatch.setattr(tilings, "ONE_TILE", (4, 8, 16))
    monkeypatch.setattr(tilings, "TWO_TILES", (4, 8, 32))
    monkeypatch.setattr(factors, "MIN_PANELLED", 32)


@lru_cache
def bound(example: str, shape: str) -> tuple[Program, Arguments, Interpretation]:
    kernel, sizes = kernel_of(example), sizes_of(shape)
    program = kernel.bind(**sizes)
    arguments = outputs_poisoned(program, arguments_of(kernel, program, sizes, SEED))
    return program, arguments, interpret(program, arguments)


@lru_cache
def candidates(example: str, shape: str, target: Target) -> tuple[Candidate, ...]:
    """Legal candidates, drawn from the tables and free of them."""
    sampler = Sampler(bound(example, shape)[0], target, SEED)
    return (*sampler.enumerated(ENUMERATED), *sampler.free(FREE))


@pytest.mark.parametrize(("example", "shape"), CASES)
def test_candidates_match_the_oracle(example: str, shape: str) -> None:
    program, arguments, expected = bound(example, shape)
    for number, target in enumerate(RUNNABLE):
        for candidate in candidates(example, shape, target):
            wrong = difference(lower(program, candidate), target, arguments, expected, at_end=number % 2 == 0)
            assert wrong is None, f"{example} {shape} on {target.name}: {wrong}\n{candidate}"


def kinds(program: Program, candidate: Candidate) -> Iterator[str]:
    """Names of the mechanisms that a candidate uses."""
    view = tiled(program, candidate.tiles)
    lets, phases = view.program.lets(), view.graph.phases
    storage, transfer, nests = dict(candidate.storage), dict(candidate.transfer), dict(candidate.nests)
    for number, chosen in candidate.contribution:
        yield "lanes of its own" if chosen.axis is not None else "lanes of outputs"
        yield from ["grouped outputs"] * (chosen.group > 1) + ["chains"] * (chosen.chains > 1)
        yield from ["unrolled contributions"] * bool(chosen.blocks)
        yield "buffered reduction" if number in nests else "inline reduction"
    for number, kept in storage.items():
        if isinstance(kept, Buffered) and phases[number].kind is PhaseKind.LOAD:
            yield "transposed copy" if transfer.get(number) is Transfer.TRANSPOSE else "copy"
            yield from ["panels"] * bool(kept.panel)
    for tile in candidate.tiles:
        if tile.block > 1 and view.program.axes[tile.axis].kind is AxisKind.PROGRAM and lets:
            yield "joined programs"
    yield from ["split loop"] * bool(candidate.predicates)
    yield from ["loop order"] * any(compute.order for _, compute in candidate.compute)
    yield from ["clones"] * (candidate.packet is Clones.FULL)
    yield f"planner {candidate.planner.value}"


def test_every_kind_of_choice_occurs() -> None:
    found = {
        kind
        for example, shape in CASES
        for target in RUNNABLE
        for candidate in candidates(example, shape, target)
        for kind in kinds(bound(example, shape)[0], candidate)
    }
    assert found >= {
        "lanes of its own",
        "lanes of outputs",
        "grouped outputs",
        "chains",
        "unrolled contributions",
        "buffered reduction",
        "inline reduction",
        "copy",
        "transposed copy",
        "panels",
        "joined programs",
        "split loop",
        "loop order",
        "clones",
        *(f"planner {planner.value}" for planner in Planner),
    }
