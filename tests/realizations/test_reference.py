"""The reference candidate is legal everywhere, uses no optional mechanism, and takes the target's lanes."""

from __future__ import annotations

import pytest

from autotune.realizations.candidate import Buffered, Clones
from autotune.realizations.legality import judge
from autotune.realizations.reference import reference_candidate
from autotune.realizations.targets import TARGET_NAMES, named_target
from autotune.realizations.verdict import Legal
from tests.conformance.cases import CASES, bound


@pytest.mark.parametrize("name", TARGET_NAMES)
@pytest.mark.parametrize(("example", "shape"), CASES)
def test_it_is_plain_and_legal(example: str, shape: str, name: str) -> None:
    workload, target = bound(example, shape), named_target(name)
    reference = reference_candidate(workload.program, target)
    assert isinstance(judge(workload.program, reference, target), Legal)
    assert reference.packet is Clones.GENERAL
    assert not any(isinstance(storage, Buffered) for _, storage in reference.storage)
    assert len({nest for _, nest in reference.nests}) == len(reference.nests)
    assert all(compute.chains == 1 and not compute.blocks for _, compute in reference.compute)
    assert reference == reference_candidate(workload.program, target)


@pytest.mark.parametrize(("name", "lanes"), [("avx512", 16), ("avx2", 8), ("sse2", 4), ("neon", 4)])
def test_lanes_run_along_the_contiguous_output_axis(name: str, lanes: int) -> None:
    rows = bound("gelu", "M=19,N=67")
    (mapping,) = (m for _, m in reference_candidate(rows.program, named_target(name)).mapping)
    assert mapping.lanes == lanes
    assert mapping.axis not in rows.program.parallel
    columns = bound("column_softmax", "M=19,N=67")
    across = reference_candidate(columns.program, named_target(name))
    assert {m.axis for _, m in across.mapping} == set(columns.program.parallel)
    assert {m.lanes for _, m in across.mapping} == {lanes}
