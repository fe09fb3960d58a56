"""What has been computed so far, forgotten scope by scope.
Must not know what is computed."""

from __future__ import annotations


class Memo:
    """A stack of tables: a look-up sees every open scope, a result belongs to the innermost."""

    def __init__(self) -> None:
        self._scopes: list[dict[object, object]] = [{}]

    def push(self) -> None:
        """Open a scope: what is computed in it is forgotten when it closes."""
        self._scopes.append({})

    def pop(self) -> None:
        self._scopes.pop()

    def find(self, key: object) -> object | None:
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def keep(self, key: object, value: object) -> None:
        self._scopes[-1][key] = value
