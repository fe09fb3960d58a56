"""Joins per-nest tables over every structure into the search set: the k best by the model and a uniform sample.
Must not know how candidates are measured."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from math import prod
from pathlib import Path

import numpy as np

from autotune.calibration.price import price
from autotune.calibration.prior import Prices
from autotune.ir.buffer import Buffer, BufferProgram, Planner, Tail
from autotune.ir.program import Program
from autotune.realizations import packet
from autotune.realizations.candidate import Candidate
from autotune.realizations.context import ProgramFacts
from autotune.realizations.enumerate import structures
from autotune.realizations.legality import contexts, refuse_candidate, refuse_tiles
from autotune.realizations.lower import lower
from autotune.realizations.mechanisms import OFF_BY_DEFAULT, of_lanes, of_structure
from autotune.realizations.places import nests_with_places
from autotune.realizations.predict import count as count_events
from autotune.realizations.reference import reference_candidate
from autotune.realizations.storage import refuse_nest_order, refuse_snapshots, refuse_workspace
from autotune.realizations.structure import NestChoice, Structure, assemble
from autotune.realizations.target import Target
from autotune.realizations.tiled import tiled
from autotune.search.space import FROM_MODEL, FROM_SAMPLE, SearchSet
from autotune.search.tables import Overhead, RefusalCounts, Row, Tables
from autotune.search.tally_file import counted

K_BEST = 6_000
K_BEST_OF_ONE_STRUCTURE = 200
SAMPLE = 500
PLANNED = 16
"""How many of the best are also tried with other placements of their buffers."""


@dataclass(frozen=True, slots=True)
class Family:
    """One structure with the tables of its nests: every combination of their rows is a candidate."""

    structure: Structure
    numbers: tuple[int, ...]
    tables: tuple[tuple[Row, ...], ...]
    overhead: Overhead
    partial: bool

    @property
    def size(self) -> int:
        return prod(len(table) for table in self.tables)

    def rows(self, picks: Sequence[int]) -> tuple[Row, ...]:
        return tuple(table[pick] for table, pick in zip(self.tables, picks, strict=True))

    def candidate(self, picks: Sequence[int]) -> Candidate:
        rows = self.rows(picks)
        return assemble(self.structure, {n: row.choice for n, row in zip(self.numbers, rows, strict=True)})

    def best_first(self) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Combinations by rising sum of predicted times, exactly."""
        start = (0,) * len(self.tables)
        heap = [(self.ns(start), start)]
        seen = {start}
        while heap:
            total, picks = heapq.heappop(heap)
            yield total, picks
            for k in range(len(picks)):
                if picks[k] + 1 < len(self.tables[k]):
                    following = (*picks[:k], picks[k] + 1, *picks[k + 1 :])
                    if following not in seen:
                        seen.add(following)
                        heapq.heappush(heap, (self.ns(following), following))

    def ns(self, picks: Sequence[int]) -> float:
        """Predicted nanoseconds of one call."""
        return self.overhead.ns + sum(table[pick].ns for table, pick in zip(self.tables, picks, strict=True))

    def instructions(self, picks: Sequence[int]) -> tuple[int, int]:
        """Builder instructions of the general and of the full body."""
        rows = self.rows(picks)
        general, full = sum(row.general for row in rows), sum(row.full for row in rows)
        return self.overhead.general + general, self.overhead.full + full


def search_set(
    program: Program,
    target: Target,
    prices: Prices,
    *,
    limit: int = K_BEST,
    sample: int = SAMPLE,
    seed: int = 0,
    counts: Path | None = None,
    forbidden: frozenset[str] = OFF_BY_DEFAULT,
) -> SearchSet:
    """What a search chooses from: the `limit` best legal candidates by the model, `sample` uniform ones, the reference.

    The predicted time of a candidate is the sum of its nests', so the best of a structure come in exact order; no
    structure gives more than its quota, for a model that is wrong about one should not fill the set with it. `counts`
    is a file of nests counted before; no candidate but the reference uses a mechanism in `forbidden`.
    """
    with counted(counts, target) as file:
        tables = Tables(target, prices, file, forbidden=forbidden)
        families = list(families_of(program, target, tables))
    reference = reference_candidate(program, target)
    chosen: dict[Candidate, tuple[float, int]] = {}
    legal = sum(family.size for family in families)
    for total, candidate in _k_best(families, target, tables.refusals, limit):
        chosen.setdefault(candidate, (total, FROM_MODEL))
    first = [(candidate, ns) for candidate, (ns, _) in islice(chosen.items(), PLANNED)]
    for total, candidate in _placed_otherwise(program, target, first, tables.refusals):
        chosen[candidate] = (total, FROM_MODEL)
        legal += 1
    for total, candidate in _uniform(families, target, sample, random.Random(seed)):
        chosen[candidate] = (total, FROM_SAMPLE)
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
        refused=tables.refusals.table(),
        status="exact" if legal <= len(candidates) else "beam",
        forbidden=forbidden,
    )


