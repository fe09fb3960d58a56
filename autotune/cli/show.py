"""`autotune show`: any stage of the road from a program to machine code.
Must not know how a stage is made."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from autotune.cli.exits import ExitCode
from autotune.cli.options import (
    LINE_BYTES,
    Alignment,
    AsJson,
    CandidateName,
    Cold,
    DatabasePath,
    File,
    KernelName,
    OneShape,
    Quiet,
    TargetName,
    Verbose,
    names,
)
from autotune.cli.question import one_kernel, one_question
from autotune.cli.setup import target_and_store
from autotune.cli.stored import Subject
from autotune.cli.verb import verb

if TYPE_CHECKING:
    from pathlib import Path

    from autotune.ir.program import Program
    from autotune.realizations.candidate import Candidate
    from autotune.realizations.target import Target


class Form(Enum):
    """The stages that can be shown; the first two need no candidate."""

    PROGRAM = "program"
    GRAPH = "graph"
    CANDIDATE = "candidate"
    BUFFERS = "buffers"
    LLVM = "llvm"
    ASM = "asm"
    PYTHON = "python"


@verb
def show(
    file: File,
    candidate: CandidateName = None,
    form: Annotated[Form, typer.Option("--as", help="Which stage.")] = Form.CANDIDATE,
    kernel: KernelName = None,
    shape: OneShape = None,
    target: TargetName = None,
    cold: Cold = None,
    alignment: Alignment = LINE_BYTES,
    db: DatabasePath = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Show any stage from program to machine code.

    Program and graph are symbolic without --shape. llvm is what the emitter writes, asm what the compiler makes
    of it, python a program that rebuilds the candidate.
    """
    if form in (Form.PROGRAM, Form.GRAPH):
        _show_program(file, form, kernel, shape, as_json=as_json)
        return ExitCode.IMPROVED
    chosen, database = target_and_store(target, db, quiet=quiet, verbose=verbose)
    subject = Subject(
        question=one_question(file, kernel, shape),
        target=chosen,
        database=database,
        cold=names(cold),
        alignment_bytes=alignment,
    )
    _show_candidate(subject, subject.candidate(candidate), form, as_json=as_json)
    return ExitCode.IMPROVED


def _show_program(file: Path, form: Form, kernel: str | None, shape: str | None, *, as_json: bool) -> None:
    from autotune.ir.phases import phase_graph
    from autotune.ir.serial import to_json
    from autotune.ir.text import print_program
    from autotune.report.document import print_document

    program = one_kernel(file, kernel).program if shape is None else one_question(file, kernel, shape).program
    match form, as_json:
        case Form.PROGRAM, False:
            typer.echo(print_program(program).rstrip("\n"))
        case Form.PROGRAM, True:
            print_document(to_json(program))
        case _, False:
            typer.echo(phase_graph(program).text().rstrip("\n"))
        case _, True:
            print_document(phase_graph(program).node_link())


def _show_candidate(subject: Subject, candidate: Candidate, form: Form, *, as_json: bool) -> None:
    from autotune.report.document import print_document
    from autotune.report.screen import output

    program = subject.question.program
    if form is Form.CANDIDATE and not as_json:
        from autotune.realizations.tiled import tiled
        from autotune.report.choices import print_choices

        output().print(f"{candidate.id} for {subject.title}\n", style="bold", soft_wrap=True)
        view = tiled(program, candidate.tiles)
        print_choices(output(), view.program, view.graph, candidate)
        return
    if form is Form.PYTHON:
        _show_source(subject, candidate, as_json=as_json)
        return
    content = (
        candidate.to_json() if form is Form.CANDIDATE else _stage(program, candidate, subject.target, form, as_json)
    )
    if as_json:
        print_document({"id": candidate.id, "title": subject.title, "form": form.value, "content": content})
    else:
        typer.echo(str(content).rstrip("\n"))


def _show_source(subject: Subject, candidate: Candidate, *, as_json: bool) -> None:
    from autotune.report.document import print_document
    from autotune.report.source import candidate_source

    question = subject.question
    text = candidate_source(
        candidate,
        file=question.path,
        kernel=question.kernel.name,
        shape=dict(question.shape),
        target=f"simd:{subject.target.name}",
    )
    if as_json:
        print_document({"id": candidate.id, "title": subject.title, "form": Form.PYTHON.value, "content": text})
    else:
        typer.echo(text.rstrip("\n"))


def _stage(program: Program, candidate: Candidate, target: Target, form: Form, as_json: bool) -> object:
    """Text of a stage, or JSON data of the buffer program."""
    from autotune import build, jit
    from autotune.ir.buffer_text import print_buffer_program
    from autotune.ir.serial import to_json

    lowered = build.plan(program, candidate, target)
    match form:
        case Form.BUFFERS:
            return to_json(lowered) if as_json else print_buffer_program(lowered)
        case Form.LLVM:
            return build.emit_text(lowered, target)[0]
        case Form.ASM:
            return jit.assembly(build.emit_text(lowered, target)[0], target)
        case Form.PROGRAM | Form.GRAPH | Form.CANDIDATE | Form.PYTHON:
            raise AssertionError(f"{form} is shown without lowering")
    assert_never(form)
