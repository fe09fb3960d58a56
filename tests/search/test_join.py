"""The join's k best are exact, its sample is legal and uniform, and names decide nothing."""

from __future__ import annotations

import itertools
import random
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune import build
from autotune.calibration.prior import prior
from autotune.ir.buffer import Planner
from autotune.ir.text import fingerprint
from autotune.language.load import load_kernels
from autotune.realizations.candidate import Candidate
from autotune.realizations.legality import judge
from autotune.realizations.lower import lower
from autotune.realizations.packet import CloneDecision
from autotune.realizations.targets import named_target
from autotune.realizations.verdict import Legal
from autotune.search import join
from autotune.search.families import Family, families_of
from autotune.search.space import FROM_MODEL, FROM_SAMPLE, JoinStatus, SearchSet
from autotune.search.tables import Tables
from tests.conformance.cases import ROOT, Workload, bound

_TARGET = named_target("avx512")
_SMALL = (("gelu", "M=19,N=67"), ("rmsnorm", "M=1,N=1"), ("rmsnorm", "M=5,N=13"), ("short_rows", "M=5,N=3"))


def _search(workload: Workload, *, limit: int = 1000, sample: int = 300, seed: int = 7) -> SearchSet:
    return join.search_set(workload.program, _TARGET, prior(_TARGET), limit=limit, sample=sample, seed=seed)


def _families(workload: Workload) -> list[Family]:
    return list(families_of(workload.program, _TARGET, Tables(_TARGET, prior(_TARGET))))


def _every_combination(families: list[Family]) -> list[tuple[float, object]]:
    found = []
    for family in families:
        for picks in itertools.product(*(range(len(table)) for table in family.tables)):
            ns = family.overhead.ns + sum(row.ns for row in family.rows(picks))
            found.append((ns, family.candidate(picks)))
    return sorted(found, key=lambda pair: pair[0])


def _placed_otherwise(space: SearchSet) -> list[Candidate]:
    """What differs from another candidate of the set in the places of its buffers alone."""
    return [c for c in space.candidates if c.planner is not Planner.LINEAR]


