"""What each mechanism is worth: the best candidate that searches find against the best one without the mechanism.
Must not know what a mechanism is, nor judge one by anything but the clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from autotune import tune
from autotune.jit import host_target
from autotune.measure.states import State
from autotune.realizations.candidate import Candidate
from autotune.realizations.mechanisms import MECHANISMS, NAMES, OFF_BY_DEFAULT, uses
from autotune.realizations.reference import reference_candidate
from autotune.search.result import Ending
from autotune.settings import load_settings
from autotune.store.database import open_readonly
from benchmarks.attention_cases import ATTENTION
from benchmarks.case import Case, case_of
from benchmarks.contraction_cases import DOT, GEMV, MATMUL, MATMUL_BT, MLP
from benchmarks.field import checked, timed
from benchmarks.ours import kernel_of
from benchmarks.paired import environment_line, spread, table_row

ABLATION_CASES: tuple[Case, ...] = (
    case_of(MATMUL, 1024, 1024, 1024),
    case_of(MATMUL_BT, 512, 512, 512),
    case_of(MLP, 128, 512, 1536),
    case_of(GEMV, 4096, 4096),
    case_of(DOT, 129, 4096),
    case_of(ATTENTION, 1, 8, 2, 256, 1024, 64, 64),
    case_of(ATTENTION, 1, 4, 2, 65, 131, 64, 64),
    case_of(ATTENTION, 1, 16, 4, 1, 4096, 128, 128),
)
WORTH_KEEPING = 0.02
"""A mechanism that shortens no row's time by this part is marked, and off by default."""
NO_GAIN = "no gain here"
TOP = 8
"""The fastest candidates whose mechanisms are listed beside the winner's."""
WHOLE = "the whole search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """One mechanism in one case.

    `ratio` is the time of the best candidate without it over the best one of all, the median of paired rounds, with
    the 5 % and 95 % quantiles in `low` and `high`; None where the best one does without, or where nothing without it
    was right. `top_uses`: whether one of the fastest candidates of the whole search has it. `only_reference`: without
    it nothing better than the reference candidate was found.

    Units: microseconds a call.
    """

    suite: str = "ablations"
    case: str
    mechanism: str
    best_uses: bool
    top_uses: bool
    best: str
    best_us: float
    without: str | None = None
    without_us: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    only_reference: bool = False


def measure(
    cases: Sequence[Case], *, rounds: int, budget_s: float, announce: Callable[[str], None]
) -> Iterator[tuple[Ablation, ...]]:
    """The ablations of each case: one whole search and one without each mechanism of its winner, then one timing run.

    Raises: RuntimeError where a whole search ends without a right candidate.
    """
    for case in cases:
        yield _measure_case(case, rounds, budget_s, announce)


def _measure_case(case: Case, rounds: int, budget_s: float, announce: Callable[[str], None]) -> tuple[Ablation, ...]:
    announce(f"{case.name}: searching")
    program, target = kernel_of(case).bind(**case.extents), host_target()
    winner, workload = _search(case, (), budget_s)
    if winner is None:
        raise RuntimeError(f"the search of {case.name} found no correct candidate")
    used = uses(program, winner, target)
    seen = used.union(*(uses(program, each, target) for each in _top(workload)))
    found = {winner: used}
    for number, name in enumerate(names := [name for name in NAMES if name in used], start=1):
        announce(f"{case.name}: without {name} ({number} of {len(names)})")
        other, _ = _search(case, (name,), budget_s)
        if other is not None:
            found[other] = uses(program, other, target)
    announce(f"{case.name}: timing")
    return tuple(_compared(case, found, seen, reference_candidate(program, target).id, rounds))


def _compared(
    case: Case, found: dict[Candidate, frozenset[str]], seen: frozenset[str], reference: str, rounds: int
) -> Iterator[Ablation]:
    """Time everything that was found; for each mechanism the best without it is picked from all searches."""
    without = {name: [c for c, used in found.items() if name not in used] for name in NAMES}
    best = timed(case, checked(case, {WHOLE: list(found), **without}), rounds)
    if WHOLE not in best:
        raise RuntimeError(f"no winner of {case.name} is right in a second check")
    whole = best[WHOLE]
    used = next(used for candidate, used in found.items() if candidate.id == whole.candidate)
    for name in NAMES:
        known = Ablation(
            case=case.name,
            mechanism=name,
            best_uses=name in used,
            top_uses=name in seen,
            best=whole.candidate,
            best_us=whole.us,
        )
        if name in used and name in best:
            other = best[name]
            low, ratio, high = spread(other.ratios(whole))
            known = replace(known, without=other.candidate, without_us=other.us, ratio=ratio, low=low, high=high)
            known = replace(known, only_reference=other.candidate == reference)
        yield known


def _search(case: Case, forbid: tuple[str, ...], budget_s: float) -> tuple[Candidate | None, str]:
    """The winner of a search that may use all but `forbid`, and the id of its workload."""
    kernel = kernel_of(case)
    needed = {name: value for name, value in case.scalars if kernel.scalar_defaults[name] is None}
    shape, allow = {**case.extents, **needed}, sorted(OFF_BY_DEFAULT.difference(forbid))
    result = tune.search(kernel, shape, budget_s=budget_s, forbid=forbid, allow=allow)
    if result.ending is Ending.INTERRUPTED:
        raise KeyboardInterrupt
    return (None if result.winner is None else result.winner.candidate), result.workload


def _top(workload: str) -> list[Candidate]:
    """The fastest candidates that searches of a workload which forbade nothing measured."""
    with open_readonly(load_settings().database) as store:
        whole = {search.uuid for search in store.searches(workload) if not search.forbidden}
        times: dict[str, float] = {}
        for outcome in store.outcomes(workload):
            if outcome.search in whole and outcome.state is State.MEASURED and outcome.expected_ns is not None:
                times[outcome.candidate] = outcome.expected_ns
        found = (store.candidate(id) for id in sorted(times, key=lambda id: times[id])[:TOP])
        return [candidate for candidate in found if candidate is not None]


# ---- the table ------------------------------------------------------------------------------------------------------
def largest_gain(ablations: Sequence[Ablation], mechanism: str) -> float:
    """The largest part of its time that a case would take longer without a mechanism."""
    gains = (a.ratio - 1.0 for a in ablations if a.mechanism == mechanism and a.ratio is not None)
    return max((0.0, *gains))


def to_json(ablations: Sequence[Ablation]) -> str:
    """A JSON array, one ablation a line of text."""
    return "[\n" + ",\n".join(json.dumps(asdict(each)) for each in ablations) + "\n]\n"


def markdown(ablations: Sequence[Ablation], *, budget_s: float, rounds: int) -> str:
    """The table of ratios with what its cells mean."""
    cases = list(dict.fromkeys(a.case for a in ablations))
    by_place = {(a.mechanism, a.case): a for a in ablations}
    lines = [
        "# What each mechanism is worth",
        "",
        f"Made by `python -m benchmarks ablations --budget {budget_s:g} --rounds {rounds}",
        f"--markdown docs/ablations.md` on {environment_line()}.",
        "",
        "A cell is the time of the best candidate without the mechanism over the time of the best one of all. The",
        "candidates are the winners of a whole search and of a search without each mechanism of that winner, all with",
        "the same budget, timed in one interleaved run, one thread; half of the rounds picks, the other half counts.",
        "`-`: the best one does without (`(-)`: as do the fastest of the whole search).",
        "`ref`: without it only the reference candidate is left. `?`: nothing without it was right.",
        f"`{NO_GAIN}`: under {WORTH_KEEPING:.0%} everywhere.",
        "",
    ]
    short = [f"r{number}" for number, _ in enumerate(cases, start=1)]
    lines += [f"- {name}: `{case}`" for name, case in zip(short, cases, strict=True)]
    lines += [
        "",
        table_row(["mechanism", *short, "largest gain", ""]),
        table_row(["---", *["---:"] * (len(cases) + 1), "---"]),
    ]
    for name in NAMES:
        gain = largest_gain(ablations, name)
        cells = [_cell(by_place[name, case]) for case in cases]
        note = NO_GAIN if gain < WORTH_KEEPING else ""
        lines.append(table_row([f"`{name}`", *cells, f"{gain:.1%}", note]))
    lines += ["", "Meaning of the names:", ""]
    lines += [f"- `{mechanism.name}`: {mechanism.meaning}" for mechanism in MECHANISMS]
    return "\n".join(lines) + "\n"


def _cell(ablation: Ablation) -> str:
    if ablation.ratio is None:
        return "?" if ablation.best_uses else "-" if ablation.top_uses else "(-)"
    return f"{ablation.ratio:.3f}" + (" ref" if ablation.only_reference else "")
