"""Lookup: the stored policy, or why there is none, without any of the tuner."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.ir.program import Scalar
from autotune.ir.text import fingerprint
from autotune.jit import host_target
from autotune.measure.states import State
from autotune.planner import MatchLevel, NamedByFingerprint, NoPolicy, Policy, WrongShape, lookup
from autotune.realizations.target import Target
from autotune.store.database import open_database
from autotune.store.errors import UnusableStore
from autotune.store.keys import AlignmentClass, CacheMode, Workload, current_toolchain, workload_of
from autotune.store.records import Rigor
from tests.scale_kernel import PROGRAM, Kernel, candidate
from tests.store.samples import outcome, refusal

ROOT = Path(__file__).parents[1]
SHAPE = {"M": 129, "N": 512}


@pytest.fixture
def target() -> Target:
    return host_target()


@pytest.fixture
def path(tmp_path: Path, target: Target) -> Path:
    """A store with one policy at SHAPE."""
    path = tmp_path / "policies.sqlite"
    store(path, workload_of(PROGRAM, SHAPE, target))
    return path


def store(path: Path, workload: Workload) -> None:
    with open_database(path) as database:
        database.record(workload, candidate(), outcome(workload, candidate()))


def test_exact_hit_says_all_there_is_to_know(path: Path, target: Target) -> None:
    answer = lookup(Kernel(), SHAPE, target, database=path)
    assert isinstance(answer, Policy)
    assert answer.candidate == candidate()
    assert answer.expected_ns == 105.5
    assert answer.interval_ns is not None and 100.0 <= answer.interval_ns[0] <= answer.interval_ns[1] <= 110.0
    assert (answer.rigor, answer.match, answer.staleness) == (Rigor.RACED, MatchLevel.EXACT, ())
    assert answer.object_sha256 == "b" * 64
    assert answer.workload.title == "scale:M=129,N=512"
    assert answer.why == "measured 3 times and not beaten in its race; every field of the key agrees"


def test_shape_may_be_a_sequence_and_the_kernel_a_fingerprint(path: Path, target: Target) -> None:
    by_name = lookup(Kernel(), SHAPE, target, database=path)
    assert lookup(Kernel(), (129, 512), target, database=path) == by_name
    assert lookup(fingerprint(PROGRAM), (129, 512), target, database=path) == by_name


def test_renaming_changes_nothing(path: Path, target: Target) -> None:
    x, y, a = PROGRAM.parameters
    assert isinstance(a, Scalar)
    renamed = replace(
        PROGRAM,
        name="other",
        dims=("P", "Q"),
        parameters=(replace(x, name="u"), replace(y, name="v"), replace(a, name="b")),
    )
    found = lookup(Kernel(program=renamed), {"P": 129, "Q": 512}, target, database=path)
    assert found == lookup(Kernel(), SHAPE, target, database=path)


def test_miss_names_the_fields_that_differ(path: Path, target: Target) -> None:
    answer = lookup(Kernel(), {"M": 129, "N": 65}, target, database=path)
    assert isinstance(answer, NoPolicy)
    assert [d.field for d in answer.differences] == ["shape"]
    assert answer.nearest is not None and answer.nearest.title == "scale:M=129,N=512"
    assert "shape is (129, 65) here, (129, 512) in the record" in answer.why

    cold = lookup(Kernel(), SHAPE, target, database=path, cold=("x",))
    assert isinstance(cold, NoPolicy) and [str(d) for d in cold.differences] == [
        "cache is cold 0 here, hot in the record"
    ]
    near = lookup(Kernel(), SHAPE, target, database=path, alignment=AlignmentClass.SIXTEEN)
    assert isinstance(near, NoPolicy) and [d.field for d in near.differences] == ["alignment"]


def test_a_record_made_with_cold_tensors_answers_only_who_asks_for_them(tmp_path: Path, target: Target) -> None:
    path = tmp_path / "cold.sqlite"
    store(path, workload_of(PROGRAM, SHAPE, target, cache=CacheMode(cold=(0, 1))))
    assert isinstance(lookup(Kernel(), SHAPE, target, database=path, cold=("all",)), Policy)
    assert isinstance(lookup(Kernel(), SHAPE, target, database=path), NoPolicy)
    with pytest.raises(NamedByFingerprint):
        lookup(fingerprint(PROGRAM), (129, 512), target, database=path, cold=("x",))


def test_records_of_another_target_are_never_returned(path: Path, target: Target) -> None:
    answer = lookup(Kernel(), SHAPE, replace(target, l2_bytes=target.l2_bytes * 2, cpu="other"), database=path)
    assert isinstance(answer, NoPolicy)
    assert [d.field for d in answer.differences] == ["isa.cpu", "isa.l2_bytes"]


def test_records_of_another_toolchain_are_never_returned(tmp_path: Path, target: Target) -> None:
    older = replace(current_toolchain(), llvm="1.2.3")
    path = tmp_path / "older.sqlite"
    store(path, workload_of(PROGRAM, SHAPE, target, toolchain=older))
    answer = lookup(Kernel(), SHAPE, target, database=path)
    assert isinstance(answer, NoPolicy)
    assert [str(d) for d in answer.differences] == [
        f"toolchain.llvm is {current_toolchain().llvm} here, 1.2.3 in the record"
    ]


def test_nearest_record_departs_in_the_fewest_fields(path: Path, target: Target) -> None:
    store(path, workload_of(PROGRAM, {"M": 1, "N": 65}, replace(target, l1_bytes=1)))
    answer = lookup(Kernel(), {"M": 1, "N": 65}, replace(target, l2_bytes=1), database=path)
    assert isinstance(answer, NoPolicy) and answer.nearest is not None
    assert len(answer.differences) == 2


def test_changed_program_is_told_apart_from_an_unknown_one(path: Path, target: Target) -> None:
    changed = replace(PROGRAM, body=(*PROGRAM.body, PROGRAM.body[-1]))
    answer = lookup(Kernel(program=changed), SHAPE, target, database=path)
    assert isinstance(answer, NoPolicy) and [d.field for d in answer.differences] == ["kernel"]
    unknown = lookup(Kernel(program=replace(changed, name="unknown")), SHAPE, target, database=path)
    assert unknown == NoPolicy(why="the database has no policy for this kernel")
    strange = lookup("f" * 64, (129, 512), target, database=path)
    assert isinstance(strange, NoPolicy) and "no record of a program with the fingerprint ffffffffffff" in strange.why


def test_tried_without_success_is_said(tmp_path: Path, target: Target) -> None:
    path, workload = tmp_path / "failed.sqlite", workload_of(PROGRAM, SHAPE, target)
    with open_database(path) as database:
        database.record(workload, candidate(), refusal(workload, candidate()))
        wrong = outcome(workload, candidate(2), state=State.WRONG, samples_ns=(), rigor=None)
        database.record(workload, candidate(2), wrong)
    answer = lookup(Kernel(), SHAPE, target, database=path)
    assert answer == NoPolicy(why="2 candidates were tried and none became a policy (refused, wrong)")


def test_missing_database_is_no_error_and_is_not_created(tmp_path: Path, target: Target) -> None:
    path = tmp_path / "absent.sqlite"
    assert lookup(Kernel(), SHAPE, target, database=path) == NoPolicy(why=f"there is no database at {path}")
    assert not path.exists()


def test_damaged_database_is_an_error(tmp_path: Path, target: Target) -> None:
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(UnusableStore, match="cannot be used"):
        lookup(Kernel(), SHAPE, target, database=path)


@pytest.mark.parametrize("shape", [{"M": 1}, {"M": 1, "N": 2, "K": 3}, (1,), (1, 2, 3)])
def test_shape_must_give_the_dimensions(path: Path, target: Target, shape: dict[str, int] | tuple[int, ...]) -> None:
    with pytest.raises(WrongShape, match="does not give the dimensions of scale\n  expected a size for each of M, N"):
        lookup(Kernel(), shape, target, database=path)
    with pytest.raises(WrongShape, match="a sequence of sizes"):
        lookup("f" * 64, {"M": 1}, target, database=path)


PLAN = """
import json, sys
from pathlib import Path
from autotune import planner
from autotune.jit import host_target
answer = planner.lookup(sys.argv[1], (129, 512), host_target(), database=Path(sys.argv[2]))
print(json.dumps([type(answer).__name__, sorted(sys.modules)]))
"""


def test_lookup_imports_nothing_of_the_tuner(path: Path) -> None:
    command = [sys.executable, "-c", PLAN, fingerprint(PROGRAM), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    kind, modules = json.loads(run.stdout)
    assert kind == "Policy"
    banned = ("optuna", "sklearn", "scipy", "rich", "typer", "autotune.search", "autotune.tune", "autotune.build")
    assert [m for m in modules if m.startswith(banned)] == []
    measuring = [m for m in modules if m.startswith("autotune.measure.")]
    assert measuring == ["autotune.measure.states"]
    assert [m for m in modules if m.split(".")[0] in ("ir", "realizations", "calibration")] == []
