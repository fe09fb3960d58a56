"""Finalists emitted anew with other code before the entry, once for each process of a shoot-out.
Must not know how finalists are timed or ranked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from autotune.measure.buffers import SharedObject
from autotune.measure.cores import Cores
from autotune.measure.process import Expired, Worker
from autotune.measure.protocol import BuildRequest, Kernel, Raised
from autotune.measure.server import ForkServer
from autotune.measure.states import CompileError, CompileTimeout, Crash
from autotune.measure.worker import COMPILE_STAGE, Role

PADDINGS_BYTES = (1040, 2096)
"""Code before the entry in each process of the shoot-out: the entry begins 16 bytes into a cache line in one and 48 in
the other, on different pages, while raced code begins on a line."""


def compilation(answer: Any, worker: Worker) -> Any:
    """What a compiling worker's answer means: a kernel, or the state in which its candidate ends."""
    match answer:
        case Raised(text=text, trace=trace):
            if answer.out_of_memory:
                worker.stop()
            return CompileError(text=text, trace=trace)
        case Expired(seconds=seconds):
            return CompileTimeout(seconds=seconds)
        case _:
            return answer


class Padding:
    """Remembers which candidate an object was made of, and makes padded ones of it, each once."""

    def __init__(self, server: ForkServer, subject: SharedObject, cores: Cores, compile_seconds: float) -> None:
        self._server, self._subject, self._cores = server, subject, cores
        self._compile_seconds = compile_seconds
        self._sources: dict[str, Any] = {}
        self._padded: dict[tuple[str, int], Kernel] = {}

    def remember(self, kernel: Kernel, candidate: object) -> None:
        """Note what a kernel was made of; the first of several candidates that give equal objects."""
        self._sources.setdefault(kernel.sha256, candidate)

    def padded(self, kernel: Kernel, padding_bytes: int) -> Kernel:
        """What `emit` made of a kernel."""
        return self._padded[kernel.sha256, padding_bytes]

    def emit(self, kernels: Sequence[Kernel]) -> list[Kernel]:
        """Compile kernels with each padding, one padding a core; those that still compile with all of them."""
        cores = (self._cores.compile, self._cores.measure)
        workers = [Worker(self._server, Role.COMPILE, core, self._subject) for core in cores]
        leave = threading.Event()
        with ThreadPoolExecutor(len(workers), thread_name_prefix="autotune-padding") as pool:
            futures = [
                pool.submit(self._emit_with, worker, kernels, padding, leave)
                for worker, padding in zip(workers, PADDINGS_BYTES, strict=True)
            ]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                leave.set()
                for worker, future in zip(workers, futures, strict=True):
                    while not future.done():
                        worker.interrupt()
                        wait([future], timeout=0.02)
                raise
            finally:
                for worker in workers:
                    worker.stop()
        return [k for k in kernels if all((k.sha256, padding) in self._padded for padding in PADDINGS_BYTES)]

    def _emit_with(self, worker: Worker, kernels: Sequence[Kernel], padding: int, leave: threading.Event) -> None:
        for kernel in kernels:
            if leave.is_set() or (kernel.sha256, padding) in self._padded:
                continue
            request = BuildRequest(candidate=self._sources[kernel.sha256], padding_bytes=padding)
            made = compilation(worker.ask(request, COMPILE_STAGE, self._compile_seconds), worker)
            if not isinstance(made, CompileError | CompileTimeout | Crash):
                self._padded[kernel.sha256, padding] = made
