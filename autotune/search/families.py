"""Structures that some legal choice of their nests can realize, each with the tables of its nests.
Must not know which of their combinations a search takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autotune.calibration.prior import Prices
from autotune.ir.buffer import BufferProgram, Tail
from autotune.ir.program import Program
from autotune.ir.serial import Json, from_json, to_json
from autotune.realizations import packet
from autotune.realizations.candidate import Candidate, Clones
from autotune.realizations.enumerate import structures
from autotune.realizations.legality import contexts, refuse_candidate, refuse_tiles
from autotune.realizations.lower import lower
from autotune.realizations.mechanisms import of_lanes, of_structure
from autotune.realizations.places import nests_with_places
from autotune.realizations.storage import refuse_nest_order, refuse_snapshots, refuse_workspace
from autotune.realizations.structure import NestChoice, Structure, assemble
from autotune.realizations.target import Target
from autotune.realizations.tiled import tiled
from autotune.search.cache_file import CacheFile
from autotune.search.labels import Budgets, Labels, feasible_count
from autotune.search.tables import Overhead, RefusalCounts, Row, Tables


@dataclass(frozen=True, slots=True)
class Family:
    """One structure with the tables of its nests: every combination of their rows is a candidate."""

    structure: Structure
    numbers: tuple[int, ...]
    tables: tuple[tuple[Row, ...], ...]
    overhead: Overhead

    def rows(self, picks: Sequence[int]) -> tuple[Row, ...]:
        return tuple(table[pick] for table, pick in zip(self.tables, picks, strict=True))

    def candidate(self, picks: Sequence[int]) -> Candidate:
        rows = self.rows(picks)
        return assemble(self.structure, {n: row.choice for n, row in zip(self.numbers, rows, strict=True)})

    def labels(self, target: Target) -> Labels:
        """The combinations within the target's code budgets, cheapest first."""
        return Labels(self.tables, self._budgets(target), general=self.overhead.general, full=self.overhead.full)

    def size(self, target: Target) -> int:
        """How many combinations are within the target's code budgets."""
        fixed = self.overhead
        return feasible_count(self.tables, self._budgets(target), general=fixed.general, full=fixed.full)

    def fits(self, picks: Sequence[int], target: Target) -> bool:
        """Whether a combination is within the target's code budgets."""
        rows = self.rows(picks)
        general = self.overhead.general + sum(row.general for row in rows)
        return self._budgets(target).allow(general, self.overhead.full + sum(row.full for row in rows))

    def _budgets(self, target: Target) -> Budgets:
        general, full = packet.budgets(self.structure.packet, target)
        return Budgets(general=general, full=full)

    def ns(self, picks: Sequence[int]) -> float:
        """Predicted nanoseconds of one call."""
        return self.overhead.ns + sum(table[pick].ns for table, pick in zip(self.tables, picks, strict=True))


def all_families(
    program: Program, target: Target, prices: Prices, forbidden: frozenset[str], file: CacheFile | None
) -> tuple[list[Family], RefusalCounts]:
    """Every family of a program, and what was refused on the way; from the file if it has them for these prices."""
    question = [to_json(program), to_json(prices), sorted(forbidden)]
    name = b"families" + json.dumps(question, sort_keys=True).encode()
    if file is not None and (stored := file.find(name)) is not None:
        return _decoded(stored)
    tables = Tables(target, prices, file, forbidden=forbidden)
    found = list(families_of(program, target, tables))
    if file is not None:
        file.add(name, _encoded(found, tables.refusals))
    return found, tables.refusals


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
    plain = assemble(structure, plain_choices(structure))
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
    if structure.packet is Clones.FULL and all(body.full for body in plan.bodies):
        refusals.add((packet.CloneIneligible(),))
        return None
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
    numbers = structure.nest_numbers
    return Family(structure, numbers, tuple(rows[number] for number in numbers), overhead)


def _hardest_first(plan: BufferProgram, numbers: Sequence[int]) -> list[int]:
    """Nests in the order in which it is found out soonest that no choice of one is legal."""
    inside = {nest.number for body in plan.bodies for _, nest in nests_with_places(body.steps) if nest.inline}
    return sorted(numbers, key=lambda number: (number not in inside, number))


def plain_choices(structure: Structure) -> dict[int, NestChoice]:
    """Scalar loops for every nest of a structure, for questions that the nests' choices do not matter to."""
    plain = NestChoice(axis=None, lanes=1, blocks=(), chains=1, tail=Tail.MASK, variants=())
    return dict.fromkeys(structure.nest_numbers, plain)


# ---- in a file ------------------------------------------------------------------------------------------------------
def _encoded(families: Sequence[Family], refusals: RefusalCounts) -> Json:
    """Families that name their tables, and tables that name their choices, by number: most are shared."""
    choices: dict[NestChoice, int] = {}
    numbers: dict[int, int] = {}
    tables: list[Json] = []
    for table in (table for family in families for table in family.tables):
        if id(table) not in numbers:
            numbers[id(table)] = len(tables)
            tables.append(
                [[choices.setdefault(row.choice, len(choices)), row.ns, row.general, row.full] for row in table]
            )
    return {
        "choices": [to_json(choice) for choice in choices],
        "tables": tables,
        "families": [
            [
                to_json(family.structure),
                [numbers[id(table)] for table in family.tables],
                to_json(family.overhead),
            ]
            for family in families
        ],
        "refused": refusals.table(),
    }


def _decoded(data: Json) -> tuple[list[Family], RefusalCounts]:
    choices = [from_json(NestChoice, choice) for choice in data["choices"]]
    tables = [
        tuple(Row(choice=choices[number], ns=ns, general=general, full=full) for number, ns, general, full in rows)
        for rows in data["tables"]
    ]
    families = []
    for stored, numbers, overhead in data["families"]:
        structure = from_json(Structure, stored)
        kept = tuple(tables[number] for number in numbers)
        families.append(Family(structure, structure.nest_numbers, kept, from_json(Overhead, overhead)))
    refusals = RefusalCounts()
    for rule, count, example in data["refused"]:
        refusals.counts[rule] = count
        refusals.examples[rule] = example
    return families, refusals
