"""A candidate and its buffer program as people read them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from autotune.ir.buffer import Transfer
from autotune.ir.buffer_text import print_buffer_program
from autotune.ir.phases import phase_graph
from autotune.ir.program import Program
from autotune.language.load import load_kernels
from autotune.realizations.candidate import Block, Buffered, Candidate, Compute
from autotune.realizations.lower import lower
from autotune.realizations.reference import reference_candidate
from autotune.realizations.targets import named_target
from autotune.report.choices import print_choices

KERNEL = """
import autotune as at


@at.kernel
def softmax(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for row in at.parallel(x.shape[0]):
        e = at.exp(x[row, :] - at.max(x[row, :]))
        y[row, :] = e / at.sum(e)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    path = tmp_path_factory.mktemp("kernel") / "softmax.py"
    path.write_text(KERNEL)
    return load_kernels(path)["softmax"].bind(M=3, N=40)


@pytest.fixture(scope="module")
def reference(program: Program) -> Candidate:
    return reference_candidate(program, named_target("avx2"))


def printed(program: Program, candidate: Candidate) -> str:
    stream = io.StringIO()
    print_choices(Console(file=stream, width=200), program, phase_graph(program), candidate)
    return stream.getvalue()


def test_every_phase_has_a_row(program: Program, reference: Candidate) -> None:
    lines = printed(program, reference).splitlines()
    for phase in phase_graph(program).phases:
        assert sum(line.startswith(f"p{phase.number} ") for line in lines) == 1


def test_choices_of_the_reference_are_named(program: Program, reference: Candidate) -> None:
    text = printed(program, reference)
    assert "8 x a1" in text
    assert "exp: " in text
    assert "clones: general" in text


def test_optional_mechanisms_are_named(program: Program, reference: Candidate) -> None:
    load = next(p.number for p in phase_graph(program).phases if p.access is not None)
    text = printed(
        program,
        Candidate(
            tiles=reference.tiles,
            mapping=reference.mapping,
            storage=((load, Buffered(layout=(1, 0))),),
            nests=reference.nests,
            transfer=((load, Transfer.TRANSPOSE),),
            compute=((load, Compute(blocks=(Block(axis=1, factor=4),), chains=2)),),
            tail=reference.tail,
            packet=reference.packet,
        ),
    )
    row = next(line for line in text.splitlines() if line.startswith(f"p{load} "))
    assert "buffer(a1, a0)" in row and "transpose" in row and "4 x a1" in row


def test_a_buffer_program_lists_buffers_loops_and_what_nests_write(program: Program, reference: Candidate) -> None:
    text = print_buffer_program(lower(program, reference))
    assert text.startswith('buffer program "softmax"\n  axis a0 row : program 3 in blocks of 1\n')
    assert "workspace 0 bytes" in text
    assert "register" in text and "holds %" in text
    assert "axis a1 N : full 40" in text and "for a1 step 1x8" in text
    assert "= max %" in text and "= sum %" in text
    assert "y[a0, a1] = %" in text
