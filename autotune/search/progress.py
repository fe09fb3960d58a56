"""What a search reports while it runs, one frozen class an event.
Must not know who listens or how it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from autotune.measure.states import State
from autotune.search.result import Compilation
from autotune.search.stop import StopRule


class Phase(Enum):
    """The stations of one search, in order."""

    TRACE = "trace"
    ENUMERATE = "enumerate"
    ORACLE = "oracle"
    SEARCH = "search"
    COMPILE = "compile"  # instead of oracle, search and finals, where the target cannot run here
    FINALS = "finals"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStarted:
    """A search of `title` entered a phase."""

    title: str
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceReady:
    """The set to search, its share of all legal candidates, and how many of it ended in earlier runs."""

    candidates: int
    legal: int
    refused: int
    restored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateFinished:
    """One candidate ended.

    Units: nanoseconds a call, seconds. `total` is what the search will look at if no better candidate comes; `ns` is
    None where nothing was timed, `best_ns` until something was; `eta_s` counts to the end of the search.
    """

    candidate: str
    state: State
    ns: float | None
    promoted: bool
    done: int
    total: int
    best_ns: float | None
    reference_ns: float | None
    eta_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateCompiled:
    """One candidate of a target that cannot run here was compiled, or failed to be; `done` of `total`."""

    compilation: Compilation
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStopped:
    """The rule that ended the search, None for the user."""

    rule: StopRule | None
    done: int


Event: TypeAlias = PhaseStarted | SpaceReady | CandidateFinished | CandidateCompiled | SearchStopped
OnEvent: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listens to nothing."""
