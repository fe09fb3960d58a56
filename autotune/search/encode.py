"""Candidates as rows of a choice matrix: one parameter per (phase number, choice kind), levels fixed by the set.
Must not know what a choice costs, which candidates were measured or what optuna is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from autotune.ir.buffer import Planner, Tail, Transfer
from autotune.realizations.candidate import (
    Buffered,
    Candidate,
    Clones,
    Compute,
    Contribution,
    Direct,
    Inline,
    Schedule,
    Split,
    Storage,
    Tile,
)
from autotune.realizations.candidate import Mapping as LaneMapping

Level: TypeAlias = int | str
INACTIVE = "inactive"


class AmbiguousChoices(ValueError):
    """Two candidates of one set take the same level of every parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One choice axis. `levels` starts with INACTIVE; the rest are numbers in order (ordinal) or sorted names."""

    name: str
    levels: tuple[Level, ...]
    ordinal: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceMatrix:
    """A search set as level numbers.

    Shapes: `codes` is int16[candidates, parameters]; 0 is the inactive level of each parameter.
    """

    parameters: tuple[Parameter, ...]
    codes: NDArray[np.int16]
    rows: Mapping[bytes, int]

    def __len__(self) -> int:
        return len(self.codes)

    def choices(self, row: int) -> dict[str, Level]:
        """The active parameters of one candidate and their levels."""
        codes = self.codes[row]
        return {self.parameters[k].name: self.parameters[k].levels[codes[k]] for k in np.flatnonzero(codes)}

    def row(self, choices: Mapping[str, Level]) -> int:
        """The candidate that takes exactly `choices`; parameters left out are inactive.

        Raises: KeyError where no candidate of the set does.
        """
        if not choices.keys() <= {p.name for p in self.parameters}:
            raise KeyError("a choice outside the set")
        codes = np.zeros(len(self.parameters), np.int16)
        for k, parameter in enumerate(self.parameters):
            level = choices.get(parameter.name, INACTIVE)
            if level not in parameter.levels:
                raise KeyError(f"{parameter.name} = {level} is outside the set")
            codes[k] = parameter.levels.index(level)
        return self.rows[codes.tobytes()]


def encode(candidates: Sequence[Candidate]) -> ChoiceMatrix:
    """The choice matrix of a search set, candidates as rows in the order given.

    Raises: AmbiguousChoices where two candidates are equal.
    """
    parameters: list[Parameter] = []
    columns: list[NDArray[np.int16]] = []
    for key, atoms in sorted(_columns(list(candidates)).items()):
        described = [dict(_choices(*key, value)) for value in atoms.values]
        for name in sorted({name for levels in described for name in levels}):
            parameter = _parameter(name, {levels[name] for levels in described if name in levels})
            number = {level: code for code, level in enumerate(parameter.levels)}
            table = [number[levels.get(name, INACTIVE)] for levels in described]
            parameters.append(parameter)
            columns.append(np.array([*table, 0], np.int16)[atoms.numbers])
    codes = np.ascontiguousarray(np.stack(columns, axis=1)) if columns else np.zeros((len(candidates), 0), np.int16)
    return ChoiceMatrix(parameters=tuple(parameters), codes=codes, rows=_row_numbers(codes))


def choices_of(candidate: Candidate) -> dict[str, Level]:
    """The active parameters of one candidate and their levels, whatever set it belongs to."""
    return {name: level for key, part in _parts(candidate) for name, level in _choices(*key, part)}


def _parameter(name: str, levels: set[Level]) -> Parameter:
    numbers = sorted(level for level in levels if isinstance(level, int))
    names = sorted(level for level in levels if isinstance(level, str))
    return Parameter(name=name, levels=(INACTIVE, *numbers, *names), ordinal=not names)


def _row_numbers(codes: NDArray[np.int16]) -> dict[bytes, int]:
    rows: dict[bytes, int] = {}
    for number, codes_of_row in enumerate(codes):
        first = rows.setdefault(codes_of_row.tobytes(), number)
        if first != number:
            raise AmbiguousChoices(f"candidates {first} and {number} of the set take the same choices")
    return rows


class _Column:
    """Which of the distinct values of one (choice kind, number) each candidate has; the last number is "none".

    Looked up by identity first: candidates of one enumeration share their parts, and hashing a part costs more.
    """

    __slots__ = ("_by_identity", "_by_value", "numbers", "values")

    def __init__(self, count: int) -> None:
        self.numbers = np.full(count, -1, np.int64)
        self.values: list[object] = []
        self._by_identity: dict[int, tuple[int, object]] = {}  # holds the object, so that its identity stays its own
        self._by_value: dict[object, int] = {}

    def put(self, row: int, value: object) -> None:
        known = self._by_identity.get(id(value))
        if known is None:
            number = self._by_value.setdefault(value, len(self.values))
            if number == len(self.values):
                self.values.append(value)
            known = self._by_identity[id(value)] = (number, value)
        self.numbers[row] = known[0]


_Key: TypeAlias = tuple[str, int]


def _columns(candidates: list[Candidate]) -> dict[_Key, _Column]:
    columns: dict[_Key, _Column] = {}
    for row, candidate in enumerate(candidates):
        for key, value in _parts(candidate):
            column = columns.get(key)
            if column is None:
                column = columns[key] = _Column(len(candidates))
            column.put(row, value)
    return columns


def _parts(candidate: Candidate) -> Iterator[tuple[_Key, object]]:
    """Every part of a candidate with its kind and the axis or phase it belongs to (-1: the whole program)."""
    for tile in candidate.tiles:
        yield ("tile", tile.axis), tile
    for phase, mapping in candidate.mapping:
        yield ("map", phase), mapping
    for phase, storage in candidate.storage:
        yield ("storage", phase), storage
    for phase, transfer in candidate.transfer:
        yield ("transfer", phase), transfer
    for phase, compute in candidate.compute:
        yield ("compute", phase), compute
    for phase, contribution in candidate.contribution:
        yield ("contribution", phase), contribution
    yield from _nest_parts(candidate)
    yield ("packet", -1), candidate.packet
    yield ("predicates", -1), candidate.predicates
    yield ("planner", -1), candidate.planner
    yield ("split", -1), candidate.split
    yield ("schedule", -1), candidate.schedule


def _nest_parts(candidate: Candidate) -> Iterator[tuple[_Key, object]]:
    """A nest is named by its first phase: fusing two phases then changes their own choices and no others'."""
    leaders: dict[int, int] = {}
    for phase, nest in candidate.nests:
        yield ("nest", phase), leaders.setdefault(nest, phase)
    order = tuple(leaders)
    if order != tuple(sorted(order)):
        yield ("order", -1), order
    for nest, tail in candidate.tail:
        yield (("tail", leaders[nest]) if nest in leaders else ("extra_tail", nest)), tail


