"""The decision path of candidates that ended in different ways."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from autotune.calibration.price import Term
from autotune.ir.phases import phase_graph
from autotune.language.load import load_kernels
from autotune.measure.states import (
    Checks,
    CompileError,
    Crash,
    Measured,
    RacedOut,
    State,
    Wrong,
    outcome_to_json,
)
from autotune.measure.states import Outcome as End
from autotune.realizations.candidate import Split
from autotune.realizations.legality import judge
from autotune.realizations.reference import reference_candidate
from autotune.realizations.targets import named_target
from autotune.realizations.verdict import Legal
from autotune.report.explain import TRIED_SHOWN, Explanation, explanation_document, path_lines, print_explanation
from autotune.store.records import Outcome, PickReason, Rigor

KERNEL = """
import autotune as at


@at.kernel
def row_sum(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        y[row] = at.sum(x[row, :])
"""
CHECKS = Checks(kinds=("normal", "cancelling"), repeated=True, guard_pages=True)
MEASURED = Measured(ns=26_500.0, samples_ns=(26_000.0, 26_500.0, 27_000.0), checks=CHECKS)


@pytest.fixture(scope="module")
def untried(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    path: Path = tmp_path_factory.mktemp("kernel") / "row_sum.py"
    path.write_text(KERNEL)
    program = load_kernels(path)["row_sum"].bind(M=3, N=40)
    graph = phase_graph(program)
    return Explanation(
        title="row_sum:M=3,N=40 on simd:avx2",
        program=program,
        graph=graph,
        candidate=reference_candidate(program, named_target("avx2")),
        roles=("reference",),
        verdict=Legal(),
        clones="not requested",
        terms=(Term(name="vector_load", count=100.0, ns=30.0), Term(name="alu", count=50.0, ns=10.0)),
        outcomes=(),
        tried=(),
    )


def outcome(end: End, *, candidate: str = "c", rigor: Rigor | None = None) -> Outcome:
    timed = isinstance(end, Measured | RacedOut)
    return Outcome(
        workload="w",
        candidate=candidate,
        state=end.state,
        reason=outcome_to_json(end),
        samples_ns=end.samples_ns if timed else (),
        compile_seconds=0.034,
        code_bytes=1024,
        workspace_bytes=0,
        object_sha256="00" * 32 if timed else None,
        picked=PickReason.MODEL,
        rigor=rigor,
        predicted_ns=20_000.0,
        recorded=0.0,
    )


def path(explanation: Explanation, *ends: Outcome) -> list[str]:
    return list(path_lines(replace(explanation, outcomes=ends)))


def test_an_untried_candidate_has_a_verdict_and_a_prediction(untried: Explanation) -> None:
    assert path(untried) == [
        "judged:    legal",
        "clones:    full clone not requested",
        "predicted: 40.0 ns a call, events of the whole program counted",
        "tried:     never; nothing is recorded for this shape and target",
    ]


def test_a_candidate_that_a_search_left_out_was_pruned_by_the_model(untried: Explanation) -> None:
    others = replace(untried, tried=(outcome(CompileError(text="no")),))
    assert path(others)[-1] == "tried:     never: pruned by model, its predicted time earned it no trial"


def test_a_measured_candidate_shows_trial_and_final(untried: Explanation) -> None:
    lines = path(untried, outcome(MEASURED, rigor=Rigor.RACED), outcome(MEASURED, rigor=Rigor.SHOOT_OUT))
    assert lines[3:] == [
        "picked:    as model; the search predicted 20.0 µs",
        "compiled:  in 34.0 ms to 1.00 KiB of code, 0 B of workspace",
        "checked:   right on normal, cancelling inputs",
        "ended:     measured at 26.5 µs a call (9 of 10 samples 26.1 µs - 26.9 µs, raced)",
        "again:     measured at 26.5 µs a call (9 of 10 samples 26.1 µs - 26.9 µs, shoot-out)",
    ]


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (
            Wrong(error_over_bound=17.0, where="y[2]", kind="cancelling"),
            "ended:     wrong: 17 times the error bound at y[2] on cancelling inputs",
        ),
        (
            Crash(signal="SIGSEGV", stage="gate", peak_bytes=64 << 20),
            "ended:     crash: died of SIGSEGV while at gate, 64 MiB resident",
        ),
        (
            RacedOut(
                ns=30_000.0, ratio=1.5, samples_ns=(30_000.0,), incumbent_samples_ns=(20_000.0,), log_ratios=(0.4,)
            ),
            "ended:     raced out at 30.0 µs a call, 1.50 times the incumbent (9 of 10 samples 30.0 µs - 30.0 µs)",
        ),
    ],
)
def test_other_ends_say_what_happened(untried: Explanation, end: End, line: str) -> None:
    assert path(untried, outcome(end))[-1] == line


def test_a_refused_candidate_names_its_rule(untried: Explanation) -> None:
    split = replace(untried.candidate, split=Split(parts=2))
    verdict = judge(untried.program, split, named_target("avx2"))
    refused = replace(untried, candidate=split, verdict=verdict, clones=None, terms=())
    lines = path(refused)
    assert lines[0].startswith("judged:    refused by split-without-merge: ")
    assert not any(line.startswith(("predicted", "clones")) for line in lines)
    document = explanation_document(refused)
    assert document["verdict"]["legal"] is False
    assert document["verdict"]["reasons"][0]["rule"] == "split-without-merge"


def test_terms_have_shares_and_the_tried_are_cut_unless_asked_for(untried: Explanation) -> None:
    tried = tuple(outcome(MEASURED, candidate=f"candidate{n:02d}") for n in range(TRIED_SHOWN + 2))

    def printed(*, verbose: bool) -> str:
        stream = io.StringIO()
        explanation = replace(untried, tried=tried)
        print_explanation(Console(file=stream, width=140), explanation, with_tried=True, verbose=verbose)
        return stream.getvalue()

    assert "vector load" in printed(verbose=False) and "75 %" in printed(verbose=False)
    assert "Candidates tried (10 of 12, all with -v)" in printed(verbose=False)
    assert "candidate11" in printed(verbose=True)


def test_a_failure_is_listed_after_what_was_measured(untried: Explanation) -> None:
    crash = outcome(Crash(signal="SIGSEGV", stage="gate", peak_bytes=0), candidate="crashed")
    stream = io.StringIO()
    explanation = replace(untried, tried=(crash, outcome(MEASURED, candidate="measured")))
    print_explanation(Console(file=stream, width=140), explanation, with_tried=True, verbose=False)
    text = stream.getvalue().split("Candidates tried")[1]
    assert text.index("measured") < text.index("crashed")
    assert State.CRASH.value in text
