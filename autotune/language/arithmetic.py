"""Numbers: promotion, casts and elementwise operations.
Must not know syntax, loops or tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from autotune.errors import DivisionByZero, LiteralDoesNotFit, WrongType
from autotune.ir.affine import Affine, as_affine, greatest, least
from autotune.ir.program import Elementwise, Number
from autotune.ir.types import APPROXIMABLE, COMPARISONS, STRICT, DType, Op
from autotune.language.broadcasting import broadcast
from autotune.language.context import Context
from autotune.language.operands import Array, IndexTerm, Literal, Numeric, kind_name

LITERAL_RULES: dict[Op, Callable[[Number, Number], Number]] = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.DIV: operator.truediv,
    Op.FLOORDIV: operator.floordiv,
    Op.MOD: operator.mod,
    Op.MINIMUM: min,
    Op.MAXIMUM: max,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.AND: operator.and_,
    Op.OR: operator.or_,
    Op.XOR: operator.xor,
}
INDEX_RULES: dict[Op, Callable[[Affine, Affine], Affine]] = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.FLOORDIV: operator.floordiv,
    Op.MOD: operator.mod,
    Op.MINIMUM: least,
    Op.MAXIMUM: greatest,
}
SYMBOLS = {
    **{Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.FLOORDIV: "//", Op.MOD: "%", Op.NEG: "-", Op.NOT: "~"},
    **{Op.AND: "&", Op.OR: "|", Op.XOR: "^", Op.EQ: "==", Op.NE: "!=", Op.LT: "<", Op.LE: "<=", Op.GT: ">"},
    Op.GE: ">=",
}
INTEGER_WIDTH = {DType.I8: 8, DType.I32: 32, DType.I64: 64}
_IDENTITY_ON_INTEGERS = frozenset({Op.FLOOR, Op.CEIL, Op.ROUND})
_FLOAT_FUNCTIONS = APPROXIMABLE | {Op.SQRT, Op.RECIPROCAL} | _IDENTITY_ON_INTEGERS


def symbol(op: Op) -> str:
    """How an operation is written."""
    return SYMBOLS.get(op, f"at.{op.value}")


# Operations


def binary(context: Context, op: Op, left: Numeric, right: Numeric) -> Numeric:
    """A binary operation by the rules of numbers.

    Raises: WrongType, LiteralDoesNotFit, DivisionByZero and what broadcasting raises.
    """
    if op in (Op.DIV, Op.FLOORDIV, Op.MOD) and isinstance(right, Literal) and right.value == 0:
        raise DivisionByZero(context.place)
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _fold(context, op, left.value, right.value)
    if op in INDEX_RULES and _is_index(left) and _is_index(right):
        return _index_operation(context, op, left, right)
    dtype = _operand_dtype(context, op, (left, right))
    (a, b), positions = broadcast(context, (left, right))
    args = (typed(context, a, dtype).value, typed(context, b, dtype).value)
    result = DType.BOOL if op in COMPARISONS else dtype
    return context.draft.emit(Elementwise(op=op, args=args, math=context.policy(op)), result, positions)


def unary(context: Context, op: Op, operand: Numeric) -> Numeric:
    """A unary operation or function by the rules of numbers; a strict rsqrt is a rounded root, then a rounded division.

    Raises: WrongType.
    """
    if isinstance(operand, Literal) and op in (Op.NEG, Op.ABS):
        return Literal(value=-operand.value if op is Op.NEG else abs(operand.value))
    if isinstance(operand, IndexTerm) and op is Op.NEG:
        return IndexTerm(expression=operand.expression.scaled(-1), positions=operand.positions)
    dtype = common_dtype(context, (operand,))
    if op in _FLOAT_FUNCTIONS and dtype is DType.BOOL:
        raise WrongType(context.place, operation=symbol(op), found="a truth value", instead=_CAST_BOOL)
    if op in _IDENTITY_ON_INTEGERS and not dtype.is_float:
        return operand
    if op in _FLOAT_FUNCTIONS and not dtype.is_float:
        dtype = DType.F32
    _check_operand_type(context, op, dtype)
    array = typed(context, operand, dtype)
    rounded_steps = (Op.SQRT, Op.RECIPROCAL) if op is Op.RSQRT and context.draft.strict else (op,)
    for step in rounded_steps:
        value = Elementwise(op=step, args=(array.value,), math=context.policy(step))
        array = context.draft.emit(value, dtype, array.positions)
    return array


def where(context: Context, condition: Numeric, left: Numeric, right: Numeric) -> Array:
    """`left` where `condition` holds, else `right`.

    Raises: WrongType where the condition is no truth value.
    """
    if common_dtype(context, (condition,)) is not DType.BOOL:
        instead = "write a comparison such as x != 0 as the condition"
        raise WrongType(context.place, operation="at.where", found=f"{kind_name(condition)} first", instead=instead)
    dtype = common_dtype(context, (left, right))
    (c, a, b), positions = broadcast(context, (condition, left, right))
    args = (typed(context, c, DType.BOOL).value, typed(context, a, dtype).value, typed(context, b, dtype).value)
    return context.draft.emit(Elementwise(op=Op.WHERE, args=args), dtype, positions)


# Types


def common_dtype(context: Context, operands: Sequence[Numeric]) -> DType:
    """The type in which operands meet: floats before integers before bool, the wider of two."""
    strong = {DType.I64 if isinstance(o, IndexTerm) else o.dtype for o in operands if not isinstance(o, Literal)}
    numbers = [o.value for o in operands if isinstance(o, Literal)]
    has_float = any(isinstance(n, float) for n in numbers)
    has_integer = any(type(n) is int for n in numbers)
    floats = [d for d in strong if d.is_float]
    integers = [d for d in strong if d.is_integer]
    if floats:
        return floats[0] if len(floats) == 1 else _wider(floats)
    if has_float:
        return DType.F32
    if integers:
        return max(integers, key=INTEGER_WIDTH.__getitem__)
    return DType.I64 if has_integer else DType.BOOL


def _wider(floats: Sequence[DType]) -> DType:
    """f64 beside anything is f64; any other mixture, f16 with bf16 too, meets in f32."""
    return DType.F64 if DType.F64 in floats else DType.F32


def typed(context: Context, operand: Numeric, dtype: DType) -> Array:
    """`operand` as a value of type `dtype`, by an explicit cast where it has another.

    Raises: LiteralDoesNotFit.
    """
    if isinstance(operand, Literal):
        _check_literal(context, operand.value, dtype)
        return context.constant(operand.value, dtype)
    array = context.index_value(operand) if isinstance(operand, IndexTerm) else operand
    if array.dtype is dtype:
        return array
    return context.draft.emit(Elementwise(op=Op.CAST, args=(array.value,), math=STRICT), dtype, array.positions)


def as_array(context: Context, operand: Numeric) -> Array:
    """`operand` as a value of the type it has by itself: f32, i64 or bool for a literal."""
    return typed(context, operand, common_dtype(context, (operand,)))


def _check_literal(context: Context, value: Number, dtype: DType) -> None:
    if dtype.is_float:
        return
    width = INTEGER_WIDTH.get(dtype)
    fits = (
        isinstance(value, bool)
        if width is None
        else not isinstance(value, float) and -(1 << width - 1) <= value < 1 << width - 1
    )
    if not fits:
        raise LiteralDoesNotFit(context.place, value=value, dtype=dtype.value)


_CAST_BOOL = "write at.cast(x, at.f32), or & and | for logic"
_ORDERED = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_LOGIC = frozenset({Op.AND, Op.OR, Op.XOR, Op.NOT})


def _operand_dtype(context: Context, op: Op, operands: Sequence[Numeric]) -> DType:
    """The one type of an operation's operands."""
    dtype = common_dtype(context, operands)
    if op is Op.DIV and not dtype.is_float:
        return DType.F32
    _check_operand_type(context, op, dtype)
    return dtype


