"""The peers: their labels, the packages they need, and what each must offer.
Must not import any of them before it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.buffers import Buffers
from benchmarks.cases import Case
from benchmarks.timing import Call


class Style(Enum):
    """How a peer's formula is put."""

    AS_WRITTEN = "as written"
    BEST = "best"
    NATIVE = (
        "native"  # beyond what its users get: machine code for constant extents, called without the peer's own call
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A peer ready to be timed: the call, and a function that makes it once and returns the answer."""

    formulation: str
    call: Call
    outcome: Callable[[], NDArray[np.float32]]


Attempt = Callable[[], Prepared]
"""Prepares one formulation; may raise whatever the peer raises."""


class Peer(Protocol):
    """What a module of this folder offers."""

    def attempts(self, case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
        """The formulations of `case` in `style`, by name."""
        ...

    def trivial(self) -> Call:
        """A call from Python that does nothing to speak of; native calls are all alike and need no other measure."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A peer as it is listed: one label a style."""

    module: str
    packages: tuple[str, ...]
    labels: tuple[tuple[str, Style], ...]

    def missing(self) -> tuple[str, ...]:
        """The needed packages that are not installed."""
        return tuple(name for name in self.packages if importlib.util.find_spec(name) is None)

    def load(self) -> Peer:
        """Import the peer.

        Raises: ImportError.
        """
        return cast(Peer, importlib.import_module(f"benchmarks.peers.{self.module}"))


PEERS = (
    Entry(module="numpy_arrays", packages=(), labels=(("numpy", Style.AS_WRITTEN), ("numpy best", Style.BEST))),
    Entry(
        module="torch_eager",
        packages=("torch",),
        labels=(("torch eager", Style.AS_WRITTEN), ("torch eager best", Style.BEST)),
    ),
    Entry(
        module="inductor",
        packages=("torch",),
        labels=(("inductor as written", Style.AS_WRITTEN), ("inductor best", Style.BEST)),
    ),
    Entry(
        module="numba_loops",
        packages=("numba",),
        labels=(("numba", Style.AS_WRITTEN), ("numba best", Style.BEST), ("numba native", Style.NATIVE)),
    ),
    Entry(
        module="onnx_runtime",
        packages=("onnx", "onnxruntime"),
        labels=(("onnxruntime", Style.AS_WRITTEN), ("onnxruntime best", Style.BEST)),
    ),
)
LABELS = tuple(label for entry in PEERS for label, _ in entry.labels)
