"""The cheapest combinations of one row from each table under budgets of code size: label setting, cheapest first.
Must not know what a row chooses or where its numbers come from.

A label is a choice of rows for the first few tables, with its time and its code sizes. Storage, layouts and workspace
are the structure's, the same for all labels of one run. Labels are settled by the least time that they can still come
to, so that one which others are better than in every respect is never settled at all: combinations come out in exact
order, and nothing has to be dropped for the ones that are asked for.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Protocol

MOST_LABELS = 200_000
"""Labels of one run that are settled at most: beyond, what has not come out is not looked for."""


class Sized(Protocol):
    """A row: its time, and the builder instructions it adds to the general and to the full body."""

    @property
    def ns(self) -> float: ...
    @property
    def general(self) -> int: ...
    @property
    def full(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Builder instructions that the general and the full body may have; None is no limit."""

    general: int | None = None
    full: int | None = None

    def allow(self, general: int, full: int) -> bool:
        """Whether bodies of these sizes are within both."""
        within_general = self.general is None or general <= self.general
        return within_general and (self.full is None or full <= self.full)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One row of each table. Units: nanoseconds without what is fixed; builder instructions with it."""

    ns: float
    picks: tuple[int, ...]
    general: int
    full: int


class Labels:
    """One run of label setting: take combinations from `cheapest` as long as wanted, then ask what stopped others."""

    def __init__(
        self,
        tables: Sequence[Sequence[Sized]],
        budgets: Budgets,
        *,
        general: int = 0,
        full: int = 0,
        most_labels: int = MOST_LABELS,
    ) -> None:
        """`tables` hold rows by rising time; `general` and `full` are the fixed sizes."""
        self._tables, self._budgets = tables, budgets
        self._fixed = general, full
        self._most_labels = most_labels
        later = tables[::-1]
        self._least = [*accumulate((min(row.ns for row in table) for table in later if table), initial=0.0)][::-1]
        self._least_general = [*accumulate((min(r.general for r in t) for t in later if t), initial=0)][::-1]
        self._least_full = [*accumulate((min(row.full for row in table) for table in later if table), initial=0)][::-1]
        self.settled = 0
        self.over_budget: tuple[int, int] | None = None
        """The smallest sizes that a label beyond a budget would have had, None where none was."""
        self.cut = False

    def cheapest(self) -> Iterator[Combination]:
        """Combinations within the budgets by rising time, exactly as long as `cut` stays False."""
        heap: list[tuple[float, tuple[int, ...], float, int, int]] = []

        def push(picks: tuple[int, ...], ns: float, general: int, full: int) -> None:
            """Enter the label with these rows: sizes and time are those of all but its last row."""
            table = self._tables[len(picks) - 1]
            if picks[-1] < len(table):
                bound = ns + table[picks[-1]].ns + self._least[len(picks)]
                heapq.heappush(heap, (bound, picks, ns, general, full))

        if not all(self._tables) or not self._allowed(0, *self._fixed):
            return
        if not self._tables:
            yield Combination(ns=0.0, picks=(), general=self._fixed[0], full=self._fixed[1])
            return
        push((0,), 0.0, *self._fixed)
        while heap:
            if self.settled == self._most_labels:
                self.cut = True
                return
            _, picks, before_ns, before_general, before_full = heapq.heappop(heap)
            self.settled += 1
            push((*picks[:-1], picks[-1] + 1), before_ns, before_general, before_full)
            depth = len(picks)
            row = self._tables[depth - 1][picks[-1]]
            ns, general, full = before_ns + row.ns, before_general + row.general, before_full + row.full
            if not self._allowed(depth, general, full):
                continue
            if depth == len(self._tables):
                yield Combination(ns=ns, picks=picks, general=general, full=full)
            else:
                push((*picks, 0), ns, general, full)

    def _allowed(self, depth: int, general: int, full: int) -> bool:
        """Whether the smallest rows of the later tables keep a label within the budgets."""
        sizes = general + self._least_general[depth], full + self._least_full[depth]
        if self._budgets.allow(*sizes):
            return True
        self.over_budget = sizes if self.over_budget is None else min(self.over_budget, sizes)
        return False


def feasible_count(tables: Sequence[Sequence[Sized]], budgets: Budgets, *, general: int = 0, full: int = 0) -> int:
    """How many combinations meet the budgets; `general` and `full` are the fixed sizes."""
    if not all(tables):
        return 0
    largest = (
        general + sum(max(row.general for row in table) for table in tables),
        full + sum(max(row.full for row in table) for table in tables),
    )
    if budgets.allow(*largest):
        return prod(len(table) for table in tables)
    counts = Counter({(general, full): 1})
    for table in tables:
        added = Counter((row.general, row.full if budgets.full is not None else 0) for row in table)
        following: Counter[tuple[int, int]] = Counter()
        for (g, f), count in counts.items():
            for (more_general, more_full), times in added.items():
                if budgets.allow(g + more_general, f + more_full):
                    following[g + more_general, f + more_full] += count * times
        counts = following
    return counts.total()
