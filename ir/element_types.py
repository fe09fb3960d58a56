"""Which element types every kind of value takes and gives.
Must not know axes, loops or where a program comes from."""

from __future__ import annotations

from autotune.ir.program import (
    Carried,
    Const,
    Elementwise,
    Final,
    IndexValue,
    Indirect,
    Joined,
    Let,
    Load,
    MergeSide,
    Program,
    Reduce,
    Reindex,
    ScalarArgument,
    Value,
)
from autotune.ir.types import COMPARISONS, DType, Op, ReduceOp

LOGIC = frozenset({Op.AND, Op.OR, Op.XOR, Op.NOT})
ANY_NUMBER = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.MOD, Op.NEG, Op.ABS, Op.MINIMUM, Op.MAXIMUM})
TWO_ARGUMENTS = COMPARISONS | frozenset(
    {Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.FLOORDIV, Op.MOD, Op.MINIMUM, Op.MAXIMUM, Op.AND, Op.OR, Op.XOR}
)


def type_fault(program: Program, value: Value, dtype: DType, lets: dict[int, Let]) -> str | None:
    """What is wrong with the element types of a value, None where nothing is."""
    match value:
        case Const(value=number):
            return "a constant that is no bool" if (dtype is DType.BOOL) != isinstance(number, bool) else None
        case ScalarArgument(parameter=parameter):
            return _differs(dtype, program.parameters[parameter].dtype)
        case IndexValue():
            return _differs(dtype, DType.I64)
        case Load(tensor=tensor, index=index):
            if any(not lets[i.value].dtype.is_integer for i in index if isinstance(i, Indirect)):
                return "an index read from memory is no integer"
            return _differs(dtype, program.tensor(tensor).dtype)
        case Elementwise(op=op, args=args):
            return _elementwise_fault(op, [lets[a].dtype for a in args], dtype)
        case Reduce(op=op, body=body, init=init):
            return _reduction_fault(op, lets[body].dtype, None if init is None else lets[init].dtype, dtype)
        case Reindex(value=inner):
            return _differs(dtype, lets[inner].dtype)
        case Carried() | Final() | MergeSide() | Joined():
            return None  # check_loop_carries, check_branches


def _differs(found: DType, expected: DType) -> str | None:
    return None if found is expected else f"type {found.value} where {expected.value} is due"


def _elementwise_fault(op: Op, args: list[DType], result: DType) -> str | None:
    count = 3 if op is Op.WHERE else 2 if op in TWO_ARGUMENTS else 1
    if len(args) != count:
        return f"{op.value} takes {count} arguments, found {len(args)}"
    if op is Op.CAST:
        return None
    if op is Op.WHERE and args[0] is not DType.BOOL:
        return "the condition of where is not of type bool_"
    operand = args[-1]
    if any(a is not operand for a in (args[1:] if op is Op.WHERE else args)):
        return f"{op.value} of values of different types"
    if op in COMPARISONS:
        return _differs(result, DType.BOOL)
    if result is not operand:
        return _differs(result, operand)
    if op in LOGIC:
        return f"{op.value} of floating-point numbers" if operand.is_float else None
    if op is Op.WHERE:
        return None
    if op in ANY_NUMBER:
        return f"{op.value} of truth values" if operand is DType.BOOL else None
    return None if operand.is_float else f"{op.value} of {operand.value}; it takes floating-point numbers"


def _reduction_fault(op: ReduceOp, body: DType, init: DType | None, result: DType) -> str | None:
    if op is ReduceOp.ARGMAX:
        return _differs(result, DType.I64)
    if op in (ReduceOp.ANY, ReduceOp.ALL) and body is not DType.BOOL:
        return f"{op.value} of values that are not of type bool_"
    if op not in (ReduceOp.ANY, ReduceOp.ALL) and body is DType.BOOL:
        return f"{op.value} of truth values"
    return _differs(body, result) or (None if init is None else _differs(init, result))
