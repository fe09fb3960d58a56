"""Outcomes: what may claim to be a policy, and in which order claims stand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from autotune.measure.states import State
from autotune.store.records import Rigor, policy_of, supersedes
from tests.store.samples import outcome, refusal


def test_expected_time_is_the_median_and_the_interval_its_quantiles() -> None:
    measured = outcome(samples_ns=tuple(float(n) for n in range(101)))
    assert measured.expected_ns == 50.0
    assert measured.interval_ns == (5.0, 95.0)
    assert outcome(samples_ns=(3.0,)).interval_ns == (3.0, 3.0)


def test_unmeasured_policy_takes_the_prediction_and_has_no_interval() -> None:
    guess = outcome(samples_ns=(), object_sha256=None, rigor=Rigor.MODEL, state=State.PRUNED)
    assert (guess.expected_ns, guess.interval_ns) == (99.5, None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samples_ns": (), "predicted_ns": None, "rigor": Rigor.MODEL}, "neither samples nor a prediction"),
        ({"samples_ns": ()}, "with 0 samples"),
        ({"state": State.WRONG}, "its state is 'wrong'"),
        ({"object_sha256": None}, "without the SHA-256"),
    ],
)
def test_a_claim_needs_its_evidence(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        outcome(**changes)


def test_an_outcome_without_a_claim_makes_no_policy() -> None:
    assert policy_of(refusal()) is None


def test_claims_are_ordered_by_rigor_then_time_then_code_size() -> None:
    slow = outcome(samples_ns=(200.0,), uuid="1")
    claims = [
        outcome(samples_ns=(300.0,), rigor=Rigor.SHOOT_OUT, uuid="0"),
        outcome(samples_ns=(100.0,), uuid="2", code_bytes=100),
        outcome(samples_ns=(100.0,), uuid="3", code_bytes=200),
        slow,
        replace(slow, uuid="4"),
    ]
    policies = [policy_of(claim) for claim in claims]
    for better, worse in itertools.combinations(policies, 2):
        assert better is not None and worse is not None
        assert supersedes(better, worse) and not supersedes(worse, better)
