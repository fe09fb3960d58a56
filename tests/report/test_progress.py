"""What a search shows while it runs, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from autotune.measure.states import State
from autotune.report.lines import PlainLines
from autotune.report.live import LiveBlock
from autotune.report.wording import stop_text
from autotune.search.progress import CandidateFinished, Event, Phase, PhaseStarted, SearchStopped, SpaceReady
from autotune.search.stop import AllMeasured, Budget, MaxTrials, NoPromotion, StopRule


def finished(done: int, *, promoted: bool = False, state: State = State.MEASURED) -> CandidateFinished:
    return CandidateFinished(
        candidate=f"c{done:011d}",
        state=state,
        ns=30_000.0 if state is State.MEASURED else None,
        promoted=promoted,
        done=done,
        total=40,
        best_ns=26_500.0,
        reference_ns=53_000.0,
        eta_s=12.0,
    )


EVENTS: tuple[Event, ...] = (
    PhaseStarted(title="softmax:M=129,N=512", phase=Phase.TRACE),
    PhaseStarted(title="softmax:M=129,N=512", phase=Phase.ENUMERATE),
    SpaceReady(candidates=20_000, legal=1_234_567, refused=17, restored=3),
    PhaseStarted(title="softmax:M=129,N=512", phase=Phase.SEARCH),
    finished(1, promoted=True),
    finished(2),
    finished(3, state=State.CRASH),
    SearchStopped(rule=Budget(seconds=45.0), done=3),
    PhaseStarted(title="softmax:M=129,N=512", phase=Phase.DONE),
)


def plain(*, verbose: bool, seconds_a_step: float = 0.0) -> list[str]:
    stream, now = io.StringIO(), [0.0]
    with PlainLines(Console(file=stream, width=200), verbose=verbose, clock=lambda: now[0]) as listener:
        for event in EVENTS:
            now[0] += seconds_a_step
            listener(event)
    return stream.getvalue().splitlines()


def test_plain_lines_name_phases_space_best_and_end() -> None:
    assert plain(verbose=False) == [
        "softmax:M=129,N=512: trace",
        "softmax:M=129,N=512: enumerate",
        "1,234,567 legal candidates, 17 refused choices, 20,000 in the search set, 3 ended in earlier runs",
        "softmax:M=129,N=512: search",
        "1/40 c00000000001 measured 30.0 µs, best 26.5 µs (2.00x over the reference), 12.0 s left",
        "stopped after 3 candidates: the budget of 45.0 s is spent",
    ]


def test_a_quiet_stretch_is_broken_by_a_line_every_few_seconds() -> None:
    assert any(line.startswith("2/40") for line in plain(verbose=False, seconds_a_step=6.0))


def test_verbose_prints_every_candidate_with_its_state() -> None:
    assert "3/40 c00000000003 crash, best 26.5 µs (2.00x over the reference), 12.0 s left" in plain(verbose=True)


def test_the_live_block_shows_phase_count_best_and_time_left() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=160, color_system=None)
    with LiveBlock(console, verbose=False) as listener:
        for event in EVENTS[:6]:
            listener(event)
        listener._progress.refresh()
    text = stream.getvalue()
    for part in ("softmax:M=129,N=512", "search", "2/40", "best 26.5 µs (2.00x over the reference)", "12.0 s left"):
        assert part in text


def test_the_live_block_takes_every_event() -> None:
    stream = io.StringIO()
    with LiveBlock(Console(file=stream, force_terminal=True, width=160), verbose=True) as listener:
        for event in EVENTS:
            listener(event)
    assert "c00000000003 crash" in stream.getvalue()


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (None, "interrupted"),
        (Budget(seconds=90.0), "the budget of 1 min 30 s is spent"),
        (MaxTrials(count=4), "the limit of 4 trials is reached"),
        (NoPromotion(), "nothing better turned up for a third of the trials"),
        (AllMeasured(count=7), "all 7 candidates have ended"),
    ],
)
def test_the_end_of_a_search_has_a_reason(rule: StopRule | None, text: str) -> None:
    assert stop_text(rule) == text
