"""Merge rules: what combines the parts of a split loop passes, what does not is refused with its reason."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autotune.ir.affine import Affine, coord
from autotune.ir.bounds import Array
from autotune.ir.errors import WrongMergeRule
from autotune.ir.interpret import interpret
from autotune.ir.program import AxisKind, Program, bind
from autotune.ir.types import DType, Op, ReduceOp
from autotune.ir.verdict import Correct, block_dependence, check, check_merges
from autotune.ir.verify import verify
from tests.ir import control_programs
from tests.ir.programs import Builder, Rule

F32 = DType.F32
ATTENTION = {"B": 1, "Hq": 4, "Hkv": 2, "Q": 5, "K": 11, "D": 3, "Dv": 4}


def attention_arguments() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes = {"q": (1, 4, 5, 3), "k": (1, 2, 11, 3), "v": (1, 2, 11, 4)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("cuts", [(0.0,), (1.0,), (0.5,), (0.2, 0.4, 0.9), (0.5, 0.5)])
@pytest.mark.parametrize("block", [None, 1, 3])
def test_a_split_loop_gives_the_state_of_the_whole_one(cuts: tuple[float, ...], block: int | None) -> None:
    program, arguments = bind(control_programs.attention(), ATTENTION), attention_arguments()
    blocks = {} if block is None else {2: block, 5: block}
    whole, parts = interpret(program, arguments), interpret(program, arguments, blocks=blocks, cuts={5: cuts})
    assert isinstance(check({"out": parts["out"].values}, whole), Correct)
    assert (parts["out"].bound < 1e-4).all()


def test_online_softmax_is_a_merge_rule() -> None:
    program = bind(control_programs.attention(), ATTENTION)
    check_merges(program, attention_arguments())
    assert block_dependence(program, attention_arguments()) == ()


def test_sums_that_are_not_brought_to_one_maximum_are_refused() -> None:
    program = bind(control_programs.attention(wrong_rule=True), ATTENTION)
    wanted = (
        "the merge rule of the loop in line 1 of 'attention' is wrong: the states of its two halves, merged, give "
        "another result than the whole loop: out["
    )
    with pytest.raises(WrongMergeRule, match=re.escape(wanted)) as caught:
        check_merges(program, attention_arguments())
    assert str(caught.value).endswith("whatever their lengths")
    with pytest.raises(WrongMergeRule):
        block_dependence(program, attention_arguments())


def counted(start: float, rule: Op, *, trips: Affine | int | str = "N", kind: AxisKind = AxisKind.TILE) -> Program:
    """Sum of a vector onto `start` for every row, two states combined by `rule`."""
    b = Builder("counted", "M", "N")
    x, y = b.tensor("x", F32, "N"), b.tensor("y", F32, "M")
    row, j = b.program_axis("M", "row"), b.axis(kind, trips, "j")
    with b.loop(j, b.const(start), axes=[(row,)]) as loop:
        value = b.load(x, coord(j))
        part = b.reduce(ReduceOp.SUM, value, j) if kind is AxisKind.TILE else value
        loop.updated = (b.op(Op.ADD, loop.carried(0), part),)
        loop.rule = _by(b, rule)
    b.store(y, loop.final(0), coord(row))
    program = b.build()
    verify(program)
    return bind(program, {"M": 4, "N": 9})


def _by(b: Builder, rule: Op) -> Rule:
    return lambda earlier, later: [b.op(rule, earlier[0], later[0])]


X = {"x": np.arange(1, 10, dtype=np.float32)}


def test_a_state_that_is_not_neutral_is_refused() -> None:
    check_merges(counted(0.0, Op.ADD), X)
    with pytest.raises(WrongMergeRule, match=r"the initial state and the whole loop's, merged.*neutral element"):
        check_merges(counted(5.0, Op.ADD), X)


def test_a_rule_that_is_neutral_but_does_not_combine_is_refused() -> None:
    with pytest.raises(WrongMergeRule, match="the states of its two halves"):
        check_merges(counted(0.0, Op.MAXIMUM), X)


def test_a_rule_that_forgets_the_earlier_part_is_refused() -> None:
    program = counted(0.0, Op.SUB)
    with pytest.raises(WrongMergeRule, match="the initial state and the whole loop's"):
        check_merges(program, X)


@pytest.mark.parametrize("kind", [AxisKind.TILE, AxisKind.RANGE])
def test_parts_of_loops_whose_length_differs_between_programs(kind: AxisKind) -> None:
    program = counted(0.0, Op.ADD, trips=coord(0).scaled(3), kind=kind)
    check_merges(program, X)
    for cuts in ((), (0.3,), (0.1, 0.9)):
        result = interpret(program, X, blocks={1: 2}, cuts={1: cuts})
        assert list(result["y"].values) == [0.0, 6.0, 21.0, 45.0]


def test_loops_without_a_rule_are_not_split() -> None:
    result = interpret(bind(control_programs.swapped(), {"M": 2, "T": 3}), {"x": np.ones((2, 2), np.float32)})
    assert list(result["y"].values[2]) == [2.0, 2.0]
    check_merges(bind(control_programs.swapped(), {"M": 2, "T": 3}), {"x": np.ones((2, 2), np.float32)})
