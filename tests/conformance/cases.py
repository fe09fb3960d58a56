"""The small shapes at which candidates of every example are checked: ones, primes and tails.
Must not know how candidates are chosen or run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autotune import jit
from autotune.calibration.prior import prior
from autotune.ir.program import Program
from autotune.language.kernel import Kernel
from autotune.language.load import load_kernels
from autotune.realizations.target import Target
from autotune.realizations.targets import named_target
from autotune.search.families import Family, families_of
from autotune.search.tables import RefusalCounts, Tables

ROOT = Path(__file__).resolve().parents[2]
_ROWS = ("M=1,N=1", "M=5,N=13", "M=19,N=67")
SHAPES = {
    "column_softmax": _ROWS,
    "gelu": _ROWS,
    "layernorm": _ROWS,
    "rmsnorm": _ROWS,
    "rope": ("H=1,S=1,D=2", "H=3,S=5,D=26", "H=2,S=19,D=70"),
    "short_rows": ("M=1,N=1", "M=5,N=3", "M=67,N=7"),
    "softmax": _ROWS,
    "swiglu": _ROWS,
}
CASES = tuple((example, shape) for example, shapes in SHAPES.items() for shape in shapes)
_FIXED_SEED = 20_240


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One example bound to one shape."""

    kernel: Kernel
    sizes: dict[str, int]
    program: Program


def kernel_of(example: str) -> Kernel:
    """The one kernel of an example file."""
    (kernel,) = load_kernels(str(ROOT / "examples" / f"{example}.py")).values()
    return kernel


def sizes_of(shape: str) -> dict[str, int]:
    """`M=5,N=13` as numbers."""
    return {name: int(size) for name, size in (entry.split("=") for entry in shape.split(","))}


def bound(example: str, shape: str) -> Workload:
    kernel, sizes = kernel_of(example), sizes_of(shape)
    program = kernel.bind(**sizes)
    return Workload(kernel=kernel, sizes=sizes, program=program)


def families(workload: Workload, target: Target) -> tuple[list[Family], RefusalCounts]:
    """Every structure with its tables, and what the rules refused on the way."""
    tables = Tables(target, prior(target), forbidden=frozenset())
    return list(families_of(workload.program, target, tables)), tables.refusals


@lru_cache(maxsize=1)
def seed_of_commit() -> int:
    """A seed that is new with every commit and the same on every machine."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    text = done.stdout.strip()
    return int(text[:8], 16) if done.returncode == 0 and text else _FIXED_SEED


def runnable_targets() -> tuple[Target, ...]:
    """The x86-64 sets that this machine has, widest first."""
    named = (named_target(name) for name in ("avx512", "avx2", "sse2"))
    return tuple(target for target in named if jit.can_run(target))