def _check_operand_type(context: Context, op: Op, dtype: DType) -> None:
    if op in _LOGIC:
        if dtype.is_float:
            instead = "compare first: (x > 0) & (y > 0)"
            raise WrongType(context.place, operation=symbol(op), found="floating-point numbers", instead=instead)
    elif op in (Op.FLOORDIV, Op.MOD):
        if dtype.is_float:
            instead = "write at.floor(x / y), and x - y * at.floor(x / y) for the remainder"
            raise WrongType(context.place, operation=symbol(op), found="floating-point numbers", instead=instead)
        if dtype is DType.BOOL:
            raise WrongType(context.place, operation=symbol(op), found="truth values", instead=_CAST_BOOL)
    elif op not in (Op.EQ, Op.NE) and dtype is DType.BOOL:
        raise WrongType(context.place, operation=symbol(op), found="truth values", instead=_CAST_BOOL)


# Literals and index expressions


def _fold(context: Context, op: Op, left: Number, right: Number) -> Literal:
    if op in _LOGIC and (isinstance(left, float) or isinstance(right, float)):
        _check_operand_type(context, op, DType.F32)
    return Literal(value=LITERAL_RULES[op](left, right))


def _is_index(operand: Numeric) -> bool:
    return isinstance(operand, IndexTerm) or (isinstance(operand, Literal) and type(operand.value) is int)


def _index_operation(context: Context, op: Op, left: Numeric, right: Numeric) -> IndexTerm:
    (a, b), positions = broadcast(context, (left, right))
    return IndexTerm(expression=INDEX_RULES[op](_affine(a), _affine(b)), positions=positions)


def _affine(operand: Numeric) -> Affine:
    if isinstance(operand, Literal):
        return as_affine(int(operand.value))
    assert isinstance(operand, IndexTerm)
    return operand.expression
