"""The ways in which a suite compares two calls.
Must not know how any of them times."""

from __future__ import annotations

from enum import Enum


class TimingProtocol(Enum):
    """How two calls are compared: in many short rounds, or by one of the presets."""

    ROUNDS = "rounds"
    ABBA = "abba"
    PERMUTATIONS = "permutations"
