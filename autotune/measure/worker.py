"""Body of a worker process: compiles candidates, or checks and times kernels, one request after another.
Must not know deadlines or what a failure means for the search; the parent enforces both."""

from __future__ import annotations

import contextlib
import gc
import importlib
import resource
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias, assert_never

from autotune.jit import ObjectRefusedError, compile_module, host_target, load
from autotune.measure.bench import Bench
from autotune.measure.buffers import SharedObject, huge_page_bytes
from autotune.measure.canary import FIRST_READINGS, Canaries, CanaryTimes
from autotune.measure.clock import LOOP_SYMBOL, SAMPLE_NS, Call, Clock, interruptions, loop_text
from autotune.measure.contention import Contention, read_stat
from autotune.measure.evict import Evictor
from autotune.measure.gate import Passed, check_kernel
from autotune.measure.noise import NoiseFloor, race_twins
from autotune.measure.protocol import (
    BuildRequest,
    Done,
    GateRequest,
    Hello,
    Kernel,
    NoiseRequest,
    RaceRequest,
    Raised,
    Request,
    RoundsRequest,
    Stage,
    Subject,
    TimeRequest,
)
from autotune.measure.race import (
    MARGIN,
    MAX_DRIFT,
    MAX_REDONE_ROUNDS,
    MAX_ROUNDS,
    SLOW_CALL_NS,
    Contender,
    Rounds,
    interleave,
    race,
    settle_slow,
)
from autotune.measure.states import CompileError, Measured, RaceResult, Wrong

COMPILE_STAGE = "compile"
TIMED_SAMPLES = 15
LEAST_TIMED_SAMPLES = 3
TIMED_NS = 500_000_000  # what timing one kernel alone may take, as long as there are the least samples
SELF_AVERAGING_NS = 5_000_000
READINGS_BEYOND_L2 = 3
READINGS_COLD = 9  # at most: one call each, where a hot reading averages over many
READING_TRIES = 4
COMPARE_SECONDS = 120.0
CHECKING_COPIES = 20  # of all tensors, fences and what comparing in float64 takes
SECONDS_OVER_EXPECTED = 4.0

Send: TypeAlias = Callable[[Any], None]


class Role(Enum):
    COMPILE = "compile"
    MEASURE = "measure"


def serve(role: str, core: int, connection: int, subject_descriptor: int) -> None:
    """Answer requests until the parent closes the connection."""
    channel = Connection(connection)
    subject: Subject = SharedObject(subject_descriptor).load()
    match Role(role):
        case Role.COMPILE:
            _limit_memory(subject.memory_bytes)
            channel.send(Hello(core=core))
            answer = _compiler(subject)
        case Role.MEASURE:
            bench, clock = Bench(subject), _clock(subject)
            bench.prepare_timing()
            canaries = Canaries(clock)
            evictor = Evictor() if subject.cold else None
            pages = huge_page_bytes(bench.arena.memory)
            channel.send(Hello(core=core, huge_page_bytes=pages, canaries=canaries.read(FIRST_READINGS)))
            _limit_memory(subject.memory_bytes + CHECKING_COPIES * subject.layout.size_bytes)
            answer = _Measurer(bench, clock, canaries, evictor, core, channel.send).answer
        case _:
            assert_never(role)
    gc.freeze()
    while True:
        try:
            request = channel.recv()
        except EOFError:
            return
        channel.send(_guarded(answer, request))


def _guarded(answer: Callable[[Request], Any], request: Request) -> Done | Raised:
    """The worker boundary: whatever Python raises becomes a message."""
    try:
        return Done(value=answer(request))
    except Exception as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Raised(text=text, trace=traceback.format_exc(limit=-12), out_of_memory=isinstance(error, MemoryError))


