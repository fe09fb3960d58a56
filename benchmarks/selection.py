"""Which cases and peers a run takes, from what the user wrote.
Must not import any peer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.case import Case
from benchmarks.cases import KERNELS, row_cases
from benchmarks.peers import Entry, labels_of


class UnknownCase(ValueError):
    """No case and no kernel of the suite has this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(
            f"no case or kernel {name!r}: write a kernel ({', '.join(KERNELS)}) or one of {', '.join(known)}"
        )


class NoSuchCase(ValueError):
    """No case of a suite contains this text."""

    def __init__(self, text: str, known: Iterable[str]) -> None:
        super().__init__(f"no case contains {text!r}: write a part of one of {', '.join(known)}")


class UnknownPeer(ValueError):
    """No peer has this label."""

    def __init__(self, label: str, known: Iterable[str]) -> None:
        super().__init__(f"no peer {label!r}: write one of {', '.join(known)}")


def select_cases(names: Sequence[str], *, quick: bool) -> tuple[Case, ...]:
    """The row suite's cases that `names` name, or all; a case named in full is found whether `quick` or not.

    Raises: UnknownCase.
    """
    suite = row_cases(quick=quick)
    if not names:
        return suite
    everything = row_cases(quick=False)
    for name in names:
        if name not in KERNELS and all(name != case.name for case in everything):
            raise UnknownCase(name, (case.name for case in everything))
    return tuple(case for case in everything if case.name in names or (case.kernel in names and case in suite))


def cases_containing(suite: Sequence[Case], texts: Sequence[str]) -> tuple[Case, ...]:
    """The cases of `suite` whose names contain one of `texts`, or all.

    Raises: NoSuchCase.
    """
    for text in texts:
        if all(text not in case.name for case in suite):
            raise NoSuchCase(text, (case.name for case in suite))
    return tuple(case for case in suite if not texts or any(text in case.name for text in texts))


def select_peers(labels: Sequence[str], entries: Iterable[Entry]) -> frozenset[str]:
    """The labels, checked against those of `entries`; all of them where none is named.

    Raises: UnknownPeer.
    """
    known = labels_of(entries)
    for label in labels:
        if label not in known:
            raise UnknownPeer(label, known)
    return frozenset(labels or known)
