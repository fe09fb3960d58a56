"""Repro folders read back as they were written, and nothing else is taken for one."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from autotune.measure.states import Crash, Measured, Wrong
from autotune.realizations.reference import reference_candidate
from autotune.realizations.targets import named_target
from autotune.search.repro import (
    DATA,
    README,
    TEXT,
    Inputs,
    Repro,
    ReproFolder,
    UnreadableRepro,
    read_repro,
    write_repro,
)
from tests.conformance.cases import bound

_TARGET = named_target("avx2")


@pytest.fixture(scope="module")
def failure() -> Repro:
    workload = bound("rmsnorm", "M=5,N=13")
    return Repro(
        program=workload.program,
        target=_TARGET,
        inputs=Inputs(sizes=workload.sizes, scalars={"eps": 1e-5}, seed=7, generator=("kernel.py", "rmsnorm")),
        candidate=reference_candidate(workload.program, _TARGET),
        end=Crash(signal="SIGSEGV", stage="check on normal data", peak_bytes=1 << 20, text="stack"),
    )


def test_a_folder_reads_back_as_it_was_written(failure: Repro, tmp_path: Path) -> None:
    path = tmp_path / "repro" / failure.candidate.id
    for _ in range(2):  # a later one takes the place of an earlier
        write_repro(path, failure)
        assert read_repro(path) == failure
        assert sorted(each.name for each in path.iterdir()) == sorted([DATA, TEXT, README])
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert "define void @entry" in (path / TEXT).read_text()
    assert f"autotune replay {path}" in (path / README).read_text()


def test_only_crashes_wrong_results_and_timeouts_are_kept(failure: Repro, tmp_path: Path) -> None:
    folder = ReproFolder(tmp_path / "repro", failure.program, failure.target, failure.inputs)
    folder.keep(failure.candidate, Measured(ns=1.0, samples_ns=(1.0,)))
    assert not folder.folder.exists()
    wrong = Wrong(error_over_bound=9.0, where="y[3]", kind="normal")
    folder.keep(failure.candidate, wrong)
    assert read_repro(folder.folder / failure.candidate.id).end == wrong


def test_a_folder_that_cannot_be_written_is_a_warning(
    failure: Repro, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "repro").write_text("in the way")
    folder = ReproFolder(tmp_path / "repro", failure.program, failure.target, failure.inputs)
    with caplog.at_level(logging.WARNING):
        folder.keep(failure.candidate, failure.end)
    assert "was not written" in caplog.text


@pytest.mark.parametrize(
    "content", [None, "{", "{}", json.dumps({"format": 99}), json.dumps({"format": 1, "inputs": 3})]
)
def test_what_is_no_repro_is_an_error_that_names_it(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / DATA).write_text(content)
    with pytest.raises(UnreadableRepro, match="holds no failure to replay"):
        read_repro(tmp_path)
