"""What a suite makes of right, wrong and failing formulations, and how a roof is told; nothing here looks at a time."""

import ctypes
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.attention_cases import ATTENTION_CASES
from benchmarks.buffers import Buffers
from benchmarks.case import Answer, Arrays, Case, case_of
from benchmarks.contraction_cases import CONTRACTION_CASES, MATMUL
from benchmarks.peers import ATTENTION_PEERS, CONTRACTION_PEERS, Attempt, Entry, Prepared, Style, labels_of
from benchmarks.roofs import Roofs, part_of_roof
from benchmarks.row import OURS, Row
from benchmarks.selection import NoSuchCase, cases_containing
from benchmarks.suite import NumpyInOurPlace, Settings, measure
from benchmarks.targets import fastest
from benchmarks.timing import NativeCall, PythonCall, in_order, nothing, repeater

CASE = case_of(MATMUL, 5, 7, 3)


def prepared(buffers: Buffers, factor: float, name: str) -> Prepared:
    a, b = buffers.inputs.values()

    def outcome() -> NDArray[np.float32]:
        np.multiply(a @ b, np.float32(factor), out=buffers.y)
        return buffers.y

    return Prepared(formulation=name, call=PythonCall(function=outcome), outcome=outcome)


def unavailable() -> Prepared:
    raise RuntimeError("not on this machine")


class Peer(ModuleType):
    """One right formulation, one that is wrong and one that cannot be prepared; none of anything prepacked."""

    @staticmethod
    def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
        if style is Style.BEST:
            yield "broken", unavailable
            yield "twice", lambda: prepared(buffers, 2.0, "twice")
        if style is not Style.PREPACKED:
            yield "once", lambda: prepared(buffers, 1.0, "once")

    @staticmethod
    def trivial() -> PythonCall:
        return PythonCall(function=lambda: None)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setitem(sys.modules, "benchmarks.peers.made_up", Peer("made_up"))
    labels = (("plain", Style.AS_WRITTEN), ("best", Style.BEST), ("packed", Style.PREPACKED), ("C", Style.ONLINE))
    entries = (
        Entry(module="made_up", packages=(), labels=labels),
        Entry(module="absent", packages=("no_such_package_at_all",), labels=(("absent", Style.BEST),)),
    )
    return Settings(suite="s", entries=entries, rounds=1, peers=frozenset(labels_of(entries)))


def test_failing_formulations_are_rows_with_their_reasons(settings: Settings) -> None:
    rows = list(measure([CASE], settings, NumpyInOurPlace(), lambda _: None))
    found = [(row.peer, row.formulation, row.ratio is not None) for row in rows]
    assert found == [
        ("plain", "once", True),
        ("best", "broken", False),
        ("best", "twice", False),
        ("best", "once", True),
        ("packed", "", False),
        ("C", "once", True),
        ("absent", "", False),
    ]
    reasons = {row.formulation or row.peer: row.failure for row in rows if row.failure}
    assert reasons["broken"] == "RuntimeError: not on this machine"
    assert "times the bound" in str(reasons["twice"])
    assert "no formulation" in str(reasons["packed"])
    assert "no_such_package_at_all" in str(reasons["absent"])


def test_what_is_no_contender_is_measured_and_never_the_fastest(settings: Settings) -> None:
    rows = list(measure([CASE], settings, NumpyInOurPlace(), lambda _: None))
    assert {row.peer: row.counted for row in rows if row.ratio is not None} == {"plain": True, "best": True, "C": False}
    assert fastest(rows)[CASE.name].peer in {"plain", "best"}
    assert not fastest([row for row in rows if row.peer == "C"])


def test_every_row_of_a_contraction_tells_its_part_of_the_roof(settings: Settings) -> None:
    rows = list(measure([CASE], settings, NumpyInOurPlace(), lambda _: None))
    assert all(row.roof is not None and row.roof > 0 for row in rows)


class NothingOfOurs:
    """Our side, unable to make anything of any case."""

    def answer(self, case: Case, inputs: Arrays) -> Answer:
        return case.answer(inputs)

    def prepare(self, case: Case, buffers: Buffers) -> tuple[Prepared, Prepared | None]:
        raise RuntimeError("no correct candidate")


def test_a_case_without_ours_is_a_row_and_the_others_go_on(settings: Settings) -> None:
    rows: list[Row] = list(measure([CASE, case_of(MATMUL, 2, 2, 2)], settings, NothingOfOurs(), lambda _: None))
    assert [(row.peer, row.ours_us, row.failure) for row in rows] == [
        (OURS, None, "RuntimeError: no correct candidate")
    ] * 2
    assert not fastest(rows)


def test_the_roof_that_binds_is_the_one_that_takes_longer() -> None:
    roofs = Roofs(flops_per_us=100.0, bytes_per_us=10.0, footprint_bytes=50)
    assert part_of_roof(roofs, flops=1000, us=20.0) == pytest.approx(0.5)
    assert part_of_roof(roofs, flops=100, us=20.0) == pytest.approx(0.25)


def test_cases_are_chosen_by_a_part_of_their_name() -> None:
    assert cases_containing(CONTRACTION_CASES, []) == CONTRACTION_CASES
    chosen = cases_containing(ATTENTION_CASES, ["Q=1,K=2048", "attention_bias"])
    assert [each.kernel for each in chosen] == ["attention"] * 2 + ["attention_bias"] * 2
    with pytest.raises(NoSuchCase, match="write a part of one of matmul"):
        cases_containing(CONTRACTION_CASES, ["K=5,"])


@pytest.mark.parametrize("entries", [CONTRACTION_PEERS, ATTENTION_PEERS], ids=["contractions", "attention"])
def test_labels_are_distinct_and_numpy_comes_first(entries: tuple[Entry, ...]) -> None:
    labels = labels_of(entries)
    assert len(set(labels)) == len(labels)
    assert labels[0] == "numpy"


def test_native_calls_are_made_in_order_with_their_own_arguments() -> None:
    seen: list[tuple[int, ...]] = []
    one = ctypes.CFUNCTYPE(None, ctypes.c_int64)(lambda a: seen.append((a,)))
    two = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(lambda a, b: seen.append((a, b)))
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in (one, two)]
    calls = [
        NativeCall(address=addresses[0], arguments=(7,)),
        NativeCall(address=addresses[1], arguments=(-1, 1 << 40)),
    ]
    call, kept = in_order(calls)
    repeater(call)(2)
    assert kept is not None
    assert seen == [(7,), (-1, 1 << 40)] * 2
    assert in_order([nothing(2)])[0] == nothing(2)
