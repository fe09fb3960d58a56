"""Compiles candidates and compares them with the oracle, in a forked child that a wild store may kill.
Must not know how candidates are chosen."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from autotune import build, jit
from autotune.ir.program import Scalar
from autotune.ir.verdict import Correct, check
from autotune.measure.buffers import MEMORY_TYPES
from autotune.measure.cases import Case, make_cases, poison_array
from autotune.realizations.candidate import Candidate
from autotune.realizations.target import Target
from tests.conformance.cases import Workload
from tests.realizations.execute import aligned, slot_of

_POISON = 0xFF
LEAST_CHECKED = 8  # candidates that are checked however late it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How many candidates were checked before the deadline, and what was wrong with some, as text with their data."""

    checked: int
    failures: tuple[str, ...]


def check_candidates(
    workload: Workload, candidates: Sequence[Candidate], target: Target, seed: int, deadline: float = float("inf")
) -> Outcome:
    """Compile, run on every kind of input and compare, until `deadline` on the monotonic clock or LEAST_CHECKED."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_check_all, args=(workload, candidates, target, seed, deadline, sender))
    child.start()
    sender.close()
    checked, current, failures = 0, "nothing", []
    try:
        while (message := receiver.recv()) is not None:
            current, failure = message
            checked += failure is not None
            if failure:
                failures.append(failure)
    except EOFError:
        child.join()
        failures.append(f"the child ended with {child.exitcode} while it checked {current}")
    child.join()
    return Outcome(checked=checked, failures=tuple(failures))


def _check_all(
    workload: Workload, candidates: Sequence[Candidate], target: Target, seed: int, deadline: float, sender: Connection
) -> None:
    """Child: a message with None before each candidate, one with what was wrong after, None at the end."""
    cases = make_cases(
        workload.program, seed, sizes=workload.sizes, scalars={}, generator=workload.kernel.inputs_function
    )
    for number, candidate in enumerate(candidates):
        if number >= LEAST_CHECKED and time.monotonic() > deadline:
            break
        sender.send((repr(candidate), None))
        failure = check_candidate(workload, candidate, target, cases)
        sender.send((repr(candidate), f"{failure}\n  {candidate}" if failure else ""))
    sender.send(None)


def check_candidate(workload: Workload, candidate: Candidate, target: Target, cases: Sequence[Case]) -> str | None:
    """What is wrong with a candidate's results, None where nothing is."""
    kernel = build.build(workload.program, candidate, target)
    handle = jit.load(kernel.object_bytes, kernel.symbol)
    for case in cases:
        outputs = run(workload, handle, kernel, case)
        verdict = check(outputs, case.expected)
        if not isinstance(verdict, Correct):
            return f"{case.kind.value}: {verdict}"
    return None


def run(workload: Workload, handle: jit.Handle, kernel: build.CompiledKernel, case: Case) -> dict[str, np.ndarray]:
    """Outputs of one call over all packets, from poisoned outputs and a poisoned workspace."""
    slots, outputs, kept = [], {}, []
    for parameter in workload.program.parameters:
        given = case.arguments.get(parameter.name)
        if isinstance(parameter, Scalar):
            slots.append(slot_of(MEMORY_TYPES[parameter.dtype].type(given)))
            continue
        if given is None:
            given = outputs[parameter.name] = np.ascontiguousarray(poison_array(parameter, _POISON))
        kept.append(given)
        slots.append(slot_of(given))
    workspace = aligned(kernel.workspace_bytes + 64, np.uint8)
    workspace[...] = _POISON
    arguments = (ctypes.c_uint64 * len(slots))(*slots)
    handle.function()(arguments, workspace.ctypes.data, 0, kernel.packets)
    return outputs
