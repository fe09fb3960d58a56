"""The ledger: one end a candidate, counts that add up, failures grouped by cause."""

from __future__ import annotations

import pytest

from autotune.measure.states import (
    CompileError,
    CompileTimeout,
    Crash,
    Measured,
    Noisy,
    Outcome,
    OverBudget,
    PrunedByModel,
    RacedOut,
    Refused,
    State,
    Timeout,
    Wrong,
)
from autotune.search.ledger import AlreadyEnded, Ledger, RefusedRule, StateCount, failure_cause, failure_sentence

ENDS: tuple[Outcome, ...] = (
    Measured(ns=1234.0, samples_ns=(1234.0,)),
    RacedOut(ns=2000.0, ratio=1.62, samples_ns=(2000.0,), incumbent_samples_ns=(1234.0,), log_ratios=(0.48,)),
    Refused(rule="gather", reason="no gather on sse2"),
    OverBudget(budget="workspace bytes", value=5, limit=4),
    PrunedByModel(predicted_ns=9000.0, threshold_ns=1300.0),
    CompileError(text="bad register\nin line 3"),
    CompileTimeout(seconds=20.0),
    Crash(signal="SIGSEGV", stage="check on normal data", peak_bytes=2**20),
    Timeout(seconds=2.0, stage="warm up"),
    Wrong(error_over_bound=7.25, where="y[3]", kind="cancelling"),
    Noisy(redone_rounds=16, samples_ns=()),
)


def test_every_state_has_a_sentence_and_the_bad_ones_a_cause() -> None:
    assert {end.state for end in ENDS} == set(State)
    assert len({failure_sentence(end) for end in ENDS}) == len(ENDS)
    good = {State.MEASURED, State.RACED_OUT, State.PRUNED}
    assert {end.state for end in ENDS if failure_cause(end) is None} == good


def test_sentences_carry_the_values() -> None:
    sentences = {end.state: failure_sentence(end) for end in ENDS}
    assert "2000 ns" in sentences[State.RACED_OUT] and "1.62" in sentences[State.RACED_OUT]
    assert "7.25" in sentences[State.WRONG] and "y[3]" in sentences[State.WRONG]
    assert "SIGSEGV" in sentences[State.CRASH] and "1 MiB" in sentences[State.CRASH]


def test_a_second_end_is_refused() -> None:
    ledger = Ledger(legal_count=3)
    ledger.record("a", ENDS[0])
    with pytest.raises(AlreadyEnded, match="candidate a ended as measured already"):
        ledger.record("a", ENDS[1])


def test_what_is_legal_and_not_recorded_was_pruned_by_the_model() -> None:
    refused = (RefusedRule(rule="gather", count=5, sentence="no gather"),)
    ledger = Ledger(legal_count=10, refused=refused)
    ledger.record("a", ENDS[0])
    ledger.record("b", ENDS[9])
    assert ledger.counts() == (
        StateCount(state=State.MEASURED, count=1),
        StateCount(state=State.REFUSED, count=5),
        StateCount(state=State.PRUNED, count=8),
        StateCount(state=State.WRONG, count=1),
    )
    assert ledger.end_of("b") == ENDS[9] and ledger.end_of("c") is None and len(ledger) == 2


def test_failures_of_one_cause_stand_together_the_most_frequent_first() -> None:
    ledger = Ledger(legal_count=10)
    ledger.record("a", ENDS[0])
    ledger.record("b", Timeout(seconds=2.0, stage="timing"))
    for name, ulps in (("c", 3.0), ("d", 4.0)):
        ledger.record(name, Wrong(error_over_bound=ulps, where="y[0]", kind="normal"))
    first, second = ledger.failures()
    assert (first.state, first.count, first.example) == (State.WRONG, 2, "c")
    assert first.cause == "wrong on normal inputs" and "3 times the error bound" in first.sentence
    assert (second.cause, second.count) == ("no end while at timing", 1)
