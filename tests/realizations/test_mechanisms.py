"""Mechanisms by name: every one of them is used, and what a candidate uses is what its parts use."""

from __future__ import annotations

import random
from functools import lru_cache

import pytest

from autotune.calibration.prior import prior
from autotune.realizations.mechanisms import MECHANISMS, NAMES, OFF_BY_DEFAULT, of_choice, of_lanes, of_structure, uses
from autotune.realizations.reference import reference_candidate
from autotune.realizations.targets import named_target
from autotune.realizations.tiled import tiled
from autotune.search.families import Family
from autotune.search.join import search_set
from tests.conformance.cases import bound, families

_TARGET = named_target("avx512")
_EXAMPLES = (
    ("matmul", "M=16,K=64,N=160"),
    ("gemv", "M=160,K=8192"),
    ("attention", "B=1,Hq=2,Hkv=1,Q=2,K=600,D=16,Dv=16"),
    ("rmsnorm", "M=5,N=67"),
)


@lru_cache(maxsize=1)
def _used() -> dict[str, frozenset[str]]:
    """What some candidate of each example uses."""
    found = {}
    for example, shape in _EXAMPLES:
        program = bound(example, shape).program
        space = search_set(program, _TARGET, prior(_TARGET), limit=200, sample=300, forbidden=frozenset())
        names = (uses(program, candidate, _TARGET) for candidate in space.candidates)
        found[example] = frozenset().union(*names)
    return found


def test_names_are_distinct_and_what_is_off_is_named() -> None:
    assert len(set(NAMES)) == len(MECHANISMS)
    assert set(NAMES) >= OFF_BY_DEFAULT


@pytest.mark.parametrize("name", NAMES)
def test_every_mechanism_is_used_by_some_candidate_of_an_example(name: str) -> None:
    assert any(name in names for names in _used().values())


def test_a_row_kernel_has_no_use_for_what_contractions_need() -> None:
    contracting = {"inline-contractions", "own-lanes", "grouped-outputs", "panels", "loop-orders", "prefetch"}
    assert not contracting & _used()["rmsnorm"]
    assert contracting - {"panels"} <= _used()["gemv"] | _used()["attention"]


@pytest.mark.parametrize(("example", "shape"), _EXAMPLES)
def test_the_reference_candidate_uses_nothing_but_lanes(example: str, shape: str) -> None:
    program = bound(example, shape).program
    used = uses(program, reference_candidate(program, _TARGET), _TARGET)
    assert used <= {"lanes-over-programs"}


@pytest.mark.parametrize(
    ("example", "shape"),
    [("matmul", "M=5,K=19,N=37"), ("attention", "B=1,Hq=4,Hkv=2,Q=5,K=19,D=16,Dv=16"), ("rmsnorm", "M=5,N=13")],
)
def test_a_candidate_uses_what_its_structure_and_its_nests_use(example: str, shape: str) -> None:
    workload = bound(example, shape)
    found, _ = families(workload, _TARGET)
    rng = random.Random(5)
    for family in rng.sample(found, min(25, len(found))):
        picks = tuple(rng.randrange(len(table)) for table in family.tables)
        candidate = family.candidate(picks)
        assert uses(workload.program, candidate, _TARGET) == _parts(family, picks, workload.program)


def _parts(family: Family, picks: tuple[int, ...], program: object) -> frozenset[str]:
    structure = family.structure
    view = tiled(program, structure.tiles)  # type: ignore[arg-type]
    phases = view.graph.phases
    inside = {each.phase for each in structure.inside}
    used = of_structure(view, structure, _TARGET)
    rows = family.rows(picks)
    for number, row in zip(family.numbers, rows, strict=True):
        sinks = [phases[phase] for phase, nest in structure.nests if nest == number and phase not in inside]
        used |= of_choice(view.program, row.choice, frozenset(axis for sink in sinks for axis in sink.contribution))
    return used | of_lanes(frozenset(row.choice.axis for row in rows if row.choice.lanes > 1))
