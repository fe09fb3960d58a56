"""Which cases and peers a run takes, from what the user wrote.
Must not import any peer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.cases import KERNELS, Case, row_cases
from benchmarks.peers import LABELS


class UnknownCase(ValueError):
    """No case and no kernel of the suite has this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(
            f"no case or kernel {name!r}: write a kernel ({', '.join(KERNELS)}) or one of {', '.join(known)}"
        )


class UnknownPeer(ValueError):
    """No peer has this label."""

    def __init__(self, label: str) -> None:
        super().__init__(f"no peer {label!r}: write one of {', '.join(LABELS)}")


def select_cases(names: Sequence[str], *, quick: bool) -> tuple[Case, ...]:
    """The suite's cases that `names` name, or all; a case named in full is found whether `quick` or not.

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


def select_peers(labels: Iterable[str]) -> frozenset[str]:
    """The labels, checked.

    Raises: UnknownPeer.
    """
    chosen = frozenset(labels)
    for label in sorted(chosen):
        if label not in LABELS:
            raise UnknownPeer(label)
    return chosen
