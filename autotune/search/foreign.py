"""The search for a target that this machine cannot run: its best candidates are compiled, and none is measured.
Must not know how candidates are enumerated or compiled."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from autotune.measure.states import CompileError, CompileFailure, CompileTimeout, Crash
from autotune.search.ledger import Ledger, failure_sentence, refused_rules
from autotune.search.loop import Stopwatch
from autotune.search.progress import CandidateCompiled, OnEvent, Phase, PhaseStarted, SpaceReady
from autotune.search.result import Compilation, Ending, SearchResult
from autotune.search.space import SearchSet
from autotune.search.stop import Budget, Limits, MaxTrials, StopRule
from autotune.store.keys import Workload

MODEL_BEST = 8
"""How many of the model's best are compiled after the reference candidate."""


class Compiler(Protocol):
    """What is asked of `autotune.measure.session.Session`: its worker compiles, so that LLVM may abort."""

    def compile(self, candidate: object) -> Future[Any]: ...


def compile_only(
    space: SearchSet,
    compiler: Compiler,
    workload: Workload,
    limits: Limits,
    *,
    target: str,
    seed: int,
    watch: Stopwatch,
    on_event: OnEvent,
) -> SearchResult:
    """Compile the reference candidate whatever the limits, then the model's best within them; nothing is stored.

    A candidate that does not compile is reported with its cause, and the next one follows.
    """
    watch.add("preparing", watch.elapsed_s)
    refused = refused_rules(space.refused)
    ready = SpaceReady(
        candidates=len(space.candidates),
        legal=space.legal_count,
        refused=sum(rule.count for rule in refused),
        restored=0,
    )
    on_event(PhaseStarted(title=workload.title, phase=Phase.COMPILE))
    on_event(ready)
    rows = _rows(space)
    compiled: list[Compilation] = []
    failed: dict[str, CompileFailure] = {}
    stopped: StopRule | None = None
    for row in rows:
        stopped = _limit_reached(limits, watch, len(compiled))
        if stopped is not None:
            break
        with watch.timing("compiling"):
            answer = compiler.compile(space.candidates[row]).result()
        compiled.append(_compilation(space, row, answer))
        if isinstance(answer, CompileError | CompileTimeout | Crash):
            failed[compiled[-1].id] = answer
        on_event(CandidateCompiled(compilation=compiled[-1], done=len(compiled), total=len(rows)))
    on_event(PhaseStarted(title=workload.title, phase=Phase.DONE))
    ledger = Ledger(legal_count=space.legal_count - len(compiled) + len(failed), refused=refused)
    for id, failure in failed.items():
        ledger.record(id, failure)
    return SearchResult(
        title=workload.title,
        workload=workload.key.id,
        target=target,
        seed=seed,
        ending=_ending(compiled),
        winner=None,
        reference=None,
        model_first=None,
        tied=False,
        candidates=len(space.candidates),
        legal=space.legal_count,
        join=space.status,
        trials=0,
        restored=0,
        counts=ledger.counts(),
        failures=ledger.failures(),
        refused=refused,
        stopped_by=stopped,
        seconds=watch.spent,
        compiled=tuple(compiled),
        forbidden=tuple(sorted(space.forbidden)),
        only=space.only,
    )


def _rows(space: SearchSet) -> list[int]:
    """The reference candidate's row, then the rows of the model's best."""
    if not len(space.candidates):
        return []
    best = np.argsort(space.prior_ns, kind="stable")[: MODEL_BEST + 1]
    return [space.reference, *[int(row) for row in best if row != space.reference][:MODEL_BEST]]


def _limit_reached(limits: Limits, watch: Stopwatch, done: int) -> StopRule | None:
    if done and limits.max_trials is not None and done >= limits.max_trials:
        return MaxTrials(count=limits.max_trials)
    if done and limits.budget_s is not None and watch.elapsed_s >= limits.budget_s:
        return Budget(seconds=limits.budget_s)
    return None


def _ending(compiled: list[Compilation]) -> Ending:
    if not compiled:
        return Ending.NOTHING_LEGAL
    return Ending.COMPILED if any(each.failure is None for each in compiled) else Ending.NOTHING_COMPILED


def _compilation(space: SearchSet, row: int, answer: Any) -> Compilation:
    """What became of one candidate: `answer` is a kernel or a failure."""
    candidate = space.candidates[row]
    known = Compilation(
        id=candidate.id,
        candidate=candidate,
        reference=row == space.reference,
        predicted_ns=float(space.prior_ns[row]),
    )
    if isinstance(answer, CompileError | CompileTimeout | Crash):
        return replace(known, failure=failure_sentence(answer))
    return replace(
        known,
        compile_seconds=answer.compile_seconds,
        code_bytes=answer.code_bytes,
        workspace_bytes=answer.workspace_bytes,
        object_sha256=answer.sha256,
    )
