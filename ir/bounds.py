"""Meaning of every operation on float64 arrays, together with a running bound of a real kernel's rounding error.
Must not know programs, axes or loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autotune.ir.types import COMPARISONS, STRICT_MAX_ULP, DType, MathPolicy, Op

Array: TypeAlias = npt.NDArray[Any]

INTEGER_TYPES: dict[DType, type[np.signedinteger[Any]]] = {DType.I64: np.int64, DType.I32: np.int32, DType.I8: np.int8}
LARGEST = {
    DType.F64: float(np.finfo(np.float64).max),
    DType.F32: float(np.finfo(np.float32).max),
    DType.F16: float(np.finfo(np.float16).max),
    DType.BF16: (2.0 - 2.0**-7) * 2.0**127,
}
SMALLEST_NORMAL = {DType.F64: 2.0**-1022, DType.F32: 2.0**-126, DType.F16: 2.0**-14, DType.BF16: 2.0**-126}
NO_ERROR: Array = np.zeros(())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Approx:
    """Values and how far a kernel's own result may be from them.

    `value` is float64 for every float type, the type's own width for integers, bool for bool. `bound` is float64 and
    broadcasts to `value`; infinity says that nothing is known, not even whether the result is a number.
    """

    value: Array
    bound: Array


def roundoff(dtype: DType) -> float:
    """Unit roundoff used in bounds: twice that of f64, because the float64 oracle rounds as well."""
    return 2.0 * dtype.unit_roundoff if dtype is DType.F64 else dtype.unit_roundoff


def exact(value: Array) -> Approx:
    return Approx(value=value, bound=NO_ERROR.reshape((1,) * value.ndim))


def round_to(dtype: DType, value: Array) -> Array:
    """`value` as elements of `dtype`: floats rounded to nearest even but kept as float64, integers in their width."""
    match dtype:
        case DType.F64:
            return value.astype(np.float64)
        case DType.F32:
            return value.astype(np.float32).astype(np.float64)
        case DType.F16:
            return value.astype(np.float16).astype(np.float64)
        case DType.BF16:
            mantissa, exponent = np.frexp(value.astype(np.float64))
            return np.ldexp(np.rint(mantissa * 256.0) / 256.0, exponent)
        case DType.BOOL:
            return value.astype(np.bool_)
        case _:
            return _to_integer(value, dtype)


def elementwise(op: Op, args: Sequence[Approx], operand: DType, dtype: DType, policy: MathPolicy) -> Approx:
    """One elementwise operation on arrays that broadcast, from elements of type `operand` to elements of `dtype`."""
    if op in COMPARISONS:
        return _compare(op, *args)
    match op:
        case Op.WHERE:
            return _where(*args)
        case Op.CAST:
            return cast(args[0], operand, dtype)
        case Op.AND | Op.OR | Op.XOR | Op.NOT:
            return _logic(op, args)
    if not dtype.is_float:
        return _integer(op, args)
    value, error, rounding = _float(op, args, dtype, policy)
    doubtful = [a.bound for a in args]
    if op not in (Op.ADD, Op.SUB, Op.MUL):  # there an infinite operand makes the propagated error infinite as well
        doubtful.append(error)
    return settle(value, error + rounding * (np.abs(value) + error), dtype, doubtful)


def cast(arg: Approx, source: DType, target: DType) -> Approx:
    """Conversion: float to integer truncates, saturates and maps NaN to 0; to bool compares with zero."""
    if source is target:
        return arg
    if target is DType.BOOL:
        zero = exact(np.zeros((1,) * arg.value.ndim, dtype=arg.value.dtype))
        return _compare(Op.NE, arg, zero)
    if not target.is_float:
        return _monotone(lambda x: _to_integer(x, target), arg) if source.is_float else _narrow(arg, target)
    if source.is_float:
        if roundoff(target) <= roundoff(source) and LARGEST[target] >= LARGEST[source]:
            return arg
        bound = arg.bound + roundoff(target) * np.maximum(np.abs(arg.value) + arg.bound, SMALLEST_NORMAL[target])
        return settle(arg.value, np.where(arg.value == 0, arg.bound, bound), target, (arg.bound,))
    value = round_to(target, arg.value)
    slack = np.where(arg.bound > 0, roundoff(target) * np.abs(value), 0.0)
    return Approx(value=value, bound=arg.bound + slack)


def select(condition: Array, chosen: Approx, other: Approx) -> Approx:
    """`chosen` where the (certain) condition holds, else `other`."""
    return Approx(
        value=np.where(condition, chosen.value, other.value), bound=np.where(condition, chosen.bound, other.bound)
    )


def settle(value: Array, bound: Array, dtype: DType, doubtful: Sequence[Array]) -> Approx:
    """Overflow values that `dtype` cannot hold, and give every element a bound that is a number.

    An infinite or NaN result is certain unless one of the `doubtful` errors is infinite or it lies near overflow.
    """
    largest = LARGEST[dtype]
    magnitude = np.abs(value)
    if np.max(magnitude + bound, initial=0.0) <= largest:  # false also for NaN
        return Approx(value=value, bound=bound)
    finite = np.isfinite(value)
    bound = np.where(np.isnan(bound), np.inf, bound)
    near = finite & (magnitude + bound > largest) & ~(magnitude - bound > largest)
    over = finite & (magnitude > largest)
    doubt = np.zeros(value.shape, dtype=np.bool_)
    for error in doubtful:
        doubt |= np.isinf(error)
    bound = np.where(near | (doubt & ~finite), np.inf, np.where(finite & ~over, bound, 0.0))
    return Approx(value=np.where(over, np.copysign(np.inf, value), value), bound=bound)


def _float(op: Op, args: Sequence[Approx], dtype: DType, policy: MathPolicy) -> tuple[Array, Array, Array | float]:
    """Value, propagated error, and rounding per unit of magnitude, of one float operation."""
    u = roundoff(dtype)
    match op:
        case Op.ADD | Op.SUB:
            a, b = args
            return (a.value + b.value if op is Op.ADD else a.value - b.value), a.bound + b.bound, u
        case Op.MUL:
            a, b = args
            error = np.abs(a.value) * b.bound + np.abs(b.value) * a.bound + a.bound * b.bound
            return _underflowing(a.value * b.value, error, dtype, u)
        case Op.DIV:
            return _underflowing(*_divide(*args), dtype, u)
        case Op.FLOORDIV | Op.MOD:
            value, error = _floor_divide(op, args[0], args[1], u)
            return value, error, u
        case Op.NEG:
            return -args[0].value, args[0].bound, 0.0
        case Op.ABS:
            return np.abs(args[0].value), args[0].bound, 0.0
        case Op.MINIMUM | Op.MAXIMUM:
            pick = np.fmin if op is Op.MINIMUM else np.fmax
            return pick(args[0].value, args[1].value), np.maximum(args[0].bound, args[1].bound), 0.0
        case Op.FLOOR | Op.CEIL | Op.ROUND:
            step = {Op.FLOOR: np.floor, Op.CEIL: np.ceil, Op.ROUND: np.rint}[op]
            stepped = _monotone(step, args[0])
            return stepped.value, stepped.bound, 0.0
        case _:
            value, error = _function(op, args[0])
            # every way of rsqrt errs at most what a root and a division do: less than its last places would allow
            roundings = 2.0 if op is Op.RSQRT else max(2.0 * policy.max_ulp, 1.0)
            value, error, rounding = _underflowing(value, error, dtype, u * roundings)
            if op in (Op.EXP, Op.EXP2, Op.SIGMOID) and policy.max_ulp > STRICT_MAX_ULP:
                tiny = SMALLEST_NORMAL[dtype]
                error = error + tiny * ((value < tiny) & np.isfinite(args[0].value))
            return value, error, rounding


def _underflowing(value: Array, error: Array, dtype: DType, relative: float) -> tuple[Array, Array, float]:
    """Add what a result loses by being rounded to a multiple of the smallest subnormal."""
    tiny = SMALLEST_NORMAL[dtype]
    lost = (np.abs(value) < tiny) & (value != 0)
    return value, error + relative * tiny * lost if lost.any() else error, relative


def _divide(a: Approx, b: Approx) -> tuple[Array, Array]:
    value = a.value / b.value
    room = np.abs(b.value) - b.bound
    error = (a.bound + np.abs(value) * b.bound) / np.where(room > 0, room, 1.0)
    doubtful = (room <= 0) & (b.bound > 0)
    return value, np.where(doubtful, np.inf, np.where(np.isinf(value), 0.0, error))


def _floor_divide(op: Op, a: Approx, b: Approx, u: float) -> tuple[Array, Array]:
    quotient, error = _divide(a, b)
    error = error + u * np.abs(quotient)
    jump = np.maximum(
        np.abs(np.floor(quotient + error) - np.floor(quotient)), np.abs(np.floor(quotient - error) - np.floor(quotient))
    )
    if op is Op.FLOORDIV:
        return np.floor_divide(a.value, b.value), jump
    moved = a.bound + np.abs(np.floor(quotient)) * b.bound
    return np.mod(a.value, b.value), moved + np.where(jump > 0, jump * (np.abs(b.value) + b.bound), 0.0)


def _monotone(function: Callable[[Array], Array], arg: Approx) -> Approx:
    """A step function's value and how far it moves within the argument's bound."""
    value = function(arg.value)
    if not arg.bound.any():
        return Approx(value=value, bound=arg.bound)
    middle = value.astype(np.float64)
    up = np.abs(function(arg.value + arg.bound).astype(np.float64) - middle)
    down = np.abs(function(arg.value - arg.bound).astype(np.float64) - middle)
    return Approx(value=value, bound=np.where(np.isinf(arg.bound), np.inf, np.maximum(up, down)))


_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small) + np.where(np.isnan(x), np.nan, 0.0)


def _function(op: Op, arg: Approx) -> tuple[Array, Array]:
    """Value of a one-argument function and the largest change within the argument's bound."""
    x, e = arg.value, arg.bound
    quiet = not e.any()
    match op:
        case Op.EXP | Op.EXP2:
            value = np.exp(x) if op is Op.EXP else np.exp2(x)
            return value, e if quiet else value * np.expm1(e if op is Op.EXP else e * math.log(2.0))
        case Op.LOG:
            value = np.log(x)
            return value, e if quiet else _near_pole(x, e, -np.log1p(-e / np.where(e < x, x, np.inf)))
        case Op.SQRT:
            value = np.sqrt(x)
            return value, e if quiet else _near_pole(x, e, e / (value + np.sqrt(np.maximum(x - e, 0.0))))
        case Op.RSQRT:
            value = 1.0 / np.sqrt(x)
            return value, e if quiet else _near_pole(x, e, 1.0 / np.sqrt(np.where(e < x, x - e, x)) - value)
        case Op.RECIPROCAL:
            value, size = 1.0 / x, np.abs(x)
            return value, e if quiet else _near_pole(size, e, e / (size * np.where(e < size, size - e, 1.0)))
        case Op.TANH | Op.SIGMOID | Op.ERF:
            return _saturating(op, x, e)
        case Op.SIN | Op.COS:
            return (np.sin(x) if op is Op.SIN else np.cos(x)), _at_most(2.0, e, e)
        case _:
            raise AssertionError(f"{op} is no function of one argument")


