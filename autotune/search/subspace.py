"""The part of a space that conditions leave: structures and rows that meet them wherever they have the choice.
Must not know what the conditions are for.

A condition on a choice without a phase holds for every phase that has the choice, so rows can be judged one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autotune.ir.program import Program
from autotune.realizations.candidate import Candidate
from autotune.realizations.target import Target
from autotune.search.conditions import Condition, check_names, mechanisms_for
from autotune.search.encode import Level, choices_of
from autotune.search.families import Family

OF_STRUCTURE = frozenset({"storage", "transfer", "nest"})
"""Choices of a phase that its structure makes."""


def restricted(families: Sequence[Family], only: Sequence[Condition]) -> list[Family]:
    """The families that can meet every condition, with the rows that do.

    What depends on several nests together, a mechanism that some nest must use, is left to `all_fixed`.
    Raises: UnknownChoice.
    """
    check_names(only, (candidate for family in families for candidate in one_of_each_row(family)))
    kept = (_restricted(family, only) for family in families)
    return [family for family in kept if family is not None]


def all_fixed(only: Sequence[Condition], program: Program, candidate: Candidate, target: Target) -> bool:
    """Whether a candidate has every choice that the conditions fix, and has it as they fix it everywhere."""
    choices, mechanisms = choices_of(candidate), mechanisms_for(only, program, candidate, target)
    return all(c.holds(choices, mechanisms) and c.allows(choices) for c in only)


def _restricted(family: Family, only: Sequence[Condition]) -> Family | None:
    first = choices_of(family.candidate([0] * len(family.tables)))
    owned = [_phases(family, number) for number in family.numbers]
    fixed = {name: level for name, level in first.items() if not any(_is_of(name, phases) for phases in owned)}
    if not all(condition.allows(fixed) for condition in only):
        return None
    tables = []
    for position, table in enumerate(family.tables):
        rows = tuple(
            row
            for row, choices in zip(table, _choices_of_rows(family, position), strict=True)
            if all(condition.allows(choices) for condition in only)
        )
        if not rows:
            return None
        tables.append(rows)
    return replace(family, tables=tuple(tables))


def _phases(family: Family, number: int) -> frozenset[str]:
    """The phases whose choices the rows of a nest make, as parameters name them."""
    own = {phase for phase, nest in family.structure.nests if nest == number}
    rows = family.tables[family.numbers.index(number)]
    return frozenset(f"p{phase}" for phase in own.union(i.phase for row in rows for i in row.choice.inline))


def _is_of(name: str, phases: frozenset[str]) -> bool:
    """Whether a parameter is chosen by rows of these phases, not by the structure."""
    phase, _, choice = name.partition(".")
    return phase in phases and choice not in OF_STRUCTURE


def _choices_of_rows(family: Family, position: int) -> Iterator[dict[str, Level]]:
    """What each row of one table chooses."""
    phases = _phases(family, family.numbers[position])
    for candidate in one_of_each_row(family, position):
        yield {name: level for name, level in choices_of(candidate).items() if _is_of(name, phases)}


def one_of_each_row(family: Family, position: int | None = None) -> Iterator[Candidate]:
    """A candidate with each row of one table (of every table without one), the first rows elsewhere."""
    picks = [0] * len(family.tables)
    for k in range(len(family.tables)) if position is None else (position,):
        for pick in range(len(family.tables[k])):
            yield family.candidate([*picks[:k], pick, *picks[k + 1 :]])
