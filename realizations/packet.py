"""Full and general clones of a packet's body, the two code budgets and the recorded decision.
Must not know costs; counts builder instructions, never LLVM's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from autotune.ir.program import For, Program, statements
from autotune.realizations.candidate import Clones
from autotune.realizations.predicates import known_prefix
from autotune.realizations.target import Target
from autotune.realizations.verdict import Refusal


class CloneDecision(Enum):
    """What became of a request for a full clone."""

    NOT_REQUESTED = "not requested"
    INELIGIBLE = "ineligible"
    OVER_SOURCE_BUDGET = "over source budget"
    OVER_CLONE_BUDGET = "over clone budget"
    SELECTED = "selected"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneIneligible(Refusal):
    rule: ClassVar[str] = "clone-ineligible"

    @property
    def sentence(self) -> str:
        return "a full clone needs packets of which some are whole and some partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSourceBudget(Refusal):
    rule: ClassVar[str] = "over-source-budget"
    instructions: int
    limit: int

    @property
    def sentence(self) -> str:
        return (
            f"the general body has {self.instructions} builder instructions; at most {self.limit} may be kept or cloned"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverCloneBudget(Refusal):
    rule: ClassVar[str] = "over-clone-budget"
    instructions: int
    limit: int

    @property
    def sentence(self) -> str:
        return f"the full clone has {self.instructions} builder instructions; at most {self.limit} may be retained"


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToSplitAt(Refusal):
    rule: ClassVar[str] = "nothing-to-split-at"
    loop: int

    @property
    def sentence(self) -> str:
        return f"loop a{self.loop} has no comparison of indices that is known to hold for its first coordinates"


def refuse_predicates(program: Program, predicates: Sequence[int]) -> Iterator[Refusal]:
    """A loop is split only where some comparison inside it is decided by that."""
    loops = {s.axis: s for s in statements(program.body) if isinstance(s, For)}
    for axis in predicates:
        if axis not in loops or known_prefix(program, loops[axis]) is None:
            yield NothingToSplitAt(loop=axis)


def decide(clones: Clones, partial: bool, general: int, full: int, target: Target) -> CloneDecision:
    """The decision on a full clone.

    Units: `general` and `full` are builder instructions of the body without and with the assumption that every block
    is whole; `partial` says whether some packet is not.
    """
    if clones is Clones.GENERAL:
        return CloneDecision.NOT_REQUESTED
    if not partial:
        return CloneDecision.INELIGIBLE
    if general > target.source_budget_instructions:
        return CloneDecision.OVER_SOURCE_BUDGET
    if full > target.clone_budget_instructions:
        return CloneDecision.OVER_CLONE_BUDGET
    return CloneDecision.SELECTED


def budgets(clones: Clones, target: Target) -> tuple[int, int | None]:
    """Builder instructions that the general and the full body may have; None where there is no full one."""
    return target.source_budget_instructions, target.clone_budget_instructions if clones is Clones.FULL else None


def refuse(clones: Clones, partial: bool, general: int, full: int, target: Target) -> Iterator[Refusal]:
    """Budgets of a candidate's bodies."""
    match decide(clones, partial, general, full, target):
        case CloneDecision.INELIGIBLE:
            yield CloneIneligible()
        case CloneDecision.OVER_SOURCE_BUDGET:
            yield OverSourceBudget(instructions=general, limit=target.source_budget_instructions)
        case CloneDecision.OVER_CLONE_BUDGET:
            yield OverCloneBudget(instructions=full, limit=target.clone_budget_instructions)
        case CloneDecision.NOT_REQUESTED:
            if general > target.source_budget_instructions:
                yield OverSourceBudget(instructions=general, limit=target.source_budget_instructions)
        case CloneDecision.SELECTED:
            pass
