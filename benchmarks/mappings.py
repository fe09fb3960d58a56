"""Which axis runs across the lanes: the best measured candidate of every mapping of a case, beside the search's winner.
Must not choose a candidate by hand: the model lists them, the clock picks, and the search is asked apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from autotune.calibration.prior import prior
from autotune.ir.program import AxisKind, Program
from autotune.jit import host_target
from autotune.realizations.candidate import Candidate
from autotune.search.families import Family, families_of
from autotune.search.tables import Tables
from benchmarks.case import Case
from benchmarks.cases import case
from benchmarks.field import checked, first_legal, timed
from benchmarks.ours import kernel_of, winner_of

CASES = (
    case("column_softmax", 129, 512),
    case("column_softmax", 129, 65),
    case("short_rows", 4096, 7),
    case("softmax", 129, 512),
    case("rmsnorm", 129, 512),
)
SCALAR = "scalar"
WINNER = "search winner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The best measured candidate of one mapping in one case, or the search's winner.

    Units: `us` microseconds a call; `ratio` over the fastest line of the case, the median of paired rounds. `timed`
    counts the candidates of the mapping that were right and timed, `failed` those that were not.
    """

    suite: str = "mappings"
    case: str
    mapping: str
    candidate: str
    us: float
    ratio: float
    timed: int
    failed: int


def measure(
    cases: Sequence[Case], *, count: int, rounds: int, budget_s: float, announce: Callable[[str], None]
) -> Iterator[tuple[Line, ...]]:
    """The lines of each case, fastest first; the model's first `count` candidates of every mapping are timed."""
    for each in cases:
        announce(f"{each.name}: searching")
        winner = winner_of(each, budget_s)
        announce(f"{each.name}: compiling and checking")
        yield _lines(each, winner, count, rounds, announce)


def to_json(lines: Sequence[Line]) -> str:
    """A JSON array of the lines, one a line of text."""
    return "[\n" + ",\n".join(json.dumps(asdict(line)) for line in lines) + "\n]\n"


def show(console: Console, lines: Sequence[Line]) -> None:
    """Print the table."""
    table = Table(title="the best candidate of each mapping, interleaved in one run, one thread, one core")
    for heading in ("case", "across the lanes", "candidate"):
        table.add_column(heading, no_wrap=True)
    for heading in ("µs", "ratio to the best", "timed", "failed"):
        table.add_column(heading, justify="right")
    previous = ""
    for line in lines:
        if previous and line.case != previous:
            table.add_section()
        name = line.case if line.case != previous else ""
        numbers = (f"{line.us:.3g}", f"{line.ratio:.3f}", str(line.timed), str(line.failed))
        table.add_row(name, line.mapping, line.candidate, *numbers)
        previous = line.case
    console.print(table)


# ---- candidates -----------------------------------------------------------------------------------------------------
def mapping_name(program: Program, axis: int | None) -> str:
    """`program axis (column)`, `full axis (x.shape[0])` or `scalar`."""
    if axis is None:
        return SCALAR
    found = program.axes[axis]
    kind = "program" if found.kind in (AxisKind.PROGRAM, AxisKind.PROGRAM_TILE) else found.kind.value
    return f"{kind} axis a{axis}" + (f" ({found.name})" if found.name else "")


def lane_axis(program: Program, candidate: Candidate) -> int | None:
    """The axis across the lanes: one inside a program where any phase has such a one, else the programs' own."""
    axes = {mapping.axis for _, mapping in candidate.mapping if mapping.axis is not None}
    inside = [a for a in axes if a not in program.parallel]
    return min(inside) if inside else min(axes, default=None)


def candidates_by_mapping(program: Program, count: int) -> dict[str, list[Candidate]]:
    """The model's first `count` legal candidates of every mapping that the program has."""
    target = host_target()
    by_axis: dict[int | None, list[Family]] = {}
    for family in families_of(program, target, Tables(target, prior(target))):
        first = family.candidate((0,) * len(family.tables))
        by_axis.setdefault(lane_axis(program, first), []).append(family)
    ordered = sorted(by_axis.items(), key=lambda item: -1 if item[0] is None else item[0])
    return {mapping_name(program, axis): first_legal(program, target, families, count) for axis, families in ordered}


def _lines(of: Case, winner: Candidate, count: int, rounds: int, announce: Callable[[str], None]) -> tuple[Line, ...]:
    program = kernel_of(of).bind(**of.extents)
    label = f"{WINNER}: {mapping_name(program, lane_axis(program, winner))}"
    field = checked(of, {**candidates_by_mapping(program, count), label: [winner]})
    announce(f"{of.name}: timing")
    found = timed(of, field, rounds)
    fastest = min(found.values(), key=lambda best: best.us)
    lines = [
        Line(
            case=of.name,
            mapping=name,
            candidate=best.candidate,
            us=best.us,
            ratio=median(best.ratios(fastest)),
            timed=len(field.kernels[name]),
            failed=field.failed[name],
        )
        for name, best in found.items()
    ]
    return tuple(sorted(lines, key=lambda line: line.us))
