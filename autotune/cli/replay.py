"""`autotune replay`: a failure that a search wrote down, seen again under the same limits.
Must not know how a candidate is built or checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.exits import ExitCode
from autotune.cli.options import AsJson, Quiet
from autotune.cli.verb import verb

if TYPE_CHECKING:
    from autotune.measure.inputs import Generator
    from autotune.measure.states import Outcome
    from autotune.search.repro import Inputs, Repro


@verb
def replay(
    folder: Annotated[Path, typer.Argument(help="A folder under 'repro' beside the policy store.", show_default=False)],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Compile, check and time the candidate of a repro folder once more.

    It runs in worker processes with the limits of a search, so a crash ends a worker and not this command.
    """
    from autotune.report.document import print_document
    from autotune.report.screen import output
    from autotune.search.ledger import failure_cause, failure_sentence
    from autotune.search.repro import read_repro

    failure = read_repro(folder)
    found = ended(failure)
    same = (found.state, failure_cause(found)) == (failure.end.state, failure_cause(failure.end))
    if as_json:
        print_document({"candidate": failure.candidate.id, "recorded": failure.end, "found": found, "same": same})
    elif not quiet:
        output().print(f"candidate {failure.candidate.id}", style="bold", soft_wrap=True)
        output().print(f"recorded: {failure.end.state.value}: {failure_sentence(failure.end)}", soft_wrap=True)
        output().print(f"now: {found.state.value}: {failure_sentence(found)}", soft_wrap=True)
        output().print("the same end" if same else "another end than the one recorded", soft_wrap=True)
    return ExitCode.IMPROVED if same else ExitCode.ENDED_OTHERWISE


def ended(failure: Repro) -> Outcome:
    """How the candidate ends now.

    Raises: UnreadableRepro where its inputs need a kernel file that is gone; CannotRunHere.
    """
    from autotune.jit import can_run
    from autotune.measure.cases import make_cases
    from autotune.measure.server import ForkServer
    from autotune.measure.session import Session, WorkerFailure
    from autotune.measure.states import CompileError, CompileTimeout, Crash
    from autotune.search.errors import CannotRunHere

    if not can_run(failure.target):
        raise CannotRunHere(target=f"simd:{failure.target.name}")
    inputs, seed = failure.inputs, failure.inputs.seed
    cases = make_cases(failure.program, seed, sizes=inputs.sizes, scalars=inputs.scalars, generator=_generator(inputs))
    with ForkServer() as server, Session(server, failure.program, failure.target, cases, seed=seed) as session:
        made = session.compile(failure.candidate).result()
        if isinstance(made, CompileError | CompileTimeout | Crash):
            return made
        try:
            return session.evaluate(made)
        except WorkerFailure as error:
            return Crash(signal="exception in the worker", stage=str(error).splitlines()[0], peak_bytes=0)


def _generator(inputs: Inputs) -> Generator | None:
    """The input generator of the kernel's own file, where it had one."""
    from autotune.language.load import load_kernels

    if inputs.generator is None:
        return None
    file, name = inputs.generator
    return load_kernels(file)[name].inputs_function
