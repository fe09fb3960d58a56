"""Which axis runs across the lanes: the best measured candidate of every mapping of a case, beside the search's winner.
Must not choose a candidate by hand: the model lists them, the clock picks, and the search is asked apart."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import median

from rich.console import Console
from rich.table import Table

from autotune.calibration.prior import prior
from autotune.ir.program import AxisKind, Program
from autotune.jit import host_target
from autotune.measure.cases import make_cases
from autotune.measure.gate import Passed
from autotune.measure.protocol import Kernel
from autotune.measure.server import ForkServer
from autotune.measure.session import Session
from autotune.measure.states import CompileError, CompileTimeout, Crash
from autotune.realizations.candidate import Candidate
from autotune.realizations.legality import judge
from autotune.realizations.verdict import Legal
from autotune.search.join import Family, families_of
from autotune.search.tables import Tables
from benchmarks.buffers import Buffers
from benchmarks.case import Case
from benchmarks.cases import case
from benchmarks.environment import pinned
from benchmarks.ours import bind, kernel_of, loaded, winner_of
from benchmarks.timing import Call, interleaved

CASES = (
    case("column_softmax", 129, 512),
    case("column_softmax", 129, 65),
    case("short_rows", 4096, 7),
    case("softmax", 129, 512),
    case("rmsnorm", 129, 512),
)
SCALAR = "scalar"
WINNER = "search winner"
OF_ONE_STRUCTURE = 4
"""Candidates of one mapping that share storage, fusion and transfers: the model may like one structure too well."""
SEED = 20_261_130


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """What is timed in one case: by mapping, the kernels by candidate that were found right, and how many were not."""

    kernels: dict[str, dict[str, Kernel]]
    failed: dict[str, int]


def measure(
    cases: Sequence[Case], *, count: int, rounds: int, budget_s: float, announce: Callable[[str], None]
) -> Iterator[tuple[Line, ...]]:
    """The lines of each case, fastest first; the model's first `count` candidates of every mapping are timed."""
    for each in cases:
        announce(f"{each.name}: searching")
        winner = winner_of(each, budget_s)
        announce(f"{each.name}: compiling and checking")
        field = _field(each, winner, count)
        announce(f"{each.name}: timing")
        yield _lines(each, field, rounds)


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
    found = {}
    for axis, families in sorted(by_axis.items(), key=lambda item: -1 if item[0] is None else item[0]):
        legal = (c for c in _best_first(families) if isinstance(judge(program, c, target), Legal))
        found[mapping_name(program, axis)] = list(islice(legal, count))
    return found


def _best_first(families: Sequence[Family]) -> Iterator[Candidate]:
    def stream(number: int, family: Family) -> Iterator[tuple[float, int, tuple[int, ...]]]:
        for ns, picks in islice(family.best_first(), OF_ONE_STRUCTURE):
            yield ns, number, picks

    for _, number, picks in heapq.merge(*(stream(k, family) for k, family in enumerate(families))):
        yield families[number].candidate(picks)


def _field(of: Case, winner: Candidate, count: int) -> _Field:
    """Compile and check everything in worker processes: what crashes, hangs or is wrong is counted and left out."""
    kernel = kernel_of(of)
    program = kernel.bind(**of.extents)
    listed = {**candidates_by_mapping(program, count), WINNER: [winner]}
    cases = make_cases(program, SEED, sizes=of.extents, scalars=dict(of.scalars), generator=kernel.inputs_function)
    kernels: dict[str, dict[str, Kernel]] = {}
    with ForkServer() as server, Session(server, program, host_target(), cases, seed=SEED) as session:
        for name, candidates in listed.items():
            pending = [(candidate, session.compile(candidate)) for candidate in candidates]
            answers = ((candidate, future.result()) for candidate, future in pending)
            kernels[name] = {candidate.id: made for candidate, made in answers if _right(session, made)}
    failed = {name: len(candidates) - len(kernels[name]) for name, candidates in listed.items()}
    label = f"{WINNER}: {mapping_name(program, lane_axis(program, winner))}"
    kernels[label], failed[label] = kernels.pop(WINNER), failed.pop(WINNER)
    return _Field(kernels=kernels, failed=failed)


def _right(session: Session, made: object) -> bool:
    if isinstance(made, CompileError | CompileTimeout | Crash):
        return False
    return isinstance(session.gate(made), Passed)  # type: ignore[arg-type]  # what is no failure is a kernel


# ---- times ----------------------------------------------------------------------------------------------------------
def _lines(of: Case, field: _Field, rounds: int) -> tuple[Line, ...]:
    """Time all candidates side by side; the first half of the rounds picks the best of each mapping, the second times
    it, so that none is taken for its luck."""
    buffers = Buffers(of, SEED)
    largest = max(kernel.workspace_bytes for kernels in field.kernels.values() for kernel in kernels.values())
    workspace = buffers.scratch(max(largest, 64))
    prepared = {
        (name, id): bind(loaded(id, kernel), of, buffers, workspace)
        for name, kernels in field.kernels.items()
        for id, kernel in kernels.items()
    }
    calls: list[Call] = [each.call for each in prepared.values()]
    with pinned():
        columns = interleaved(calls, rounds=2 * rounds, rng=random.Random(of.name))
    times = dict(zip(prepared, columns, strict=True))
    chosen = [
        min(((name, id) for id in kernels), key=lambda key: median(times[key][:rounds]))
        for name, kernels in field.kernels.items()
        if kernels
    ]
    later = {key: times[key][rounds:] for key in chosen}
    best = min(later.values(), key=median)
    lines = [
        Line(
            case=of.name,
            mapping=name,
            candidate=id,
            us=median(later[name, id]) / 1e3,
            ratio=median(own / least for own, least in zip(later[name, id], best, strict=True)),
            timed=len(field.kernels[name]),
            failed=field.failed[name],
        )
        for name, id in chosen
    ]
    return tuple(sorted(lines, key=lambda line: line.us))
