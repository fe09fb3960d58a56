"""A machine made of numbers: candidates, their true times, a model that is wrong about them, a session on it.
Must not know how the search works."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autotune.ir.buffer import Tail, Transfer
from autotune.ir.types import DType
from autotune.measure.environment import Environment, observe
from autotune.measure.gate import Passed
from autotune.measure.noise import NoiseFloor, noise_of
from autotune.measure.protocol import Kernel
from autotune.measure.race import Contender, Finalist, Standing, race, rank
from autotune.measure.states import (
    Checks,
    CompileError,
    CompileFailure,
    CompileTimeout,
    Crash,
    Measured,
    Noisy,
    RaceResult,
    RunFailure,
)
from autotune.realizations.candidate import (
    Block,
    Buffered,
    Candidate,
    Clones,
    Compute,
    Direct,
    Inline,
    Mapping,
    Storage,
    Tile,
)
from autotune.search.encode import ChoiceMatrix, encode
from autotune.store.keys import Isa, Toolchain, Workload, WorkloadKey

Times = tuple[NDArray[np.float64], NDArray[np.float64]]

LANES = (4, 8, 16)
FACTORS = (1, 2, 4, 8)
CHAINS = (1, 2, 4, 8)
STORAGES: tuple[Storage, ...] = (Inline(), Direct(), Buffered(layout=(1,)))
TAILS = (Tail.MASK, Tail.SCALAR)
PACKS = (1, 4, 8)
VARIANTS = ("short", "long")
WITHOUT_EFFECT = {"p0.order", "p1.order", "planner", "predicates"}
"""Choices of candidates that a row kernel has no use for: this machine does not feel them."""


def every_candidate() -> list[Candidate]:
    """Every combination that a two-phase row kernel has on this machine; packed ones have no tail and gather."""
    found = []
    for lanes, factor, chains, storage, fused, pack, variant, clones in itertools.product(
        LANES, FACTORS, CHAINS, STORAGES, (False, True), PACKS, VARIANTS, Clones
    ):
        for tail in TAILS if pack == 1 else (None,):
            found.append(_candidate(lanes, factor, chains, storage, fused, pack, variant, clones, tail))
    return found


def _candidate(
    lanes: int,
    factor: int,
    chains: int,
    storage: Storage,
    fused: bool,
    pack: int,
    variant: str,
    clones: Clones,
    tail: Tail | None,
) -> Candidate:
    second = 0 if fused else 1
    mapping = Mapping(axis=1 if pack == 1 else 0, lanes=lanes)
    nests = (0,) if fused else (0, 1)
    return Candidate(
        tiles=(Tile(axis=0, block=pack),),
        mapping=((0, mapping), (1, mapping)),
        storage=((0, storage), (1, Inline())),
        nests=((0, 0), (1, second)),
        transfer=((0, Transfer.NONE if pack == 1 else Transfer.GATHER),),
        compute=(
            (0, Compute(blocks=(Block(axis=1, factor=factor),), chains=chains, variants=(("exp", variant),))),
            (1, Compute()),
        ),
        tail=tuple((nest, tail) for nest in nests) if tail is not None else (),
        packet=clones,
    )


def synthetic_machine(matrix_codes: NDArray[np.int16], seed: int, *, model_error: float) -> Times:
    """True times and the model's times of every candidate.

    Times are products of main effects and pair effects of the choices; the model knows the main effects through
    errors of `model_error` in log time, and none of the pair effects.
    """
    random = np.random.default_rng(seed)
    count, axes = matrix_codes.shape
    levels = int(matrix_codes.max()) + 1
    effects = random.normal(0.0, 0.15, (axes, levels))
    errors = random.normal(0.0, model_error, (axes, levels))
    log_time, log_model = np.zeros(count), np.zeros(count)
    for axis in range(axes):
        log_time += effects[axis, matrix_codes[:, axis]]
        log_model += (effects + errors)[axis, matrix_codes[:, axis]]
    for first, second in itertools.combinations(random.choice(axes, 5, replace=False), 2):
        pair = random.normal(0.0, 0.06, (levels, levels))
        log_time += pair[matrix_codes[:, first], matrix_codes[:, second]]
    return 1e4 * np.exp(log_time), 3e4 * np.exp(log_model)


@pytest.fixture(scope="session")
def candidates() -> list[Candidate]:
    return every_candidate()


@pytest.fixture(scope="session")
def matrix(candidates: list[Candidate]) -> ChoiceMatrix:
    return encode(candidates)


@pytest.fixture(scope="session")
def machine(matrix: ChoiceMatrix) -> Callable[..., Times]:
    """`machine(seed, model_error=…)`: true times and model times of `candidates`."""
    felt = [p.name not in WITHOUT_EFFECT for p in matrix.parameters]
    return lambda seed, model_error: synthetic_machine(matrix.codes[:, felt], seed, model_error=model_error)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedKernel:
    """What a compiler would hand back; the object's bytes stand for the candidate."""

    object_bytes: bytes
    sha256: str
    symbol: str = "entry"
    workspace_bytes: int = 0
    packets: int = 1
    code_bytes: int = 1000
    compile_seconds: float = 0.1


