"""Order of program axes, grain and threads: refusals.
Must not know costs or instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from autotune.ir.program import Program
from autotune.realizations.candidate import Schedule
from autotune.realizations.verdict import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderNotRealized(Refusal):
    rule: ClassVar[str] = "order-not-realized"
    order: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return f"program axes are walked in program order; the order {self.order} is not realized yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadsNotRealized(Refusal):
    rule: ClassVar[str] = "threads-not-realized"
    threads: int

    @property
    def sentence(self) -> str:
        return f"a call runs on one thread; {self.threads} threads are not realized yet"


def refuse(program: Program, schedule: Schedule) -> Iterator[Refusal]:
    """One thread, program order."""
    if schedule.order not in ((), program.parallel):
        yield OrderNotRealized(order=schedule.order)
    if schedule.threads != 1:
        yield ThreadsNotRealized(threads=schedule.threads)
