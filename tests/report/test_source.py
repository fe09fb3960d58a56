"""The source of a candidate rebuilds it, in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autotune.realizations.candidate import Candidate
from autotune.realizations.reference import reference_candidate
from autotune.realizations.targets import named_target
from autotune.report.source import candidate_source
from autotune.search.families import Family
from tests.conformance.cases import ROOT, bound, families

_TARGET = named_target("sse2")


def _middle(found: list[Family]) -> Candidate:
    family = found[len(found) // 2]
    return family.candidate([0] * len(family.tables))


@pytest.mark.parametrize(
    ("example", "shape"),
    [
        ("softmax", {"M": 5, "N": 13}),
        ("attention", {"B": 1, "Hq": 2, "Hkv": 1, "Q": 3, "K": 17, "D": 8, "Dv": 8, "scale": 0.25}),
    ],
)
def test_source_makes_the_same_candidate_and_compiles_it(
    example: str, shape: dict[str, int | float], tmp_path: Path
) -> None:
    text = ",".join(f"{name}={value}" for name, value in shape.items() if name != "scale")
    workload = bound(example, text)
    found, _ = families(workload, _TARGET)
    candidates = [reference_candidate(workload.program, _TARGET), _middle(found)]
    program = ""
    for candidate in candidates:
        program += candidate_source(
            candidate,
            file=ROOT / "examples" / f"{example}.py",
            kernel=workload.kernel.name,
            shape=shape,
            target="simd:sse2",
        )
    path = tmp_path / "made.py"
    path.write_text(program)
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, timeout=120)
    lines = ran.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [candidate.id for candidate in candidates]
    assert all(int(line.split()[1]) > 0 for line in lines)
