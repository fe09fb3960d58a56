"""What is enumerated: in a fixed order, without repetition, with the levels each target and shape has."""

from __future__ import annotations

import pytest

from autotune.calibration.prior import prior
from autotune.ir.buffer import Transfer
from autotune.ir.program import AxisKind
from autotune.realizations.candidate import Buffered, Clones
from autotune.realizations.enumerate import structures as structures_of
from autotune.realizations.structure import Structure
from autotune.realizations.targets import named_target
from autotune.realizations.tilings import PACKET_VECTORS, ROW_BLOCKS
from autotune.search.families import families_of
from autotune.search.tables import Tables
from tests.conformance.cases import SHAPES, bound

_TARGET = named_target("avx512")


def _structures(example: str, shape: str) -> list[Structure]:
    return list(structures_of(bound(example, shape).program, _TARGET))


def _packs(structure: Structure) -> bool:
    """Whether each lane is a program of its own: the only lanes run along the axis that is joined."""
    return bool(structure.lanes) and structure.lanes == (structure.tiles[-1].axis,)


@pytest.mark.parametrize("example", SHAPES)
def test_structures_are_distinct_and_in_a_fixed_order(example: str) -> None:
    for shape in SHAPES[example]:
        structures = _structures(example, shape)
        assert len(set(structures)) == len(structures) > 0
        assert structures == _structures(example, shape)


def test_clones_are_offered_only_where_some_packet_is_partial() -> None:
    for shape, partial in (("M=32,N=64", False), ("M=19,N=64", True)):
        full = [s for s in _structures("gelu", shape) if s.packet is Clones.FULL]
        assert bool(full) is partial
        assert all(any(19 % tile.block for tile in s.tiles) for s in full)


def test_blocks_of_rows_and_packets() -> None:
    structures = _structures("gelu", "M=256,N=64")
    blocks = {s.tiles[-1].block for s in structures if _packs(s)}
    assert blocks == {16 * vectors for vectors in PACKET_VECTORS}
    rows = {s.tiles[-1].block for s in structures if s.lanes and not _packs(s)}
    assert rows >= set(ROW_BLOCKS)


def test_buffers_have_the_lane_axis_last() -> None:
    found = 0
    for structure in _structures("softmax", "M=19,N=67"):
        for _, storage in structure.storage:
            if isinstance(storage, Buffered) and structure.lanes and structure.lanes[0] in storage.layout:
                found += 1
                assert storage.layout[-1] == structure.lanes[0]
    assert found


def test_strided_accesses_have_a_transfer_and_bools_are_gathered() -> None:
    packets = [s for s in _structures("softmax", "M=19,N=67") if _packs(s)]
    assert {frozenset(dict(s.transfer).values()) for s in packets} == {
        frozenset({Transfer.GATHER, Transfer.TRANSPOSE}),
        frozenset({Transfer.GATHER}),
    }
    assert not any(s.transfer for s in _structures("softmax", "M=19,N=67") if s.lanes[:1] != (0,))


def test_every_nest_of_a_team_has_lanes_though_its_axes_differ() -> None:
    """The mean of squares runs along whole rows, the rotation along halves of them."""
    program = bound("qk_norm_rope", "H=3,S=16,D=64").program
    found = [s for s in structures_of(program, _TARGET) if len(s.lanes) > 1]
    inside = {a.id for a in program.axes if a.kind is AxisKind.FULL}
    assert len(inside) == 2 and any(inside <= set(s.lanes) for s in found)


def test_joined_programs_have_transposed_copies() -> None:
    """Query heads of one key head, their rows across the lanes, with a transposed copy of the queries."""
    program = bound("attention", "B=1,Hq=4,Hkv=2,Q=32,K=65,D=32,Dv=32").program

    def joined(structure: Structure) -> bool:
        queries, heads = 0, 1  # the first phase loads the queries
        transposed = dict(structure.transfer).get(queries) is Transfer.TRANSPOSE
        return transposed and {t.axis: t.block for t in structure.tiles}.get(heads) == 2

    assert any(True for _ in families_of(program, _TARGET, Tables(_TARGET, prior(_TARGET)), joined))
