"""The verb that looks at the machine."""

from __future__ import annotations

import json

import pytest

from autotune.cli.exits import ExitCode
from autotune.measure import twins
from autotune.measure.noise import NoiseFloor

from .conftest import Command

NOISE = NoiseFloor(median=0.0012, p95=0.01, rounds=45, races=3, false_calls=0, redone_rounds=0)


@pytest.fixture(autouse=True)
def known_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "machine_noise", lambda: NOISE)


def test_each_reading_is_shown_with_a_verdict_and_nothing_is_an_error(command: Command) -> None:
    ran = command("doctor")
    assert ran.code == ExitCode.IMPROVED and ran.err == ""
    for subject in ("governor", "turbo", "load", "steal", "quota", "siblings", "memory nodes", "L1 cache", "timer"):
        assert any(line.startswith(subject) for line in ran.out.splitlines()), subject
    assert "0.12 %, 1.00 % in 1 of 20 rounds" in ran.out


def test_the_document_has_the_raw_readings_and_the_findings(command: Command) -> None:
    document = json.loads(command("doctor", "--json").out)
    assert document["state"]["cores"] >= 1 and document["state"]["timer_ns"] > 0
    verdicts = {finding["subject"]: finding["verdict"] for finding in document["findings"]}
    assert set(verdicts.values()) <= {"good", "mind", "bad"}
    assert verdicts["noise floor"] == "good" and len(verdicts) == 14


def test_quiet_prints_nothing(command: Command) -> None:
    assert command("doctor", "--quiet").out == ""
