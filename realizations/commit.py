"""In which order the new states of a loop replace the old ones at the end of a trip, and which are set aside before.
Must not know buffers or nests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

StateRead = tuple[int, bool]
"""A slot whose old state is read, and whether at other places than those that are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOrder:
    """Slots whose new states are computed into memory of their own first, then the order in which all are written."""

    aside: tuple[int, ...]
    order: tuple[int, ...]


def commit_order(read: Mapping[int, frozenset[StateRead]]) -> CommitOrder:
    """Every new state written after all that read its old one; those in a circle are set aside before any is written.

    `read` gives each slot the old states from which its new one is computed. Source: mechanisms.md rows 16, 60.
    """
    left = dict(read)
    aside: list[int] = []
    order: list[int] = []
    while left:
        free = next((slot for slot in sorted(left) if not _read_by_others(slot, left)), None)
        if free is None:
            circle = [slot for slot in sorted(left) if left[slot]]
            aside.extend(circle)
            left.update(dict.fromkeys(circle, frozenset()))
            continue
        if (free, True) in left.pop(free):
            aside.append(free)
        order.append(free)
    return CommitOrder(aside=tuple(aside), order=tuple(order))


def _read_by_others(slot: int, read: Mapping[int, frozenset[StateRead]]) -> bool:
    return any(slot == old for other, found in read.items() if other != slot for old, _ in found)
