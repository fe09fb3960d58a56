"""One run of a suite: prepares ours and every peer of a case, checks each answer, and times them interleaved.
Must not know how a peer is built or a row is shown."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

from autotune.errors import AutotuneError
from benchmarks.buffers import Buffers
from benchmarks.case import Answer, Arrays, Case
from benchmarks.environment import pinned
from benchmarks.peers import PEERS, Attempt, Entry, Peer, Prepared, Style
from benchmarks.presets import ABBA, PERMUTATIONS, compare_by
from benchmarks.protocol import TimingProtocol
from benchmarks.roofs import Roofs, measure_roofs, part_of_roof
from benchmarks.row import OURS, OWN_REFERENCE, Row
from benchmarks.timing import Call, Comparison, NativeCall, PythonCall, compare, nothing, quick_us

SEED = 20_261_130
PEER_ERROR_LIMIT = 64.0
"""A peer whose error is this many bounds is wrong; below it, it is a valid peer with larger errors than ours may have
(some approximate exp and tanh by their absolute error)."""
COMPARISON_S = 4.0
FEWEST_ROUNDS = 3
"""A comparison of slow calls takes fewer rounds, never below this, to last about so many seconds."""


class Ours(Protocol):
    """Our side of a comparison."""

    def answer(self, case: Case, inputs: Arrays) -> Answer:
        """What every side must compute from `inputs`."""
        ...

    def prepare(self, case: Case, buffers: Buffers) -> tuple[Prepared, Prepared | None]:
        """What is timed against every peer, then what is listed as `reference`, if any."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a suite is run: `entries` are its peers, `peers` the labels that are wanted of them; `rounds` counts only
    where the protocol is one of rounds."""

    suite: str
    entries: tuple[Entry, ...]
    rounds: int
    peers: frozenset[str]
    protocol: TimingProtocol = TimingProtocol.ROUNDS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """A case laid out: its memory, its answer, our side checked and timed alone; `third` is the third arm, if any."""

    case: Case
    buffers: Buffers
    answer: Answer
    ours: Prepared
    error: float
    ours_us: float
    roofs: Roofs | None
    settings: Settings
    third: Prepared | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """The valid formulation of a peer that is fastest here, or why there is none; `tried` lists all valid ones."""

    prepared: Prepared | None = None
    error: float | None = None
    failure: str | None = None
    formulation: str = ""
    tried: str = ""


class NoThirdArm(AutotuneError):
    """A protocol of three arms in a run that has two."""

    sentence = "the protocol {protocol} needs a third arm, our reference candidate, which this run has not"
    remedy = "leave out --peers-only, or choose --protocol abba"


class WrongAnswer(AssertionError):
    """Our own side of a comparison does not hold its bound, so its time means nothing."""

    def __init__(self, case: str, candidate: str, error: float) -> None:
        super().__init__(f"{case}: {candidate} is wrong, its error is {error:.3g} times the bound")


def measure(cases: Sequence[Case], settings: Settings, ours: Ours, announce: Callable[[str], None]) -> Iterator[Row]:
    """The rows of all `cases`, one a case and peer and one a formulation that failed, as they are measured. A case of
    which nothing of ours can be timed has one row that says why.

    Raises: WrongAnswer.
    """
    overheads: dict[str, float] = {}
    for case in cases:
        announce(case.name)
        yield from _measure_case(case, settings, ours, overheads)
        gc.collect()


def _measure_case(case: Case, settings: Settings, ours: Ours, overheads: dict[str, float]) -> Iterator[Row]:
    buffers = Buffers(case, SEED)
    answer = ours.answer(case, buffers.inputs)
    try:
        prepared, own_reference = ours.prepare(case, buffers)
    except (AutotuneError, RuntimeError) as problem:
        yield _nothing_of_ours(case, settings, problem)
        return
    error = _error(prepared, buffers, answer)
    if error > 1.0:
        raise WrongAnswer(case.name, prepared.formulation, error)
    bench = _Bench(
        case=case,
        buffers=buffers,
        answer=answer,
        ours=prepared,
        error=error,
        ours_us=_alone(prepared),
        roofs=None if case.flops is None else measure_roofs(buffers.tensor_bytes),
        settings=settings,
        third=own_reference,
    )
    if own_reference is not None:
        own_error = _error(own_reference, buffers, answer)
        yield _row(bench, OWN_REFERENCE, _Chosen(prepared=own_reference, error=own_error), None)
    for entry in settings.entries:
        yield from _measure_entry(entry, bench, overheads)


def _nothing_of_ours(case: Case, settings: Settings, problem: Exception) -> Row:
    return Row(
        suite=settings.suite,
        case=case.name,
        candidate="",
        ours_us=None,
        peer=OURS,
        peer_us=None,
        ratio=None,
        error=None,
        failure=_in_words(problem),
        counted=False,
    )


def _in_words(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:300]


def _measure_entry(entry: Entry, bench: _Bench, overheads: dict[str, float]) -> Iterator[Row]:
    labels = [(label, style) for label, style in entry.labels if label in bench.settings.peers]
    if not labels:
        return
    if missing := entry.missing():
        absent = _Chosen(failure=f"not installed: {', '.join(missing)}")
        yield from (_row(bench, label, absent, None) for label, _ in labels)
        return
    peer = entry.load()
    for label, style in labels:
        chosen, failed = _choose(peer, bench, style)
        yield from (_row(bench, label, each, None) for each in failed)
        if chosen is not None:
            overhead_us = None if chosen.prepared is None else _overhead(entry, peer, chosen.prepared.call, overheads)
            yield replace(_row(bench, label, chosen, overhead_us), counted=style.is_contender)


def _overhead(entry: Entry, peer: Peer, call: Call, overheads: dict[str, float]) -> float:
    """What a call of this kind costs that does nothing; measured once a run."""
    trivial: Call
    match call:
        case NativeCall():
            key, trivial = f"native, {len(call.arguments)}", nothing(len(call.arguments))
        case PythonCall():
            key, trivial = entry.module, peer.trivial()
        case _:
            assert_never(call)
    if key not in overheads:
        with pinned():
            overheads[key] = quick_us(trivial)
    return overheads[key]


def _choose(peer: Peer, bench: _Bench, style: Style) -> tuple[_Chosen | None, list[_Chosen]]:
    """Prepare and check every formulation; of the right ones keep the fastest. Then those that are not right."""
    failed: list[_Chosen] = []
    right: list[tuple[float, Prepared, float]] = []
    for name, attempt in peer.attempts(bench.case, bench.buffers, style):
        tried = _try(attempt, bench)
        if isinstance(tried, str):
            failed.append(_Chosen(failure=tried, formulation=name))
        else:
            right.append((_alone(tried[0]), *tried))
    if not right:
        return (None if failed else _Chosen(failure="has no formulation of this kernel")), failed
    right.sort(key=lambda found: found[0])
    _, prepared, error = right[0]
    tried_us = "; ".join(f"{each.formulation} {us:.4g}" for us, each, _ in right)
    return _Chosen(prepared=prepared, error=error, tried=tried_us), failed


def _try(attempt: Attempt, bench: _Bench) -> tuple[Prepared, float] | str:
    """A formulation prepared and found right, with its error; or in words what is wrong with it."""
    try:
        prepared = attempt()
        error = _error(prepared, bench.buffers, bench.answer)
    except Exception as problem:  # the boundary to foreign code: whatever it raises becomes the row's failure
        return _in_words(problem)
    if error > PEER_ERROR_LIMIT:
        return f"wrong, its error is {error:.3g} times the bound"
    return prepared, error


def _error(prepared: Prepared, buffers: Buffers, answer: Answer) -> float:
    buffers.poison()
    return answer.error(prepared.outcome())


def _alone(prepared: Prepared) -> float:
    with pinned():
        return quick_us(prepared.call)


def _row(bench: _Bench, label: str, chosen: _Chosen, overhead_us: float | None) -> Row:
    row = Row(
        suite=bench.settings.suite,
        case=bench.case.name,
        candidate=bench.ours.formulation,
        ours_us=bench.ours_us,
        peer=label,
        peer_us=None,
        ratio=None,
        error=bench.error,
        pages=bench.buffers.pages,
        formulation=chosen.formulation if chosen.prepared is None else chosen.prepared.formulation,
        failure=chosen.failure,
        roof=_roof(bench, bench.ours_us),
        tried=chosen.tried,
    )
    if chosen.prepared is None:
        return row
    rng = random.Random(f"{bench.case.name} {label}")
    with pinned():
        found = _compare(bench, chosen.prepared.call, rng)
    return replace(
        row,
        ours_us=found.ours_us,
        peer_us=found.peer_us,
        ratio=found.ratio,
        ratio_least=found.least,
        ratio_most=found.most,
        protocol=bench.settings.protocol.value,
        peer_error=chosen.error,
        overhead_us=overhead_us,
        rounds=found.rounds,
        redone=found.redone,
        roof=_roof(bench, found.ours_us),
    )


def _compare(bench: _Bench, peer: Call, rng: random.Random) -> Comparison:
    """Ours against a peer by the protocol of the run.

    Raises: NoThirdArm.
    """
    match bench.settings.protocol:
        case TimingProtocol.ROUNDS:
            rounds = _affordable(bench, quick_us(peer, samples=1))
            return compare(bench.ours.call, peer, rounds=rounds, rng=rng)
        case TimingProtocol.ABBA:
            return compare_by(ABBA, (bench.ours.call, peer))
        case TimingProtocol.PERMUTATIONS:
            if bench.third is None:
                raise NoThirdArm(protocol=bench.settings.protocol.value)
            return compare_by(PERMUTATIONS, (bench.ours.call, peer, bench.third.call))
    assert_never(bench.settings.protocol)


def _affordable(bench: _Bench, peer_us: float) -> int:
    """Rounds of two samples a side that fit into `COMPARISON_S`, at most as many as wanted."""
    fitting = int(COMPARISON_S * 1e6 / (2 * (bench.ours_us + peer_us)))
    return min(bench.settings.rounds, max(FEWEST_ROUNDS, fitting))


def _roof(bench: _Bench, us: float) -> float | None:
    if bench.roofs is None or bench.case.flops is None:
        return None
    return part_of_roof(bench.roofs, bench.case.flops, us)


class NumpyInOurPlace:
    """numpy on our side and this folder's own answers: a run of the peers alone. Contractions are written into the
    output, since large temporaries would throw the peers' data out of the caches."""

    def answer(self, case: Case, inputs: Arrays) -> Answer:
        return case.answer(inputs)

    def prepare(self, case: Case, buffers: Buffers) -> tuple[Prepared, Prepared | None]:
        expression, into, *_ = PEERS[0].load().attempts(case, buffers, Style.BEST)
        _, attempt = expression if case.flops is None else into
        return attempt(), None