def _limit_memory(extra_bytes: int) -> None:
    """Let the process grow by so much and no more."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[0])
    limit = pages * resource.getpagesize() + extra_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _compiler(subject: Subject) -> Callable[[Request], Any]:
    module, _, name = subject.build.partition(":")
    build = getattr(importlib.import_module(module), name)

    def answer(request: Request) -> Any:
        assert isinstance(request, BuildRequest)
        return build(subject.program, request.candidate, subject.target, padding_bytes=request.padding_bytes)

    return answer


def _clock(subject: Subject) -> Clock:
    loop = compile_module(loop_text(), host_target())
    handle = load(loop.object_bytes, LOOP_SYMBOL)
    return Clock(handle, subject.seed)


@dataclass(slots=True, kw_only=True, eq=False)
class Sampler:
    """Times of kernels by number; where single readings scatter, beyond L2 and of cold calls, the median of several.

    A reading during which the process lost its core is taken again, which a busy machine allows more often than a
    whole round without loss; `spoiled` counts those that found no quiet moment. Calls of milliseconds average over the
    machine's phases by themselves and are read once. `evict` makes tensors cold; a reading then is one call.
    Units: nanoseconds a call; `estimates` are the rough ones of the warm-up.
    """

    clock: Clock
    calls: list[Call]
    estimates: tuple[float, ...]
    refill: Callable[[], None] | None
    evict: Callable[[], None] | None
    readings: int
    spoiled: int = 0

    @property
    def sample_ns(self) -> float:
        """About what one sample takes, without what is done again."""
        return self.readings * max(*self.estimates, SAMPLE_NS)

    def sample_s(self) -> float:
        """What one sample takes by the wall clock, flushes and copies included; the estimate where that is long."""
        if max(self.estimates) >= SELF_AVERAGING_NS:
            return max(self.estimates) * 1e-9
        start = perf_counter()
        self(0)
        return perf_counter() - start

    @property
    def scattered(self) -> bool:
        """Whether single readings scatter, so that medians say more than minima."""
        return self.readings > 1

    def __call__(self, kernel: int) -> float:
        readings = self.readings if self.estimates[kernel] < SELF_AVERAGING_NS else 1
        return median(self.reading(kernel) for _ in range(readings))

    def reading(self, kernel: int) -> float:
        if self.estimates[kernel] >= SELF_AVERAGING_NS:
            return self.once(kernel)
        for _ in range(READING_TRIES):
            before = interruptions()
            ns = self.once(kernel)
            if interruptions() == before:
                return ns
        self.spoiled += 1
        return ns

    def once(self, kernel: int) -> float:
        if self.evict is not None:
            return self.clock.cold_sample(self.calls[kernel], self.refill, self.evict)
        return self.clock.sample(self.calls[kernel], self.estimates[kernel], self.refill)


def readings_of_a_sample(estimate_ns: float, *, cold: bool, beyond_l2: bool) -> int:
    """How many readings a sample is the median of; of cold calls as many as last about a hot sample, within bounds."""
    if cold:
        return max(READINGS_BEYOND_L2, min(READINGS_COLD, round(SAMPLE_NS / estimate_ns)))
    return READINGS_BEYOND_L2 if beyond_l2 else 1


class _Measurer:
    """Answers of a measuring worker."""

    def __init__(
        self, bench: Bench, clock: Clock, canaries: Canaries, evictor: Evictor | None, core: int, send: Send
    ) -> None:
        self.bench, self.clock, self.canaries, self.evictor = bench, clock, canaries, evictor
        self.core, self.send = core, send

    def answer(self, request: Request) -> Passed | Wrong | CompileError | RaceResult | NoiseFloor | Rounds:
        match request:
            case GateRequest():
                return self.gate(request)
            case TimeRequest():
                return self.time(request)
            case RaceRequest():
                return self.race(request)
            case NoiseRequest():
                return self.noise(request)
            case RoundsRequest():
                return self.rounds(request)
            case BuildRequest():
                raise TypeError("a measuring worker does not compile")
            case _:
                assert_never(request)

    def gate(self, request: GateRequest) -> Passed | Wrong | CompileError:
        def announce(text: str, is_call: bool) -> None:
            self.send(Stage(text=text, seconds=request.call_seconds if is_call else COMPARE_SECONDS))

        announce("load", False)
        try:
            kernel = self.bench.loaded(request.kernel)
        except (ObjectRefusedError, ValueError) as error:
            return CompileError(text=str(error))
        return check_kernel(self.bench, self.clock, kernel, announce)

    def time(self, request: TimeRequest) -> Measured:
        """Time a kernel alone: by samples, or by one call where that takes over a second."""
        with self.sampling([request.kernel], request.call_seconds, TIMED_SAMPLES) as sampler:
            watch = self.watch(sampler, request.canaries)
            before = watch.count()
            few = sampler.estimates[0] > SLOW_CALL_NS
            count = max(LEAST_TIMED_SAMPLES, min(TIMED_SAMPLES, int(TIMED_NS / max(sampler.estimates[0], 1.0))))
            samples = sampler.estimates if few else tuple(sampler(0) for _ in range(count))
            contended = watch.count() > before or watch.drift() > MAX_DRIFT
        return Measured(ns=median(samples), samples_ns=samples, few_calls=few, contended=contended)

    def race(self, request: RaceRequest) -> RaceResult:
        kernels = [request.incumbent, request.kernel]
        samples = 4 * (MAX_ROUNDS + MAX_REDONE_ROUNDS)
        with self.sampling(kernels, request.call_seconds, samples) as sampler:
            settled = settle_slow(*sampler.estimates)
            return settled or self.race_of(sampler, request.canaries, request.margin)

    def noise(self, request: NoiseRequest) -> NoiseFloor:
        """Race one loaded kernel against itself."""
        samples = 4 * (MAX_ROUNDS + MAX_REDONE_ROUNDS)
        with self.sampling([request.kernel] * 2, request.call_seconds, samples) as sampler:
            return race_twins(
                lambda rounds: self.race_of(sampler, request.canaries, MARGIN, rounds), sampler.sample_s()
            )

    def race_of(self, sampler: Sampler, canaries: CanaryTimes, margin: float, rounds: int = MAX_ROUNDS) -> RaceResult:
        watch = self.watch(sampler, canaries)
        order = {Contender.A: 0, Contender.B: 1}
        return race(
            lambda who: sampler(order[who]),
            interruptions=watch.count,
            drift=watch.drift,
            margin=margin,
            scattered=sampler.scattered,
            rounds=rounds,
        )

    def rounds(self, request: RoundsRequest) -> Rounds:
        kernels = request.kernels
        with self.sampling(kernels, request.call_seconds, 2 * request.rounds * len(kernels)) as sampler:
            watch = self.watch(sampler, request.canaries)
            return interleave(sampler, len(kernels), request.rounds, interruptions=watch.count, drift=watch.drift)

    def watch(self, sampler: Sampler, first: CanaryTimes) -> Contention:
        return Contention(
            core=self.core,
            spoiled=lambda: sampler.spoiled,
            canaries=self.canaries.read,
            first=first,
            read_stat=read_stat,
        )

    @contextlib.contextmanager
    def sampling(self, wanted: Sequence[Kernel], call_seconds: float, samples: int) -> Iterator[Sampler]:
        """Sampler of warmed-up kernels; the garbage collector rests meanwhile."""
        bench, clock = self.bench, self.clock
        kernels = [bench.loaded(kernel) for kernel in wanted]
        self.send(Stage(text="warm up", seconds=call_seconds * 4 * len(kernels)))
        bench.prepare_timing()
        calls = bench.timed_calls(kernels)
        refill = bench.refill if bench.needs_refill else None
        evict = self.eviction()
        estimates = tuple(clock.estimate_ns(call, refill) for call in calls)
        if evict is not None:
            estimates = tuple(
                median(clock.cold_sample(call, refill, evict) for _ in range(LEAST_TIMED_SAMPLES)) for call in calls
            )
        beyond_l2 = max(bench.working_set_bytes(k) for k in wanted) > bench.subject.l2_bytes
        readings = readings_of_a_sample(max(estimates), cold=evict is not None, beyond_l2=beyond_l2)
        sampler = Sampler(clock=clock, calls=calls, estimates=estimates, refill=refill, evict=evict, readings=readings)
        expected = READING_TRIES * samples * sampler.sample_ns * 1e-9
        self.send(Stage(text="timing", seconds=call_seconds + SECONDS_OVER_EXPECTED * expected))
        gc.disable()
        try:
            yield sampler
        finally:
            gc.enable()

    def eviction(self) -> Callable[[], None] | None:
        """What makes the cold tensors cold; None where none are to be."""
        if self.evictor is None:
            return None
        evictor, stretches = self.evictor, self.bench.cold_stretches()
        return lambda: evictor.evict(stretches)
