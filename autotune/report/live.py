"""Progress of a search as one live block on a terminal.
Must not know how the search works, only its events."""

from __future__ import annotations

from typing import assert_never

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn

from autotune.report.lines import candidate_line, compiled_line, space_line
from autotune.report.units import seconds_text, speedup_text, time_text
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


class LiveBlock:
    """Shows phase, done of total, best so far and the time left; `verbose` adds a line for each candidate.

    Use as a context manager and as the listener of a search.
    """

    def __init__(self, console: Console, *, verbose: bool) -> None:
        self._verbose = verbose
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[best]}"),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("starting", total=None, best="", left="")

    def __enter__(self) -> LiveBlock:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        match event:
            case PhaseStarted(title=title, phase=phase):
                self._enter_phase(title, phase)
            case SpaceReady(candidates=candidates, restored=restored):
                self._print(space_line(event))
                self._progress.update(self._task, completed=restored, total=candidates)
            case CandidateFinished():
                self._count(event)
            case CandidateCompiled(done=done, total=total):
                self._progress.update(self._task, completed=done, total=total)
                if self._verbose:
                    self._print(compiled_line(event))
            case SearchStopped(rule=rule):
                self._progress.update(self._task, left=f"ending: {stop_text(rule)}")
            case _:
                assert_never(event)

    def _enter_phase(self, title: str, phase: Phase) -> None:
        total = None if phase in (Phase.TRACE, Phase.ENUMERATE) else self._progress.tasks[0].total
        self._progress.update(self._task, description=f"{title}  {phase.value}", total=total)

    def _count(self, event: CandidateFinished) -> None:
        speedup = speedup_text(event.reference_ns, event.best_ns)
        self._progress.update(
            self._task,
            completed=event.done,
            total=event.total,
            best=f"best {time_text(event.best_ns)} ({speedup} over the reference)",
            left=f"{seconds_text(event.eta_s)} left" if event.eta_s is not None else "",
        )
        if self._verbose:
            self._print(candidate_line(event))

    def _print(self, line: str) -> None:
        self._progress.console.print(line)
