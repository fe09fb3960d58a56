"""The end of a search: the best few, the reference and the model's first, timed once more side by side.
Must not know how they were found or how side-by-side timing works."""

from __future__ import annotations

from autotune.measure.protocol import Kernel
from autotune.measure.race import Standing
from autotune.measure.states import Measured
from autotune.search.loop import Loop
from autotune.search.notebook import Finished, Notebook
from autotune.search.space import SearchSet
from autotune.store.records import Rigor

FINALISTS = 8
OUT_OF_REACH = 2.0  # times the best: no noise reverses that, and a slow reference would take most of the time


def run_finals(loop: Loop, model_first: str) -> None:
    """Shoot out the finalists and write down their times, the winner's last; nothing where nothing new was measured.

    The best placed finalist meets the reference once more, the two alone, and wins only if it is faster there: a
    reference that left the field early was timed in another minute of the machine. Where the search is for so many
    calls, the finalist that takes least with its compilation wins instead, and claims no more than a won race.
    """
    if loop.book.settled:
        return
    kernels = _finalists(loop, model_first)
    if not kernels:
        return
    placed = _shootout(loop, kernels)
    winner = next(iter(placed), None)
    if winner is None:
        return
    if winner != loop.reference and loop.reference in placed:
        if len(kernels) > 2:
            placed |= _shootout(loop, {id: kernels[id] for id in (loop.reference, winner)})
        if placed[winner].ns >= placed[loop.reference].ns:
            winner = loop.reference
    if loop.calls is not None:
        winner = min(placed, key=lambda id: _life_s(placed[id], kernels[id], loop.calls or 0.0))
    for id in (*(id for id in placed if id != winner), winner):
        rigor = _winner_rigor(loop) if id == winner else None
        _write(loop.book, id, kernels[id], placed[id], rigor)


def _life_s(standing: Standing, kernel: Kernel, calls: float) -> float:
    """Seconds that a finalist takes in all: compiled once, called so often."""
    return kernel.compile_seconds + calls * standing.ns * 1e-9


def _shootout(loop: Loop, kernels: dict[str, Kernel]) -> dict[str, Standing]:
    """Standings by candidate, best first; of equal objects the first one stands for all."""
    with loop.watch.timing("measuring"):
        standings = loop.session.shootout(list(kernels.values()))
    by_object = {kernel.sha256: id for id, kernel in reversed(kernels.items())}
    return {by_object[standing.name]: standing for standing in standings}


def _finalists(loop: Loop, model_first: str) -> dict[str, Kernel]:
    """Kernels of the finalists, the reference first where it is in reach; none where only one candidate was timed."""
    track = loop.book.track
    best = track.best(FINALISTS)
    known = ((id, track.time_ns(id)) for id in (loop.reference, model_first, *best))
    times = {id: ns for id, ns in known if ns is not None}
    limit = OUT_OF_REACH * min(times.values(), default=0.0)
    chosen = [id for id, ns in times.items() if ns <= limit][:FINALISTS] if len(times) > 1 else []
    kernels = {id: loop.kernel_of(id) for id in chosen}
    return {id: kernel for id, kernel in kernels.items() if kernel is not None}


def every_candidate_ended(space: SearchSet, book: Notebook) -> bool:
    """Whether no candidate of the set is left to measure."""
    if len(book.ledger) < len(space.candidates):  # spares the ids of a large set
        return False
    return all(book.ledger.end_of(candidate.id) is not None for candidate in space.candidates)


def _winner_rigor(loop: Loop) -> Rigor:
    if loop.book.restricted or loop.calls is not None:
        return Rigor.RACED
    whole = len(loop.space.candidates) >= loop.space.legal_count
    return Rigor.EXHAUSTIVE if whole and every_candidate_ended(loop.space, loop.book) else Rigor.SHOOT_OUT


def _write(book: Notebook, id: str, kernel: Kernel, standing: Standing, rigor: Rigor | None) -> None:
    earlier = book.outcomes[id]
    book.write_final(
        Finished(
            candidate=book.candidates[id],
            id=id,
            picked=earlier.picked,
            predicted_ns=earlier.predicted_ns,
            end=Measured(
                ns=standing.ns,
                samples_ns=standing.samples_ns,
                redone_rounds=standing.redone_rounds,
                contended=standing.contended,
            ),
            kernel=kernel,
        ),
        rigor,
    )
