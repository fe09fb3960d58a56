"""One search from its set to its result: the loop, the shoot-out, and how it ended in the store.
Must not know how candidates are enumerated, compiled or timed."""

from __future__ import annotations

import math

from autotune.ir.serial import to_json
from autotune.measure.states import Outcome
from autotune.realizations.candidate import Candidate
from autotune.search.encode import encode
from autotune.search.finals import every_candidate_ended, run_finals
from autotune.search.loop import Loop, Session, Stopwatch
from autotune.search.notebook import Notebook
from autotune.search.progress import OnEvent, Phase, PhaseStarted, SearchStopped
from autotune.search.repro import ReproFolder
from autotune.search.result import SearchResult
from autotune.search.sampler import SetSampler
from autotune.search.space import SearchSet, model_first
from autotune.search.stop import Limits, Progress, StopRule, reason_to_stop, stop_rules
from autotune.search.strategies import LowerBound
from autotune.search.summary import summarize
from autotune.store.records import SearchStatus


def run(
    space: SearchSet,
    session: Session,
    book: Notebook,
    limits: Limits,
    *,
    target: str,
    seed: int,
    watch: Stopwatch,
    on_event: OnEvent,
    strategy: type[SetSampler] = LowerBound,
    repro: ReproFolder | None = None,
) -> SearchResult:
    """Search a set that is not empty. Ctrl-C ends it with the best so far; all that ended before is in the store."""
    loop = Loop(
        space,
        encode(space.candidates),
        session,
        book,
        limits,
        watch,
        on_event,
        seed=seed,
        strategy=strategy,
        keep=_nothing if repro is None else repro.keep,
    )
    book.begin(limits, seed, to_json(session.environment()))
    status = SearchStatus.FAILED
    rule: StopRule | None = None
    try:
        on_event(PhaseStarted(title=book.workload.title, phase=Phase.SEARCH))
        rule = loop.run()
        on_event(PhaseStarted(title=book.workload.title, phase=Phase.FINALS))
        run_finals(loop, model_first(space))
        status = SearchStatus.FINISHED
    except KeyboardInterrupt:
        status = SearchStatus.INTERRUPTED
        on_event(SearchStopped(rule=None, done=len(book.ledger)))
    finally:
        book.finish(status)
    on_event(PhaseStarted(title=book.workload.title, phase=Phase.DONE))
    watch.add("measuring", 0.0)
    return summarize(
        space,
        book,
        model_first=model_first(space),
        target=target,
        seed=seed,
        interrupted=status is SearchStatus.INTERRUPTED,
        stopped_by=rule,
        seconds=watch.spent,
        repro=None if repro is None else str(repro.folder),
    )


def _nothing(candidate: Candidate, end: Outcome) -> None:
    """Keep no failure."""


def remembered(
    space: SearchSet, book: Notebook, limits: Limits, *, target: str, seed: int, watch: Stopwatch
) -> SearchResult:
    """The result that the store already holds, or that an empty set has: nothing is measured."""
    watch.add("preparing", watch.elapsed_s)
    return summarize(
        space,
        book,
        model_first=model_first(space) if len(space.candidates) else None,
        target=target,
        seed=seed,
        interrupted=False,
        stopped_by=_rule_that_held(space, book, limits),
        seconds=watch.spent,
    )


def _rule_that_held(space: SearchSet, book: Notebook, limits: Limits) -> StopRule | None:
    """What ended the search that the store remembers: the budget, where no other rule holds."""
    progress = Progress(
        elapsed_s=math.inf,
        trials=len(book.ledger),
        remaining=0 if every_candidate_ended(space, book) else 1,
        since_promotion=book.track.since_promotion,
        seconds_per_trial=math.inf,
    )
    rules = stop_rules(len(space.candidates), limits)
    return reason_to_stop(rules, progress)
