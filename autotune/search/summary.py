"""A search's result, put together from its notebook.
Must not know how anything in the notebook came about."""

from __future__ import annotations

import numpy as np

from autotune.measure import states
from autotune.measure.race import TIE_BAND
from autotune.measure.states import Measured, outcome_from_json
from autotune.search.notebook import Notebook
from autotune.search.result import Audits, Ending, SearchResult, SecondsSpent, Timed
from autotune.search.space import SearchSet
from autotune.search.stop import StopRule
from autotune.store.records import Outcome, PickReason

UPPER_SHARE = 0.9


def summarize(
    space: SearchSet,
    book: Notebook,
    *,
    model_first: str | None,
    target: str,
    seed: int,
    interrupted: bool,
    stopped_by: StopRule | None,
    seconds: SecondsSpent,
    repro: str | None = None,
) -> SearchResult:
    """What is known when a run ends: by the last shoot-out where its winner still stands, else by the races."""
    winner = book.track.incumbent
    finals = book.finals if book.settled else {}
    reference = space.candidates[space.reference].id if len(space.candidates) else None
    return SearchResult(
        title=book.workload.title,
        workload=book.workload.key.id,
        target=target,
        seed=seed,
        ending=_ending(space, winner, reference, interrupted=interrupted),
        winner=_timed(book, winner, finals),
        reference=_timed(book, reference, finals),
        model_first=_timed(book, model_first, finals),
        tied=_tied(book, winner, finals),
        candidates=len(space.candidates),
        legal=space.legal_count,
        join=space.status,
        trials=len(book.ledger),
        restored=len(book.recalled),
        counts=book.ledger.counts(),
        failures=book.ledger.failures(),
        refused=book.ledger.refused,
        audits=_audits(book, winner),
        repro=repro,
        stopped_by=stopped_by,
        seconds=seconds,
        forbidden=tuple(sorted(space.forbidden)),
        only=space.only,
        noise=book.noise,
        alignment_bytes=book.workload.key.alignment.size_bytes,
    )


def _ending(space: SearchSet, winner: str | None, reference: str | None, *, interrupted: bool) -> Ending:
    if not len(space.candidates):
        return Ending.NOTHING_LEGAL
    if interrupted:
        return Ending.INTERRUPTED
    if winner is None:
        return Ending.NOTHING_CORRECT
    return Ending.REFERENCE_KEPT if winner == reference else Ending.IMPROVED


def _tied(book: Notebook, winner: str | None, finals: dict[str, Outcome]) -> bool:
    """Whether another finalist's time equals the winner's; by the races, which compare however long ago they were."""
    limit_ns = book.track.time_ns(winner)
    if limit_ns is None:
        return False
    others = [book.track.time_ns(id) for id in finals if id != winner]
    return any(ns is not None and ns <= limit_ns * (1 + TIE_BAND) for ns in others)


def _audits(book: Notebook, winner: str | None) -> Audits:
    best_ns = book.track.time_ns(winner)
    drawn = [id for id, outcome in book.outcomes.items() if outcome.picked is PickReason.AUDIT]
    times = [ns for ns in map(book.track.time_ns, drawn) if ns is not None]
    return Audits(timed=len(times), best_ratio=min(times) / best_ns if times and best_ns else None)


def _end(outcome: Outcome) -> states.Outcome:
    return outcome_from_json(outcome.reason)


def _timed(book: Notebook, id: str | None, finals: dict[str, Outcome]) -> Timed | None:
    raced_ns = book.track.time_ns(id)
    if id is None or raced_ns is None:
        return None
    outcome = finals.get(id, book.outcomes[id])
    end = _end(outcome)
    return Timed(
        id=id,
        candidate=book.candidates[id],
        ns=end.ns if isinstance(end, Measured) and id in finals else raced_ns,
        upper_ns=float(np.quantile(outcome.samples_ns, UPPER_SHARE)) if id in finals else None,
        predicted_ns=outcome.predicted_ns,
        code_bytes=outcome.code_bytes,
        workspace_bytes=outcome.workspace_bytes,
        object_sha256=outcome.object_sha256,
    )
