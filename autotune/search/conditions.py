"""Conditions on the choices of a candidate, as users write them: `lanes=8`, `tile.M>=16`, `uses=own-lanes`.
Must not know which candidates there are or what became of them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from autotune.ir.program import Program
from autotune.realizations.candidate import Candidate
from autotune.realizations.mechanisms import LANES_OVER_PROGRAMS, NAMES, uses
from autotune.realizations.target import Target
from autotune.search.encode import Level, choices_of
from autotune.search.errors import BadCondition, UnknownChoice, UnknownMechanism

USES, MAPPING = "uses", "mapping"
ROW, COLUMN = "row", "column"
"""Mappings by the axis across the lanes: one inside a program, or programs themselves."""
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM = re.compile(r"\s*([\w.\-]+)\s*(<=|>=|!=|=|<|>)\s*([^\s=<>!].*?)\s*")
_PHASE = re.compile(r"[pn]\d+\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition: a choice, a relation and a level, with the text it was written as.

    `name` is a parameter of `autotune.search.encode`, with its phase (`p3.lanes`) or without (`lanes`: any phase),
    `uses` for a mechanism, or `mapping`, which is `column` where programs run across the lanes of some phase.
    """

    text: str
    name: str
    relation: str
    level: Level

    def holds(self, choices: dict[str, Level], mechanisms: frozenset[str]) -> bool:
        """Whether a candidate with these choices and mechanisms meets it; a choice that it lacks never does."""
        if self.name in (USES, MAPPING):
            wanted = LANES_OVER_PROGRAMS if self.name == MAPPING else str(self.level)
            has = wanted in mechanisms
            return has == ((self.relation == "=") == (self.name == USES or self.level == COLUMN))
        return any(self._compare(level) for name, level in choices.items() if _is_called(name, self.name))

    def allows(self, choices: dict[str, Level]) -> bool:
        """Whether no choice departs from it; the mechanisms of a candidate are not looked at."""
        return all(self._compare(level) for name, level in choices.items() if _is_called(name, self.name))

    def _compare(self, level: Level) -> bool:
        if isinstance(level, int) and isinstance(self.level, int):
            return _RELATIONS[self.relation](level, self.level)
        return (level == self.level) == (self.relation == "=")


def parse_conditions(texts: Iterable[str], program: Program) -> tuple[Condition, ...]:
    """Conditions on candidates of a program, whose axes may be written by name.

    Raises: BadCondition, UnknownMechanism.
    """
    return tuple(_parse(text, program) for text in texts)


def _parse(text: str, program: Program) -> Condition:
    found = _FORM.fullmatch(text)
    if found is None:
        raise BadCondition(text=text, problem="expected a choice, one of = != < > <= >=, and a value")
    name, relation, value = found.groups()
    axes = _axes_by_name(program)
    name = ".".join(axes.get(part, part) for part in name.split("."))
    level: Level = int(value) if re.fullmatch(r"-?\d+", value) else _with_axes(value, axes)
    if name == USES and value not in NAMES:
        raise UnknownMechanism(name=value, known=", ".join(NAMES))
    if name == MAPPING and value not in (ROW, COLUMN):
        raise BadCondition(text=text, problem=f"a mapping is {ROW} or {COLUMN}")
    if isinstance(level, str) and relation not in ("=", "!="):
        raise BadCondition(text=text, problem=f"{value!r} is no number, so only = and != compare with it")
    return Condition(text=text, name=name, relation=relation, level=level)


def _axes_by_name(program: Program) -> dict[str, str]:
    """`a3` by the name of an axis that no other axis shares."""
    names = [axis.name for axis in program.axes]
    return {axis.name: f"a{axis.id}" for axis in program.axes if axis.name and names.count(axis.name) == 1}


def _with_axes(value: str, axes: dict[str, str]) -> str:
    return re.sub(r"\w+", lambda word: axes.get(word[0], word[0]), value)


def _is_called(parameter: str, name: str) -> bool:
    return parameter == name or _PHASE.sub("", parameter, count=1) == name


def all_hold(conditions: Sequence[Condition], program: Program, candidate: Candidate, target: Target) -> bool:
    """Whether a candidate of a bound program meets every condition, in some phase where it names none."""
    choices, mechanisms = choices_of(candidate), mechanisms_for(conditions, program, candidate, target)
    return all(condition.holds(choices, mechanisms) for condition in conditions)


def mechanisms_for(
    conditions: Sequence[Condition], program: Program, candidate: Candidate, target: Target
) -> frozenset[str]:
    """The mechanisms that a candidate uses; not looked for where no condition asks."""
    asked = any(condition.name in (USES, MAPPING) for condition in conditions)
    return uses(program, candidate, target) if asked else frozenset()


def check_names(conditions: Sequence[Condition], candidates: Iterable[Candidate]) -> None:
    """Raises: UnknownChoice for a condition on a choice that no candidate has."""
    open_conditions = [condition for condition in conditions if condition.name not in (USES, MAPPING)]
    known: set[str] = set()
    for candidate in candidates:
        if not open_conditions:
            return
        known.update(choices_of(candidate))
        open_conditions = [c for c in open_conditions if not any(_is_called(name, c.name) for name in known)]
    if open_conditions:
        names = sorted({_PHASE.sub("", name, count=1) for name in known})
        raise UnknownChoice(name=open_conditions[0].name, known=", ".join((*names, USES, MAPPING)))


def levels_of(name: str, candidates: Iterable[Candidate]) -> Iterator[Level]:
    """Every level that candidates have for a choice, with repetitions."""
    for candidate in candidates:
        yield from (level for parameter, level in choices_of(candidate).items() if _is_called(parameter, name))
