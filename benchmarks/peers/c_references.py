"""The two attentions of our own in C, beside which the tuned ones are held.
Must not know how they are written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import references
from benchmarks.attention_cases import ATTENTION, ATTENTION_BIAS
from benchmarks.buffers import Buffers
from benchmarks.case import Case
from benchmarks.peers import Attempt, Style
from benchmarks.timing import Call, nothing


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """Online or dense attention, causal or full; neither knows a bias."""
    if case.spec is ATTENTION_BIAS:
        return
    make = references.online if style is Style.ONLINE else references.dense
    q, k, v = (_float32(buffers.inputs[name]) for name in "qkv")
    causal, scale = case.spec is ATTENTION, dict(case.scalars)["scale"]
    yield style.value, partial(make, q, k, v, buffers.y, scale, causal=causal)


def trivial() -> Call:
    """A native function that returns at once."""
    return nothing(5)


def _float32(array: NDArray[np.generic]) -> NDArray[np.float32]:
    return array.view(np.float32)
