"""Three choices of attention in every combination: contractions inside nests, copies of K and V, specialization.
Must not choose a candidate by hand: the model lists those of a combination, and the clock picks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

from autotune.calibration.prior import prior
from autotune.ir.phases import PhaseKind
from autotune.ir.program import Program
from autotune.jit import host_target
from autotune.realizations.candidate import Buffered, Candidate, Clones
from autotune.realizations.structure import Structure
from autotune.realizations.tiled import tiled
from autotune.search.families import families_of
from autotune.search.tables import Tables
from benchmarks.attention_cases import ATTENTION
from benchmarks.case import Case, case_of
from benchmarks.field import Best, checked, first_legal, timed
from benchmarks.ours import kernel_of
from benchmarks.paired import SMALLEST_EFFECT, environment_line, interval, sign, spread, table_row

INTERACTION_CASES: tuple[tuple[str, Case], ...] = (
    ("MHA", case_of(ATTENTION, 1, 8, 8, 1, 2048, 64, 64)),
    ("GQA", case_of(ATTENTION, 1, 8, 2, 1, 2053, 80, 96)),
    ("long", case_of(ATTENTION, 1, 16, 4, 1, 8193, 128, 128)),
    ("q4", case_of(ATTENTION, 1, 4, 2, 32, 65, 32, 32)),
    ("q8", case_of(ATTENTION, 1, 4, 2, 64, 129, 32, 48)),
    ("batch", case_of(ATTENTION, 2, 6, 2, 17, 67, 40, 48)),
)
COPIED = ("k", "v")
WITHOUT_NATIVE = frozenset({"inline-contractions", "register-blocks"})
WITHOUT_SPECIALIZATION = frozenset({"loop-splits", "full-clones"})
CHOICES = ("native", "copy", "specialization")
"""In the order of the flags of a cell."""

Flags = tuple[bool, bool, bool]
CELLS: tuple[Flags, ...] = tuple(product((False, True), repeat=3))  # type: ignore[arg-type]  # three of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The best candidate of one combination, or why there is none.

    `timed` counts the candidates that were right and timed, `failed` those that were not.
    """

    flags: Flags
    best: Best | None
    timed: int = 0
    failed: int = 0
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All combinations of one case."""

    label: str
    case: str
    cells: tuple[Cell, ...]

    def best(self, flags: Flags) -> Best | None:
        return next(cell.best for cell in self.cells if cell.flags == flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One choice switched on where the others stay: paired ratios of the time with it over the time without."""

    choice: int
    off: Flags
    ratios: tuple[float, ...]

    @property
    def sign(self) -> int:
        """-1 where the choice helps beyond noise, 1 where it hurts, 0 where neither is clear."""
        return sign(self.ratios)

    @property
    def others(self) -> str:
        """The choices that stay."""
        return ", ".join(_flag_text(k, self.off[k]) for k in range(len(CHOICES)) if k != self.choice)


def measure(
    cases: Sequence[tuple[str, Case]], *, count: int, rounds: int, announce: Callable[[str], None]
) -> Iterator[Table]:
    """The table of each case; the model's first `count` candidates of every combination are timed."""
    for label, case in cases:
        yield _measure_case(label, case, count, rounds, announce)


def _measure_case(label: str, case: Case, count: int, rounds: int, announce: Callable[[str], None]) -> Table:
    program = kernel_of(case).bind(**case.extents)
    listed: dict[str, list[Candidate]] = {}
    rules: dict[str, str] = {}
    for flags in CELLS:
        announce(f"{case.name}: enumerating {cell_text(flags)}")
        listed[cell_text(flags)], rules[cell_text(flags)] = candidates_of(program, flags, count)
    announce(f"{case.name}: compiling, checking and timing")
    field = checked(case, listed)
    best = timed(case, field, rounds)
    cells = []
    for flags in CELLS:
        text = cell_text(flags)
        kernels, failed = field.kernels[text], field.failed[text]
        rule = rules[text] or ("" if kernels else f"none of {failed} candidates was right")
        cells.append(Cell(flags=flags, best=best.get(text), timed=len(kernels), failed=failed, rule=rule))
    return Table(label=label, case=case.name, cells=tuple(cells))


# ---- cells ----------------------------------------------------------------------------------------------------------
def candidates_of(program: Program, flags: Flags, count: int) -> tuple[list[Candidate], str]:
    """The model's first legal candidates of a combination; where there are none, the rule that speaks against them."""
    native, _, specialized = flags
    target = host_target()
    forbidden = frozenset[str]().union(() if native else WITHOUT_NATIVE, () if specialized else WITHOUT_SPECIALIZATION)
    tables = Tables(target, prior(target), forbidden=forbidden)
    asked = 0

    def wanted(structure: Structure) -> bool:
        nonlocal asked
        fits = belongs(program, structure, flags)
        asked += fits
        return fits

    found = first_legal(program, target, list(families_of(program, target, tables, wanted)), count)
    if found:
        return found, ""
    if not asked:
        return [], "no structure has it: no comparison of indices is known in a part of the loop, no packet is partial"
    return [], "; ".join(f"{rule}: {sentence}" for rule, _, sentence in tables.refusals.table()[:2])


def belongs(program: Program, structure: Structure, flags: Flags) -> bool:
    """Whether a structure copies K and V (both or none) and is specialized as a combination says."""
    _, copy, specialized = flags
    special = bool(structure.predicates) or structure.packet is Clones.FULL
    return special == specialized and copies(program, structure) == {copy}


