"""Candidates of one case by label: compiled and checked in worker processes, then timed side by side in this one.
Must not know why a candidate is in the field or what its time means."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from autotune.ir.program import Program
from autotune.jit import host_target
from autotune.measure.cases import make_cases
from autotune.measure.gate import Passed
from autotune.measure.protocol import Kernel
from autotune.measure.server import ForkServer
from autotune.measure.session import Session
from autotune.measure.states import CompileError, CompileTimeout, Crash
from autotune.realizations.candidate import Candidate
from autotune.realizations.legality import judge
from autotune.realizations.target import Target
from autotune.realizations.verdict import Legal
from autotune.search.families import Family
from benchmarks.buffers import Buffers
from benchmarks.case import Case
from benchmarks.environment import pinned
from benchmarks.ours import bind, kernel_of, loaded
from benchmarks.timing import Call, interleaved

OF_ONE_STRUCTURE = 4
"""Candidates of one label that share storage, fusion and transfers: the model may like one structure too well."""
SEED = 20_261_130


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What is timed in one case: by label, the kernels by candidate that were found right, and how many were not."""

    kernels: dict[str, dict[str, Kernel]]
    failed: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best candidate of one label.

    Units: `ns` nanoseconds a call in each round after those that picked it; the rounds of all labels are the same.
    """

    candidate: str
    ns: tuple[float, ...]

    @property
    def us(self) -> float:
        """Median microseconds a call."""
        return median(self.ns) / 1e3

    def ratios(self, other: Best) -> list[float]:
        """Its time over that of another one, in every round."""
        return [own / its for own, its in zip(self.ns, other.ns, strict=True)]


def first_legal(program: Program, target: Target, families: Sequence[Family], count: int) -> list[Candidate]:
    """The first `count` legal candidates by the model."""

    def stream(number: int, family: Family) -> Iterator[tuple[float, int, tuple[int, ...]]]:
        for found in islice(family.labels(target).cheapest(), OF_ONE_STRUCTURE):
            yield family.ns(found.picks), number, found.picks

    merged = heapq.merge(*(stream(k, family) for k, family in enumerate(families)))
    candidates = dict.fromkeys(families[number].candidate(picks) for _, number, picks in islice(merged, 64 * count))
    return list(islice((c for c in candidates if isinstance(judge(program, c, target), Legal)), count))


def checked(of: Case, listed: Mapping[str, Sequence[Candidate]]) -> Field:
    """Compile and check everything in worker processes: what crashes, hangs or is wrong is counted and left out."""
    kernel = kernel_of(of)
    program = kernel.bind(**of.extents)
    cases = make_cases(program, SEED, sizes=of.extents, scalars=dict(of.scalars), generator=kernel.inputs_function)
    kernels: dict[str, dict[str, Kernel]] = {}
    with ForkServer() as server, Session(server, program, host_target(), cases, seed=SEED) as session:
        for label, candidates in listed.items():
            pending = [(candidate, session.compile(candidate)) for candidate in candidates]
            answers = ((candidate, future.result()) for candidate, future in pending)
            kernels[label] = {candidate.id: made for candidate, made in answers if _right(session, made)}
    failed = {label: len(candidates) - len(kernels[label]) for label, candidates in listed.items()}
    return Field(kernels=kernels, failed=failed)


def _right(session: Session, made: object) -> bool:
    if isinstance(made, CompileError | CompileTimeout | Crash):
        return False
    return isinstance(session.gate(made), Passed)  # type: ignore[arg-type]  # what is no failure is a kernel


def timed(of: Case, field: Field, rounds: int) -> dict[str, Best]:
    """Time all candidates side by side; the first half of the rounds picks the best of each label, the second times
    it, so that none is taken for its luck. A label without a right candidate is left out."""
    times = side_by_side(of, field, 2 * rounds)
    chosen = {
        label: min(kernels, key=lambda id: median(times[id][:rounds]))
        for label, kernels in field.kernels.items()
        if kernels
    }
    return {label: Best(candidate=id, ns=times[id][rounds:]) for label, id in chosen.items()}


def side_by_side(of: Case, field: Field, rounds: int) -> dict[str, tuple[float, ...]]:
    """Nanoseconds a call of every candidate by its id, in rounds that take one sample of each."""
    buffers = Buffers(of, SEED)
    objects = {id: kernel for kernels in field.kernels.values() for id, kernel in kernels.items()}
    workspace = buffers.scratch(max((kernel.workspace_bytes for kernel in objects.values()), default=64) or 64)
    prepared = {id: bind(loaded(id, kernel), of, buffers, workspace) for id, kernel in objects.items()}
    calls: list[Call] = [each.call for each in prepared.values()]
    with pinned():
        columns = interleaved(calls, rounds=rounds, rng=random.Random(of.name))
    return {id: tuple(column) for id, column in zip(prepared, columns, strict=True)}
