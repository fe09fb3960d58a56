"""A candidate as people read it: one row a phase, and what holds for the whole program.
Must not know what is legal or what anything costs."""

from __future__ import annotations

from typing import assert_never

from rich.console import Console

from autotune.ir.buffer import Transfer
from autotune.ir.phases import PhaseGraph, describe
from autotune.ir.program import Program
from autotune.realizations.candidate import Buffered, Candidate, Compute, Direct, Inline, Mapping, Storage
from autotune.report.screen import print_table, table

_COLUMNS = ("phase", "storage", "nest", "lanes", "transfer", "register block", "chains", "variants")


def print_choices(console: Console, program: Program, graph: PhaseGraph, candidate: Candidate) -> None:
    """The choices of a candidate for each phase of the bound program's graph; columns without any are left out."""
    rows = [(describe(phase), *_row(candidate, phase.number)) for phase in graph.phases]
    used = [k for k in range(len(_COLUMNS)) if any(row[k] != "-" for row in rows)]
    made = table("", *(_COLUMNS[k] for k in used), whole=("phase",))
    for row in rows:
        made.add_row(*(row[k] for k in used))
    print_table(console, made)
    for line in _whole(program, candidate):
        console.print(line, soft_wrap=True)


def axis_text(program: Program, axis: int) -> str:
    """`a1 (n)`, the name left out where the axis has none."""
    name = program.axes[axis].name
    return f"a{axis} ({name})" if name else f"a{axis}"


def _row(candidate: Candidate, phase: int) -> tuple[str, ...]:
    storage, mapping = dict(candidate.storage).get(phase), dict(candidate.mapping).get(phase)
    nest, compute = dict(candidate.nests).get(phase), dict(candidate.compute).get(phase)
    transfer = dict(candidate.transfer).get(phase, Transfer.NONE)
    return (
        "-" if storage is None else _storage(storage),
        "-" if nest is None else str(nest),
        "-" if mapping is None else _mapping(mapping),
        "-" if transfer is Transfer.NONE else transfer.value,
        *(("-", "-", "-") if compute is None else _compute(compute)),
    )


def _storage(storage: Storage) -> str:
    match storage:
        case Inline():
            return "inline"
        case Direct():
            return "direct"
        case Buffered(layout=layout):
            return f"buffer({', '.join(f'a{axis}' for axis in layout)})"
    assert_never(storage)


def _mapping(mapping: Mapping) -> str:
    return "scalar" if mapping.axis is None else f"{mapping.lanes} x a{mapping.axis}"


def _compute(compute: Compute) -> tuple[str, str, str]:
    blocks = ", ".join(f"{block.factor} x a{block.axis}" for block in compute.blocks)
    variants = ", ".join(f"{operation}: {variant}" for operation, variant in compute.variants)
    return blocks or "-", str(compute.chains), variants or "-"


def _whole(program: Program, candidate: Candidate) -> list[str]:
    tiles = ", ".join(f"{tile.block} along {axis_text(program, tile.axis)}" for tile in candidate.tiles)
    tails = ", ".join(f"nest {nest} {tail.value}" for nest, tail in candidate.tail)
    lines = [
        f"blocks: {tiles or 'none'}",
        f"tails: {tails or 'none'}",
        f"clones: {candidate.packet.value}",
    ]
    if candidate.split.parts > 1:
        lines.append(f"split over {candidate.split.parts} programs")
    if candidate.schedule.threads > 1:
        lines.append(f"threads: {candidate.schedule.threads}")
    return lines
