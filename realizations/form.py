"""A candidate as data: maps in order, phases and axes that exist, sizes of at least one: refusals.
Must not know nests, costs or instructions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from autotune.ir.ownership import truth_values
from autotune.ir.phases import PhaseGraph, PhaseKind
from autotune.ir.program import AxisKind, Program
from autotune.realizations.candidate import Buffered, Candidate, Direct, Inline
from autotune.realizations.verdict import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class NotWellFormed(Refusal):
    rule: ClassVar[str] = "not-well-formed"
    what: str
    found: str
    expected: str

    @property
    def sentence(self) -> str:
        return f"{self.what} is {self.found}; expected {self.expected}"


def refuse_tiles(program: Program, candidate: Candidate) -> Iterator[Refusal]:
    """What makes the tiles of a candidate meaningless for a bound program."""
    tiled = {axis.id for axis in program.axes if axis.kind is AxisKind.TILE}
    blocked = [tile.axis for tile in candidate.tiles]
    for axis in blocked:
        if axis not in tiled and axis not in program.parallel:
            yield NotWellFormed(what="the axis of a tile", found=f"a{axis}", expected="a tile loop or a parallel axis")
    if len(set(blocked)) < len(blocked):
        yield NotWellFormed(what="tiles", found=_listed(blocked), expected="each axis once")
    for axis in sorted(tiled - set(blocked)):
        yield NotWellFormed(what=f"the block of tile loop a{axis}", found="missing", expected="a number of coordinates")
    for tile in candidate.tiles:
        if tile.block < 1:
            what = f"the block of a{tile.axis}"
            yield NotWellFormed(what=what, found=str(tile.block), expected="at least 1")


def refuse(program: Program, graph: PhaseGraph, candidate: Candidate) -> Iterator[Refusal]:
    """What makes a candidate meaningless for the program that its tiles leave, whatever the target."""
    yield from _refuse_maps(candidate)
    yield from _refuse_phases(program, graph, candidate)
    yield from _refuse_axes(program, candidate)
    yield from _refuse_sizes(candidate)


def _refuse_maps(candidate: Candidate) -> Iterator[Refusal]:
    for name in ("mapping", "storage", "nests", "transfer", "compute", "contribution", "tail"):
        keys = [key for key, _ in getattr(candidate, name)]
        if any(later <= earlier for earlier, later in pairwise(keys)):
            yield NotWellFormed(what=name, found=f"keyed {_listed(keys)}", expected="keys that rise, each once")


def _refuse_phases(program: Program, graph: PhaseGraph, candidate: Candidate) -> Iterator[Refusal]:
    kinds = {phase.number: phase.kind for phase in graph.phases}
    inline = (PhaseKind.LOAD, PhaseKind.ELEMENTWISE)
    buffered = {phase for phase, storage in candidate.storage if isinstance(storage, Buffered)}
    inside = {phase for phase, _ in candidate.contribution}
    deciding = truth_values(program)
    writing = {n for n, kind in kinds.items() if (kind not in inline and n not in inside) or n in buffered}
    stored = {phase for phase, _ in candidate.storage}
    for phase in sorted(inside - stored):
        what = f"the storage of reduction p{phase} inside a nest"
        yield NotWellFormed(what=what, found="missing", expected="Inline or Buffered")
    named: tuple[tuple[str, Iterable[int], set[int], str], ...] = (
        ("mapping", (p for p, _ in candidate.mapping), set(kinds), "a phase of the program"),
        ("compute", (p for p, _ in candidate.compute), set(kinds), "a phase of the program"),
        ("nests", (p for p, _ in candidate.nests), writing, "a phase that writes a result"),
        (
            *("storage", (p for p, _ in candidate.storage)),
            *(_of(kinds, *inline) | inside, "a load, an elementwise phase or a reduction computed inside a nest"),
        ),
        ("contribution", inside, _of(kinds, PhaseKind.REDUCTION), "a reduction"),
        (
            *("transfer", (p for p, _ in candidate.transfer)),
            *(_of(kinds, PhaseKind.LOAD, PhaseKind.STORE), "a load or a store"),
        ),
    )
    for name, phases, permitted, expected in named:
        for phase in phases:
            if phase not in permitted:
                yield NotWellFormed(what=f"a key of {name}", found=f"p{phase}", expected=expected)
    for phase in sorted(inside - buffered):
        if 0 <= phase < len(graph.phases) and graph.phases[phase].value in deciding:
            what = f"the storage of reduction p{phase}, on which control flow hangs,"
            yield NotWellFormed(what=what, found="missing or Inline", expected="Buffered")
    for phase, storage in candidate.storage:
        wrong = Inline if kinds.get(phase) is PhaseKind.LOAD else Direct
        if isinstance(storage, wrong):
            expected = "Direct or Buffered" if wrong is Inline else "Inline or Buffered"
            yield NotWellFormed(what=f"the storage of p{phase}", found=wrong.__name__, expected=expected)


def _of(kinds: dict[int, PhaseKind], *wanted: PhaseKind) -> set[int]:
    return {number for number, kind in kinds.items() if kind in wanted}


def _refuse_axes(program: Program, candidate: Candidate) -> Iterator[Refusal]:
    across = [(p, m.axis) for p, m in candidate.mapping] + [(p, c.axis) for p, c in candidate.contribution]
    for phase, vector in across:
        if vector is not None and not 0 <= vector < len(program.axes):
            found = f"a{vector}"
            yield NotWellFormed(what=f"the vector axis of p{phase}", found=found, expected="an axis of the program")
    blocks = [(p, c.blocks) for p, c in candidate.compute] + [(p, c.blocks) for p, c in candidate.contribution]
    for phase, chosen in blocks:
        axes = [block.axis for block in chosen]
        if len(set(axes)) < len(axes) or not set(axes) <= set(range(len(program.axes))):
            what = f"the register block of p{phase}"
            yield NotWellFormed(what=what, found=_listed(axes), expected="axes of the program, each once")


def _refuse_sizes(candidate: Candidate) -> Iterator[Refusal]:
    sizes = [
        *((f"the factor of a{b.axis} in p{p}", b.factor) for p, c in candidate.compute for b in c.blocks),
        *((f"the factor of a{b.axis} in p{p}", b.factor) for p, c in candidate.contribution for b in c.blocks),
        *((f"the number of chains of p{p}", c.chains) for p, c in candidate.compute),
        *((f"the number of chains of p{p}", c.chains) for p, c in candidate.contribution),
        *((f"the group of p{p}", c.group) for p, c in candidate.contribution),
        *((f"nest of p{p} plus one", nest + 1) for p, nest in candidate.nests),
        *((f"the panel of p{p} plus one", s.panel + 1) for p, s in candidate.storage if isinstance(s, Buffered)),
        ("split.parts", candidate.split.parts),
        ("schedule.grain", candidate.schedule.grain),
        ("schedule.threads", candidate.schedule.threads),
    ]
    for what, size in sizes:
        if size < 1:
            yield NotWellFormed(what=what, found=str(size), expected="at least 1")
    lanes = [(p, m.axis, m.lanes) for p, m in candidate.mapping]
    lanes += [(p, c.axis, c.lanes) for p, c in candidate.contribution]
    for phase, axis, count in lanes:
        power = count >= 1 and count & (count - 1) == 0
        if not power or (axis is None and count != 1):
            expected = "1 without a vector axis, else a power of two"
            yield NotWellFormed(what=f"the number of lanes of p{phase}", found=str(count), expected=expected)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "nothing"
