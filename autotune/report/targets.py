"""The table of instruction sets.
Must not know the machine it is printed on; what runs here is an argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from autotune.ir.types import DType
from autotune.realizations.target import Target
from autotune.report.screen import table
from autotune.report.units import bytes_text

_ABILITIES = {"has_fma": "fma", "has_gather": "gather", "has_scatter": "scatter", "has_table_permute": "permute"}


def targets_table(targets: Sequence[Target], runs_here: Mapping[str, bool], default: str) -> Table:
    """One row an instruction set; `default` is the one that plain `simd` means on this machine."""
    made = table(
        "Targets",
        "target",
        "here",
        "f32 lanes",
        "registers",
        "masked bits",
        "has",
        "L1",
        "L2",
        "L3",
        numbers=("f32 lanes",),
    )
    for target in targets:
        here = "compiles only" if not runs_here[target.name] else "default" if target.name == default else "runs"
        made.add_row(
            f"simd:{target.name}",
            here,
            str(target.lanes(DType.F32)),
            str(target.vector_registers),
            _masks(target),
            ", ".join(_abilities(target)) or "-",
            *(bytes_text(size) for size in (target.l1_bytes, target.l2_bytes, target.l3_bytes)),
        )
    return made


def targets_document(targets: Sequence[Target], runs_here: Mapping[str, bool], default: str) -> dict[str, Any]:
    """Units: bytes and bits as the keys say."""
    return {
        "default": default,
        "targets": [
            {
                "name": target.name,
                "runs_here": runs_here[target.name],
                "vector_bytes": target.vector_bytes,
                "vector_registers": target.vector_registers,
                "masked_sizes_bytes": list(target.masked_sizes_bytes),
                "abilities": _abilities(target),
                "cpu": target.cpu,
                "features": target.features,
                "l1_bytes": target.l1_bytes,
                "l2_bytes": target.l2_bytes,
                "l3_bytes": target.l3_bytes,
            }
            for target in targets
        ],
    }


def _abilities(target: Target) -> list[str]:
    return [name for field, name in _ABILITIES.items() if getattr(target, field)]


def _masks(target: Target) -> str:
    return " ".join(str(8 * size) for size in target.masked_sizes_bytes) or "-"
