"""The program that a candidate's tiles leave, with its phases: what every other choice of the candidate refers to.
Must not know targets or other choices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from autotune.ir.phases import PhaseGraph, phase_graph
from autotune.ir.program import Program
from autotune.ir.specialize import Blocks, specialize
from autotune.realizations.candidate import Tile


@dataclass(frozen=True, eq=False)
class Tiled:
    """A program under one choice of blocks: equal programs are one object."""

    program: Program
    graph: PhaseGraph


def tiled(program: Program, tiles: Iterable[Tile]) -> Tiled:
    """The program as the given blocks leave it."""
    return _tiled(program, tuple(sorted((tile.axis, tile.block) for tile in tiles)))


@lru_cache(maxsize=2048)
def _tiled(program: Program, blocks: Blocks) -> Tiled:
    return _view(specialize(program, blocks))


@lru_cache(maxsize=512)
def _view(program: Program) -> Tiled:
    return Tiled(program, phase_graph(program))