def _near_pole(x: Array, error: Array, change: Array) -> Array:
    """`change` where the whole interval is positive; nothing is known where it reaches zero with an error."""
    return np.where(error == 0, 0.0, np.where((error < x) | (x == np.inf), change, np.inf))


def _at_most(limit: float, change: Array, error: Array) -> Array:
    """The change of a function whose values lie `limit` apart at most; an unknown argument may even be NaN."""
    return np.where(np.isinf(error), np.inf, np.minimum(change, limit))


def _saturating(op: Op, x: Array, e: Array) -> tuple[Array, Array]:
    """The S-shaped functions: steepest at the end of the interval that is nearest to zero."""
    nearest = np.maximum(np.abs(x) - e, 0.0)
    if op is Op.TANH:
        return np.tanh(x), _at_most(2.0, e / np.cosh(nearest) ** 2, e)
    if op is Op.SIGMOID:
        slope = _sigmoid(nearest) * _sigmoid(-nearest)
        return _sigmoid(x), _at_most(1.0, e * slope, e)
    value = np.asarray(_erf(x), dtype=np.float64)
    return value, _at_most(2.0, e * (2.0 / math.sqrt(math.pi)) * np.exp(-nearest * nearest), e)


def _compare(op: Op, a: Approx, b: Approx) -> Approx:
    functions = {
        Op.EQ: np.equal,
        Op.NE: np.not_equal,
        Op.LT: np.less,
        Op.LE: np.less_equal,
        Op.GT: np.greater,
        Op.GE: np.greater_equal,
    }
    value = functions[op](a.value, b.value)
    slack = a.bound + b.bound
    if not slack.any():
        return Approx(value=value, bound=slack)
    gap = np.abs(a.value.astype(np.float64) - b.value.astype(np.float64))
    return Approx(value=value, bound=np.where((slack > 0) & ((gap <= slack) | np.isinf(slack)), 1.0, 0.0))


