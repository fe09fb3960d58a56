"""The stored answer to "how should this kernel run at this shape", for other programs.
Must not know search, measurement or compilation, nor import any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeAlias

from autotune.errors import AutotuneError
from autotune.ir.program import Program
from autotune.realizations.candidate import Candidate
from autotune.realizations.target import Target
from autotune.settings import load_settings
from autotune.store.database import Database, open_readonly
from autotune.store.errors import MissingStore
from autotune.store.keys import (
    HOT,
    AlignmentClass,
    CacheMode,
    Difference,
    Workload,
    WorkloadKey,
    cache_mode,
    current_toolchain,
    differences,
    isa_of,
    workload_of,
)
from autotune.store.records import Outcome, Rigor, StoredPolicy


class Kernel(Protocol):
    """What a lookup needs to know of a kernel: its name and its program, dimensions still symbols."""

    @property
    def name(self) -> str: ...
    @property
    def program(self) -> Program: ...


class WrongShape(AutotuneError):
    """A shape that does not give the kernel's dimensions."""

    sentence = "the shape {given} does not give the dimensions of {kernel}"
    remedy = "expected {expected}"


class NamedByFingerprint(AutotuneError):
    """Tensors named where the kernel is given as a fingerprint, which has no names."""

    sentence = "the fingerprint {fingerprint} has no tensor names, so none of its tensors can be asked for as cold"
    remedy = "look the kernel up by its program"


