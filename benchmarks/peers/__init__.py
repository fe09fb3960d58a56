"""The peers: their labels, the packages they need, and what each must offer.
Must not import any of them before it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.buffers import Buffers
from benchmarks.case import Case
from benchmarks.timing import Call


class Style(Enum):
    """How a peer's formula is put."""

    AS_WRITTEN = "as written"
    BEST = "best"
    NATIVE = (
        "native"  # beyond what its users get: machine code for constant extents, called without the peer's own call
    )
    PREPACKED = "prepacked"  # weights laid out before the clock starts, which ours does inside
    ONLINE = "online"  # an attention of our own in C, by blocks of keys
    DENSE = "dense"  # an attention of our own in C, by rows of scores

    @property
    def is_contender(self) -> bool:
        """Whether it stands among the peers of which the fastest is looked for."""
        return self not in (Style.PREPACKED, Style.ONLINE, Style.DENSE)


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


_NUMPY = Entry(module="numpy_arrays", packages=(), labels=(("numpy", Style.AS_WRITTEN), ("numpy best", Style.BEST)))
_TORCH = Entry(
    module="torch_eager",
    packages=("torch",),
    labels=(("torch eager", Style.AS_WRITTEN), ("torch eager best", Style.BEST)),
)
_INDUCTOR = Entry(
    module="inductor",
    packages=("torch",),
    labels=(("inductor as written", Style.AS_WRITTEN), ("inductor best", Style.BEST)),
)
_ONNX_RUNTIME = Entry(
    module="onnx_runtime",
    packages=("onnx", "onnxruntime"),
    labels=(("onnxruntime", Style.AS_WRITTEN), ("onnxruntime best", Style.BEST)),
)
_NUMBA_BEST = Entry(module="numba_loops", packages=("numba",), labels=(("numba best", Style.BEST),))

PEERS = (
    _NUMPY,
    _TORCH,
    _INDUCTOR,
    Entry(
        module="numba_loops",
        packages=("numba",),
        labels=(("numba", Style.AS_WRITTEN), ("numba best", Style.BEST), ("numba native", Style.NATIVE)),
    ),
    _ONNX_RUNTIME,
)
"""The peers of the row kernels."""
CONTRACTION_PEERS = (
    _NUMPY,
    _TORCH,
    Entry(
        module="onednn",
        packages=("torch",),
        labels=(("onednn", Style.BEST), ("onednn prepacked", Style.PREPACKED)),
    ),
    Entry(module="inductor", packages=("torch",), labels=(("inductor best", Style.BEST),)),
    _NUMBA_BEST,
    Entry(
        module="onnx_runtime",
        packages=("onnx", "onnxruntime"),
        labels=(("onnxruntime best", Style.BEST), ("onnxruntime prepacked", Style.PREPACKED)),
    ),
)
ATTENTION_PEERS = (
    _NUMPY,
    _TORCH,
    Entry(module="inductor", packages=("torch",), labels=(("inductor best", Style.BEST),)),
    _NUMBA_BEST,
    _ONNX_RUNTIME,
    Entry(module="c_references", packages=(), labels=(("C online", Style.ONLINE), ("C dense", Style.DENSE))),
)


def labels_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """All labels of `entries`, in order."""
    return tuple(label for entry in entries for label, _ in entry.labels)


LABELS = labels_of(PEERS)
