"""Where a line of a finished program stands in the kernel's file.
Must not know programs."""

from __future__ import annotations

import linecache
from dataclasses import dataclass

from autotune.errors import Place
from autotune.language.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Turns line numbers of statements back into places of the kernel's file."""

    source: Source

    def line(self, number: int) -> Place:
        """The start of a line; line 0 stands for the kernel as a whole."""
        if number == 0:
            return self.source.place(self.source.tree)
        text = linecache.getline(self.source.file, number).rstrip("\n")
        column = len(text) - len(text.lstrip()) + 1
        return Place(file=self.source.file, line=number, column=column, text=text)
