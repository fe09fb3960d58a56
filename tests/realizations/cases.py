"""The kernels of `programs/`, bound to small shapes: ones, primes, tails, nothing at all.
Must not know how they are realized."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import autotune as at
from autotune.ir.interpret import Interpretation, interpret
from autotune.ir.program import Program
from autotune.language.kernel import Kernel
from autotune.language.load import load_kernels
from tests.realizations import differential

ROWS = ("M", "A", "B")
COLUMNS = ("N", "D", "C")
FIXED = {"K": 3, "V": 9, "H": 4, "G": 4}
SHAPES = ((5, 17), (17, 31), (1, 1), (33, 7), (2, 65), (16, 16), (3, 0), (0, 4), (7, 33), (32, 15))
UNDEFINED = {
    (name, (3, 0))
    for name in ("largest_place_down", "largest_place", "integer_places", "over_two_axes", "places_of_bits")
}
"""Kernels that take the largest of nothing at some shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A bound kernel with its arguments and what its outputs must be."""

    name: str
    program: Program
    arguments: differential.Arguments
    expected: Interpretation


@cache
def kernels() -> dict[str, Kernel]:
    """Every kernel of `programs/`, by name."""
    found: dict[str, Kernel] = {}
    for file in sorted((Path(__file__).parent / "programs").glob("*.py")):
        found |= load_kernels(str(file))
    return found


def sizes_of(name: str, shape: tuple[int, int]) -> dict[str, int]:
    """Rows and columns given to the dimensions of a kernel; the others are fixed."""
    rows, columns = shape
    return {
        dim: rows if dim in ROWS else columns if dim in COLUMNS else FIXED[dim]
        for dim in at.trace(kernels()[name]).dims
    }


def shapes(name: str) -> Iterator[tuple[int, int]]:
    """The shapes at which a kernel means something."""
    return (shape for shape in SHAPES if (name, shape) not in UNDEFINED)


@cache
def bound(name: str, shape: tuple[int, int]) -> Program:
    return kernels()[name].bind(**sizes_of(name, shape))


def case(name: str, shape: tuple[int, int]) -> Case:
    """A kernel at a shape, with data from a fixed seed and outputs that hold a sentinel."""
    program = bound(name, shape)
    plain = differential.arguments_of(kernels()[name], program, sizes_of(name, shape), seed=1)
    arguments = differential.outputs_poisoned(program, plain)
    return Case(name, program, arguments, interpret(program, arguments))