def _choices(kind: str, number: int, value: object) -> Iterator[tuple[str, Level]]:
    """Parameter names and levels of one part."""
    match value:
        case Tile(axis=axis, block=block):
            yield f"tile.a{axis}", block
        case LaneMapping(axis=axis, lanes=lanes):
            yield f"p{number}.vector_axis", "none" if axis is None else f"a{axis}"
            yield f"p{number}.lanes", lanes
        case Inline() | Direct() | Buffered():
            yield f"p{number}.storage", _storage_name(value)
        case Transfer():
            yield f"p{number}.transfer", value.value
        case Compute():
            yield f"p{number}.chains", value.chains
            yield from ((f"p{number}.block.a{block.axis}", block.factor) for block in value.blocks)
            yield from ((f"p{number}.variant.{op}", variant) for op, variant in value.variants)
            yield f"p{number}.order", ",".join(f"a{axis}" for axis in value.order) or "given"
        case Contribution():
            yield f"p{number}.own_axis", "none" if value.axis is None else f"a{value.axis}"
            yield f"p{number}.own_lanes", value.lanes
            yield f"p{number}.group", value.group
            yield f"p{number}.own_chains", value.chains
            yield f"p{number}.prefetch", value.prefetch_bytes
            yield from ((f"p{number}.unroll.a{block.axis}", block.factor) for block in value.blocks)
        case Tail():
            yield (f"p{number}.tail" if kind == "tail" else f"n{number}.tail"), value.value
        case Clones():
            yield "packet", value.value
        case Planner():
            yield "planner", value.value
        case tuple() if kind == "predicates":
            yield "predicates", ",".join(f"a{axis}" for axis in value) or "none"
        case Split(parts=parts):
            yield "split", parts
        case Schedule():
            yield "schedule.order", ",".join(f"a{axis}" for axis in value.order) or "given"
            yield "schedule.grain", value.grain
            yield "schedule.threads", value.threads
        case int():
            yield f"p{number}.nest", f"p{value}"
        case tuple():
            yield "nests.order", ",".join(map(str, value))
        case _:
            raise TypeError(f"a candidate has a part of type {type(value).__name__} that has no encoding")


def _storage_name(storage: Storage) -> str:
    match storage:
        case Inline():
            return "inline"
        case Direct():
            return "direct"
        case Buffered(layout=layout, panel=panel):
            cut = f"/{panel}" if panel else ""
            return "buffer[" + ",".join(f"a{axis}" for axis in layout) + cut + "]"