def families_of(
    program: Program, target: Target, tables: Tables, wanted: Callable[[Structure], bool] | None = None
) -> Iterator[Family]:
    """Every (wanted) structure that some legal choice of its nests can realize, with its tables."""
    for structure in structures(program, target, tables.forbidden):
        if wanted is not None and not wanted(structure):
            continue
        family = _family(program, target, structure, tables)
        if family is not None:
            yield family


def _family(program: Program, target: Target, structure: Structure, tables: Tables) -> Family | None:
    """Tables of a structure, None where a rule refuses it whatever its nests choose."""
    plain = assemble(structure, {n: _plain() for n in structure.nest_numbers})
    refusals = tables.refusals
    if refusals.add(refuse_tiles(program, plain, target)):
        return None
    view = tiled(program, structure.tiles)
    facts = tables.facts(view.program)
    if tables.forbidden and tables.forbidden & of_structure(view, structure, target):
        return None
    if refusals.add(refuse_candidate(facts, view.graph, plain)) or refusals.add(refuse_nest_order(view.graph, plain)):
        return None
    plan = lower(program, plain)
    surroundings = contexts(facts, plan, plan.bodies[-1], plain)
    if refusals.add(refuse_snapshots(surroundings)) or refusals.add(refuse_workspace(facts, plan)):
        return None
    overhead = tables.overhead(plan)
    bodies = [contexts(facts, plan, body, plain) for body in plan.bodies]
    rows: dict[int, tuple[Row, ...]] = {}
    for number in _hardest_first(plan, structure.nest_numbers):
        rows[number] = tables.rows(plan, structure, [[c for c in body if c.nest.number == number] for body in bodies])
        if not rows[number]:
            return None
    across = frozenset(row.choice.axis for table in rows.values() for row in table if row.choice.lanes > 1)
    if tables.forbidden and tables.forbidden & of_lanes(across):
        return None
    partial = any(not body.full for body in plan.bodies)
    numbers = structure.nest_numbers
    return Family(structure, numbers, tuple(rows[number] for number in numbers), overhead, partial)


def _hardest_first(plan: BufferProgram, numbers: Sequence[int]) -> list[int]:
    """Nests in the order in which it is found out soonest that no choice of one is legal."""
    inside = {nest.number for body in plan.bodies for _, nest in nests_with_places(body.steps) if nest.inline}
    return sorted(numbers, key=lambda number: (number not in inside, number))


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


def _plain() -> NestChoice:
    return NestChoice(axis=None, lanes=1, blocks=(), chains=1, tail=Tail.MASK, variants=())


def _within_budget(family: Family, picks: Sequence[int], target: Target, refusals: RefusalCounts | None) -> bool:
    general, full = family.instructions(picks)
    reasons = tuple(packet.refuse(family.structure.packet, family.partial, general, full, target))
    if refusals is not None:
        refusals.add(reasons)
    return not reasons


def _k_best(
    families: Sequence[Family], target: Target, refusals: RefusalCounts, limit: int
) -> Iterator[tuple[float, Candidate]]:
    order = count()

    def stream(family: Family) -> Iterator[tuple[float, int, Family, tuple[int, ...]]]:
        for total, picks in islice(family.best_first(), K_BEST_OF_ONE_STRUCTURE):
            yield total, next(order), family, picks

    found = 0
    for total, _, family, picks in heapq.merge(*(stream(f) for f in families), key=lambda item: item[:2]):
        if found == limit:
            return
        if _within_budget(family, picks, target, refusals):
            found += 1
            yield total, family.candidate(picks)


def _uniform(
    families: Sequence[Family], target: Target, sample: int, rng: random.Random
) -> Iterator[tuple[float, Candidate]]:
    """Draws with equal probability for every legal candidate of the whole family, without looking at the model."""
    if not families:
        return
    weights = [family.size for family in families]
    for family in rng.choices(families, weights, k=sample):
        picks = tuple(rng.randrange(len(table)) for table in family.tables)
        if _within_budget(family, picks, target, None):
            yield family.ns(picks), family.candidate(picks)
