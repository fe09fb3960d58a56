"""How the command ends, as numbers a script can test.
Must not know what was searched or how it is reported."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """Every exit code of the command; of several searches in one call the most serious outcome is returned."""

    IMPROVED = 0  # a faster candidate than the reference is stored; for a verb that only reads: it succeeded
    BAD_INPUT = 2  # the command line or the kernel file is wrong; the number that command-line parsers use
    REFERENCE_KEPT = 3  # the search ended and nothing beat the reference candidate
    NOTHING_LEGAL = 4  # every candidate was refused, the reference candidate included
    NOTHING_CORRECT = 5  # nothing that was measured agreed with the oracle
    NOTHING_STORED = 6  # the store has no policy for what was asked
    WRONG_RESULT = 7  # `verify` found a stored candidate that disagrees with the oracle
    COMPILED = 8  # the target cannot run here: its best candidates compiled, and nothing was measured
    NOTHING_COMPILED = 9  # the target cannot run here, and every candidate that was tried failed in the compiler
    ENDED_OTHERWISE = 10  # `replay` saw another end than the one that was recorded
    INTERRUPTED = 130  # Ctrl-C; what was found up to then is stored


_SERIOUSNESS = (
    ExitCode.IMPROVED,
    ExitCode.REFERENCE_KEPT,
    ExitCode.COMPILED,
    ExitCode.NOTHING_STORED,
    ExitCode.NOTHING_LEGAL,
    ExitCode.NOTHING_COMPILED,
    ExitCode.NOTHING_CORRECT,
    ExitCode.WRONG_RESULT,
    ExitCode.ENDED_OTHERWISE,
    ExitCode.BAD_INPUT,
    ExitCode.INTERRUPTED,
)


def most_serious(codes: Iterable[ExitCode]) -> ExitCode:
    """The code that stands for several outcomes; IMPROVED where there are none."""
    return max(codes, key=_SERIOUSNESS.index, default=ExitCode.IMPROVED)
