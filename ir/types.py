"""Element types, operations and math permissions, each listed once.
Must not know programs, targets or code generation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class DType(Enum):
    """An element type. Memory holds `size_bytes` an element; bool is a byte in memory and a bit in registers."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I64 = "i64"
    I32 = "i32"
    I8 = "i8"
    BOOL = "bool_"

    __hash__ = object.__hash__  # a member is one object; the hash of an Enum is a call a look-up

    @property
    def size_bytes(self) -> int:
        return _SIZE_BYTES[self]

    @property
    def is_float(self) -> bool:
        return self in (DType.F64, DType.F32, DType.F16, DType.BF16)

    @property
    def is_integer(self) -> bool:
        return self in (DType.I64, DType.I32, DType.I8)

    @property
    def unit_roundoff(self) -> float:
        """u, half the distance from 1 to the next number of this type; 0 for exact types."""
        return _UNIT_ROUNDOFF.get(self, 0.0)


_SIZE_BYTES = {
    DType.F64: 8,
    DType.F32: 4,
    DType.F16: 2,
    DType.BF16: 2,
    DType.I64: 8,
    DType.I32: 4,
    DType.I8: 1,
    DType.BOOL: 1,
}
_UNIT_ROUNDOFF = {DType.F64: 2.0**-53, DType.F32: 2.0**-24, DType.F16: 2.0**-11, DType.BF16: 2.0**-8}


class Op(Enum):
    """Elementwise operations of the language."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    FLOORDIV = "floordiv"
    MOD = "mod"
    NEG = "neg"
    ABS = "abs"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    WHERE = "where"
    CAST = "cast"
    EXP = "exp"
    EXP2 = "exp2"
    LOG = "log"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    RECIPROCAL = "reciprocal"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    ERF = "erf"
    SIN = "sin"
    COS = "cos"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"


COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})
APPROXIMABLE = frozenset({Op.EXP, Op.EXP2, Op.LOG, Op.RSQRT, Op.TANH, Op.SIGMOID, Op.ERF, Op.SIN, Op.COS})
"""Functions whose code is chosen among variants that err at most `max_ulp`."""
EXPENSIVE = APPROXIMABLE | {Op.DIV, Op.SQRT, Op.RECIPROCAL, Op.FLOORDIV, Op.MOD}


class ReduceOp(Enum):
    """Reductions of the language."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    ANY = "any"
    ALL = "all"
    ARGMAX = "argmax"


@dataclass(frozen=True, slots=True, kw_only=True)
class MathPolicy:
    """What one operation's arithmetic may do.

    Units: `max_ulp` in units in the last place of the result type; 0 asks for the correctly rounded operation.
    """

    reassociate: bool = False
    contract: bool = False
    max_ulp: float = 0.0


STRICT = MathPolicy()
REASSOCIATING = MathPolicy(reassociate=True, contract=True)

DEFAULT_MAX_ULP = {
    Op.EXP: 2.0,
    Op.EXP2: 2.0,
    Op.LOG: 2.0,
    Op.RSQRT: 1.5,  # a rounded root, then a rounded division
    Op.TANH: 4.0,
    Op.SIGMOID: 4.0,
    Op.ERF: 4.0,
    Op.SIN: 2.0,
    Op.COS: 2.0,
}
STRICT_MAX_ULP = 1.0