class MatchLevel(Enum):
    """How close the record is to what was asked."""

    EXACT = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What to run, and how far to trust it.

    `staleness` lists the key fields in which the record departs from what was asked, none at an exact match.
    `outcome` is the measurement behind it. Whoever compiles the candidate must judge its legality first, and may trust
    `expected_ns` only if the object's SHA-256 equals `object_sha256`.

    Units: nanoseconds a call; `interval_ns` holds nine in ten of the samples, None where nothing was measured.
    """

    workload: Workload
    candidate: Candidate
    expected_ns: float
    interval_ns: tuple[float, float] | None
    rigor: Rigor
    match: MatchLevel
    staleness: tuple[Difference, ...]
    object_sha256: str | None
    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPolicy:
    """There is none, and why; `nearest` is the record of this kernel that departs in the fewest key fields."""

    why: str
    nearest: Workload | None = None
    differences: tuple[Difference, ...] = ()


Answer: TypeAlias = Policy | NoPolicy
Shape: TypeAlias = Mapping[str, int] | Sequence[int]


def lookup(
    kernel: Kernel | str,
    shape: Shape,
    target: Target,
    *,
    database: Path | None = None,
    cold: Sequence[str] = (),
    alignment: AlignmentClass = AlignmentClass.LINE,
    threads: int = 1,
) -> Answer:
    """The best known candidate of a kernel (or of the program with this fingerprint) at a shape on a target.

    Shapes: sizes by dimension name, or in the order of the program's dimensions; a fingerprint has no names.
    `cold` names the tensors that are in no cache when a call starts (`all` for every one), `alignment` what the
    tensors' addresses are multiples of.
    Units: see Policy. `database` is the store's path, the settings' where it is not given; it is opened read-only.
    Raises: WrongShape, UnknownColdTensor, NamedByFingerprint; OlderSchema and UnusableStore where the store cannot be
    read. No record is no error.
    """
    path = database or load_settings().database
    sizes = _sizes(kernel, shape)
    cache = _cache(kernel, cold)
    try:
        store = open_readonly(path)
    except MissingStore as error:
        return NoPolicy(why=error.message)
    with store:
        if isinstance(kernel, str):
            known = store.workloads(kernel=kernel)
            if not known:
                return NoPolicy(why=f"{path} has no record of a program with the fingerprint {kernel[:12]}")
            # A fingerprint has one list of element types; the rest of the key is the caller's.
            key = WorkloadKey(
                kernel=kernel,
                shape=sizes,
                dtypes=known[0].key.dtypes,
                cache=cache,
                alignment=alignment,
                threads=threads,
                isa=isa_of(target),
                toolchain=current_toolchain(),
            )
            return _answer(store, key, known[0].kernel_name)
        named = dict(zip(kernel.program.dims, sizes, strict=True))
        workload = workload_of(kernel.program, named, target, cache=cache, alignment=alignment, threads=threads)
        return _answer(store, workload.key, kernel.name)


def _answer(store: Database, key: WorkloadKey, name: str) -> Answer:
    found = store.best(key.id)
    return _miss(store, key, name) if found is None else _hit(store, found)


def _sizes(kernel: Kernel | str, shape: Shape) -> tuple[int, ...]:
    if isinstance(kernel, str):
        if isinstance(shape, Mapping):
            raise WrongShape(given=dict(shape), kernel=f"fingerprint {kernel[:12]}", expected="a sequence of sizes")
        return tuple(int(size) for size in shape)
    dims = kernel.program.dims
    fits = set(shape) == set(dims) if isinstance(shape, Mapping) else len(shape) == len(dims)
    if not fits:
        given = dict(shape) if isinstance(shape, Mapping) else tuple(shape)
        raise WrongShape(given=given, kernel=kernel.name, expected=f"a size for each of {', '.join(dims) or 'none'}")
    return tuple(int(shape[name]) for name in dims) if isinstance(shape, Mapping) else tuple(int(s) for s in shape)


def _cache(kernel: Kernel | str, cold: Sequence[str]) -> CacheMode:
    if not isinstance(kernel, str):
        return cache_mode(kernel.program, cold)
    if cold:
        raise NamedByFingerprint(fingerprint=kernel[:12])
    return HOT


def _hit(store: Database, found: StoredPolicy) -> Policy:
    workload = store.workload(found.workload)
    candidate = store.candidate(found.outcome.candidate)
    assert workload is not None and candidate is not None  # foreign keys of the store
    return Policy(
        workload=workload,
        candidate=candidate,
        expected_ns=found.expected_ns,
        interval_ns=found.interval_ns,
        rigor=found.rigor,
        match=MatchLevel.EXACT,
        staleness=(),
        object_sha256=found.outcome.object_sha256,
        outcome=found.outcome,
        why=f"{_basis(found)}; every field of the key agrees",
    )


def _basis(found: StoredPolicy) -> str:
    match found.rigor:
        case Rigor.REFERENCE:
            return "the reference candidate, not measured"
        case Rigor.MODEL:
            return "first by predicted time, not measured"
        case Rigor.TRANSFER:
            return "the policy of a neighbouring shape, not measured here"
        case Rigor.RACED:
            return f"measured {len(found.outcome.samples_ns)} times and not beaten in its race"
        case Rigor.SHOOT_OUT:
            return "winner of the interleaved re-measurement of the finalists"
        case Rigor.EXHAUSTIVE:
            return "winner over every legal candidate"


def _miss(store: Database, key: WorkloadKey, name: str) -> NoPolicy:
    tried = store.outcomes(key.id)
    if tried:
        states = ", ".join(sorted({outcome.state.value for outcome in tried}))
        return NoPolicy(why=f"{len(tried)} candidates were tried and none became a policy ({states})")
    with_policy = {policy.workload for policy in store.policies()}
    near = [w for w in store.workloads(kernel=key.kernel) if w.key.id in with_policy]
    if not near:
        near = [w for w in store.workloads(name=name) if w.key.id in with_policy]
    if not near:
        return NoPolicy(why="the database has no policy for this kernel")
    nearest = min(near, key=lambda w: (len(differences(key, w.key)), w.key.id))
    departs = differences(key, nearest.key)
    listed = "; ".join(map(str, departs))
    return NoPolicy(
        why=f"no record agrees in every field of the key; in the nearest one, {nearest.title}, {listed}",
        nearest=nearest,
        differences=departs,
    )