def _where(condition: Approx, a: Approx, b: Approx) -> Approx:
    chosen = select(condition.value, a, b)
    if not condition.bound.any():
        return chosen
    gap = np.abs(a.value.astype(np.float64) - b.value.astype(np.float64))
    same = (a.value == b.value) | ((a.value != a.value) & (b.value != b.value))
    gap = np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))
    widened = np.where(condition.bound > 0, gap + np.maximum(a.bound, b.bound), chosen.bound)
    return Approx(value=chosen.value, bound=widened)


def _logic(op: Op, args: Sequence[Approx]) -> Approx:
    functions = {Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor}
    if op is Op.NOT:
        return Approx(value=np.invert(args[0].value), bound=args[0].bound)
    a, b = args
    value = functions[op](a.value, b.value)
    if value.dtype != np.bool_:
        return Approx(value=value, bound=np.where((a.bound > 0) | (b.bound > 0), np.inf, 0.0))
    open_ = (a.bound > 0) | (b.bound > 0)
    if op is not Op.XOR and open_.any():
        decisive = op is Op.OR
        open_ = open_ & ~((a.value == decisive) & (a.bound == 0)) & ~((b.value == decisive) & (b.bound == 0))
    return Approx(value=value, bound=open_.astype(np.float64))


def _integer(op: Op, args: Sequence[Approx]) -> Approx:
    """Integer arithmetic, wrapping in its own width; a zero divisor stands on a dead lane and counts as 1."""
    a, b = args[0], args[-1]
    match op:
        case Op.ADD:
            return Approx(value=a.value + b.value, bound=a.bound + b.bound)
        case Op.SUB:
            return Approx(value=a.value - b.value, bound=a.bound + b.bound)
        case Op.MUL:
            size_a, size_b = np.abs(a.value.astype(np.float64)), np.abs(b.value.astype(np.float64))
            error = (
                size_a * b.bound + size_b * a.bound + a.bound * b.bound if (a.bound.any() or b.bound.any()) else None
            )
            value = a.value * b.value
            return Approx(value=value, bound=error) if error is not None else exact(value)
        case Op.NEG:
            return Approx(value=-a.value, bound=a.bound)
        case Op.ABS:
            return Approx(value=np.abs(a.value), bound=a.bound)
        case Op.MINIMUM | Op.MAXIMUM:
            pick = np.minimum if op is Op.MINIMUM else np.maximum
            return Approx(value=pick(a.value, b.value), bound=np.maximum(a.bound, b.bound))
        case Op.FLOORDIV | Op.MOD:
            divisor = np.where(b.value == 0, np.ones_like(b.value), b.value)
            value = np.floor_divide(a.value, divisor) if op is Op.FLOORDIV else np.mod(a.value, divisor)
            return Approx(value=value, bound=np.where((a.bound > 0) | (b.bound > 0), np.inf, 0.0))
        case Op.FLOOR | Op.CEIL | Op.ROUND:
            return a
        case _:
            raise AssertionError(f"{op} has no integer form")


def _narrow(arg: Approx, target: DType) -> Approx:
    return Approx(value=arg.value.astype(INTEGER_TYPES[target]), bound=arg.bound)


def _to_integer(value: Array, target: DType) -> Array:
    kind = INTEGER_TYPES[target]
    if value.dtype.kind != "f":
        return value.astype(kind)
    info = np.iinfo(kind)
    whole = np.trunc(np.where(np.isnan(value), 0.0, value))
    # The largest i64 is no float64: compare before converting, never after.
    high, low = whole >= float(info.max), whole <= float(info.min)
    inside = np.asarray(np.where(high | low, 0.0, whole)).astype(kind)
    inside[high], inside[low] = info.max, info.min
    return inside
