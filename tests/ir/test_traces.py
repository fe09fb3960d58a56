"""Programs that the front end makes of the examples keep every promise of this level."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.ir.parse import parse
from autotune.ir.phases import phase_graph
from autotune.ir.program import Program, bind
from autotune.ir.serial import from_json, to_json
from autotune.ir.text import canonical, fingerprint, print_program
from autotune.ir.verify import verify
from autotune.language.load import load_kernels
from tests.ir import programs

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = {name: kernel.program for path in EXAMPLES.glob("*.py") for name, kernel in load_kernels(path).items()}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("bound", [False, True], ids=["symbolic", "bound"])
def test_an_example_is_well_formed_and_read_back(name: str, bound: bool) -> None:
    program = PROGRAMS[name]
    if bound:
        program = bind(program, {d: 8 for d in program.dims})
    verify(program)
    assert parse(print_program(program)) == program
    assert canonical(parse(canonical(program))) == canonical(program)
    assert from_json(Program, json.loads(json.dumps(to_json(program)))) == program
    graph = phase_graph(program)
    assert all(e.source < e.target for e in graph.edges if not e.carried)


def test_a_program_written_by_hand_is_the_one_traced() -> None:
    assert canonical(programs.masked_softmax()) == canonical(PROGRAMS["masked_softmax"])


def test_examples_have_fingerprints_of_their_own() -> None:
    shown = {fingerprint(program) for program in PROGRAMS.values()}
    assert len(shown) == len(PROGRAMS) - 1  # short rows are RMSNorm at another shape
