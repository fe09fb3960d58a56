"""The parts that a call is made of in this program: the store, the legality rules, the compiler, the oracle.
Must not know arguments or shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune import build, jit
from autotune.call_entry import Backend, Kernel, Run
from autotune.call_recheck import fault
from autotune.ir.program import Number, Program
from autotune.planner import Answer, lookup
from autotune.realizations.candidate import Candidate
from autotune.realizations.legality import judge
from autotune.realizations.reference import reference_candidate
from autotune.realizations.target import Target
from autotune.realizations.verdict import Refused
from autotune.settings import load_settings


def default_backend() -> Backend:
    """The backend that the settings ask for.

    Raises: the errors of `load_settings` and of `jit.parse_target`.
    """
    settings = load_settings()

    def find(kernel: Kernel, sizes: Mapping[str, int], target: Target) -> Answer:
        return lookup(kernel, sizes, target, database=settings.database)

    return Backend(
        target=jit.parse_target(settings.target),
        lookup=find,
        refusal=_refusal,
        reference=_reference,
        build=build.build,
        load=jit.load,
        fault=_fault,
    )


def _refusal(program: Program, candidate: Candidate, target: Target) -> str | None:
    verdict = judge(program, candidate, target)
    if isinstance(verdict, Refused):
        return "; ".join(f"{reason.rule}: {reason.sentence}" for reason in verdict.reasons)
    return None


def _reference(program: Program, target: Target) -> Candidate:
    return reference_candidate(program, target)


def _fault(
    kernel: Kernel, program: Program, sizes: Mapping[str, int], scalars: Mapping[str, Number], run: Run
) -> str | None:
    generator: Any = getattr(kernel, "inputs_function", None)
    return fault(program, sizes, scalars, generator, run)
