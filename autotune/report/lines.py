"""Progress of a search as plain lines, for files and pipes.
Must not know how the search works, only its events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import assert_never

from rich.console import Console

from autotune.report.units import bytes_text, count_text, seconds_text, speedup_text, time_text
from autotune.report.wording import stop_text
from autotune.search.progress import (
    CandidateCompiled,
    CandidateFinished,
    Event,
    Phase,
    PhaseStarted,
    SearchStopped,
    SpaceReady,
)

SECONDS_BETWEEN_LINES = 5.0


class PlainLines:
    """Prints a line where a phase starts, where the best changes, and every few seconds; `verbose` for each candidate.

    Use as a context manager and as the listener of a search.
    """

    def __init__(self, console: Console, *, verbose: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._verbose = verbose
        self._clock = clock
        self._last_line_s = float("-inf")

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, event: Event) -> None:
        match event:
            case PhaseStarted(title=title, phase=phase):
                if phase is not Phase.DONE:
                    self._print(f"{title}: {phase.value}")
            case SpaceReady():
                self._print(space_line(event))
            case CandidateFinished():
                if self._verbose or event.promoted or self._clock() - self._last_line_s >= SECONDS_BETWEEN_LINES:
                    self._print(candidate_line(event))
            case CandidateCompiled():
                self._print(compiled_line(event))
            case SearchStopped(rule=rule, done=done):
                self._print(f"stopped after {count_text(done)} candidates: {stop_text(rule)}")
            case _:
                assert_never(event)

    def _print(self, line: str) -> None:
        self._last_line_s = self._clock()
        self._console.print(line, soft_wrap=True)


def space_line(event: SpaceReady) -> str:
    """The size of the space in one line."""
    known = f", {count_text(event.restored)} ended in earlier runs" if event.restored else ""
    return (
        f"{count_text(event.legal)} legal candidates, {count_text(event.refused)} refused choices, "
        f"{count_text(event.candidates)} in the search set{known}"
    )


def candidate_line(event: CandidateFinished) -> str:
    """One candidate and where the search stands."""
    speedup = speedup_text(event.reference_ns, event.best_ns)
    own = f" {time_text(event.ns)}" if event.ns is not None else ""
    return (
        f"{event.done}/{event.total} {event.candidate} {event.state.value}{own}, "
        f"best {time_text(event.best_ns)} ({speedup} over the reference), {seconds_text(event.eta_s)} left"
    )


def compiled_line(event: CandidateCompiled) -> str:
    """One candidate that was compiled and cannot run here."""
    made = event.compilation
    if made.compile_seconds is None or made.code_bytes is None:
        found = f"failed: {made.failure}"
    else:
        found = f"compiled in {time_text(1e9 * made.compile_seconds)}, {bytes_text(made.code_bytes)} of code"
    return f"{event.done}/{event.total} {made.id} {found.splitlines()[0]}"
