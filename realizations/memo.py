"""What has been computed so far, forgotten scope by scope.
Must not know what is computed."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """A table with nested scopes: a look-up sees every open scope, a result belongs to the innermost.

    Source: one table with an undo log a scope, so that a look-up costs the same at any depth.
    """

    def __init__(self) -> None:
        self._known: dict[Key, Value] = {}
        self._undo: list[list[tuple[Key, Value | None]]] = [[]]
        self.find = self._known.get

    def push(self) -> None:
        """Open a scope: what is computed in it is forgotten when it closes."""
        self._undo.append([])

    def pop(self) -> None:
        for key, hidden in reversed(self._undo.pop()):
            if hidden is None:
                del self._known[key]
            else:
                self._known[key] = hidden

    def keep(self, key: Key, value: Value) -> None:
        self._undo[-1].append((key, self._known.get(key)))
        self._known[key] = value
