"""Makes the good and bad kernels of tests/measure/fake_build.py of candidates: the block of the first tile chooses."""

from __future__ import annotations

import fake_build  # type: ignore[import-not-found]  # tests/measure is on the path of the workers
from injected_names import NAMES  # type: ignore[import-not-found]

from autotune.build import CompiledKernel
from autotune.ir.program import Program
from autotune.realizations.candidate import Candidate
from autotune.realizations.target import Target


def build(program: Program, candidate: Candidate, target: Target, *, padding_bytes: int = 0) -> CompiledKernel:
    name = NAMES[candidate.tiles[0].block]
    made: CompiledKernel = fake_build.build(program, name, target, padding_bytes=padding_bytes)
    return made
