"""Records golden tables: every candidate of a subspace compiled and checked once, then timed in two passes.
Must not know what a table is used for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from autotune.calibration.prior import prior
from autotune.jit import CODE_GENERATION_VERSION, host_target, llvm_version
from autotune.measure.cases import make_cases
from autotune.measure.environment import observe
from autotune.measure.gate import Passed
from autotune.measure.protocol import Kernel
from autotune.measure.server import ForkServer
from autotune.measure.session import Session
from autotune.measure.states import CompileError, CompileTimeout, Crash, State
from autotune.search.conditions import parse_conditions
from autotune.search.join import search_set
from autotune.search.recording import SUFFIX, Entry, Recording, write_recording
from autotune.search.space import JoinStatus, SearchSet
from autotune.store.keys import SPACE_VERSION
from benchmarks.buffers import Buffers
from benchmarks.case import Case
from benchmarks.environment import pinned
from benchmarks.golden_cases import GoldenCase
from benchmarks.ours import bind, kernel_of, loaded
from benchmarks.timing import Call, compare, quick_us

FOLDER = Path(__file__).resolve().parent / "golden"
SEED = 20_261_201
WHOLE = 200_000  # combinations, more than any subspace has before conditions on several nests are looked at
LEAST, MOST = 300, 1_000  # candidates of a table
ROUNDS = 7  # ABBA rounds against the yardstick, in each pass
COMPILED_AHEAD = 4

Ends = Mapping[str, tuple[State, Kernel | None]]


class UnfitSubspace(ValueError):
    """The conditions of a table leave too few or too many candidates, or the join did not come to all of them."""


def record(
    cases: Sequence[GoldenCase], folder: Path, *, again: bool, announce: Callable[[str], None]
) -> Iterator[Path]:
    """Record the tables that the folder lacks (all of them with `again`), each written whole when it is complete.

    Raises: UnfitSubspace.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for golden in cases:
        path = folder / (golden.file_name + SUFFIX)
        if path.exists() and not again:
            announce(f"{golden.case.name}: recorded already")
            continue
        started = time.perf_counter()
        recording = _recorded(golden, announce)
        write_recording(path, recording)
        announce(f"{golden.case.name}: {len(recording.entries)} candidates in {time.perf_counter() - started:.0f} s")
        yield path


def subspace(golden: GoldenCase) -> SearchSet:
    """Every candidate of a table's subspace, and the reference.

    Raises: UnfitSubspace.
    """
    program, target = kernel_of(golden.case).bind(**golden.case.extents), host_target()
    only = parse_conditions(golden.only, program)
    space = search_set(program, target, prior(target), limit=WHOLE, sample=0, only=only)
    if space.status is not JoinStatus.EXACT or not LEAST <= len(space.candidates) <= MOST:
        found = f"{len(space.candidates)} of {space.legal_count} candidates ({space.status.value})"
        raise UnfitSubspace(f"{golden.case.name} has {found}: expected all of {LEAST} to {MOST}")
    return space


def _recorded(golden: GoldenCase, announce: Callable[[str], None]) -> Recording:
    case, space = golden.case, subspace(golden)
    announce(f"{case.name}: compiling and checking {len(space.candidates)}")
    ends = _ends(case, space)
    kernels = {id: kernel for id, (_, kernel) in ends.items() if kernel is not None}
    passes = []
    for number in (1, 2):
        announce(f"{case.name}: pass {number}")
        passes.append(_timed(case, kernels, random.Random(f"{case.name}, pass {number}")))
    entries = []
    for candidate, prior_ns in zip(space.candidates, space.prior_ns, strict=True):
        state, kernel = ends[candidate.id]
        entries.append(
            Entry(
                candidate=candidate,
                prior_ns=float(prior_ns),
                state=state,
                first_ns=passes[0].get(candidate.id),
                second_ns=passes[1].get(candidate.id),
                compile_seconds=None if kernel is None else kernel.compile_seconds,
                code_bytes=None if kernel is None else kernel.code_bytes,
            )
        )
    return Recording(about=_about(golden), entries=tuple(entries), reference=space.reference)


def _ends(of: Case, space: SearchSet) -> Ends:
    """The end of every candidate by its id, measured ones with their kernels: compiled while others are checked."""
    kernel = kernel_of(of)
    program = kernel.bind(**of.extents)
    cases = make_cases(program, SEED, sizes=of.extents, scalars=dict(of.scalars), generator=kernel.inputs_function)
    ends: dict[str, tuple[State, Kernel | None]] = {}
    with ForkServer() as server, Session(server, program, host_target(), cases, seed=SEED) as session:
        pending = [(candidate.id, session.compile(candidate)) for candidate in space.candidates[:COMPILED_AHEAD]]
        waiting = iter(space.candidates[COMPILED_AHEAD:])
        while pending:
            id, future = pending.pop(0)
            made = future.result()
            following = next(waiting, None)
            if following is not None:
                pending.append((following.id, session.compile(following)))
            if isinstance(made, CompileError | CompileTimeout | Crash):
                ends[id] = made.state, None
                continue
            passed = session.gate(made)
            ends[id] = (State.MEASURED, made) if isinstance(passed, Passed) else (passed.state, None)
    return ends


def _timed(of: Case, kernels: Mapping[str, Kernel], rng: random.Random) -> dict[str, float]:
    """Nanoseconds a call by candidate, in random order, each measured against one yardstick in the same rounds.

    The yardstick is a fast candidate; what its own time does from minute to minute cancels. Memory and code are laid
    out anew in every pass.
    """
    buffers = Buffers(of, SEED)
    workspace = buffers.scratch(max((kernel.workspace_bytes for kernel in kernels.values()), default=64) or 64)
    order = list(kernels)
    rng.shuffle(order)
    prepared = {id: bind(loaded(id, kernels[id]), of, buffers, workspace) for id in order}
    calls: dict[str, Call] = {id: each.call for id, each in prepared.items()}
    with pinned():
        rough = {id: quick_us(call, samples=3) for id, call in calls.items()}
        yardstick = min(rough, key=lambda id: rough[id])
        found = {id: compare(calls[id], calls[yardstick], rounds=ROUNDS, rng=rng) for id in order}
    level_us = sorted(each.peer_us for each in found.values())[len(found) // 2]
    return {id: each.ratio * level_us * 1e3 for id, each in found.items()}


def _about(golden: GoldenCase) -> dict[str, object]:
    target = host_target()
    return {
        "case": golden.case.name,
        "kernel": golden.case.kernel,
        "shape": dict(golden.case.extents),
        "only": list(golden.only),
        "target": {
            "name": target.name,
            "cpu": target.cpu,
            "l1_bytes": target.l1_bytes,
            "l2_bytes": target.l2_bytes,
            "l3_bytes": target.l3_bytes,
        },
        "machine": asdict(observe(core=0, huge_page_bytes=0)),
        "code": {"llvm": llvm_version(), "code_generation": CODE_GENERATION_VERSION, "space": SPACE_VERSION},
        "protocol": f"two passes in random order; {ROUNDS} ABBA rounds of each candidate against the fastest one",
        "recorded": datetime.now(UTC).date().isoformat(),
    }
