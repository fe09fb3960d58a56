"""A golden table: every candidate of a declared subspace of one workload with two measured times, as JSON lines.
Must not know how candidates are measured or which strategy is played on them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from autotune.errors import AutotuneError
from autotune.ir.serial import Json, MalformedJson
from autotune.measure.states import State
from autotune.realizations.candidate import Candidate
from autotune.search.encode import ChoiceMatrix, encode

FORMAT = 1
SUFFIX = ".jsonl.gz"


class UnreadableRecording(AutotuneError):
    """A file that is no golden table of this format."""

    sentence = "{path} is no golden table: {problem}"
    remedy = "expected a file that `python -m benchmarks search --record` wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One candidate of a table.

    `first_ns` and `second_ns` are its times a call in two passes, None where it failed. Units: nanoseconds a call;
    seconds of compiling.
    """

    candidate: Candidate
    prior_ns: float
    state: State
    first_ns: float | None
    second_ns: float | None
    compile_seconds: float | None
    code_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """A table: what it is of, and its candidates. `reference` is the row of the reference candidate.

    `about` holds what the first line says: case, kernel, conditions, machine, protocol and date.
    """

    about: dict[str, Json]
    entries: tuple[Entry, ...]
    reference: int

    @property
    def name(self) -> str:
        """`gemv:M=512,K=512`."""
        return str(self.about["case"])

    def matrix(self) -> ChoiceMatrix:
        """The candidates as a choice matrix, rows in the order of the entries."""
        return encode([entry.candidate for entry in self.entries])

    def times(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """First and second times of every row, infinite where it failed. Shapes: float64[entries] each."""
        both = ([entry.first_ns, entry.second_ns] for entry in self.entries)
        array = np.array([[np.inf if ns is None else ns for ns in pair] for pair in both], np.float64).reshape(-1, 2)
        return array[:, 0], array[:, 1]

    def prior(self) -> NDArray[np.float64]:
        """The model's times when the table was made. Shapes: float64[entries]. Units: nanoseconds a call."""
        return np.array([entry.prior_ns for entry in self.entries], np.float64)


def write_recording(path: Path, recording: Recording) -> None:
    """Write a table whole or not at all; equal tables give equal bytes."""
    head = {"format": FORMAT, "reference": recording.reference, **recording.about}
    lines = [json.dumps(head), *(json.dumps(_line(entry)) for entry in recording.entries)]
    data = gzip.compress("\n".join(lines).encode() + b"\n", 9, mtime=0)
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(data)
    partial.replace(path)


def read_recording(path: Path) -> Recording:
    """Raises: UnreadableRecording."""
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        head = json.loads(lines[0])
        if head.pop("format") != FORMAT:
            raise UnreadableRecording(path=path, problem=f"its format is not {FORMAT}")
        reference = int(head.pop("reference"))
        entries = tuple(_entry(json.loads(line)) for line in lines[1:])
    except OSError as error:
        raise UnreadableRecording(path=path, problem=str(error)) from error
    except (EOFError, IndexError, KeyError, TypeError, ValueError, MalformedJson) as error:
        raise UnreadableRecording(path=path, problem=f"{type(error).__name__}: {error}") from error
    if not 0 <= reference < len(entries):
        raise UnreadableRecording(path=path, problem=f"row {reference} is not one of its {len(entries)}")
    return Recording(about=head, entries=entries, reference=reference)


def recordings_in(folder: Path) -> Iterator[Recording]:
    """Every table of a folder, by file name.

    Raises: UnreadableRecording.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        yield read_recording(path)


def _line(entry: Entry) -> Json:
    return {
        "candidate": entry.candidate.to_json(),
        "prior_ns": entry.prior_ns,
        "state": entry.state.value,
        "first_ns": entry.first_ns,
        "second_ns": entry.second_ns,
        "compile_seconds": entry.compile_seconds,
        "code_bytes": entry.code_bytes,
    }


def _entry(data: dict[str, Json]) -> Entry:
    return Entry(
        candidate=Candidate.from_json(data["candidate"]),
        prior_ns=float(data["prior_ns"]),
        state=State(data["state"]),
        first_ns=data["first_ns"],
        second_ns=data["second_ns"],
        compile_seconds=data["compile_seconds"],
        code_bytes=data["code_bytes"],
    )
