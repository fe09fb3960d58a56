"""NumPy's own OpenBLAS as function pointers: its library, its two products of float32, and its number of threads.
Must not know what is multiplied."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

_PREFIX, _SUFFIX = "scipy_", "64_"
"""How the OpenBLAS of NumPy's wheels names its functions; the suffix says that integers have 64 bits."""


class NoOpenBlas(RuntimeError):
    """NumPy brings no OpenBLAS that can be called."""

    def __init__(self, looked_in: tuple[Path, ...]) -> None:
        places = ", ".join(map(str, looked_in))
        super().__init__(
            f"no OpenBLAS with {_PREFIX}cblas_sgemm{_SUFFIX} in {places}: install NumPy from its own wheel"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBlas:
    """Addresses of `cblas_sgemm` and `cblas_sgemv` with 64-bit integers, and the kernels it chose for this machine."""

    sgemm: int
    sgemv: int
    core: str


@cache
def _library() -> ctypes.CDLL:
    package = Path(np.__file__).resolve().parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    for path in _candidates(folders):
        library = ctypes.CDLL(str(path))
        if hasattr(library, f"{_PREFIX}cblas_sgemm{_SUFFIX}"):
            return library
    raise NoOpenBlas(folders)


def _candidates(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(folder.glob("*openblas*"))


def _address(name: str) -> int:
    value = ctypes.cast(getattr(_library(), f"{_PREFIX}{name}{_SUFFIX}"), ctypes.c_void_p).value
    assert value is not None
    return value


def threads() -> int:
    """How many threads NumPy's OpenBLAS uses."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(_address("openblas_get_num_threads"))())


def one_thread() -> None:
    """Let NumPy's OpenBLAS use one thread, for NumPy's own products in this process as well."""
    ctypes.CFUNCTYPE(None, ctypes.c_int)(_address("openblas_set_num_threads"))(1)


def find() -> OpenBlas:
    """NumPy's OpenBLAS.

    Raises: NoOpenBlas.
    """
    core = ctypes.CFUNCTYPE(ctypes.c_char_p)(_address("openblas_get_corename"))()
    return OpenBlas(sgemm=_address("cblas_sgemm"), sgemv=_address("cblas_sgemv"), core=core.decode())
