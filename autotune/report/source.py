"""A candidate as Python source that rebuilds and compiles it.
Must not know where the candidate comes from."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from enum import Enum
from pathlib import Path

from autotune.realizations.candidate import Candidate

_WIDTH = 100


def candidate_source(
    candidate: Candidate, *, file: Path, kernel: str, shape: dict[str, int | float], target: str
) -> str:
    """A program that makes the candidate, compiles it for the kernel of `file` at `shape` and prints what came out.

    Fields that have their default are left out; running it needs the package and the file, no store.
    """
    used: dict[str, set[str]] = defaultdict(set)
    made = _text(candidate, used, 0)
    used["autotune.language.load"].add("load_kernels")
    used["autotune.jit"].add("parse_target")
    used["autotune.build"].add("build")
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(used.items())]
    bound = ", ".join(f"{name}={value!r}" for name, value in shape.items())
    return "\n".join(
        [
            f'"""Candidate {candidate.id} of {kernel} at {bound} on {target}."""',
            "",
            *imports,
            "",
            f"candidate = {made}",
            f"kernel = load_kernels({str(file.absolute())!r})[{kernel!r}]",
            f"program = kernel.bind({bound})",
            f"compiled = build(program, candidate, parse_target({target!r}))",
            'print(candidate.id, compiled.code_bytes, "bytes of code")',
            "",
        ]
    )


def _text(value: object, used: dict[str, set[str]], depth: int) -> str:
    """An expression for a value; classes are noted in `used` by module."""
    if isinstance(value, Enum):
        _note(type(value), used)
        return f"{type(value).__name__}.{value.name}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        _note(type(value), used)
        given = [
            f"{f.name}={_text(getattr(value, f.name), used, depth + 1)}"
            for f in dataclasses.fields(value)
            if f.default is dataclasses.MISSING or getattr(value, f.name) != f.default
        ]
        return _wrapped(f"{type(value).__name__}(", given, ")", depth)
    if isinstance(value, tuple):
        parts = [_text(item, used, depth + 1) for item in value]
        return f"({parts[0]},)" if len(parts) == 1 else _wrapped("(", parts, ")", depth)
    return repr(value)


def _note(kind: type, used: dict[str, set[str]]) -> None:
    used[kind.__module__].add(kind.__name__)


def _wrapped(start: str, parts: list[str], end: str, depth: int) -> str:
    line = start + ", ".join(parts) + end
    if len(line) + 4 * depth <= _WIDTH and "\n" not in line:
        return line
    inner = "".join(f"\n{'    ' * (depth + 1)}{part}," for part in parts)
    return f"{start}{inner}\n{'    ' * depth}{end}"
