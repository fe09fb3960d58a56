"""The process that workers are forked from: imports once, forks on request, reports how a worker ended.
Must not know what workers do."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

from autotune.measure.worker import serve

MESSAGE_BYTES = 1 << 16
PR_SET_PDEATHSIG = 1
BUILDERS = ("autotune.build",)

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from autotune.measure.server import main; main()"


class ServerLost(RuntimeError):
    """The process that workers are forked from has ended."""


class ForkServer:
    """Handle of the process that workers are forked from; start it early, importing takes about a second.

    Children never run the caller's main module, so callers need no `__main__` guard. They are in sessions of their
    own: Ctrl-C in the terminal reaches the caller alone, and all of them end when the caller does.
    """

    def __init__(self, *preloaded: str) -> None:
        """`preloaded` names the modules with the build functions of its sessions, the package's own if left out."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [json.dumps(sys.path), str(theirs.fileno()), json.dumps(preloaded or BUILDERS)]
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **threads},
                start_new_session=True,
            )
        self._socket = ours
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def fork(self, role: str, core: int, connection: socket.socket, subject: int, output: int) -> int:
        """Start a worker that serves `connection`; its process number, which is also its process group.

        `subject` and `output` are descriptors of what it works on and of the file that all it prints goes to.

        Raises: ServerLost.
        """
        answer = self._request({"fork": role, "core": core}, [connection.fileno(), subject, output])
        return int(answer["pid"])

    def reap(self, pid: int) -> tuple[int, int]:
        """Wait status and peak resident bytes of a worker that has ended.

        Raises: ServerLost.
        """
        answer = self._request({"reap": pid}, [])
        return int(answer["status"]), int(answer["peak_bytes"])

    def _request(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """The answer to this request; answers that an interrupted one left behind are passed over."""
        with self._lock:
            number = next(self._numbers)
            try:
                socket.send_fds(self._socket, [json.dumps(request | {"number": number}).encode()], descriptors)
            except OSError as error:
                raise ServerLost(str(error)) from error
            while True:
                data = self._socket.recv(MESSAGE_BYTES)
                if not data:
                    raise ServerLost(f"the fork server ended with status {self._process.wait()}")
                answer: dict[str, Any] = json.loads(data)
                if answer["number"] == number:
                    return answer

    def close(self) -> None:
        """End the server and every worker it still has."""
        self._socket.close()
        self._process.wait()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def main() -> None:
    """Body of the server process: arguments are the search path, a socket's number and more modules to import."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[2]))
    for module in json.loads(sys.argv[3]):
        importlib.import_module(module)
    children: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 3)
        if not data:
            break
        match json.loads(data):
            case {"fork": role, "core": core, "number": number}:
                pid = os.fork()
                if pid == 0:
                    control.close()
                    _become_worker(role, core, *descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)
                children.add(pid)
                control.send(json.dumps({"number": number, "pid": pid}).encode())
            case {"reap": pid, "number": number}:
                _, status, usage = os.wait4(pid, 0)
                children.discard(pid)
                answer = {"number": number, "status": status, "peak_bytes": usage.ru_maxrss * 1024}
                control.send(json.dumps(answer).encode())
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _become_worker(role: str, core: int, connection: int, subject: int, output: int) -> None:
    """Never returns: the forked process leads its own group, dies with the server, and stays on its core."""
    status = 1
    try:
        os.setsid()
        os.dup2(output, sys.stdout.fileno())
        os.dup2(output, sys.stderr.fileno())
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, {core})
        serve(role, core, connection, subject)
        status = 0
    finally:
        os._exit(status)
