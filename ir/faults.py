"""What a check of a program's form reports.
Must not know any rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from autotune.ir.program import Program
from autotune.ir.text import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong, and the part of the program where it shows."""

    item: Item
    message: str


Check: TypeAlias = Callable[[Program], Iterator[Fault]]
