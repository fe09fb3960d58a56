"""autotune: fused tensor kernels made fast on a CPU. This file offers the names that kernels and their callers use.
Must not import anything heavy; every name is fetched when first asked for."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from autotune.language.builtins import NAMES

__version__ = "0.1.0"

_ELSEWHERE = {
    "kernel": "autotune.language.kernel",
    "function": "autotune.language.kernel",
    "Kernel": "autotune.language.kernel",
    "trace": "autotune.language.trace",
    "interpret": "autotune.language.oracle",
    "load_kernels": "autotune.language.load",
    "search": "autotune.tune",
}


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return NAMES[name]
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"autotune has no {name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES, *_ELSEWHERE})


class _Package(ModuleType):
    """This package; two of its functions have the name of a subpackage, which importing that would put in their place.

    The subpackages stay reachable as `from autotune.search import ...`.
    """

    @property
    def search(self) -> Any:
        return __getattr__("search")

    @search.setter
    def search(self, _subpackage: ModuleType) -> None:
        """The import system binds the subpackage here."""

    @property
    def store(self) -> Any:
        return __getattr__("store")

    @store.setter
    def store(self, _subpackage: ModuleType) -> None:
        """The import system binds the subpackage here."""


sys.modules[__name__].__class__ = _Package