def copies(program: Program, structure: Structure) -> set[bool]:
    """Whether loads of K and of V are copied: one answer where all are alike."""
    view = tiled(program, structure.tiles)
    storage = dict(structure.storage)
    loads = (phase for phase in view.graph.phases if phase.kind is PhaseKind.LOAD and phase.access is not None)
    named = ((phase, view.program.parameters[phase.access.tensor].name) for phase in loads if phase.access is not None)
    return {isinstance(storage.get(phase.number), Buffered) for phase, name in named if name in COPIED}


def _flag_text(choice: int, flag: bool) -> str:
    return CHOICES[choice] if flag else f"no {CHOICES[choice]}"


def cell_text(flags: Flags) -> str:
    """`native, no copy, specialization`."""
    return ", ".join(_flag_text(k, flag) for k, flag in enumerate(flags))


# ---- edges ----------------------------------------------------------------------------------------------------------
def edges(table: Table) -> list[Edge]:
    """Every choice switched on in every combination of the others that has times on both sides."""
    found = []
    for choice, off in product(range(len(CHOICES)), CELLS):
        on: Flags = tuple(flag or k == choice for k, flag in enumerate(off))  # type: ignore[assignment]  # three again
        before, after = table.best(off), table.best(on)
        if not off[choice] and before is not None and after is not None:
            found.append(Edge(choice=choice, off=off, ratios=tuple(after.ratios(before))))
    return found


def flips(table: Table) -> list[tuple[Edge, Edge]]:
    """Pairs of edges of one choice of which one helps and the other hurts, both beyond noise."""
    found = edges(table)
    helps = [edge for edge in found if edge.sign < 0]
    hurts = [edge for edge in found if edge.sign > 0]
    return [(first, second) for first, second in product(helps, hurts) if first.choice == second.choice]


# ---- the document ---------------------------------------------------------------------------------------------------
def to_json(tables: Sequence[Table]) -> str:
    """A JSON array, one cell a line of text."""
    lines = []
    for table in tables:
        for cell in table.cells:
            entry = {
                "suite": "interactions",
                "case": table.case,
                **dict(zip(CHOICES, cell.flags, strict=True)),
                "candidate": None if cell.best is None else cell.best.candidate,
                "us": None if cell.best is None else cell.best.us,
                "rounds_ns": None if cell.best is None else list(cell.best.ns),
                "timed": cell.timed,
                "failed": cell.failed,
                "rule": cell.rule,
            }
            lines.append(json.dumps(entry))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def markdown(tables: Sequence[Table], *, count: int, rounds: int) -> str:
    """The tables of all cases, their edges, and which of them flip."""
    lines = [
        "# How contractions, copies and specialization interact",
        "",
        f"Made by `python -m benchmarks interactions --candidates {count} --rounds {rounds}",
        f"--markdown docs/interactions.md` on {environment_line()}.",
        "",
        "- **native**: contractions are computed inside the nests that use them, in register blocks; without it they",
        "  are sums like any other, with loops of their own and one output a lane and step.",
        "- **copy**: K and V are copied into private memory (packed, transposed or in panels); without it both are",
        "  read in place.",
        "- **specialization**: the loop over keys is split where the mask is known, or whole packets have a body of",
        "  their own; without it there is one body.",
        "",
        f"A cell is the best of the model's first {count} legal candidates of the combination: half of the rounds",
        "picks it, the other half times it. An edge is the time with a choice over the time without, the others",
        "unchanged: median of paired rounds and its 95 % interval. It helps or hurts where that interval leaves out 1",
        f"and the median is more than {SMALLEST_EFFECT:.0%} away. It flips where it helps in one combination and hurts",
        "in another.",
    ]
    for table in tables:
        lines += ["", f"## {table.label}: `{table.case}`", "", *_cells(table), "", *_edges(table), "", *_flips(table)]
    return "\n".join(lines) + "\n"


def _cells(table: Table) -> Iterator[str]:
    yield table_row([*CHOICES, "µs", "over the best", "candidate", "timed", "failed", "rule"])
    yield table_row(["---"] * 3 + ["---:", "---:", "---", "---:", "---:", "---"])
    times = [cell.best for cell in table.cells if cell.best is not None]
    fastest = min(times, key=lambda best: best.us, default=None)
    for cell in table.cells:
        numbers = ["-", "-", "-"]
        if cell.best is not None and fastest is not None:
            _, ratio, _ = spread(cell.best.ratios(fastest))
            numbers = [f"{cell.best.us:.4g}", f"{ratio:.3f}", f"`{cell.best.candidate}`"]
        flags = ["yes" if flag else "no" for flag in cell.flags]
        yield table_row([*flags, *numbers, str(cell.timed), str(cell.failed), cell.rule.replace("|", "/")])


def _edges(table: Table) -> Iterator[str]:
    yield table_row(["switched on", "with", "ratio", "95 % interval", ""])
    yield table_row(["---", "---", "---:", "---:", "---"])
    words = {-1: "helps", 0: "", 1: "hurts"}
    for edge in edges(table):
        low, high = interval(edge.ratios)
        ratio = f"{median(edge.ratios):.3f}"
        yield table_row([CHOICES[edge.choice], edge.others, ratio, f"{low:.3f} to {high:.3f}", words[edge.sign]])


def _flips(table: Table) -> Iterator[str]:
    found = flips(table)
    if not found:
        yield "No edge flips."
    for helps, hurts in found:
        yield f"- {CHOICES[helps.choice]} helps with {helps.others}, hurts with {hurts.others}"
