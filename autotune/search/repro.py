"""Folders from which a failure can be seen again: the program, the candidate, the inputs' seed, and how it ended.
Must not know how a candidate is checked, nor load anything but data."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from autotune import build, jit
from autotune.errors import AutotuneError
from autotune.ir.program import Number, Program
from autotune.ir.serial import Json, MalformedJson, from_json, to_json
from autotune.measure.states import Crash, Outcome, Timeout, Wrong, outcome_from_json, outcome_to_json
from autotune.realizations.candidate import Candidate
from autotune.realizations.target import Target

FORMAT = 1
DATA, TEXT, README = "failure.json", "entry.ll", "README.txt"
FOLDER = "repro"  # beside the policy database
_log = logging.getLogger(__name__)


class UnreadableRepro(AutotuneError):
    """A folder that no search wrote, or that another version wrote."""

    sentence = "{path} holds no failure to replay: {problem}"
    remedy = "expected a folder that a search wrote under 'repro', with {name} in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a failure's inputs are made from: sizes by dimension, scalars by name, the seed, and the file and name of
    the kernel where it brings a generator of its own."""

    sizes: Mapping[str, int]
    scalars: Mapping[str, Number]
    seed: int
    generator: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repro:
    """One failure: everything that its candidate's check depends on, and how it ended."""

    program: Program
    target: Target
    inputs: Inputs
    candidate: Candidate
    end: Outcome


class ReproFolder:
    """Writes failures of one search, a folder each, named by the candidate; a later one takes the place of an earlier.

    A failure that cannot be written is a warning: the search goes on.
    """

    def __init__(self, folder: Path, program: Program, target: Target, inputs: Inputs) -> None:
        self.folder = folder
        self._program, self._target, self._inputs = program, target, inputs

    def keep(self, candidate: Candidate, end: Outcome) -> None:
        """Write a crash, a wrong result or a timeout; nothing for other ends."""
        if not isinstance(end, Crash | Wrong | Timeout):
            return
        failure = Repro(program=self._program, target=self._target, inputs=self._inputs, candidate=candidate, end=end)
        try:
            write_repro(self.folder / candidate.id, failure)
        except OSError as error:
            _log.warning("the failure of candidate %s was not written to %s: %s", candidate.id, self.folder, error)


def write_repro(path: Path, failure: Repro) -> None:
    """Write one folder, whole or not at all.

    Raises: OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        (partial / DATA).write_text(json.dumps(_data(failure), indent=1), encoding="utf-8")
        (partial / TEXT).write_text(_llvm(failure), encoding="utf-8")
        (partial / README).write_text(
            f"Candidate {failure.candidate.id} ended as {failure.end.state.value!r}.\n"
            f"See it again: autotune replay {path}\n",
            encoding="utf-8",
        )
        if path.exists():
            shutil.rmtree(path)
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_repro(path: Path) -> Repro:
    """Raises: UnreadableRepro."""
    try:
        data = json.loads((path / DATA).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise UnreadableRepro(path=path, name=DATA, problem=f"its format is not {FORMAT}")
        inputs = data["inputs"]
        return Repro(
            program=from_json(Program, data["program"]),
            target=from_json(Target, data["target"]),
            inputs=Inputs(
                sizes={str(name): int(size) for name, size in inputs["sizes"].items()},
                scalars=dict(inputs["scalars"]),
                seed=int(inputs["seed"]),
                generator=None if inputs["generator"] is None else (inputs["generator"][0], inputs["generator"][1]),
            ),
            candidate=Candidate.from_json(data["candidate"]),
            end=outcome_from_json(data["end"]),
        )
    except OSError as error:
        raise UnreadableRepro(path=path, name=DATA, problem=str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, MalformedJson) as error:
        raise UnreadableRepro(path=path, name=DATA, problem=f"{type(error).__name__}: {error}") from error


def _data(failure: Repro) -> Json:
    inputs = failure.inputs
    return {
        "format": FORMAT,
        "versions": {"llvm": jit.llvm_version(), "llvmlite": version("llvmlite")},
        "program": to_json(failure.program),
        "target": to_json(failure.target),
        "inputs": {
            "sizes": dict(inputs.sizes),
            "scalars": dict(inputs.scalars),
            "seed": inputs.seed,
            "generator": inputs.generator,
        },
        "candidate": failure.candidate.to_json(),
        "end": outcome_to_json(failure.end),
    }


def _llvm(failure: Repro) -> str:
    """What the emitter writes for the candidate, or why it writes nothing."""
    try:
        plan = build.plan(failure.program, failure.candidate, failure.target)
        return build.emit_text(plan, failure.target)[0]
    except Exception as error:  # whatever ends it is what the reader of the folder wants to see
        return f"; not emitted: {type(error).__name__}: {error}\n"
