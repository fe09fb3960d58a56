"""What a machine's readings mean: a verdict each, and advice wherever it is not good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.measure.health import Finding, Verdict, findings
from autotune.measure.machine import MachineState
from autotune.measure.noise import NoiseFloor
from autotune.realizations.targets import named_target

TARGET = named_target("avx2")
QUIET = NoiseFloor(median=0.002, p95=0.01, rounds=45, races=3, false_calls=0, redone_rounds=0)
IDEAL = MachineState(
    core=3,
    cores=4,
    governor="performance",
    turbo=False,
    load_average=0.1,
    steal=0.0,
    quota_cores=None,
    siblings=frozenset(),
    nodes=1,
    caches_bytes=((1, TARGET.l1_bytes), (2, TARGET.l2_bytes), (3, TARGET.l3_bytes)),
    huge_pages="madvise",
    array_alignments=(64, 128),
    timer_ns=40,
)


def found(state: MachineState, noise: NoiseFloor | None = QUIET) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings(state, TARGET, noise)}


def test_an_ideal_machine_has_nothing_but_good_findings() -> None:
    everything = found(IDEAL)
    assert {finding.verdict for finding in everything.values()} == {Verdict.GOOD}
    assert len(everything) == 14 and not any(finding.advice for finding in everything.values())


@pytest.mark.parametrize(
    ("subject", "change", "verdict", "says"),
    [
        ("governor", {"governor": "powersave"}, Verdict.MIND, "frequency-set -g performance"),
        ("governor", {"governor": None}, Verdict.MIND, "host decides"),
        ("turbo", {"turbo": True}, Verdict.MIND, "boost"),
        ("turbo", {"turbo": None}, Verdict.MIND, "side by side"),
        ("load", {"load_average": 2.5}, Verdict.MIND, "end what else runs"),
        ("load", {"load_average": 4.0}, Verdict.BAD, "end what else runs"),
        ("steal", {"steal": 0.01}, Verdict.MIND, "host with free"),
        ("steal", {"steal": 0.05}, Verdict.BAD, "host with free"),
        ("quota", {"quota_cores": 2.0}, Verdict.MIND, "at least 2"),
        ("quota", {"quota_cores": 0.5}, Verdict.BAD, "at least 2"),
        ("siblings", {"siblings": frozenset({1})}, Verdict.MIND, "keeps off"),
        ("siblings", {"siblings": frozenset({1}), "cores": 2}, Verdict.BAD, "one more core"),
        ("memory nodes", {"nodes": 2}, Verdict.MIND, "numactl"),
        ("L2 cache", {"caches_bytes": ((1, TARGET.l1_bytes), (2, 12345))}, Verdict.BAD, "--target simd"),
        ("L3 cache", {"caches_bytes": ()}, Verdict.MIND, "misjudge"),
        ("arrays", {"array_alignments": (64, 16)}, Verdict.MIND, "--alignment 16"),
        ("huge pages", {"huge_pages": "never"}, Verdict.MIND, "transparent_hugepage"),
        ("timer", {"timer_ns": 15_000_000}, Verdict.BAD, "clocksource"),
        ("timer", {"timer_ns": 0}, Verdict.BAD, "clocksource"),
    ],
)
def test_a_reading_that_disturbs_is_named_with_what_to_do(
    subject: str, change: dict[str, object], verdict: Verdict, says: str
) -> None:
    finding = found(replace(IDEAL, **change))[subject]  # type: ignore[arg-type]
    assert finding.verdict is verdict and says in finding.advice


def test_readings_that_are_good_with_a_limit_or_without_a_counter() -> None:
    assert found(replace(IDEAL, quota_cores=4.0))["quota"].verdict is Verdict.GOOD
    assert found(replace(IDEAL, steal=None))["steal"].verdict is Verdict.GOOD


def test_the_noise_floor_is_judged_by_its_size_and_by_false_calls() -> None:
    verdicts = [
        found(IDEAL, noise)["noise floor"].verdict
        for noise in (QUIET, replace(QUIET, false_calls=1), replace(QUIET, median=0.03), None)
    ]
    assert verdicts == [Verdict.GOOD, Verdict.MIND, Verdict.BAD, Verdict.BAD]
