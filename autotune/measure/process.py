"""A worker process as its parent holds it: started, asked within a deadline, killed, its end explained.
Must not know what is asked or what the answers mean."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from autotune.measure.buffers import SharedObject
from autotune.measure.protocol import Done, Hello, Raised, Request, Stage
from autotune.measure.server import ForkServer
from autotune.measure.states import Crash
from autotune.measure.worker import Role

START_SECONDS = 60.0
CANDIDATES_A_WORKER = 64
LAST_WORDS_BYTES = 2000


class WorkerFailure(RuntimeError):
    """A worker's own code failed, not a candidate's; its message and trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The deadline of `stage` passed."""

    stage: str
    seconds: float


class Worker:
    """A worker process that is started when needed and again after it died, was killed or served its time."""

    def __init__(self, server: ForkServer, role: Role, core: int, subject: SharedObject) -> None:
        self._server, self._role, self._core, self._subject = server, role, core, subject
        self._channel: Connection | None = None
        self._pid = 0
        self._served = 0
        self._output = -1
        self.hello: Hello | None = None

    def start(self) -> None:
        """Have a process ready; nothing if there is one.

        Raises: WorkerFailure where it does not come up.
        """
        if self._channel is not None:
            return
        ours, theirs = socket.socketpair()
        self._output = os.memfd_create("autotune-output", os.MFD_CLOEXEC)
        with theirs:
            subject = self._subject.descriptor
            self._pid = self._server.fork(self._role.value, self._core, theirs, subject, self._output)
        self._channel, self._served = Connection(ours.detach()), 0
        answer = self._await("start", START_SECONDS)
        if not isinstance(answer, Hello):
            raise WorkerFailure(f"a {self._role.value} worker did not start: {answer}")
        self.hello = answer

    def ask(self, request: Request, stage: str, seconds: float) -> Any:
        """The worker's answer: what it returned, Raised, or Crash or Expired after its end.

        Interrupted by an exception, Ctrl-C included, it kills the worker, whose answer would be out of step.
        """
        if self._served >= CANDIDATES_A_WORKER:
            self.stop()
        used = self._channel is not None and self._served > 0
        answer = self._ask(request, stage, seconds)
        if used and self._role is Role.MEASURE and isinstance(answer, Crash) and answer.stage == stage:
            return self._ask(request, stage, seconds)  # it died of what an earlier kernel did, before it began
        return answer

    def _ask(self, request: Request, stage: str, seconds: float) -> Any:
        try:
            self.start()
            self._served += 1
            assert self._channel is not None
            with suppress(BrokenPipeError, ConnectionResetError):
                self._channel.send(request)
            return self._await(stage, seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill the process and everything it started."""
        if self._channel is not None:
            self._end()

    def _await(self, stage: str, seconds: float) -> Any:
        assert self._channel is not None
        deadline = time.monotonic() + seconds
        while True:
            if not self._channel.poll(max(0.0, deadline - time.monotonic())):
                self._end()
                return Expired(stage=stage, seconds=seconds)
            try:
                message = self._channel.recv()
            except (EOFError, ConnectionResetError):
                status, peak_bytes, text = self._end()
                return Crash(signal=_cause(status), stage=stage, peak_bytes=peak_bytes, text=text)
            match message:
                case Stage():
                    stage, seconds = message.text, message.seconds
                    deadline = time.monotonic() + seconds
                case Done(value=value):
                    return value
                case Raised() | Hello():
                    return message

    def interrupt(self) -> None:
        """Make an `ask` of another thread return by killing the process it waits for."""
        with suppress(ProcessLookupError):
            if self._pid:
                os.kill(self._pid, signal.SIGKILL)

    def _end(self) -> tuple[int, int, str]:
        """Kill the process and its group; wait status, peak resident bytes and the end of what it printed.

        A process that is dying already keeps its own status.
        """
        assert self._channel is not None
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                kill(self._pid, signal.SIGKILL)
        self._channel.close()
        self._channel = None
        pid, self._pid = self._pid, 0
        status, peak_bytes = self._server.reap(pid)
        return status, peak_bytes, self._last_words()

    def _last_words(self) -> str:
        size = os.fstat(self._output).st_size
        data = os.pread(self._output, LAST_WORDS_BYTES, max(0, size - LAST_WORDS_BYTES))
        os.close(self._output)
        return data.decode(errors="replace").strip()


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit {os.waitstatus_to_exitcode(status)}"
