"""Offsets for blocks of memory that are needed at known times: three ways to find them.
Must not know programs, buffers or nests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

ALIGNMENT_BYTES = 64
PAGE_BYTES = 4096
STAGGER_BYTES = 2752
"""Distance, within a page, from the array a nest reads to the one it writes.

A load waits for an earlier store whose address agrees in the low 12 bits, so a nest that reads one array and writes
another a little further on in the page is slowed by false dependences. Two thirds of a page keeps three arrays in a
row (input, two buffers, output at the input's own offset) as far apart as they can be.
Source: masked softmax 129x512 on Zen 4, 2026-11-30: 26 to 47 µs by placement alone.
"""
ALIAS_WINDOW_BYTES = 1024
"""A written array that starts less than this after one that the same nest reads, within a page, counts as aliased.

Less than the least distance that staggering leaves between neighbours (1344 bytes); shorter arrays never count.
"""
REUSE_PENALTY = 16
"""What reuse of memory that the nest just before touched costs; one aliased pair of arrays costs 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A block of memory, named by its place in the list of all; `size_bytes` is a multiple of the alignment.

    `conflicts` may never share bytes with it; `touched` are accessed by a nest right before or after one that accesses
    this block; `read_with` are read by a nest that writes it.
    """

    size_bytes: int
    first_use: int = 0
    uses: int = 1
    conflicts: frozenset[int] = frozenset()
    touched: frozenset[int] = frozenset()
    read_with: frozenset[int] = frozenset()


Offsets: TypeAlias = tuple[int, ...]


def aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def peak(demands: Sequence[Demand], offsets: Offsets) -> int:
    """Bytes that a placement needs."""
    return max((o + d.size_bytes for d, o in zip(demands, offsets, strict=True)), default=0)


def linear_offsets(demands: Sequence[Demand]) -> Offsets:
    """One after the other in the given order, each staggered within its page."""
    offsets: list[int] = []
    top = wanted = 0
    for demand in demands:
        top += (wanted - top) % PAGE_BYTES
        offsets.append(top)
        top += demand.size_bytes
        wanted = (wanted + STAGGER_BYTES) % PAGE_BYTES
    return tuple(offsets)


def first_fit_offsets(demands: Sequence[Demand]) -> Offsets:
    """Largest first, each at the lowest place that no conflicting block takes."""
    placed: dict[int, int] = {}
    for number in _by_size(demands):
        placed[number] = next(o for o in sorted(_tops(demands, number, placed)) if _fits(demands, number, o, placed))
    return _in_order(demands, placed)


def packed_offsets(demands: Sequence[Demand]) -> Offsets:
    """The placement of least penalty, and among those of least size, that a bounded search finds.

    Blocks are placed greedily, in several orders, at canonical offsets: 0, the tops of placed blocks, and the places
    staggered against what the same nests read. Never larger than the linear placement.
    """
    straight = linear_offsets(demands)
    limit = peak(demands, straight)
    found = [straight, first_fit_offsets(demands)]
    found += [placement for order in _ORDERS if (placement := _greedy(demands, order(demands), limit)) is not None]
    return min(found, key=lambda offsets: (penalty(demands, offsets), peak(demands, offsets), offsets))


def penalty(demands: Sequence[Demand], offsets: Offsets) -> int:
    """What reuse of memory just touched and aliasing within a page are taken to cost, in aliased pairs."""
    placed: dict[int, int] = {}
    total = 0
    for number, offset in enumerate(offsets):
        total += _added_penalty(demands, number, offset, placed)
        placed[number] = offset
    return total


def _greedy(demands: Sequence[Demand], order: Iterable[int], limit: int) -> Offsets | None:
    placed: dict[int, int] = {}
    top = 0
    for number in order:
        size = demands[number].size_bytes
        fitting = [
            (_added_penalty(demands, number, offset, placed), max(top, offset + size), offset)
            for offset in _canonical(demands, number, placed)
            if offset + size <= limit and _fits(demands, number, offset, placed)
        ]
        if not fitting:
            return None
        _, top, placed[number] = min(fitting)
    return _in_order(demands, placed)


def _added_penalty(demands: Sequence[Demand], number: int, offset: int, placed: dict[int, int]) -> int:
    this = demands[number]
    cost = 0
    for other, at in placed.items():
        that = demands[other]
        if (other in this.touched or number in that.touched) and _share(this, offset, that, at):
            cost += REUSE_PENALTY
        if min(this.size_bytes, that.size_bytes) >= ALIAS_WINDOW_BYTES:
            cost += other in this.read_with and (offset - at) % PAGE_BYTES < ALIAS_WINDOW_BYTES
            cost += number in that.read_with and (at - offset) % PAGE_BYTES < ALIAS_WINDOW_BYTES
    return cost


def _canonical(demands: Sequence[Demand], number: int, placed: dict[int, int]) -> set[int]:
    bases = _tops(demands, number, placed)
    this = demands[number]
    wanted = {(placed[r] + STAGGER_BYTES) % PAGE_BYTES for r in this.read_with if r in placed}
    wanted |= {(at - STAGGER_BYTES) % PAGE_BYTES for w, at in placed.items() if number in demands[w].read_with}
    return bases | {base + (residue - base) % PAGE_BYTES for base in bases for residue in wanted}


def _tops(demands: Sequence[Demand], number: int, placed: dict[int, int]) -> set[int]:
    """0 and the first byte after each placed block that this one must keep clear of, or had better."""
    near = demands[number].conflicts | demands[number].touched
    return {0} | {placed[n] + demands[n].size_bytes for n in near if n in placed}


def _fits(demands: Sequence[Demand], number: int, offset: int, placed: dict[int, int]) -> bool:
    this = demands[number]
    return not any(_share(this, offset, demands[n], placed[n]) for n in this.conflicts if n in placed)


def _share(this: Demand, offset: int, that: Demand, at: int) -> bool:
    return offset < at + that.size_bytes and at < offset + this.size_bytes


def _in_order(demands: Sequence[Demand], placed: dict[int, int]) -> Offsets:
    return tuple(placed[number] for number in range(len(demands)))


def _by_size(demands: Sequence[Demand]) -> list[int]:
    return sorted(range(len(demands)), key=lambda n: (-demands[n].size_bytes, n))


def _by_first_use(demands: Sequence[Demand]) -> list[int]:
    return sorted(range(len(demands)), key=lambda n: (demands[n].first_use, -demands[n].size_bytes, n))


def _by_conflicts(demands: Sequence[Demand]) -> list[int]:
    return sorted(range(len(demands)), key=lambda n: (-len(demands[n].conflicts), -demands[n].size_bytes, n))


def _by_area(demands: Sequence[Demand]) -> list[int]:
    return sorted(range(len(demands)), key=lambda n: (-demands[n].size_bytes * demands[n].uses, n))


_ORDERS: tuple[Callable[[Sequence[Demand]], list[int]], ...] = (_by_size, _by_first_use, _by_conflicts, _by_area)
