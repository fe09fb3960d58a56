"""The partition of machine instructions into events, listed once, and vectors of counts over it.
Must not know what an event costs; `autotune.calibration` holds weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Event(IntEnum):
    """One class of issued machine instructions; every instruction is in exactly one, and loads folded into an
    arithmetic instruction count beside it. An operation on k vector registers counts k.
    """

    ALU = 0
    """Vector add, subtract, minimum, maximum, compare, blend, logic, shift, convert, round."""
    MUL = 1
    """Vector multiplication."""
    FMA = 2
    """Fused multiply-add of vectors, and exponent scaling, which runs on the same units."""
    DIV_VECTOR = 3
    """Vector division."""
    DIV_SCALAR = 4
    """Scalar division, of floats or integers."""
    SQRT_VECTOR = 5
    """Vector square root."""
    SQRT_SCALAR = 6
    """Scalar square root."""
    VECTOR_LOAD = 7
    """Contiguous vector load, alone or as a memory operand."""
    VECTOR_STORE = 8
    """Contiguous vector store."""
    MASKED_LOAD = 9
    """Contiguous vector load that leaves masked-off memory untouched."""
    MASKED_STORE = 10
    """Contiguous vector store that leaves masked-off memory untouched."""
    SCALAR_LOAD = 11
    """Load of one element."""
    SCALAR_STORE = 12
    """Store of one element."""
    BROADCAST_LOAD = 13
    """Load of one element into every lane."""
    GATHER_LANE = 14
    """One lane of a gather instruction."""
    SCATTER_LANE = 15
    """One lane of a scatter instruction."""
    SHUFFLE = 16
    """Movement between lanes or between halves: permutations, inserts, extracts, broadcasts from a register."""
    MASK = 17
    """Logic on mask registers, and moves between them and scalars."""
    SCALAR_ALU = 18
    """Arithmetic on one float or integer value that is not an index."""
    ADDRESS = 19
    """Index arithmetic that was not folded into an address."""
    LOOP = 20
    """One trip of a loop: increment, compare, branch."""
    BRANCH = 21
    """A branch that does not close a loop, with its test."""
    CALL = 22
    """Call of an external function."""
    PREFETCH = 23
    """A hint that brings a cache line closer."""


EVENT_COUNT = len(Event)


@dataclass(frozen=True, slots=True)
class Events:
    """Counts, one for each Event in order."""

    counts: tuple[float, ...] = (0.0,) * EVENT_COUNT

    @staticmethod
    def of(counts: Mapping[Event, float]) -> Events:
        """Counts by name; what is not named is zero."""
        return Events(tuple(float(counts.get(event, 0.0)) for event in Event))

    def __getitem__(self, event: Event) -> float:
        return self.counts[event]

    def __add__(self, other: Events) -> Events:
        return Events(tuple([a + b for a, b in zip(self.counts, other.counts, strict=True)]))

    def scaled(self, factor: float) -> Events:
        """Every count times `factor`."""
        return Events(tuple([factor * count for count in self.counts]))

    def total(self, events: Iterable[Event] = Event) -> float:
        """Sum over the named events."""
        return sum(self.counts[event] for event in events)

    def array(self) -> NDArray[np.float64]:
        """Counts as float64. Shapes: (EVENT_COUNT,)."""
        return np.array(self.counts, dtype=np.float64)

    def named(self) -> dict[str, float]:
        """Counts that are not zero, by lower-case name."""
        return {event.name.lower(): self.counts[event] for event in Event if self.counts[event]}
