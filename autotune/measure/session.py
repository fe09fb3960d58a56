"""Measuring as the search sees it: compile, gate, race, time and shoot-out of candidates, each ending in one state.
Must not know which candidate comes next or where outcomes are kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from autotune.ir.program import Program
from autotune.measure.buffers import ALIGNMENT_BYTES, SharedObject, plan_layout
from autotune.measure.canary import CanaryTimes
from autotune.measure.cases import Case, envelopes
from autotune.measure.cores import choose_cores
from autotune.measure.environment import HOT, Environment, observe
from autotune.measure.evict import check_evictable
from autotune.measure.gate import Passed
from autotune.measure.noise import NoiseFloor
from autotune.measure.padding import PADDINGS_BYTES, Padding, compilation
from autotune.measure.process import Expired, Worker
from autotune.measure.process import WorkerFailure as WorkerFailure
from autotune.measure.protocol import (
    BuildRequest,
    GateRequest,
    Kernel,
    NoiseRequest,
    RaceRequest,
    Raised,
    Request,
    RoundsRequest,
    Subject,
    TimeRequest,
)
from autotune.measure.race import MARGIN, Finalist, Rounds, Standing, rank
from autotune.measure.server import ForkServer
from autotune.measure.states import (
    CompileError,
    CompileTimeout,
    Crash,
    Measured,
    Noisy,
    OverBudget,
    RacedOut,
    RaceResult,
    RunFailure,
    Timeout,
    Wrong,
)
from autotune.measure.worker import COMPILE_STAGE, Role
from autotune.realizations.target import Target

COMPILE_SECONDS = 20.0
MOST_CALL_SECONDS = 10.0
LEAST_CALL_SECONDS = 2.0
CALL_OVER_BEST = 100.0
MEMORY_BYTES = 2 << 30
SHOOTOUT_ROUNDS = 10
FINAL_KERNELS = 2

Result = TypeVar("Result")


class Session:
    """Measures candidates of one bound program on one shape; a context manager.

    Tensors are hot unless their parameter number is in `cold`: then no cache holds them when a timed call starts.

    Compiling and measuring run in a process and on a core each, so they overlap; where the other core would disturb,
    beyond L2 and in the shoot-out, the compiler waits. The calling thread keeps off the measuring core meanwhile.
    """

    def __init__(
        self,
        server: ForkServer,
        program: Program,
        target: Target,
        cases: Sequence[Case],
        *,
        build: str = "autotune.build:build",
        seed: int = 0,
        memory_bytes: int = MEMORY_BYTES,
        compile_seconds: float = COMPILE_SECONDS,
        least_call_seconds: float = LEAST_CALL_SECONDS,
        alignment_bytes: int = ALIGNMENT_BYTES,
        cold: Sequence[int] = (),
    ) -> None:
        """`build` is the import path of `build(program, candidate, target, padding_bytes=…) -> Kernel`, run in the
        worker.

        Raises: ColdUnavailable.
        """
        if cold:
            check_evictable()
        self.subject = Subject(
            program=program,
            target=target,
            cases=tuple(cases),
            envelopes=tuple(envelopes(program, case) for case in cases),
            layout=plan_layout(program, alignment_bytes=alignment_bytes),
            build=build,
            seed=seed,
            l2_bytes=target.l2_bytes,
            memory_bytes=memory_bytes,
            alignment_bytes=alignment_bytes,
            cold=tuple(cold),
        )
        self._server = server
        self._compile_seconds, self._least_call_seconds = compile_seconds, least_call_seconds
        self._best_ns: float | None = None
        self._first_canaries: CanaryTimes | None = None
        self._margin = MARGIN
        self._quiet = threading.Lock()  # held while compiling, and while measuring what compiling would disturb
        self._pending: list[Future[Any]] = []

    def __enter__(self) -> Session:
        self._shared = SharedObject.store(self.subject)
        self.cores = choose_cores()
        self._affinity = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.cores.rest)
        self._compiler = Worker(self._server, Role.COMPILE, self.cores.compile, self._shared)
        self._measurer = Worker(self._server, Role.MEASURE, self.cores.measure, self._shared)
        self._padding = Padding(self._server, self._shared, self.cores, self._compile_seconds)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="autotune-compile")
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        for future in self._pending:
            while not future.done():
                self._compiler.interrupt()
                wait([future], timeout=0.02)
        self._compiler.stop()
        self._measurer.stop()
        self._shared.close()
        os.sched_setaffinity(0, self._affinity)

    def environment(self) -> Environment:
        """What the machine is and does now; starts the measuring worker if there is none."""
        self._measurer.start()
        assert self._measurer.hello is not None
        names = [self.subject.program.parameters[number].name for number in self.subject.cold]
        return observe(
            core=self.cores.measure,
            huge_page_bytes=self._measurer.hello.huge_page_bytes,
            alignment_bytes=self.subject.alignment_bytes,
            cache=f"cold {', '.join(names)}" if names else HOT,
        )

    def noise_floor(self, kernel: Kernel) -> NoiseFloor | RunFailure:
        """Race a kernel that passed the gate against itself; later races use no margin below what that shows."""
        with self._undisturbed(kernel):
            request = NoiseRequest(kernel=kernel, canaries=self._canaries(), call_seconds=self._call_seconds())
            found = self._ask(request)
        assert isinstance(found, NoiseFloor | Crash | Timeout | OverBudget | CompileError)
        if isinstance(found, NoiseFloor):
            self._margin = found.margin
        return found

    # --- one candidate --------------------------------------------------------------------------------------------

    def compile(self, candidate: object) -> Future[Any]:
        """Begin to compile, in order of asking; the future holds a Kernel, CompileError, CompileTimeout or Crash."""
        future = self._executor.submit(self._compile, candidate)
        self._pending = [*(f for f in self._pending if not f.done()), future]
        return future

    def _compile(self, candidate: object) -> Any:
        with self._quiet:
            answer = self._compiler.ask(BuildRequest(candidate=candidate), COMPILE_STAGE, self._compile_seconds)
        compiled = compilation(answer, self._compiler)
        if not isinstance(compiled, CompileError | CompileTimeout | Crash):
            self._padding.remember(compiled, candidate)
        return compiled

    def gate(self, kernel: Kernel) -> Passed | RunFailure:
        """Check a kernel on every case; see `autotune.measure.gate`."""
        limit = self.subject.memory_bytes // 4
        if kernel.workspace_bytes > limit:
            return OverBudget(budget="workspace bytes", value=kernel.workspace_bytes, limit=limit)
        verdict = self._ask(GateRequest(kernel=kernel, call_seconds=self._call_seconds()))
        if isinstance(verdict, Wrong) and verdict.memory:
            self._measurer.stop()  # what else it wrote over is unknown
        assert isinstance(verdict, Passed | Wrong | Crash | Timeout | OverBudget | CompileError)
        return verdict

    def time(self, kernel: Kernel) -> Measured | RunFailure:
        """Time a kernel that passed the gate, alone."""
        with self._undisturbed(kernel):
            result = self._ask(self._time_request(kernel))
        assert isinstance(result, Measured | Crash | Timeout | OverBudget | CompileError)
        return self._noted(result)

    def race(self, kernel: Kernel, incumbent: Kernel) -> RaceResult | RunFailure:
        """Time a kernel that passed the gate against the incumbent."""
        with self._undisturbed(kernel, incumbent):
            request = RaceRequest(
                kernel=kernel,
                incumbent=incumbent,
                margin=self._margin,
                canaries=self._canaries(),
                call_seconds=self._call_seconds(),
            )
            result = self._ask(request)
        assert isinstance(result, Measured | RacedOut | Noisy | Crash | Timeout | OverBudget | CompileError)
        return self._noted(result)

    def evaluate(self, kernel: Kernel, incumbent: Kernel | None = None) -> RaceResult | RunFailure:
        """Check a kernel and time it, against the incumbent if there is one: the one state it ends in."""
        passed = self.gate(kernel)
        if not isinstance(passed, Passed):
            return passed
        result = self.time(kernel) if incumbent is None else self.race(kernel, incumbent)
        match result:
            case Measured() | RacedOut() | Noisy():
                return replace(result, checks=passed.checks)
            case _:
                return result

    # --- finals ---------------------------------------------------------------------------------------------------

    def shootout(self, kernels: Sequence[Kernel]) -> list[Standing]:
        """Rank kernels of this session that passed the gate, best first, by successive halving in two fresh processes.

        Each process times code that was emitted anew, with other padding before the entry, so that a lucky place of
        the raced code does not decide; code size and compile time are those of the kernels given. One that crashes,
        hangs or compiles no more drops out. Names in the result are the kernels' `sha256`.

        Raises: WorkerFailure where the kernels fail together and none of them alone.
        """
        alive = list({k.sha256: k for k in kernels}.values())
        losers: list[Standing] = []
        self._canaries()  # read before the compiler is held
        with self._quiet:
            alive = self._padding.emit(alive)
            workers = [Worker(self._server, Role.MEASURE, self.cores.measure, self._shared) for _ in PADDINGS_BYTES]
            try:
                while alive:
                    alive, standings = self._heat(workers, alive)
                    if len(standings) <= FINAL_KERNELS:
                        return standings + losers
                    kept = {s.name for s in standings[: (len(standings) + 1) // 2]}
                    losers = standings[len(kept) :] + losers
                    alive = [k for k in alive if k.sha256 in kept]
                return losers
            finally:
                for worker in workers:
                    worker.stop()

    def _heat(self, workers: Sequence[Worker], kernels: list[Kernel]) -> tuple[list[Kernel], list[Standing]]:
        """Time kernels in each process and rank them; again without those that fail."""
        heats: list[Rounds] = []
        for worker, padding in zip(workers, PADDINGS_BYTES, strict=True):
            padded = tuple(self._padding.padded(k, padding) for k in kernels)
            request = RoundsRequest(
                kernels=padded,
                rounds=SHOOTOUT_ROUNDS,
                canaries=self._canaries(),
                call_seconds=self._call_seconds(),
            )
            answer = self._ask(request, worker)
            if not isinstance(answer, Rounds):
                alone = [self._ask(self._time_request(p), worker) for p in padded]
                sound = [k for k, end in zip(kernels, alone, strict=True) if isinstance(end, Measured)]
                if len(sound) == len(kernels):
                    raise WorkerFailure(f"the finalists fail together, none of them alone: {answer}")
                return self._heat(workers, sound) if sound else ([], [])
            heats.append(answer)
        finalists = [
            Finalist(
                name=kernel.sha256,
                code_bytes=kernel.code_bytes,
                compile_seconds=kernel.compile_seconds,
                rounds_ns=tuple(heat.times_ns[k] for heat in heats),
            )
            for k, kernel in enumerate(kernels)
        ]
        redone, contended = sum(heat.redone for heat in heats), any(heat.contended for heat in heats)
        return kernels, [replace(s, redone_rounds=redone, contended=contended) for s in rank(finalists)]

    # --- requests -------------------------------------------------------------------------------------------------

    def _canaries(self) -> CanaryTimes:
        """What the canaries took when measuring began in this session; starts the measuring worker if need be."""
        if self._first_canaries is None:
            self._measurer.start()
            assert self._measurer.hello is not None and self._measurer.hello.canaries is not None
            self._first_canaries = self._measurer.hello.canaries
        return self._first_canaries

    def _time_request(self, kernel: Kernel) -> TimeRequest:
        return TimeRequest(kernel=kernel, canaries=self._canaries(), call_seconds=self._call_seconds())

    def _ask(self, request: Request, worker: Worker | None = None) -> Any:
        answer = (worker or self._measurer).ask(request, "start", self._call_seconds())
        match answer:
            case Expired(stage=stage, seconds=seconds):
                return Timeout(seconds=seconds, stage=stage)
            case Raised(out_of_memory=True):
                (worker or self._measurer).stop()
                limit = self.subject.memory_bytes
                return OverBudget(budget="memory bytes of a worker", value=limit, limit=limit)
            case Raised(text=text, trace=trace):
                raise WorkerFailure(f"{text}\n{trace}")
            case _:
                return answer

    def _call_seconds(self) -> float:
        """How long one call may take, given the best so far."""
        if self._best_ns is None:
            return MOST_CALL_SECONDS
        return min(MOST_CALL_SECONDS, max(self._least_call_seconds, CALL_OVER_BEST * self._best_ns * 1e-9))

    def _noted(self, result: Result) -> Result:
        if isinstance(result, Measured):
            self._best_ns = min(result.ns, self._best_ns or result.ns)
        return result

    @contextmanager
    def _undisturbed(self, *kernels: Kernel) -> Iterator[None]:
        """Keep the compiler still where the working set leaves L2."""
        largest = self.subject.layout.data_bytes + max(k.workspace_bytes for k in kernels)
        if largest > self.subject.l2_bytes:
            with self._quiet:
                yield
        else:
            yield
