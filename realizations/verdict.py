"""Verdicts on candidates: legal, or refused for reasons that carry the values which broke a rule.
Must not know any rule; each kind of choice defines its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeAlias


class Refusal(ABC):
    """Why a candidate is not legal. Subclasses are frozen dataclasses; `rule` is the name users see."""

    rule: ClassVar[str]

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What was asked for and what stands against it, with the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legal:
    """The candidate may be emitted exactly as it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The candidate may not be emitted; at least one reason."""

    reasons: tuple[Refusal, ...]


Verdict: TypeAlias = Legal | Refused
