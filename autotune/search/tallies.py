"""Counts of nests by their canonical form, and what they cost: counted once, kept in memory and in a file.
Must not know structures or choices."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from autotune.calibration.prior import Prices
from autotune.ir.buffer import Body, Nest
from autotune.ir.serial import Json
from autotune.realizations.builder import LoopName, Steps
from autotune.realizations.evaluate import ProgramValues
from autotune.realizations.events import EVENT_COUNT
from autotune.realizations.loops import trips_of
from autotune.realizations.nest_key import CanonicalNest
from autotune.realizations.tally import Part, Tally, tally
from autotune.realizations.target import Target
from autotune.realizations.visits import Visit
from autotune.search.cache_file import CacheFile


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A tally in nanoseconds: level around the nest, loops of the nest, and the time of one execution there."""

    parts: tuple[tuple[int, tuple[LoopName, ...], float], ...]
    instructions: int


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """One copy of a nest in the text of a body: where it stands, and its canonical form."""

    body: Body
    nest: Nest
    visit: Visit
    form: CanonicalNest
    surroundings: bytes
    coordinates: dict[int, float]
    """Expected coordinates in the block of each axis, by canonical number."""

    @staticmethod
    def of(body: Body, nest: Nest, visit: Visit, form: CanonicalNest) -> Copy:
        coordinates = {at: visit.coordinates(axis) for axis, at in form.axes.items() if axis in visit.spans}
        return Copy(body, nest, visit, form, form.surroundings(visit), coordinates)

    def issue_ns(self, priced: Priced) -> float:
        """Time of all executions of one call."""
        weights, total = self.visit.weights, 0.0
        for level, loops, ns in priced.parts:
            ns *= weights[level]
            for name in loops:
                ns *= trips_of(name, self.coordinates[name.axis])
            total += ns
        return total


class Tallies:
    """Looks a count up in memory, then in the file; what is in neither is counted and added to both."""

    def __init__(self, target: Target, prices: Prices, file: CacheFile | None = None) -> None:
        self._target = target
        self._prices = prices.event_ns
        self._file = file
        self._known: dict[Hashable, Priced] = {}
        self.counted = 0
        self.read = 0

    def priced(self, values: ProgramValues, copy: Copy, nest: Nest) -> Priced:
        """What one execution of a nest costs, with loops exchanged for those of `nest`."""
        choice = copy.form.choice(nest, copy.visit)
        key = (copy.form.digest, copy.surroundings, choice)
        found = self._known.get(key)
        if found is None:
            self._known[key] = found = self._price(self._look_up(values, copy, nest, choice))
        return found

    def _look_up(self, values: ProgramValues, copy: Copy, nest: Nest, choice: object) -> Tally:
        name = copy.form.digest + copy.surroundings + repr(choice).encode()
        if self._file is not None and (stored := self._file.find(name)) is not None:
            self.read += 1
            return _decoded(stored)
        self.counted += 1
        made = tally(values, copy.body, nest, copy.visit, copy.form.axes, self._target)
        if self._file is not None:
            self._file.add(name, _encoded(made))
        return made

    def _price(self, made: Tally) -> Priced:
        parts = (
            (part.level, part.loops, sum(n * ns for n, ns in zip(part.counts, self._prices, strict=True)))
            for part in made.parts
        )
        return Priced(tuple(parts), made.instructions)


def _encoded(made: Tally) -> Json:
    parts = [
        [
            part.level,
            [[name.axis, name.steps.value, name.factor, name.lanes] for name in part.loops],
            [[event, times] for event, times in enumerate(part.counts) if times],
        ]
        for part in made.parts
    ]
    return [made.instructions, parts]


def _decoded(data: Json) -> Tally:
    instructions, parts = data
    return Tally(parts=tuple(_part(*part) for part in parts), instructions=instructions)


def _part(level: int, loops: Json, sparse: Json) -> Part:
    counts = [0.0] * EVENT_COUNT
    for event, times in sparse:
        counts[event] = times
    names = tuple(LoopName(axis, Steps(steps), factor, lanes) for axis, steps, factor, lanes in loops)
    return Part(level=level, loops=names, counts=tuple(counts))
