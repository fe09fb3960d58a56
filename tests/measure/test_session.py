"""Every way a candidate can fail ends in its own state, and the session goes on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator

import pytest

from autotune.ir.program import Program
from autotune.jit import host_target, load
from autotune.measure.cases import make_cases
from autotune.measure.gate import Passed
from autotune.measure.noise import NoiseFloor
from autotune.measure.padding import PADDINGS_BYTES
from autotune.measure.process import CANDIDATES_A_WORKER
from autotune.measure.race import MARGIN
from autotune.measure.server import ForkServer
from autotune.measure.session import Session
from autotune.measure.states import (
    CompileError,
    CompileTimeout,
    Crash,
    Measured,
    Noisy,
    OverBudget,
    RacedOut,
    State,
    Timeout,
    Wrong,
)

CALL_SECONDS = 2.0


@pytest.fixture(scope="module")
def session(server: ForkServer, program: Program) -> Iterator[Session]:
    cases = make_cases(program, 7, sizes={"N": 1003}, scalars={})
    with Session(
        server,
        program,
        host_target(),
        cases,
        build="fake_build:build",
        memory_bytes=256 << 20,
        compile_seconds=5.0,
        least_call_seconds=CALL_SECONDS,
    ) as running:
        running.time(running.compile("right").result())  # from here on the adaptive limit holds
        yield running


@pytest.fixture
def still_works(session: Session) -> Iterator[None]:
    yield
    assert isinstance(session.evaluate(session.compile("right").result()), Measured)


pytestmark = pytest.mark.usefixtures("still_works")


def outcome(session: Session, candidate: str) -> object:
    return session.evaluate(session.compile(candidate).result())


def test_a_right_kernel_is_measured_on_all_kinds_twice_and_between_guard_pages(session: Session) -> None:
    found = outcome(session, "right")
    assert isinstance(found, Measured) and found.state is State.MEASURED
    assert found.ns > 0 and len(found.samples_ns) == 15
    assert found.checks is not None
    assert found.checks.kinds == ("normal", "cancelling", "wide range", "ragged tail")
    assert found.checks.repeated and found.checks.guard_pages


@pytest.mark.parametrize(
    ("candidate", "where"),
    [
        ("wrong factor", "y["),
        ("last element missing", "y[1002]"),
        ("writes past the end", "guard after y"),
        ("writes before the start", "guard before y"),
        ("writes past the workspace", "guard after workspace"),
        ("overwrites its input", "input x[0]"),
        ("answers from its workspace", "y[1002] differs between two runs"),
    ],
)
def test_wrong_answers_and_strayed_writes_are_wrong_and_say_where(session: Session, candidate: str, where: str) -> None:
    found = outcome(session, candidate)
    assert isinstance(found, Wrong)
    assert found.where.startswith(where)
    assert found.error_over_bound > 1


@pytest.mark.parametrize(
    ("candidate", "stage"),
    [
        ("null write", "check on normal data"),
        ("overflows its stack", "check on normal data"),
        ("reads past the end", "inaccessible memory at the end"),
        ("reads before the start", "inaccessible memory at the start"),
    ],
)
def test_a_crash_is_named_by_its_signal_and_stage(session: Session, candidate: str, stage: str) -> None:
    found = outcome(session, candidate)
    assert isinstance(found, Crash)
    assert found.signal == "SIGSEGV" and stage in found.stage


def test_a_kernel_that_eats_memory_meets_the_limit(session: Session) -> None:
    found = outcome(session, "eats memory")
    assert isinstance(found, Crash)
    assert 128 << 20 < found.peak_bytes < 1 << 30


def test_a_hanging_kernel_times_out(session: Session) -> None:
    found = outcome(session, "hang")
    assert found == Timeout(seconds=CALL_SECONDS, stage="check on normal data")


def test_a_huge_workspace_is_over_budget(session: Session) -> None:
    found = outcome(session, "wants a huge workspace")
    assert found == OverBudget(budget="workspace bytes", value=1 << 40, limit=64 << 20)


def test_a_failing_compiler_is_a_compile_error_with_its_text(session: Session) -> None:
    found = session.compile("compiler raises").result()
    assert isinstance(found, CompileError)
    assert found.text == "ValueError: cannot lower this" and "fake_build.py" in found.trace


def test_a_compiler_that_eats_memory_is_a_compile_error(session: Session) -> None:
    found = session.compile("compiler eats memory").result()
    assert isinstance(found, CompileError) and found.text == "MemoryError"


@pytest.mark.parametrize(("candidate", "signal"), [("compiler aborts", "SIGABRT"), ("compiler segfaults", "SIGSEGV")])
def test_a_dying_compiler_is_a_crash_while_compiling(session: Session, candidate: str, signal: str) -> None:
    found = session.compile(candidate).result()
    assert isinstance(found, Crash)
    assert (found.signal, found.stage) == (signal, "compile")


def test_a_crash_keeps_what_the_compiler_said_and_the_terminal_stays_clean(
    session: Session, capfd: pytest.CaptureFixture[str]
) -> None:
    found = session.compile("compiler aborts").result()
    assert isinstance(found, Crash) and found.text.startswith("LLVM ERROR")
    assert capfd.readouterr().err == ""


def test_a_worker_that_died_between_two_requests_is_not_held_against_the_next_kernel(session: Session) -> None:
    kernel = session.compile("right").result()
    session.gate(kernel)
    session._measurer.interrupt()
    assert isinstance(session.gate(kernel), Passed)


def test_a_hanging_compiler_times_out(server: ForkServer, program: Program) -> None:
    cases = make_cases(program, 7, sizes={"N": 1003}, scalars={}, oracle_seconds=0)
    build = "fake_build:build"
    with Session(server, program, host_target(), cases, build=build, compile_seconds=0.2) as short:
        assert short.compile("compiler hangs").result() == CompileTimeout(seconds=0.2)


def test_a_much_slower_kernel_is_raced_out(session: Session) -> None:
    incumbent = session.compile("right").result()
    found = session.evaluate(session.compile("slow").result(), incumbent)
    assert isinstance(found, RacedOut | Noisy)  # Noisy only on a machine that is busy throughout
    assert found.checks is not None


def test_compiling_goes_on_while_measuring(session: Session) -> None:
    futures = [session.compile("right"), session.compile("slow")]
    first, second = (f.result() for f in futures)
    assert isinstance(session.gate(first), type(session.gate(second)))


def test_the_shootout_ranks_the_faster_first_and_drops_what_crashes(session: Session) -> None:
    names = ("slow", "right", "null write")
    kernels = [session.compile(name).result() for name in names]
    ranked = session.shootout(kernels)
    assert [s.name for s in ranked] == [kernels[1].sha256, kernels[0].sha256]
    assert ranked[0].ns < ranked[1].ns


def test_a_shootout_of_kernels_that_all_fail_has_no_winner(session: Session) -> None:
    assert session.shootout([session.compile("null write").result()]) == []
    assert session.shootout([]) == []


def test_workers_are_replaced_after_their_share_of_candidates(session: Session) -> None:
    kernel = session.compile("right").result()
    pids = set()
    for _ in range(CANDIDATES_A_WORKER + 1):
        session.gate(kernel)
        pids.add(session._measurer._pid)
    assert len(pids) == 2


def test_the_environment_says_where_and_on_what_memory(session: Session) -> None:
    seen = session.environment()
    assert seen.core == session.cores.measure and seen.alignment_bytes == 64
    assert seen.huge_page_bytes >= 0 and seen.cache == "hot"


def test_a_kernel_raced_against_itself_gives_the_floor_of_the_margin(session: Session) -> None:
    kernel = session.compile("right").result()
    found = session.noise_floor(kernel)
    assert isinstance(found, NoiseFloor)
    assert found.races > 0 and session._margin == found.margin >= MARGIN


def test_a_crash_while_racing_itself_is_named(session: Session) -> None:
    kernel = session.compile("null write").result()
    assert isinstance(session.noise_floor(kernel), Crash)


def test_finalists_are_emitted_anew_with_another_place_of_the_entry_in_each_process(session: Session) -> None:
    kernel = session.compile("right").result()
    (placed,) = session.shootout([kernel])
    again = [session._padding.padded(kernel, padding) for padding in PADDINGS_BYTES]
    assert placed.name == kernel.sha256
    assert len({kernel.sha256, *(k.sha256 for k in again)}) == 3
    pages = [k.code_bytes - kernel.code_bytes for k in again]
    assert all(grown >= padding for grown, padding in zip(pages, PADDINGS_BYTES, strict=True))
    assert [load(k.object_bytes, k.symbol).address % 64 for k in (kernel, *again)] == [0, 16, 48]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flushes lines by an instruction of x86-64")
def test_cold_tensors_and_shifted_arenas_are_measured_and_say_so(server: ForkServer, program: Program) -> None:
    cases = make_cases(program, 7, sizes={"N": 1003}, scalars={}, oracle_seconds=0)
    options = {"build": "fake_build:build", "alignment_bytes": 16, "cold": (0,)}
    with Session(server, program, host_target(), cases, **options) as cold:  # type: ignore[arg-type]
        seen = cold.environment()
        assert (seen.cache, seen.alignment_bytes) == ("cold x", 16)
        right = cold.compile("right").result()
        assert isinstance(cold.evaluate(right), Measured)
        assert isinstance(cold.evaluate(cold.compile("slow").result(), right), RacedOut | Noisy)


def test_leaving_while_compiling_ends_at_once_and_leaves_no_process(server: ForkServer, program: Program) -> None:
    affinity = os.sched_getaffinity(0)
    cases = make_cases(program, 7, sizes={"N": 1003}, scalars={}, oracle_seconds=0)
    begin = time.monotonic()
    with Session(server, program, host_target(), cases, build="fake_build:build") as leaving:
        running, queued = leaving.compile("compiler hangs"), leaving.compile("right")
        while not leaving._compiler._served:
            time.sleep(0.01)
        pid = leaving._compiler._pid
    assert time.monotonic() - begin < 10
    assert isinstance(running.result(), Crash) and queued.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert os.sched_getaffinity(0) == affinity


def test_an_interrupted_request_leaves_the_session_usable(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = session.compile("right").result()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session._measurer, "_await", interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.gate(kernel)
    assert isinstance(session.evaluate(kernel), Measured)