class SimulatedSession:
    """A session on a machine of numbers: `times_ns` by candidate id, `faults` that end a candidate instead.

    Ctrl-C comes before timing number `interrupt_at`, or the end of the process if `kill` is set.
    """

    def __init__(
        self,
        times_ns: dict[str, float],
        faults: dict[str, CompileFailure | RunFailure | Noisy] | None = None,
        *,
        noise: float = 0.002,
        interrupt_at: int | None = None,
        kill: bool = False,
    ) -> None:
        self.times_ns, self.faults = times_ns, faults or {}
        self.interrupt_at, self.kill = interrupt_at, kill
        self.compiled: list[str] = []
        self.timed: list[str] = []
        self.shootouts: list[list[str]] = []
        self.compile_seconds: Callable[[str], float] = lambda id: 0.1
        self._noise, self._random = noise, np.random.default_rng(0)

    def compile(self, candidate: object) -> Future[Any]:
        assert isinstance(candidate, Candidate)
        id = candidate.id
        self.compiled.append(id)
        future: Future[Any] = Future()
        fault = self.faults.get(id)
        failed = isinstance(fault, CompileError | CompileTimeout) or (
            isinstance(fault, Crash) and fault.stage == "compile"
        )
        kernel = SimulatedKernel(
            object_bytes=id.encode(), sha256=f"{id:0<64}", compile_seconds=self.compile_seconds(id)
        )
        future.set_result(fault if failed else kernel)
        return future

    def gate(self, kernel: Kernel) -> Passed | RunFailure:
        fault = self.faults.get(kernel.object_bytes.decode())
        if fault is None or isinstance(fault, Noisy):
            return Passed(checks=Checks(kinds=("normal",), repeated=True, guard_pages=True), first_call_ns=1)
        assert not isinstance(fault, CompileTimeout)
        return fault

    def time(self, kernel: Kernel) -> Measured | RunFailure:
        self._count(kernel)
        samples = tuple(self._sample(kernel) for _ in range(15))
        return Measured(ns=sorted(samples)[7], samples_ns=samples)

    def race(self, kernel: Kernel, incumbent: Kernel) -> RaceResult | RunFailure:
        self._count(kernel)
        fault = self.faults.get(kernel.object_bytes.decode())
        if isinstance(fault, Noisy):
            return fault
        who = {Contender.A: incumbent, Contender.B: kernel}
        return race(lambda contender: self._sample(who[contender]))

    def noise_floor(self, kernel: Kernel) -> NoiseFloor | RunFailure:
        twins = [race(lambda _: self._sample(kernel)) for _ in range(3)]
        return noise_of(twins)

    def shootout(self, kernels: Sequence[Kernel]) -> list[Standing]:
        self.shootouts.append([kernel.object_bytes.decode() for kernel in kernels])
        return rank(
            [
                Finalist(
                    name=kernel.sha256,
                    code_bytes=kernel.code_bytes,
                    compile_seconds=kernel.compile_seconds,
                    rounds_ns=tuple(tuple(self._sample(kernel) for _ in range(10)) for _ in range(2)),
                )
                for kernel in kernels
            ]
        )

    def environment(self) -> Environment:
        return observe(core=0, huge_page_bytes=0)

    def _count(self, kernel: Kernel) -> None:
        if self.interrupt_at is not None and len(self.timed) >= self.interrupt_at:
            raise Killed if self.kill else KeyboardInterrupt
        self.timed.append(kernel.object_bytes.decode())

    def _sample(self, kernel: Kernel) -> float:
        true_ns = self.times_ns[kernel.object_bytes.decode()]
        return float(true_ns * (1 + self._noise * abs(self._random.standard_normal())))


class Killed(BaseException):
    """Stands for the end of the process: nothing of the search may handle it."""


@pytest.fixture
def simulated() -> type[SimulatedSession]:
    return SimulatedSession


@pytest.fixture
def killed() -> type[Killed]:
    return Killed


@pytest.fixture
def workload() -> Workload:
    isa = Isa(
        name="avx512",
        triple="x86_64-unknown-linux-gnu",
        cpu="znver4",
        features="+avx512f",
        vector_bytes=64,
        l1_bytes=2**15,
        l2_bytes=2**20,
        l3_bytes=2**25,
    )
    key = WorkloadKey(
        kernel="a" * 64,
        shape=(129, 512),
        dtypes=(DType.F32, DType.F32),
        isa=isa,
        toolchain=Toolchain(llvm="22.1.0", llvmlite="0.50.0", code_generation=1),
    )
    return Workload(key=key, kernel_name="row", dims=("M", "N"))
