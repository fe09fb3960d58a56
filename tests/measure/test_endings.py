"""A caller that ends in the middle of a measurement, by Ctrl-C or by a kill, leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ENDING_SECONDS = 10.0

PROGRAM = """
import os, signal, sys
sys.path[:0] = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a shell
from conftest import doubling
from autotune.jit import host_target
from autotune.measure.cases import make_cases
from autotune.measure.server import ForkServer
from autotune.measure.session import Session

program = doubling(64)
cases = make_cases(program, 1, sizes={}, scalars={}, oracle_seconds=0)
try:
    with ForkServer("fake_build") as server, Session(
        server, program, host_target(), cases, build="fake_build:build", least_call_seconds=60
    ) as session:
        hanging = session.compile("hang").result()
        session.environment()
        print(server._process.pid, session._compiler._pid, session._measurer._pid, flush=True)
        session.compile("compiler hangs")
        session.gate(hanging)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize(("ending", "says"), [(signal.SIGINT, "interrupted\n"), (signal.SIGKILL, "")])
def test_nothing_is_left_running(ending: signal.Signals, says: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(HERE), str(HERE.parents[1])],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as caller:
        assert caller.stdout is not None
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        assert len(pids) == 3
        time.sleep(0.3)  # both workers are busy with something endless by now
        assert all(is_running(pid) for pid in pids)
        os.killpg(caller.pid, ending)
        rest, _ = caller.communicate(timeout=ENDING_SECONDS)
    assert rest == says
    deadline = time.monotonic() + ENDING_SECONDS
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(is_running(pid) for pid in pids)
