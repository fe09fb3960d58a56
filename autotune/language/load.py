"""Kernels out of a Python file.
Must not know how kernels are traced."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

from autotune.errors import AutotuneError, KernelFileBroken, KernelFileMissing, NoKernelInFile
from autotune.language.kernel import Kernel


def load_kernels(path: str | Path) -> dict[str, Kernel]:
    """Kernels that a file defines, by name, in the order of the file.

    Raises: KernelFileMissing, KernelFileBroken, NoKernelInFile.
    """
    file = Path(path)
    if not file.is_file():
        raise KernelFileMissing(path=path)
    module = _run(file.resolve())
    kernels = {k.name: k for k in vars(module).values() if isinstance(k, Kernel) and _is_from(k, file)}
    if not kernels:
        raise NoKernelInFile(path=path)
    return dict(sorted(kernels.items(), key=lambda item: item[1].function.__code__.co_firstlineno))


def _run(file: Path) -> object:
    """The file as a module of its own; its name keeps files of the same name apart."""
    name = f"autotune_kernels_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}_{file.stem}"
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise KernelFileBroken(path=file, problem="it is no Python file (.py)")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except AutotuneError:
        raise
    except SyntaxError as problem:
        raise KernelFileBroken(path=file, problem=f"line {problem.lineno}: {problem.msg}") from problem
    except Exception as problem:  # the file's own code may fail in any way
        raise KernelFileBroken(path=file, problem=f"{type(problem).__name__}: {problem}") from problem
    return module


def _is_from(kernel: Kernel, file: Path) -> bool:
    return Path(kernel.file).resolve() == file.resolve()
