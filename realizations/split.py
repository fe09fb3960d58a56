"""Split of a sequential reduction over several programs: refusals.
Must not know costs or instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from autotune.realizations.candidate import Split
from autotune.realizations.verdict import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWithoutMerge(Refusal):
    rule: ClassVar[str] = "split-without-merge"
    parts: int

    @property
    def sentence(self) -> str:
        return f"a split into {self.parts} parts needs a loop with a merge rule; this program has none"


def refuse(split: Split) -> Iterator[Refusal]:
    """No loop of a row kernel names a merge rule, so only one part is legal."""
    if split.parts != 1:
        yield SplitWithoutMerge(parts=split.parts)
