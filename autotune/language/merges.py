"""Ready-made merge rules of loops: how two states of a running computation combine.
Must not know syntax or loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from autotune.errors import WrongArguments
from autotune.ir.program import Const
from autotune.ir.types import Op
from autotune.language.arithmetic import binary, unary, where
from autotune.language.context import Context
from autotune.language.operands import Array, Literal

State: TypeAlias = Sequence[Array]
Rule: TypeAlias = Callable[[Context, State, State], tuple[Array, ...]]

_INFINITY = float("inf")


def online_softmax(context: Context, first: State, second: State) -> tuple[Array, ...]:
    """Two states (max, sum, acc) of a running softmax; where the maximum of one is -inf, the other as it is.

    Raises: WrongArguments where the carried variables are no such state.
    """
    _check_roles(context, first)
    (m1, l1, acc1), (m2, l2, acc2) = first, second
    m = _array(binary(context, Op.MAXIMUM, m1, m2))
    empty1, empty2 = (binary(context, Op.EQ, side, Literal(value=-_INFINITY)) for side in (m1, m2))
    weight1, weight2 = (_array(unary(context, Op.EXP, binary(context, Op.SUB, side, m))) for side in (m1, m2))

    def combined(one: Array, other: Array) -> Array:
        """Each side weighted by what its own maximum was too small."""
        extra = len(one.positions) - len(m.positions)
        left, right = (
            binary(context, Op.MUL, side, _widened(weight, extra))
            for side, weight in ((one, weight1), (other, weight2))
        )
        both = binary(context, Op.ADD, left, right)
        kept = where(context, _widened(_array(empty2), extra), one, both)
        return where(context, _widened(_array(empty1), extra), other, kept)

    return m, combined(l1, l2), combined(acc1, acc2)


def _widened(array: Array, extra: int) -> Array:
    """One number a row, next to values that have more positions behind those of the rows."""
    return Array(value=array.value, dtype=array.dtype, positions=(*array.positions, *(None,) * extra))


def _array(operand: object) -> Array:
    assert isinstance(operand, Array)
    return operand


def _check_roles(context: Context, state: State) -> None:
    def refuse(problem: str) -> NoReturn:
        usage = "a loop that carries max (from -inf), sum and acc (from 0), named in this order before the loop"
        raise WrongArguments(context.place, name="at.online_softmax", problem=problem, usage=usage)

    if len(state) != 3:
        refuse(f"the loop carries {len(state)} variables, 3 expected")
    rows, sums, values = (len(part.positions) for part in state)
    if sums != rows or values < rows:
        refuse("sum has not the positions of max, or acc does not begin with them")


def check_neutral(context: Context, initial: State) -> None:
    """Refuse a state that at.online_softmax would not leave alone, as far as constants show it.

    Raises: WrongArguments.
    """
    for part, name, neutral in zip(initial, ("max", "sum", "acc"), (-_INFINITY, 0.0, 0.0), strict=False):
        value = context.draft.lets[part.value].value
        if isinstance(value, Const) and value.value != neutral:
            problem = f"{name} starts at {value.value}, not at {neutral}"
            usage = "m, l, acc = at.full((i,), -at.inf), at.zeros((i,)), at.zeros((i, D)) before the loop"
            raise WrongArguments(context.place, name="at.online_softmax", problem=problem, usage=usage)
