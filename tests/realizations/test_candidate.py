"""Candidates round-trip through JSON, and their ids tell any two choices apart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from autotune.ir.buffer import Tail, Transfer
from autotune.ir.serial import MalformedJson
from autotune.realizations.candidate import (
    Block,
    Buffered,
    Candidate,
    Clones,
    Compute,
    Direct,
    Inline,
    Mapping,
    Schedule,
    Split,
    Tile,
)

_CANDIDATE = Candidate(
    tiles=(Tile(axis=0, block=4),),
    mapping=((0, Mapping(axis=1, lanes=16)), (3, Mapping(axis=None, lanes=1))),
    storage=((0, Direct()), (1, Inline()), (2, Buffered(layout=(0, 1)))),
    nests=((0, 0), (3, 1)),
    transfer=((0, Transfer.TRANSPOSE),),
    compute=((0, Compute(blocks=(Block(axis=1, factor=2),), chains=2, variants=(("exp", "fast"),))), (3, Compute())),
    tail=((0, Tail.SCALAR), (1, Tail.MASK)),
    packet=Clones.FULL,
)
_CHANGES = (
    {"tiles": (Tile(axis=0, block=2),)},
    {"mapping": ((0, Mapping(axis=1, lanes=8)), (3, Mapping(axis=None, lanes=1)))},
    {"storage": ((0, Direct()), (1, Inline()), (2, Buffered(layout=(1, 0))))},
    {"nests": ((0, 0), (3, 0))},
    {"transfer": ((0, Transfer.GATHER),)},
    {"compute": ((0, Compute(blocks=(Block(axis=1, factor=2),), chains=1)), (3, Compute()))},
    {"tail": ((0, Tail.OVERLAP), (1, Tail.MASK))},
    {"packet": Clones.GENERAL},
    {"split": Split(parts=2)},
    {"schedule": Schedule(threads=2)},
)


def test_json_round_trips_through_text() -> None:
    for change in ({}, *_CHANGES):
        candidate = replace(_CANDIDATE, **change)  # type: ignore[arg-type]
        assert Candidate.from_json(json.loads(json.dumps(candidate.to_json()))) == candidate


def test_every_choice_is_part_of_the_id() -> None:
    ids = {replace(_CANDIDATE, **change).id for change in _CHANGES} | {_CANDIDATE.id}  # type: ignore[arg-type]
    assert len(ids) == len(_CHANGES) + 1
    assert all(len(each) == 12 and int(each, 16) >= 0 for each in ids)
    assert replace(_CANDIDATE).id == _CANDIDATE.id


def test_malformed_json_is_refused() -> None:
    data = _CANDIDATE.to_json()
    assert isinstance(data, dict)
    with pytest.raises(MalformedJson):
        Candidate.from_json({name: value for name, value in data.items() if name != "packet"})
    with pytest.raises(MalformedJson):
        Candidate.from_json({**data, "packet": "both"})
