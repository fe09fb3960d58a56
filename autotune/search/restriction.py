"""Which mechanisms a search leaves out: those off by default, less what a user allows, and what a user forbids.
Must not know what a mechanism is beyond its name."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.realizations.mechanisms import NAMES, OFF_BY_DEFAULT
from autotune.search.errors import ForbiddenAndAllowed, UnknownMechanism


def forbidden_mechanisms(forbid: Iterable[str] = (), allow: Iterable[str] = ()) -> frozenset[str]:
    """The names that no candidate of a search but the reference may use.

    Raises: UnknownMechanism, ForbiddenAndAllowed.
    """
    without, wanted = frozenset(forbid), frozenset(allow)
    for name in sorted(without | wanted):
        if name not in NAMES:
            raise UnknownMechanism(name=name, known=", ".join(NAMES))
        if name in without and name in wanted:
            raise ForbiddenAndAllowed(name=name)
    return (OFF_BY_DEFAULT - wanted) | without
