"""The program text and the phase graph of every example, kept as files: a change of either is seen in review.
`python -m pytest tests/test_golden.py --update-golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.ir.phases import phase_graph
from autotune.ir.text import canonical
from autotune.language.load import load_kernels

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_program_and_phases_are_the_recorded_ones(example: Path, request: pytest.FixtureRequest) -> None:
    golden = ROOT / "tests" / "golden" / f"{example.stem}.txt"
    (kernel,) = load_kernels(example).values()
    found = f"{canonical(kernel.program)}\n{phase_graph(kernel.program).text()}"
    if request.config.getoption("--update-golden"):
        golden.write_text(found)
    assert found == golden.read_text(), f"{golden.name} differs; --update-golden accepts the change"
