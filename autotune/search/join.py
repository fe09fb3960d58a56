"""Joins per-nest tables over every structure into the search set: the k best by the model and a uniform sample.
Must not know how candidates are measured."""

from __future__ import annotations

import gc
import heapq
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np

from autotune.calibration.price import price
from autotune.calibration.prior import Prices
from autotune.ir.buffer import Buffer, BufferProgram, Planner
from autotune.ir.program import Program
from autotune.realizations import packet
from autotune.realizations.candidate import Candidate
from autotune.realizations.context import ProgramFacts
from autotune.realizations.lower import lower
from autotune.realizations.mechanisms import OFF_BY_DEFAULT
from autotune.realizations.predict import count as count_events
from autotune.realizations.reference import reference_candidate
from autotune.realizations.storage import refuse_workspace
from autotune.realizations.target import Target
from autotune.search.cache_file import cached
from autotune.search.conditions import Condition
from autotune.search.families import Family, all_families
from autotune.search.space import FROM_MODEL, FROM_SAMPLE, JoinStatus, SearchSet
from autotune.search.subspace import all_fixed, restricted
from autotune.search.tables import RefusalCounts

K_BEST = 6_000
K_BEST_OF_ONE_STRUCTURE = 200
SAMPLE = 500
PLANNED = 16
"""How many of the best are also tried with other placements of their buffers."""


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the collector of cycles, which would walk the growing tables again and again to find none."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_no_collection()
def search_set(
    program: Program,
    target: Target,
    prices: Prices,
    *,
    limit: int = K_BEST,
    sample: int = SAMPLE,
    seed: int = 0,
    cache: Path | None = None,
    forbidden: frozenset[str] = OFF_BY_DEFAULT,
    only: Sequence[Condition] = (),
) -> SearchSet:
    """What a search chooses from: the `limit` best legal candidates by the model, `sample` uniform ones, the reference.

    The predicted time of a candidate is the sum of its nests', so the best of a structure come in exact order. Where
    more are legal than `limit`, no structure gives more than its quota: a model that is wrong about one should not fill
    the set with it. `cache` is a file of what was enumerated before. No candidate but the reference uses a mechanism in
    `forbidden`, or departs from a condition in `only`.

    Raises: UnknownChoice for a condition on a choice that no candidate has.
    """
    with cached(cache, target) as file:
        families, refusals = all_families(program, target, prices, forbidden, file)
    if only:
        families = restricted(families, only)
    sizes = [family.size(target) for family in families]
    legal = sum(sizes)
    whole = legal <= limit
    quota = limit if whole else K_BEST_OF_ONE_STRUCTURE
    chosen: dict[Candidate, tuple[float, int]] = {}
    for total, candidate in _k_best(families, target, refusals, limit, quota):
        chosen.setdefault(candidate, (total, FROM_MODEL))
    first = [(candidate, ns) for candidate, (ns, _) in islice(chosen.items(), PLANNED)]
    for total, candidate in _placed_otherwise(program, target, first, refusals):
        chosen[candidate] = (total, FROM_MODEL)
        legal += 1
    for total, candidate in _uniform(families, sizes, target, sample, random.Random(seed)):
        chosen[candidate] = (total, FROM_SAMPLE)
    if only:
        chosen = {
            candidate: known for candidate, known in chosen.items() if all_fixed(only, program, candidate, target)
        }
        legal = len(chosen) if whole else legal
    status = _status(len(chosen), legal)
    reference = reference_candidate(program, target)
    if reference not in chosen:
        found = count_events(lower(program, reference), target)
        chosen[reference] = (price(found.events, found.dependent_steps, prices), FROM_MODEL)
        legal += 1
    candidates = tuple(chosen)
    return SearchSet(
        candidates=candidates,
        prior_ns=np.array([ns for ns, _ in chosen.values()], np.float64),
        origin=np.array([origin for _, origin in chosen.values()], np.int64),
        reference=candidates.index(reference),
        legal_count=legal,
        refused=refusals.table(),
        status=status,
        forbidden=forbidden,
        only=tuple(sorted(condition.text for condition in only)),
    )


def _status(found: int, legal: int) -> JoinStatus:
    if not legal:
        return JoinStatus.INFEASIBLE
    if not found:
        return JoinStatus.NONE_FOUND
    return JoinStatus.EXACT if found >= legal else JoinStatus.FEASIBLE


def _placed_otherwise(
    program: Program, target: Target, candidates: Sequence[tuple[Candidate, float]], refusals: RefusalCounts
) -> Iterator[tuple[float, Candidate]]:
    """The given candidates under each planner that places their buffers elsewhere, at the same predicted time: the
    model knows no difference, so the clock decides."""
    for candidate, ns in candidates:
        known = {_places(lower(program, candidate))}
        for planner in Planner:
            other = replace(candidate, planner=planner)
            plan = lower(program, other)
            if (places := _places(plan)) in known:
                continue
            known.add(places)
            if not refusals.add(refuse_workspace(ProgramFacts(plan.program, target), plan)):
                yield ns, other


def _places(plan: BufferProgram) -> tuple[tuple[Buffer, ...], ...]:
    return tuple(body.buffers for body in plan.bodies)


def _k_best(
    families: Sequence[Family], target: Target, refusals: RefusalCounts, limit: int, quota: int
) -> Iterator[tuple[float, Candidate]]:
    """The `limit` best combinations within the budgets, no more than `quota` of a family."""
    order = count()

    def stream(family: Family) -> Iterator[tuple[float, int, Family, tuple[int, ...]]]:
        labels = family.labels(target)
        for found in islice(labels.cheapest(), quota):
            yield family.ns(found.picks), next(order), family, found.picks
        if labels.over_budget is not None:
            general, full = labels.over_budget
            refusals.add(packet.refuse(family.structure.packet, True, general, full, target))

    merged = heapq.merge(*(stream(family) for family in families), key=lambda item: item[:2])
    for total, _, family, picks in islice(merged, limit):
        yield total, family.candidate(picks)


def _uniform(
    families: Sequence[Family], sizes: Sequence[int], target: Target, sample: int, rng: random.Random
) -> Iterator[tuple[float, Candidate]]:
    """Draws with equal probability for every combination within the budgets, without looking at the model."""
    if not any(sizes):
        return
    for family in rng.choices(families, sizes, k=sample):
        picks = tuple(rng.randrange(len(table)) for table in family.tables)
        if family.fits(picks, target):
            yield family.ns(picks), family.candidate(picks)
