"""Counts of a program are those of its parts, weighted by trips and packets, and hold what closed forms say."""

from __future__ import annotations

import random

import pytest

from autotune import build
from autotune.calibration.prior import prior
from autotune.realizations.candidate import Clones
from autotune.realizations.evaluate import ProgramValues
from autotune.realizations.events import Event
from autotune.realizations.lower import lower
from autotune.realizations.nest_key import CanonicalNest
from autotune.realizations.places import nests_of, nests_with_places
from autotune.realizations.predict import DependentSteps, count, only_body, whole_packets
from autotune.realizations.reference import reference_candidate
from autotune.realizations.tally import tally
from autotune.realizations.targets import named_target
from autotune.realizations.visits import frame
from autotune.search.families import families_of
from autotune.search.join import search_set
from autotune.search.tables import Tables
from tests.conformance.cases import bound, families
from tests.conformance.pool import random_picks

_TARGET = named_target("avx512")


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse2", "neon"])
def test_counted_instructions_are_those_written(name: str) -> None:
    target, rng = named_target(name), random.Random(9)
    for example in ("softmax", "gelu", "rope", "short_rows"):
        workload = bound(example, "M=5,N=13" if example != "rope" else "H=3,S=5,D=26")
        found = families(workload, target)[0]
        for family in rng.sample(found, min(5, len(found))):
            plan = lower(workload.program, family.candidate(random_picks(family, rng)))
            written = build.emit_text(plan, target)[1]
            assert count(plan, target).instructions == pytest.approx(written, rel=0.01, abs=5)


@pytest.mark.parametrize("rows", [1, 7, 20])
def test_events_grow_with_the_packets(rows: int) -> None:
    """Loads and stores of RMSNorm in closed form: two passes over x, one over w, one result."""
    workload = bound("rmsnorm", f"M={rows},N=64")
    reference = reference_candidate(workload.program, _TARGET)
    counted = count(lower(workload.program, reference), _TARGET)
    assert counted.events[Event.VECTOR_LOAD] == rows * (4 + 4 + 4)
    assert counted.events[Event.VECTOR_STORE] == rows * 4
    assert counted.events[Event.FMA] == rows * 4
    assert counted.static[Event.VECTOR_STORE] == 1
    assert counted.dependent_steps == rows * 4


@pytest.mark.parametrize(
    ("example", "shape"),
    [("softmax", "M=8,N=128"), ("rmsnorm", "M=19,N=67"), ("matmul", "M=17,K=31,N=67"), ("gemv", "M=19,K=600")],
)
def test_a_program_is_the_sum_of_its_nests(example: str, shape: str) -> None:
    """What is counted nest by nest and multiplied is what counting the whole program gives; addresses may be shared."""
    workload = bound(example, shape)
    plan = lower(workload.program, reference_candidate(workload.program, _TARGET))
    (body,) = plan.bodies
    whole, around, values = count(plan, _TARGET), frame(plan, _TARGET), ProgramValues(plan.program)
    total, instructions = around.events, around.instructions
    for place, nest in nests_with_places(body.steps):
        form = CanonicalNest(values, body, nest)
        axes = {number: axis for axis, number in form.axes.items()}
        for visit in around.visits[place]:
            part = tally(values, body, nest, visit, form.axes, _TARGET)
            total += part.events(visit.weights, lambda number, at=visit, names=axes: at.coordinates(names[number]))
            instructions += part.instructions
    for event in set(Event) - {Event.ADDRESS}:
        assert total[event] == pytest.approx(whole.events[event], rel=1e-6), event
    assert total[Event.ADDRESS] == pytest.approx(whole.events[Event.ADDRESS], rel=0.25)
    assert instructions == pytest.approx(whole.instructions, rel=0.1)
    steps = DependentSteps(values, dict(plan.blocks))
    assert sum(steps.of_nest(nest) for nest in nests_of(body.steps)) * plan.packets == whole.dependent_steps


def test_bodies_and_whole_packets() -> None:
    workload = bound("gelu", "M=19,N=67")
    family = next(f for f in families(workload, _TARGET)[0] if f.structure.packet is Clones.FULL)
    plan = lower(workload.program, family.candidate((0,) * len(family.tables)))
    block = family.structure.tiles[-1].block
    assert whole_packets(plan) == 19 // block < plan.packets == -(-19 // block)
    assert [only_body(plan, full).bodies for full in (True, False)] == [plan.bodies[:1], plan.bodies[1:]]


# ---- loops whose length varies --------------------------------------------------------------------------------------
def _causal(rows: int, keys: int) -> tuple[int, float]:
    """FMA of the cheapest attention at Q=64, K=129, D=32, Dv=48 in such blocks; and those of its two contractions over
    the keys that a block of rows sees, one for every 16 lanes."""
    workload = bound("attention", "B=1,Hq=4,Hkv=2,Q=64,K=129,D=32,Dv=48")
    tiles = {2: rows, 4: keys}
    tables = Tables(_TARGET, prior(_TARGET))
    found = families_of(
        workload.program, _TARGET, tables, lambda s: {t.axis: t.block for t in s.tiles} == tiles and bool(s.predicates)
    )
    best = min(found, key=lambda family: family.ns((0,) * len(family.tables)))
    plan = lower(workload.program, best.candidate((0,) * len(best.tables)))
    seen = sum(rows * min(129, first + rows + 65) for first in range(0, 64, rows))
    return count(plan, _TARGET).events[Event.FMA], 4 * seen * (32 + 48) / 16


@pytest.mark.parametrize(("rows", "keys"), [(16, 32), (16, 64), (32, 32), (32, 64)])
def test_a_causal_loop_is_counted_as_long_as_it_is(rows: int, keys: int) -> None:
    """Beside the contractions only exponentials multiply and add, a tenth; a last block is as long as it is."""
    counted, contracted = _causal(rows, keys)
    assert contracted <= counted <= 1.3 * contracted


def test_streams_of_far_tensors_alone_are_asked_for_ahead() -> None:
    """Each line of the matrix once; the vector lies in the first level."""
    workload = bound("gemv", "M=160,K=8192")
    space = search_set(workload.program, _TARGET, prior(_TARGET), limit=50, sample=0)
    ahead = next(c for c in space.candidates if any(part.prefetch_bytes for _, part in c.contribution))
    assert count(lower(workload.program, ahead), _TARGET).events[Event.PREFETCH] == 160 * 8192 // 16
