"""C sources compiled by the system's compiler into shared libraries of the user's cache, and loaded.
Must not know what is compiled."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

NAMES = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-shared", "-fPIC")
"""`-ffp-contract` is left as it is: GNU C fuses a multiplication and the addition of its result."""
TIMEOUT_S = 300
_CACHE = Path("autotune") / "c-libraries"


class NoCompiler(RuntimeError):
    """A C source is to be compiled where there is no compiler."""

    def __init__(self) -> None:
        super().__init__(
            f"no C compiler on the path (looked for {', '.join(NAMES)}): install one, or leave out what is C"
        )


class CompileFailed(RuntimeError):
    """The compiler refused a source."""

    def __init__(self, command: Sequence[str], said: str) -> None:
        super().__init__(f"{' '.join(command)} failed: {said.strip()[-2000:]}")


def find_compiler() -> Path:
    """The first of NAMES on the path.

    Raises: NoCompiler.
    """
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    raise NoCompiler


def cache_folder() -> Path:
    """Where the libraries are kept, outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / _CACHE


@cache
def load_library(source: Path, options: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The library of `source`, compiled with FLAGS and `options` unless the cache has it, loaded once a process.

    Raises: NoCompiler, CompileFailed.
    """
    compiler = find_compiler()
    flags = (*FLAGS, *options)
    library = cache_folder() / f"{source.stem}-{_key(compiler, source, flags)}.so"
    if not library.exists():
        _compile(compiler, source, flags, library)
    return ctypes.CDLL(str(library))


def _key(compiler: Path, source: Path, flags: tuple[str, ...]) -> str:
    """Names what decides the machine code: the flags, the compiler, this machine's features, and every source beside.

    The predefined macros carry the compiler's version and what `-march=native` means here.
    """
    parts = [" ".join(flags).encode(), _run([str(compiler), *flags, "-dM", "-E", "-x", "c", os.devnull]).encode()]
    for path in sorted((source, *source.parent.glob("*.h"))):
        parts += [path.name.encode(), path.read_bytes()]
    lengths = b"".join(len(part).to_bytes(8, "little") for part in parts)
    return hashlib.sha256(lengths + b"".join(parts)).hexdigest()[:32]


def _compile(compiler: Path, source: Path, flags: tuple[str, ...], library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Written apart and renamed: another process may be compiling the same.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        _run([str(compiler), *flags, "-o", str(made), str(source)])
        made.replace(library)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise CompileFailed(command, done.stderr)
    return done.stdout
