"""Whether searches of one thing come to one answer, and whether that answer is the best of what they measured.
Must not know how a search picks; every time compared here is measured again, side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from autotune import tune
from autotune.measure.states import State
from autotune.realizations.candidate import Candidate
from autotune.search.result import Ending
from autotune.store.database import open_readonly
from benchmarks.attention_cases import ATTENTION
from benchmarks.case import Case, case_of
from benchmarks.cases import case as row_case
from benchmarks.contraction_cases import GEMV, MATMUL
from benchmarks.field import checked, side_by_side
from benchmarks.ours import kernel_of
from benchmarks.paired import environment_line, table_row

AGREEMENT_CASES: tuple[Case, ...] = (
    row_case("softmax", 129, 512),
    row_case("rmsnorm", 129, 512),
    row_case("swiglu", 129, 512),
    case_of(MATMUL, 128, 128, 128),
    case_of(GEMV, 512, 512),
    case_of(ATTENTION, 1, 8, 2, 3, 67, 80, 96),
)
CLOSE = 0.02
"""Two times agree, and a winner stands, within this part."""
RIVALS = 6
"""The fastest other candidates of each search that its winner meets again, beside the model's first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What the searches of one case came to.

    `pairs` of winners were compared, `agreeing` of them within CLOSE, the worst `worst_pair` apart (a ratio). In
    `beaten` of the searches a candidate that it had measured turned out more than CLOSE faster than its winner;
    `worst_rival` is the shortest time of such a candidate over its winner's.
    """

    suite: str = "agreement"
    case: str
    searches: int
    winners: int
    pairs: int
    agreeing: int
    worst_pair: float
    beaten: int
    worst_rival: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One search: its winner and the rivals it meets again."""

    winner: Candidate
    rivals: tuple[Candidate, ...]


def measure(
    cases: Sequence[Case], *, searches: int, trials: int, rounds: int, announce: Callable[[str], None]
) -> Iterator[Agreement]:
    """Searches of each case with a seed and a store of its own, then one timing of what they chose or nearly chose.

    Raises: RuntimeError where a search finds no right candidate.
    """
    for case in cases:
        runs = []
        with TemporaryDirectory() as folder:
            for seed in range(searches):
                announce(f"{case.name}: search {seed + 1} of {searches}")
                runs.append(_searched(case, seed, trials, Path(folder) / f"{seed}.sqlite"))
        announce(f"{case.name}: timing")
        yield _compared(case, runs, rounds)


def _searched(case: Case, seed: int, trials: int, path: Path) -> Run:
    kernel = kernel_of(case)
    needed = {name: value for name, value in case.scalars if kernel.scalar_defaults[name] is None}
    result = tune.search(
        kernel, {**case.extents, **needed}, seed=seed, max_trials=trials, budget_s=math.inf, database=path
    )
    if result.ending is Ending.INTERRUPTED:
        raise KeyboardInterrupt
    if result.winner is None:
        raise RuntimeError(f"the search of {case.name} with seed {seed} found no right candidate")
    with open_readonly(path) as store:
        times = {
            outcome.candidate: outcome.expected_ns
            for outcome in store.outcomes(result.workload)
            if outcome.state is State.MEASURED and outcome.expected_ns is not None
        }
        first = () if result.model_first is None else (result.model_first.id,)
        ids = dict.fromkeys((*first, *sorted(times, key=lambda id: times[id])[: RIVALS + 1]))
        found = (store.candidate(id) for id in ids if id != result.winner.id)
        rivals = tuple(candidate for candidate in found if candidate is not None)
    return Run(winner=result.winner.candidate, rivals=rivals)


def _compared(case: Case, runs: Sequence[Run], rounds: int) -> Agreement:
    everything = list(dict.fromkeys(c for run in runs for c in (run.winner, *run.rivals)))
    times = side_by_side(case, checked(case, {"all": everything}), rounds)
    named = [(run.winner.id, [c.id for c in run.rivals if c.id in times]) for run in runs]
    return agreement_of(case.name, named, times)


def agreement_of(
    case: str, runs: Sequence[tuple[str, Sequence[str]]], times: Mapping[str, Sequence[float]]
) -> Agreement:
    """What searches came to, from the winner and the rivals of each and the times of all in the same rounds."""
    ratios = [_ratio(times[a], times[b]) for (a, _), (b, _) in combinations(runs, 2)]
    apart = [max(ratio, 1 / ratio) for ratio in ratios]
    rivals = [min((_ratio(times[rival], times[winner]) for rival in met), default=1.0) for winner, met in runs]
    return Agreement(
        case=case,
        searches=len(runs),
        winners=len({winner for winner, _ in runs}),
        pairs=len(apart),
        agreeing=sum(each <= 1 + CLOSE for each in apart),
        worst_pair=max(apart, default=1.0),
        beaten=sum(each < 1 - CLOSE for each in rivals),
        worst_rival=min(rivals, default=1.0),
    )


def _ratio(times: Sequence[float], others: Sequence[float]) -> float:
    return median(a / b for a, b in zip(times, others, strict=True))


def to_json(found: Sequence[Agreement]) -> str:
    """A JSON array, one case a line of text."""
    return "[\n" + ",\n".join(json.dumps(asdict(each)) for each in found) + "\n]\n"


def markdown(found: Sequence[Agreement], *, searches: int, trials: int) -> str:
    """A table with what its columns mean."""
    lines = [
        "# Whether two searches agree",
        "",
        f"Made by `python -m benchmarks agreement --searches {searches} --trials {trials}",
        f"--markdown docs/agreement.md` on {environment_line()}.",
        "",
        f"Every case is searched {searches} times, each with its own seed and an empty store. All winners, the",
        f"{RIVALS} fastest others of each search and the model's first are then compiled, checked and timed side by",
        f"side, one thread. Two winners agree where their times are within {CLOSE:.0%}; a search is beaten where",
        f"something it had measured is more than {CLOSE:.0%} faster than its winner.",
        "",
        table_row(["case", "searches", "winners", "pairs that agree", "worst pair", "beaten", "fastest rival"]),
        table_row(["---", *["---:"] * 6]),
    ]
    for each in found:
        agreeing = f"{each.agreeing} of {each.pairs}"
        numbers = [str(each.searches), str(each.winners), agreeing, f"{each.worst_pair:.3f}", str(each.beaten)]
        lines.append(table_row([f"`{each.case}`", *numbers, f"{each.worst_rival:.3f}"]))
    return "\n".join(lines) + "\n"
