"""The table that ends a search."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from autotune.measure.noise import NoiseFloor
from autotune.measure.states import State
from autotune.realizations.candidate import Candidate, Clones
from autotune.report.outcome import headline, print_overview, print_result
from autotune.search.ledger import FailureCause, RefusedRule, StateCount
from autotune.search.result import Audits, Ending, SearchResult, SecondsSpent, Timed
from autotune.search.space import JoinStatus
from autotune.search.stop import Budget

CANDIDATE = Candidate(
    tiles=(), mapping=(), storage=(), nests=(), transfer=(), compute=(), tail=(), packet=Clones.GENERAL
)


def timed(id: str, ns: float, *, upper_ns: float | None = None) -> Timed:
    return Timed(
        id=id,
        candidate=CANDIDATE,
        ns=ns,
        upper_ns=upper_ns,
        predicted_ns=20_000.0,
        code_bytes=1536,
        workspace_bytes=0,
        object_sha256=None,
    )


RESULT = SearchResult(
    title="softmax:M=129,N=512",
    workload="w",
    target="avx512",
    seed=0,
    ending=Ending.IMPROVED,
    winner=timed("aaaaaaaaaaaa", 26_500.0, upper_ns=26_900.0),
    reference=timed("bbbbbbbbbbbb", 53_000.0),
    model_first=None,
    tied=False,
    candidates=20_000,
    legal=1_234_567,
    join=JoinStatus.FEASIBLE,
    trials=60,
    restored=12,
    counts=(StateCount(state=State.MEASURED, count=48), StateCount(state=State.CRASH, count=1)),
    failures=(
        FailureCause(
            state=State.CRASH,
            cause="SIGSEGV while at gate",
            count=1,
            example="cccccccccccc",
            sentence="died of SIGSEGV",
        ),
    ),
    refused=tuple(RefusedRule(rule=f"rule-{n}", count=n, sentence=f"sentence {n}") for n in range(1, 8)),
    stopped_by=Budget(seconds=45.0),
    seconds=SecondsSpent(preparing=1.0, compiling=20.0, checking=5.0, measuring=15.0, total=44.0),
)


def printed(result: SearchResult, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    print_result(Console(file=stream, width=140), result, verbose=verbose)
    return stream.getvalue()


def test_the_table_names_reference_winner_speed_up_states_and_seconds() -> None:
    text = printed(RESULT)
    for part in (
        "softmax:M=129,N=512 on simd:avx512",
        "improved: 2.00x over the reference candidate",
        "53.0 µs",
        "26.5 µs",
        "26.9 µs",
        "1.50 KiB",
        "SIGSEGV while at gate",
        "60 trials (12 in earlier runs) out of 20,000 of 1,234,567 legal candidates",
        "the budget of 45.0 s is spent",
        "compiling 20.0 s, checking 5.0 s, measuring 15.0 s",
    ):
        assert part in text


def test_rare_rules_are_summed_unless_asked_for() -> None:
    short, long = printed(RESULT), printed(RESULT, verbose=True)
    assert "rule-7" in short and "rule-1" not in short
    assert "2 more rules" in short
    assert all(f"rule-{n}" in long for n in range(1, 8))


def test_several_workloads_end_with_an_overview() -> None:
    other = replace(RESULT, title="softmax:M=129,N=65", ending=Ending.REFERENCE_KEPT, winner=RESULT.reference)
    stream = io.StringIO()
    print_overview(Console(file=stream, width=140), [RESULT, other])
    overview = stream.getvalue()
    assert "softmax:M=129,N=512" in overview and "2.00x" in overview
    assert "softmax:M=129,N=65" in overview and "reference kept" in overview


@pytest.mark.parametrize(
    ("ending", "start"),
    [
        (Ending.REFERENCE_KEPT, "reference kept: nothing that was measured beats"),
        (Ending.NOTHING_LEGAL, "nothing legal: every candidate was refused"),
        (Ending.NOTHING_CORRECT, "nothing correct: no candidate agreed with the oracle"),
        (Ending.INTERRUPTED, "interrupted; best so far 2.00x over the reference; the same command continues"),
    ],
)
def test_every_ending_has_a_sentence(ending: Ending, start: str) -> None:
    assert headline(replace(RESULT, ending=ending)).startswith(start)


@pytest.mark.parametrize(
    ("audits", "said"),
    [
        (Audits(timed=3, best_ratio=1.314), "3 drawn without the model: the fastest takes 1.31 of the winner's time"),
        (Audits(timed=2, best_ratio=0.9), "so its cut was wrong"),
    ],
)
def test_what_audits_say_of_the_model_is_said(audits: Audits, said: str) -> None:
    assert said in printed(replace(RESULT, audits=audits))
    assert "drawn without" not in printed(RESULT)


def test_a_tie_is_said() -> None:
    assert "tied with another finalist" in headline(replace(RESULT, tied=True))


def test_a_search_without_any_time_prints_no_candidate_table() -> None:
    text = printed(replace(RESULT, ending=Ending.NOTHING_CORRECT, winner=None, reference=None))
    assert "90 % below" not in text
    assert "candidates by state" in text


def test_the_noise_floor_is_one_line_with_false_calls_only_where_there_were_some() -> None:
    noise = NoiseFloor(median=0.002, p95=0.011, rounds=45, races=3, false_calls=0, redone_rounds=0)
    assert "noise floor 0.20 % (1.10 % in 1 of 20 rounds)\n" in printed(replace(RESULT, noise=noise))
    assert "1 of 3 races of a kernel against itself" in printed(replace(RESULT, noise=replace(noise, false_calls=1)))
    unknown = replace(noise, median=None, p95=None, rounds=0, races=0)
    assert "noise floor not measured" in printed(replace(RESULT, noise=unknown))
    assert "noise floor" not in printed(RESULT)


def test_conditions_that_are_not_the_usual_ones_are_named() -> None:
    text = printed(replace(RESULT, cold=("k", "v"), alignment_bytes=16))
    assert "timed with k, v in no cache when a call starts" in text
    assert "timed with tensors at multiples of 16 bytes only" in text
    assert "timed with" not in printed(RESULT)
