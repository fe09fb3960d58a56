"""Compiling for a target that cannot run here: what is picked, what a failure leaves, what the report says."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Protocol

import numpy as np
import pytest
from rich.console import Console

from autotune.measure.states import CompileError, CompileFailure, CompileTimeout, Crash, State
from autotune.report.lines import PlainLines
from autotune.report.live import LiveBlock
from autotune.report.outcome import print_result
from autotune.search.foreign import MODEL_BEST, compile_only
from autotune.search.ledger import StateCount
from autotune.search.loop import Stopwatch
from autotune.search.progress import OnEvent, ignore
from autotune.search.result import Ending, SearchResult
from autotune.search.space import JoinStatus, SearchSet
from autotune.search.stop import Limits
from autotune.store.keys import Workload

from .conftest import SimulatedSession, every_candidate

CANDIDATES = every_candidate()[:40]
SPACE = SearchSet(
    candidates=CANDIDATES,
    prior_ns=np.arange(len(CANDIDATES), 0.0, -1.0),  # the last is the model's first
    origin=np.zeros(len(CANDIDATES), np.int64),
    reference=3,
    legal_count=1000,
    refused=(("lanes-too-wide", 7, "64 lanes are too many"),),
    status=JoinStatus.FEASIBLE,
)
FAILURES = (
    CompileError(text="Cannot select: 0x1\nand more"),
    CompileTimeout(seconds=20.0),
    Crash(signal="SIGABRT", stage="compile", peak_bytes=2**20),
)


ORDER = (CANDIDATES[3], *reversed(CANDIDATES[-MODEL_BEST:]))


class Searched(Protocol):
    def __call__(self, *failures: CompileFailure, listener: OnEvent = ignore) -> SearchResult: ...


@pytest.fixture
def searched(simulated: type[SimulatedSession], workload: Workload) -> Searched:
    """`searched(*failures)`: the result where the first candidates end in these failures and the others compile."""

    def search(*failures: CompileFailure, listener: OnEvent = ignore) -> SearchResult:
        session = simulated({}, {candidate.id: failure for candidate, failure in zip(ORDER, failures, strict=False)})
        result = compiled_by(session, workload, SPACE, listener)
        assert session.compiled == [candidate.id for candidate in ORDER]
        return result

    return search


def compiled_by(session: SimulatedSession, workload: Workload, space: SearchSet, listener: OnEvent) -> SearchResult:
    watch = Stopwatch()
    return compile_only(space, session, workload, Limits(), target="neon", seed=0, watch=watch, on_event=listener)


def printed(result: SearchResult) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_result(console, result, verbose=False)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_reference_and_the_best_by_the_model_are_compiled_in_this_order(searched: Searched) -> None:
    result = searched()
    assert [each.candidate for each in result.compiled] == list(ORDER)
    assert [each.predicted_ns for each in result.compiled] == [37.0, *range(1, MODEL_BEST + 1)]
    assert result.ending is Ending.COMPILED


def test_failures_are_reported_and_the_next_candidate_follows(searched: Searched) -> None:
    result = searched(*FAILURES)
    assert result.ending is Ending.COMPILED
    assert [each.failure is None for each in result.compiled] == [False] * 3 + [True] * (MODEL_BEST - 2)
    assert {failure.state for failure in result.failures} == {failure.state for failure in FAILURES}
    text = printed(result)
    for part in ("failed", "Cannot select: 0x1", "not compiled after 20.0 s", "died of SIGABRT while at compile"):
        assert part in text


def test_every_legal_candidate_is_counted_once_and_none_as_measured(searched: Searched) -> None:
    result = searched(*FAILURES)
    sound = sum(each.failure is None for each in result.compiled)
    assert sum(entry.count for entry in result.counts) == SPACE.legal_count - sound + 7
    assert StateCount(state=State.PRUNED, count=1000 - len(result.compiled)) in result.counts
    assert State.MEASURED not in {entry.state for entry in result.counts}


def test_nothing_compiled_is_an_ending_of_its_own(searched: Searched) -> None:
    result = searched(*FAILURES * 3)
    assert result.ending is Ending.NOTHING_COMPILED
    assert "nothing compiled: the compiler refused every candidate that was tried" in printed(result)


def test_the_report_says_that_nothing_was_measured_and_why(searched: Searched) -> None:
    text = printed(searched())
    assert "compiled, not measured: this machine cannot run code for simd:neon, so nothing was run" in text
    assert "winner" not in text and "speed-up" not in text


def test_json_holds_what_was_compiled(searched: Searched) -> None:
    document = searched(*FAILURES).to_json()
    assert document["ending"] == "compiled, not measured"
    assert len(document["compiled"]) == 1 + MODEL_BEST
    assert document["compiled"][0]["failure"] == "Cannot select: 0x1\nand more"
    assert document["compiled"][-1]["code_bytes"] > 0


def test_both_kinds_of_progress_show_each_candidate(searched: Searched) -> None:
    for kind in (PlainLines, LiveBlock):
        console = Console(file=io.StringIO(), width=200)
        with kind(console, verbose=True) as listener:
            searched(FAILURES[0], listener=listener)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert f"1/{1 + MODEL_BEST} {CANDIDATES[3].id} failed: Cannot select: 0x1\n" in text
        assert "of code" in text


def test_an_empty_set_is_nothing_legal(simulated: type[SimulatedSession], workload: Workload) -> None:
    empty = replace(SPACE, candidates=[], prior_ns=np.array([]), origin=np.array([], np.int64), legal_count=0)
    session = simulated({})
    result = compiled_by(session, workload, empty, ignore)
    assert (result.ending, session.compiled) == (Ending.NOTHING_LEGAL, [])