@pytest.fixture
def no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every structure gives all it has."""
    monkeypatch.setattr(join, "K_BEST_OF_ONE_STRUCTURE", 10_000)


@pytest.mark.parametrize(("example", "shape"), _SMALL)
def test_the_k_best_are_those_of_brute_force(example: str, shape: str, no_quota: None) -> None:
    workload = bound(example, shape)
    everything = _every_combination(_families(workload))
    space = _search(workload, limit=40, sample=0)
    best = space.prior_ns[space.origin == FROM_MODEL][:40]
    assert np.allclose(best, [ns for ns, _ in everything[: len(best)]], rtol=1e-12)
    assert len(best) == min(40, len(everything))
    slowest = best[-1] * (1 + 1e-9)
    expected = {candidate for ns, candidate in everything if ns <= slowest}
    assert set(space.candidates[: len(best)]) <= expected


@pytest.mark.parametrize(("example", "shape"), _SMALL)
def test_the_legal_count_is_that_of_brute_force(example: str, shape: str, no_quota: None) -> None:
    workload = bound(example, shape)
    everything = {candidate for _, candidate in _every_combination(_families(workload))}
    space = _search(workload, limit=10_000, sample=0)
    extra = space.candidates[space.reference] not in everything
    assert space.legal_count == len(everything) + len(_placed_otherwise(space)) + extra == len(space.candidates)
    assert space.status is JoinStatus.EXACT
    assert _search(workload, limit=3, sample=0).status is JoinStatus.FEASIBLE


@pytest.mark.parametrize(
    ("example", "shape"), [("softmax", "M=19,N=67"), ("rope", "H=2,S=5,D=26"), ("column_softmax", "M=5,N=13")]
)
def test_candidates_of_a_set_are_judged_legal(example: str, shape: str) -> None:
    workload = bound(example, shape)
    started = time.perf_counter()
    space = _search(workload)
    print(f"{(time.perf_counter() - started) / space.legal_count:.2e} seconds per legal candidate")
    drawn = random.Random(3).sample(range(len(space.candidates)), 60)
    sampled = [row for row in range(len(space.candidates)) if space.origin[row] == FROM_SAMPLE][:10]
    for row in [space.reference, *sampled, *drawn]:
        verdict = judge(workload.program, space.candidates[row], _TARGET)
        assert isinstance(verdict, Legal), (verdict, space.candidates[row])


def test_the_sample_is_uniform_over_structures_and_follows_its_seed() -> None:
    workload = bound("rmsnorm", "M=5,N=13")
    families = _families(workload)
    total = sum(family.size(_TARGET) for family in families)
    space = _search(workload, limit=0, sample=4000)
    assert space.candidates == _search(workload, limit=0, sample=4000).candidates
    assert set(_search(workload, limit=0, sample=50, seed=8).candidates) != set(
        _search(workload, limit=0, sample=50, seed=7).candidates
    )
    seen = set(space.candidates)
    missing = sum(candidate not in seen for _, candidate in _every_combination(families))
    expected = total * np.exp(-4000 / total)
    assert abs(missing - expected) <= 4 * np.sqrt(expected)


def test_no_structure_gives_more_than_its_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "K_BEST_OF_ONE_STRUCTURE", 3)
    workload = bound("rmsnorm", "M=5,N=13")
    families = _families(workload)
    space = _search(workload, limit=sum(family.size(_TARGET) for family in families) - 1, sample=0)
    by_quota = len(space.candidates) - len(_placed_otherwise(space))
    assert by_quota - 1 <= sum(min(3, family.size(_TARGET)) for family in families) <= by_quota
    assert space.status is JoinStatus.FEASIBLE


@pytest.mark.parametrize(
    ("example", "shape"), [("softmax", "M=19,N=67"), ("attention", "B=1,Hq=4,Hkv=2,Q=5,K=19,D=16,Dv=16")]
)
def test_the_best_are_tried_with_other_placements_of_their_buffers(example: str, shape: str) -> None:
    program = bound(example, shape).program
    space = _search(bound(example, shape))
    others = _placed_otherwise(space)
    assert {c.planner for c in others} >= {Planner.FIRST_FIT, Planner.LLVM}
    assert len({replace(c, planner=Planner.LINEAR) for c in others}) <= join.PLANNED
    predicted = dict(zip(space.candidates, space.prior_ns, strict=True))
    for other in others:
        linear = replace(other, planner=Planner.LINEAR)
        assert predicted[other] == predicted[linear]
        placed, known = lower(program, other), lower(program, linear)
        assert [body.steps for body in placed.bodies] == [body.steps for body in known.bodies]
        assert [body.buffers for body in placed.bodies] != [body.buffers for body in known.bodies]


def test_no_others_are_tried_where_nothing_is_kept_in_memory() -> None:
    assert not _placed_otherwise(_search(bound("gelu", "M=19,N=67")))


def test_a_tiny_clone_budget_refuses_full_clones_and_says_so() -> None:
    workload = bound("gelu", "M=19,N=67")
    space = _search(workload, limit=5000, sample=0)
    full = next(c for c in space.candidates if c.packet.value == "full")
    assert build.build(workload.program, full, _TARGET).decision == CloneDecision.SELECTED.value
    tiny = replace(_TARGET, clone_budget_instructions=50)
    refused = join.search_set(workload.program, tiny, prior(tiny), limit=5000, sample=0).refused
    assert dict((rule, count) for rule, count, _ in refused)["over-clone-budget"] > 0


# ---- names ----------------------------------------------------------------------------------------------------------
_RENAMED = {
    "softmax": {"masked_softmax": "zebra", "x": "quilt", "mask": "aardvark", "y": "b", "M": "Zeilen", "N": "Anzahl"},
    "rmsnorm": {"rmsnorm": "a", "x": "zz", "w": "yy", "y": "aa", "eps": "tiny", "M": "P", "N": "A", "row": "i"},
    "rope": {"rope": "turn", "x": "v", "cos": "z", "sin": "q", "y": "k", "H": "S", "S": "H", "D": "A"},
}


def _renamed(example: str, names: dict[str, str], folder: Path) -> Workload:
    """The example with every word of `names` replaced, bound to its middle shape."""
    text = (ROOT / "examples" / f"{example}.py").read_text()
    text = text.split(f"@{next(iter(names))}.reference")[0]  # references call NumPy functions of the same names
    pattern = re.compile(r"(?<![\w.])(" + "|".join(names) + r")(?!\w)")
    path = folder / f"{example}.py"
    path.write_text(pattern.sub(lambda match: names[match[1]], text))
    (kernel,) = load_kernels(str(path)).values()
    sizes = {"softmax": (5, 13), "rmsnorm": (5, 13), "rope": (3, 5, 26)}[example]
    dims = {names.get(name, name): size for name, size in zip("MN" if len(sizes) == 2 else "HSD", sizes, strict=True)}
    program = kernel.bind(**dims)
    return Workload(kernel=kernel, sizes=dims, program=program)


@pytest.mark.parametrize("example", _RENAMED)
def test_renaming_changes_no_decision(example: str, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = _renamed(example, {name: name for name in _RENAMED[example]}, tmp_path / "old")
    new = _renamed(example, _RENAMED[example], tmp_path / "new")
    assert old.program.name != new.program.name
    assert fingerprint(old.program) == fingerprint(new.program)
    before, after = _search(old, limit=200, sample=100), _search(new, limit=200, sample=100)
    assert before.candidates == after.candidates
    assert np.array_equal(before.prior_ns, after.prior_ns)
    assert before.reference == after.reference
    assert before.refused == after.refused
    for row in (before.reference, int(np.argmin(before.prior_ns)), len(before.candidates) - 1):
        built = [build.build(w.program, before.candidates[row], _TARGET) for w in (old, new)]
        assert built[0].object_bytes == built[1].object_bytes
