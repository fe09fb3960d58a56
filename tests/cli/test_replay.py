"""`autotune replay` shows a failure again, and says where it ends otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.cli.exits import ExitCode
from autotune.jit import host_target
from autotune.measure.states import CompileError, Crash
from autotune.realizations.candidate import Mapping
from autotune.realizations.reference import reference_candidate
from autotune.search.repro import Inputs, Repro, write_repro
from tests.conformance.cases import bound

from .conftest import Command


@pytest.fixture
def sound() -> Repro:
    """A candidate that is right, recorded as a crash."""
    workload, target = bound("rmsnorm", "M=5,N=13"), host_target()
    return Repro(
        program=workload.program,
        target=target,
        inputs=Inputs(sizes=workload.sizes, scalars={"eps": 1e-5}, seed=7),
        candidate=reference_candidate(workload.program, target),
        end=Crash(signal="SIGSEGV", stage="check on normal data", peak_bytes=1 << 20),
    )


def test_an_end_that_does_not_come_again_has_its_own_code(command: Command, sound: Repro, tmp_path: Path) -> None:
    write_repro(tmp_path / "kept", sound)
    ran = command("replay", tmp_path / "kept")
    assert ran.code == ExitCode.ENDED_OTHERWISE
    assert "recorded: crash: died of SIGSEGV" in ran.out and "now: measured" in ran.out
    assert "another end" in ran.out


def test_the_same_end_is_a_success(command: Command, sound: Repro, tmp_path: Path) -> None:
    """Of a candidate that no rule admits: the worker that compiles it says so every time."""
    illegal = replace(
        sound.candidate, mapping=tuple((p, Mapping(axis=99, lanes=3)) for p, _ in sound.candidate.mapping)
    )
    write_repro(tmp_path / "first", replace(sound, candidate=illegal))
    document = json.loads(command("replay", tmp_path / "first", "--json").out)
    assert document["found"]["type"] == "CompileError" and not document["same"]
    write_repro(tmp_path / "again", replace(sound, candidate=illegal, end=CompileError(text=document["found"]["text"])))
    ran = command("replay", tmp_path / "again")
    assert ran.code == ExitCode.IMPROVED and "the same end" in ran.out


def test_a_folder_without_a_failure_is_bad_input(command: Command, tmp_path: Path) -> None:
    ran = command("replay", tmp_path)
    assert ran.code == ExitCode.BAD_INPUT and "holds no failure to replay" in ran.err
