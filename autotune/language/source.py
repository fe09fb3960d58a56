"""A function's source: its syntax tree and the places in its file.
Must not know the language's meaning."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import NotAFunction, Place, SourceUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Parsed source of one function, with the outside names its text can see."""

    file: str
    tree: ast.FunctionDef
    lines: tuple[str, ...]
    first_line: int
    indent: int
    outside: Mapping[str, object]

    def place(self, node: ast.AST) -> Place:
        """Where a node of the tree stands in the file."""
        line = getattr(node, "lineno", 1)
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        column = getattr(node, "col_offset", 0) + 1
        return Place(file=self.file, line=line + self.first_line - 1, column=column + self.indent, text=text)

    def line(self, node: ast.AST) -> int:
        return int(getattr(node, "lineno", 1)) + self.first_line - 1


def read_source(function: Callable[..., Any]) -> Source:
    """Source of a plain Python function.

    Raises: NotAFunction; SourceUnavailable where its text is not in a file.
    """
    if not inspect.isfunction(function):
        raise NotAFunction(found=type(function).__name__)
    try:
        lines, first_line = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise SourceUnavailable(name=function.__name__) from None
    text = "".join(lines)
    dedented = textwrap.dedent(text)
    tree = ast.parse(dedented).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise NotAFunction(found="a lambda or a coroutine")
    closure = inspect.getclosurevars(function)
    return Source(
        file=inspect.getsourcefile(function) or "<unknown>",
        tree=tree,
        lines=tuple(line.rstrip("\n") for line in lines),
        first_line=max(first_line, 1),
        indent=len(lines[0]) - len(lines[0].lstrip()),
        outside={**function.__globals__, **closure.nonlocals},
    )
