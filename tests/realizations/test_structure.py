"""A structure and one choice a nest make a candidate, which lowers to the nests that the choices describe."""

from __future__ import annotations

import random
from dataclasses import replace

from autotune.ir.buffer import Nest, NestLoop, ReduceInto, Tail
from autotune.realizations.lower import lower
from autotune.realizations.places import nests_of
from autotune.realizations.structure import assemble
from autotune.realizations.targets import named_target
from tests.conformance.cases import bound, families
from tests.conformance.pool import random_picks

_TARGET = named_target("avx512")


def test_assembled_candidates_lower_to_the_chosen_nests() -> None:
    workload = bound("softmax", "M=5,N=13")
    rng = random.Random(2)
    found, _ = families(workload, _TARGET)
    for family in rng.sample(found, 12):
        rows = family.rows(random_picks(family, rng))
        choices = {n: row.choice for n, row in zip(family.numbers, rows, strict=True)}
        candidate = assemble(family.structure, choices)
        assert candidate.tiles == family.structure.tiles
        assert dict(candidate.tail) == {n: choice.tail for n, choice in choices.items()}
        plan = lower(workload.program, candidate)
        for nest in (nest for body in plan.bodies for nest in nests_of(body.steps)):
            choice = choices[nest.number]
            factors = {block.axis: block.factor for block in choice.blocks}
            for loop in nest.loops:
                assert loop.factor == factors.get(loop.axis, 1)
                assert loop.lanes == (choice.lanes if loop.axis == choice.axis else 1)
            assert all(sink.chains == choice.chains for sink in nest.sinks if isinstance(sink, ReduceInto))
            assert nest.tail is choice.tail
            assert choice.apply(nest) == nest


def test_the_vector_axis_of_a_nest() -> None:
    """The first axis of the structure's preference that a nest walks, unless one is named for the nest itself."""
    workload = bound("column_softmax", "M=19,N=67")
    structures = [family.structure for family in families(workload, _TARGET)[0]]
    (row,) = workload.program.parallel
    column = next(s.lanes[0] for s in structures if s.lanes and s.lanes[0] != row)
    team = next(s for s in structures if s.lanes == (column, row))
    assert team.vector_axis(_nest(row, column)) == column
    assert team.vector_axis(_nest(row)) == row
    assert team.vector_axis(_nest()) is None
    named = replace(team, across=((0, row),))
    assert named.vector_axis(_nest(row, column)) == row
    assert named.vector_axis(_nest(column)) == column
    scalar = next(s for s in structures if not s.lanes)
    assert scalar.vector_axis(_nest(row, column)) is None


def _nest(*axes: int) -> Nest:
    return Nest(number=0, loops=tuple(NestLoop(axis=a, factor=1, lanes=1) for a in axes), sinks=(), tail=Tail.MASK)
