"""One loaded object under two names: how often a race takes it for better or worse than itself.
Must not know how a race decides."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from autotune.jit import host_target
from autotune.measure.cases import make_cases
from autotune.measure.gate import Passed
from autotune.measure.noise import NoiseFloor
from autotune.measure.server import ForkServer
from autotune.measure.session import Session
from autotune.measure.states import CompileError, CompileTimeout, Crash, Measured, Noisy, RacedOut
from autotune.realizations.reference import reference_candidate
from benchmarks.case import Case
from benchmarks.ours import kernel_of

SUITE = "twins"
PROMOTED_SHARE = 0.03
"""Of twins at most this part may be promoted: 6 of 200."""
DEFAULT_CASE = "softmax:M=129,N=512"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinsRow:
    """The reference candidate of one case raced against itself.

    Units: `ns` nanoseconds a call; `median_size` the median over races of the size of their log ratio, a fraction;
    `noise_floor` the session's own, None where there was none.
    """

    suite: str
    case: str
    ns: float | None
    pairs: int
    promoted: int
    raced_out: int
    noisy: int
    contended: int
    redone_rounds: int
    median_size: float | None
    noise_floor: float | None


class TwinFailed(RuntimeError):
    """The reference candidate of a case could not be compiled, checked or timed."""

    def __init__(self, case: str, end: object) -> None:
        super().__init__(f"{case}: its reference candidate cannot be raced: {end}")


def measure(cases: Sequence[Case], *, pairs: int, announce: Callable[[str], None]) -> Iterator[TwinsRow]:
    """One row a case; the pairs are shared out among the cases.

    Raises: TwinFailed.
    """
    for number, case in enumerate(cases):
        share = pairs * (number + 1) // len(cases) - pairs * number // len(cases)
        announce(f"{case.name}: {share} races of one object against itself")
        yield _race_twins(case, share)


def _race_twins(case: Case, pairs: int) -> TwinsRow:
    kernel, target = kernel_of(case), host_target()
    scalars = {name: value for name, value in case.scalars if kernel.scalar_defaults[name] is None}
    program = kernel.bind(**case.extents, **scalars)
    cases = make_cases(
        program, 0, sizes=case.extents, scalars=scalars, generator=kernel.inputs_function, oracle_seconds=0
    )
    with ForkServer() as server, Session(server, program, target, cases) as session:
        twin = session.compile(reference_candidate(program, target)).result()
        passed = twin if isinstance(twin, CompileError | CompileTimeout | Crash) else session.gate(twin)
        if not isinstance(passed, Passed):
            raise TwinFailed(case.name, passed)
        noise = session.noise_floor(twin)
        results = [session.race(twin, twin) for _ in range(pairs)]
    return twins_row(case.name, results, noise.median if isinstance(noise, NoiseFloor) else None)


def twins_row(case: str, results: Sequence[object], noise_floor: float | None) -> TwinsRow:
    """What a number of races of one object against itself found.

    Raises: TwinFailed where one of them is no race.
    """
    raced = [result for result in results if isinstance(result, Measured | RacedOut)]
    noisy = [result for result in results if isinstance(result, Noisy)]
    failed = [result for result in results if result not in raced and result not in noisy]
    if failed:
        raise TwinFailed(case, failed[0])
    sizes = [abs(float(np.median(result.log_ratios))) for result in raced if result.log_ratios]
    return TwinsRow(
        suite=SUITE,
        case=case,
        ns=float(np.median([result.ns for result in raced])) if raced else None,
        pairs=len(results),
        promoted=sum(isinstance(result, Measured) and result.promoted for result in raced),
        raced_out=sum(isinstance(result, RacedOut) for result in raced),
        noisy=len(noisy),
        contended=sum(result.contended for result in raced),
        redone_rounds=sum(
            result.redone_rounds for result in results if isinstance(result, Measured | RacedOut | Noisy)
        ),
        median_size=float(np.median(sizes)) if sizes else None,
        noise_floor=noise_floor,
    )


def most_promoted(pairs: int) -> int:
    """How many of so many twins may be promoted."""
    return math.floor(PROMOTED_SHARE * pairs + 1e-9)


def to_json(rows: Iterable[TwinsRow]) -> str:
    """A JSON array of the rows, one a line."""
    return "[\n" + ",\n".join(json.dumps(asdict(row)) for row in rows) + "\n]\n"
