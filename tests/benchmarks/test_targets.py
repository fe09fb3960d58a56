"""The verdicts on the declared targets, the JSON of rows, and the choice of cases and peers."""

import json
from dataclasses import replace

import pytest

from benchmarks.attention_cases import ATTENTION_CASES
from benchmarks.case import Case
from benchmarks.cases import row_cases
from benchmarks.contraction_cases import CONTRACTION_CASES
from benchmarks.contraction_targets import ATTENTION_TARGETS, CONTRACTION_TARGETS
from benchmarks.peers import ATTENTION_PEERS, CONTRACTION_PEERS, LABELS, PEERS, Entry, labels_of
from benchmarks.row import OWN_REFERENCE, Row, to_json
from benchmarks.selection import UnknownCase, UnknownPeer, select_cases, select_peers
from benchmarks.targets import (
    AS_WRITTEN,
    CONTENDERS,
    FASTEST,
    TARGETS,
    Target,
    Verdict,
    fastest,
    geometric_mean,
    judge,
)

ROW = Row(
    suite="rows",
    case="softmax:M=129,N=512",
    candidate="c",
    ours_us=10.0,
    peer="numba",
    peer_us=20.0,
    ratio=0.5,
    error=0.1,
)


def test_every_target_names_a_case_and_a_peer_of_the_suite() -> None:
    names = {case.name for case in row_cases(quick=False)}
    for target in TARGETS:
        assert target.case in names
        assert target.against in {*LABELS, FASTEST}
        assert 0 < target.at_most <= 1.05


def test_the_fastest_peer_has_the_largest_ratio_and_is_not_our_reference() -> None:
    rows = [ROW, replace(ROW, peer="numpy", ratio=0.1), replace(ROW, peer=OWN_REFERENCE, ratio=0.9)]
    rows.append(replace(ROW, peer="onnxruntime", ratio=None, peer_us=None, failure="not installed: onnx"))
    assert fastest(rows) == {ROW.case: ROW}


def test_targets_pass_fail_or_are_not_measured() -> None:
    rows = [replace(ROW, peer=peer) for peer in CONTENDERS] + [replace(ROW, peer=AS_WRITTEN, ratio=0.21)]
    found = {(o.target.case, o.target.against): o for o in judge(rows)}
    assert found[ROW.case, FASTEST].verdict is Verdict.PASS
    assert found[ROW.case, FASTEST].ratio == 0.5
    assert found[ROW.case, AS_WRITTEN].verdict is Verdict.FAIL
    assert found["softmax:M=129,N=65", FASTEST].verdict is Verdict.NOT_MEASURED
    assert len(found) == len(TARGETS)


def test_nothing_is_said_about_the_fastest_peer_while_a_contender_is_missing() -> None:
    rows = [replace(ROW, peer=peer) for peer in CONTENDERS]
    rows[0] = replace(rows[0], ratio=None, peer_us=None, failure="not installed: torch")
    (outcome,) = [o for o in judge(rows) if (o.target.case, o.target.against) == (ROW.case, FASTEST)]
    assert outcome.verdict is Verdict.NOT_MEASURED
    assert set(CONTENDERS) < set(LABELS)


def test_a_ratio_at_the_limit_passes() -> None:
    limit = next(t.at_most for t in TARGETS if (t.case, t.against) == (ROW.case, AS_WRITTEN))
    (outcome,) = [
        o
        for o in judge([replace(ROW, peer=AS_WRITTEN, ratio=limit)])
        if (o.target.case, o.target.against) == (ROW.case, AS_WRITTEN)
    ]
    assert outcome.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("targets", "cases", "entries"),
    [
        (CONTRACTION_TARGETS, CONTRACTION_CASES, CONTRACTION_PEERS),
        (ATTENTION_TARGETS, ATTENTION_CASES, ATTENTION_PEERS),
    ],
    ids=["contractions", "attention"],
)
def test_targets_of_a_suite_name_its_cases_and_peers(
    targets: tuple[Target, ...], cases: tuple[Case, ...], entries: tuple[Entry, ...]
) -> None:
    assert {target.case for target in targets} <= {case.name for case in cases}
    assert {target.against for target in targets} <= {*labels_of(entries), FASTEST}
    assert len({target.case for target in targets}) == len(targets)


def test_without_named_contenders_all_that_count_contend() -> None:
    target = CONTRACTION_TARGETS[0]
    peers = [replace(ROW, case=target.case, peer=peer, ratio=ratio) for peer, ratio in (("a", 0.9), ("b", 1.2))]
    packed = replace(ROW, case=target.case, peer="c", ratio=1.5, counted=False)
    (found, *rest) = judge([*peers, packed], CONTRACTION_TARGETS, ())
    assert (found.ratio, found.verdict) == (1.2, Verdict.FAIL)
    assert {outcome.verdict for outcome in rest} == {Verdict.NOT_MEASURED}


def test_the_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_rows_are_a_json_array_with_the_fields_that_readers_rely_on() -> None:
    rows = json.loads(to_json([ROW, replace(ROW, error=float("inf"))]))
    wanted = {"suite", "case", "candidate", "ours_us", "peer", "peer_us", "ratio", "error"}
    assert wanted <= rows[0].keys()
    assert rows[0]["ratio"] == 0.5
    assert rows[1]["error"] == "inf"
    assert json.loads(to_json([])) == []


def test_a_kernel_selects_its_cases_and_a_full_name_is_found_when_quick() -> None:
    assert [case.name for case in select_cases(["gelu"], quick=True)] == ["gelu:M=129,N=512"]
    assert len(select_cases(["gelu"], quick=False)) == 4
    assert [case.name for case in select_cases(["gelu:M=129,N=65"], quick=True)] == ["gelu:M=129,N=65"]
    assert select_cases([], quick=False) == row_cases(quick=False)


def test_unknown_names_are_refused_with_what_to_write() -> None:
    with pytest.raises(UnknownCase, match="write a kernel"):
        select_cases(["tanh"], quick=False)
    with pytest.raises(UnknownPeer, match="inductor best"):
        select_peers(["inductor fast"], PEERS)
    assert select_peers(["numba"], PEERS) == {"numba"}
    assert select_peers([], PEERS) == set(LABELS)


def test_a_peer_names_the_packages_it_misses() -> None:
    absent = Entry(module="numpy_arrays", packages=("numpy", "no_such_package_at_all"), labels=())
    assert absent.missing() == ("no_such_package_at_all",)
    assert len(set(LABELS)) == len(LABELS) == sum(len(peer.labels) for peer in PEERS)
