"""The vector vocabulary that every emitted instruction goes through; written once as LLVM and once as event counts.
Must not know programs, nests or candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from autotune.ir.program import Number
from autotune.ir.types import STRICT, DType, MathPolicy
from autotune.realizations.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """`lanes` elements of `dtype` in registers (one lane is a scalar; BOOL is a bit a lane).

    `handle` belongs to the builder that made it. `constant` is set where every lane is known.
    """

    dtype: DType
    lanes: int
    handle: object
    constant: Number | None = None


class Space(Enum):
    """Where memory lives: caller's tensors and the workspace are real memory, REGISTER slots vanish into registers."""

    TENSOR = "tensor"
    WORKSPACE = "workspace"
    REGISTER = "register"


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """Base of an array of `dtype`; bool arrays hold a byte an element."""

    dtype: DType
    space: Space
    handle: object


class Compare(Enum):
    """Ordered comparisons, except NE, which holds when either side is NaN."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


Body = Callable[[Vector, tuple[Vector, ...]], tuple[Vector, ...]]


class Steps(Enum):
    """What one trip of a loop over a block of an axis covers."""

    BLOCKS = "blocks"  # a whole register block
    VECTORS = "vectors"  # one vector of those that whole register blocks leave
    MASKED = "masked"  # one vector, the last one with the lanes that exist
    POINTS = "points"  # one coordinate


class LoopName(NamedTuple):
    """The loop over a block of `axis` in register blocks of `factor` vectors, or over what those leave."""

    axis: int
    steps: Steps
    factor: int
    lanes: int


class Builder(ABC):
    """Writes (or counts) one function.

    Every arithmetic method takes operands of one dtype and one lane count and returns the same; scalars are not
    broadcast silently, `splat` does it. Instructions carry only the fast-math flags that their `math` permits.
    Index arithmetic is on one-lane I64 vectors and is address arithmetic: it is counted apart.
    """

    workspace: Pointer  # bytes, handed out in views
    first: Vector  # one-lane I64: the packets to run are first .. last-1
    last: Vector
    instructions: int  # builder instructions written so far

    def __init__(self, target: Target) -> None:
        self.target = target

    # ---- entry --------------------------------------------------------------------------------------------------
    @abstractmethod
    def argument_pointer(self, slot: int, dtype: DType) -> Pointer:
        """The tensor whose address is in 64-bit slot number `slot` of the arguments."""

    @abstractmethod
    def argument_scalar(self, slot: int, dtype: DType) -> Vector:
        """The scalar in slot number `slot`, as bits in the low bytes; an extent or stride is an I64."""

    # ---- values -------------------------------------------------------------------------------------------------
    @abstractmethod
    def constant(self, dtype: DType, value: Number, lanes: int = 1) -> Vector:
        """The same number in every lane."""

    @abstractmethod
    def constants(self, dtype: DType, values: Sequence[Number]) -> Vector:
        """One number a lane."""

    def iota(self, dtype: DType, lanes: int) -> Vector:
        """0, 1, 2, ..."""
        return self.constants(dtype, range(lanes))

    @abstractmethod
    def splat(self, scalar: Vector, lanes: int) -> Vector:
        """A one-lane value in every lane; the value itself where `lanes` is 1."""

    @abstractmethod
    def extract(self, vector: Vector, lane: int) -> Vector:
        """One lane as a scalar."""

    @abstractmethod
    def shuffle(self, left: Vector, right: Vector, lanes: Sequence[int]) -> Vector:
        """Lanes of `left` followed by `right`, chosen by number (two-source permutation)."""

    @abstractmethod
    def cast(self, value: Vector, dtype: DType) -> Vector:
        """Convert numbers: round to nearest, float to integer saturates and NaN gives 0, anything to bool is `!= 0`."""

    @abstractmethod
    def bitcast(self, value: Vector, dtype: DType) -> Vector:
        """Reinterpret lanes of equal size."""

    # ---- arithmetic ---------------------------------------------------------------------------------------------
    @abstractmethod
    def add(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector: ...

    @abstractmethod
    def sub(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector: ...

    @abstractmethod
    def mul(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector: ...

    @abstractmethod
    def div(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        """Division: correctly rounded for floats; floor division for integers (the divisor must not be zero)."""

    @abstractmethod
    def mod(self, a: Vector, b: Vector) -> Vector:
        """`a - b·floor(a / b)`, with the divisor's sign, as Python's %."""

    @abstractmethod
    def fma(self, a: Vector, b: Vector, c: Vector) -> Vector:
        """`a·b + c`, rounded once. On a target without FMA this is a multiplication and an addition."""

    @abstractmethod
    def neg(self, a: Vector) -> Vector: ...

    @abstractmethod
    def abs(self, a: Vector) -> Vector: ...

    @abstractmethod
    def minimum(self, a: Vector, b: Vector) -> Vector:
        """As C's fmin: a NaN operand is ignored."""

    @abstractmethod
    def maximum(self, a: Vector, b: Vector) -> Vector:
        """As C's fmax: a NaN operand is ignored."""

    @abstractmethod
    def keep_minimum(self, a: Vector, kept: Vector) -> Vector:
        """`a` where it is smaller, else `kept`; a NaN in `a` is ignored and `kept` is never NaN. One instruction."""

    @abstractmethod
    def keep_maximum(self, a: Vector, kept: Vector) -> Vector:
        """`a` where it is larger, else `kept`; a NaN in `a` is ignored and `kept` is never NaN. One instruction."""

    @abstractmethod
    def sqrt(self, a: Vector) -> Vector: ...

    @abstractmethod
    def floor(self, a: Vector) -> Vector: ...

    @abstractmethod
    def ceil(self, a: Vector) -> Vector: ...

    @abstractmethod
    def rint(self, a: Vector) -> Vector:
        """Round to the nearest integer, ties to even, as a float."""

    @abstractmethod
    def truncate_to_int(self, a: Vector) -> Vector:
        """Float to the integer type of equal size, for values known to fit (no saturation is emitted)."""

    @abstractmethod
    def scalef(self, a: Vector, n: Vector) -> Vector:
        """`a · 2^⌊n⌋` for floats; only on targets with `has_scalef`."""

    @abstractmethod
    def rsqrt_estimate(self, a: Vector) -> Vector:
        """About 1/√a for F32, relative error at most 2^-14; only on targets with `has_rsqrt_estimate`.

        Infinity for zeros, with their sign; 0 for infinity; NaN below zero. The bits may differ between CPUs.
        """

    @abstractmethod
    def table(self, entries: Sequence[float], index: Vector) -> Vector:
        """Entries picked by the low bits of the index lanes; only on targets with `has_table_permute`.

        Shapes: one or two registers of entries: 16 or 32 (F32) by an I32 index, 8 or 16 (F64) by an I64 index.
        """

    @abstractmethod
    def bit_and(self, a: Vector, b: Vector) -> Vector: ...

    @abstractmethod
    def bit_or(self, a: Vector, b: Vector) -> Vector: ...

    @abstractmethod
    def bit_xor(self, a: Vector, b: Vector) -> Vector: ...

    @abstractmethod
    def bit_not(self, a: Vector) -> Vector: ...

    @abstractmethod
    def shift_left(self, a: Vector, bits: int) -> Vector: ...

    @abstractmethod
    def shift_right(self, a: Vector, bits: int, *, arithmetic: bool = False) -> Vector: ...

    @abstractmethod
    def compare(self, how: Compare, a: Vector, b: Vector) -> Vector:
        """A BOOL vector. Integers compare as signed numbers."""

    @abstractmethod
    def select(self, mask: Vector, a: Vector, b: Vector) -> Vector:
        """`a` where the mask holds, else `b`."""

    # ---- memory -------------------------------------------------------------------------------------------------
    @abstractmethod
    def load(
        self,
        base: Pointer,
        index: Vector,
        lanes: int,
        *,
        mask: Vector | None = None,
        fill: Number = 0,
        align_bytes: int | None = None,
    ) -> Vector:
        """Contiguous elements from element number `index` on; masked-off lanes are `fill` and their memory untouched.

        One lane is a scalar load. `align_bytes` defaults to the element size. A BOOL array yields a BOOL vector.
        """

    @abstractmethod
    def prefetch(self, base: Pointer, index: Vector) -> None:
        """Hint that the line of element number `index` is wanted in the second level; it may lie outside the array."""

    @abstractmethod
    def store(
        self,
        base: Pointer,
        index: Vector,
        value: Vector,
        *,
        mask: Vector | None = None,
        align_bytes: int | None = None,
    ) -> None:
        """Contiguous store; masked-off lanes are not written."""

    @abstractmethod
    def gather(self, base: Pointer, indices: Vector, *, mask: Vector | None = None, fill: Number = 0) -> Vector:
        """One element a lane from the element numbers in `indices` (I64 or I32)."""

    @abstractmethod
    def scatter(self, base: Pointer, indices: Vector, value: Vector, *, mask: Vector | None = None) -> None:
        """One element a lane to the distinct element numbers in `indices`."""

    @abstractmethod
    def slot(self, dtype: DType, elements: int, align_bytes: int) -> Pointer:
        """Register-class storage of the whole function: fixed-offset accesses become registers."""

    @abstractmethod
    def stack(self, dtype: DType, elements: int, align_bytes: int) -> Pointer:
        """An array in the stack frame of the whole function: memory like the workspace, placed by the compiler."""

    @abstractmethod
    def view(self, workspace: Pointer, offset_bytes: int, dtype: DType) -> Pointer:
        """Typed array at a fixed byte offset of the workspace."""

    # ---- index arithmetic (one-lane I64) ------------------------------------------------------------------------
    @abstractmethod
    def index(self, value: int) -> Vector: ...

    @abstractmethod
    def index_add(self, a: Vector, b: Vector) -> Vector: ...

    @abstractmethod
    def index_scale(self, a: Vector, factor: int) -> Vector: ...

    @abstractmethod
    def index_floordiv(self, a: Vector, divisor: int) -> Vector:
        """Quotient of a non-negative index and a positive constant."""

    @abstractmethod
    def index_mod(self, a: Vector, divisor: int) -> Vector:
        """Remainder of a non-negative index and a positive constant."""

    @abstractmethod
    def index_min(self, a: Vector, b: Vector) -> Vector: ...

    @abstractmethod
    def index_max(self, a: Vector, b: Vector) -> Vector: ...

    @abstractmethod
    def first_lanes(self, count: Vector, lanes: int) -> Vector:
        """Mask of the lanes whose number is below the one-lane I64 `count` (which may be ≤ 0 or ≥ lanes)."""

    # ---- control ------------------------------------------------------------------------------------------------
    @abstractmethod
    def loop(
        self,
        start: Vector,
        stop: Vector,
        step: int,
        carried: tuple[Vector, ...],
        body: Body,
        *,
        trips: float | None = None,
        name: LoopName | None = None,
    ) -> tuple[Vector, ...]:
        """Counted loop `for i in range(start, stop, step)`, never unrolled by LLVM; carried values go through phis.

        `trips` is the expected number of trips where the bounds are not constants (needed to weigh its events). `name`
        tells what decides the trips, for counts that are to hold for other numbers of them.
        """

    @abstractmethod
    def repeat(self, test: Callable[[], Vector], body: Callable[[], None], *, trips: float) -> None:
        """While loop: `test` gives a one-lane BOOL before every trip, and the loop ends where it does not hold.

        `trips` is the expected number of trips. Values leave neither.
        """

    @abstractmethod
    def branch(
        self,
        condition: Vector,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        *,
        probability: float = 0.5,
    ) -> None:
        """Run `then` where the one-lane BOOL holds, else `otherwise`. Values do not leave the arms."""

    @abstractmethod
    def repair(self, lanes: Vector, value: Vector, call: str, argument: Vector) -> Vector:
        """`value` with the lanes of the mask replaced by `call(argument lane)`, skipped by one branch if none is set.

        `call` is a libm function of one argument of `value`'s type named in `targets.ALLOWED_CALLS`; a scalar path.
        """

    # ---- derived ------------------------------------------------------------------------------------------------
    def reduce(self, combine: Callable[[Vector, Vector], Vector], vector: Vector) -> Vector:
        """Horizontal reduction by halving: log2(lanes) shuffles and combinations, then lane 0.

        Shapes: `lanes` is a power of two. Needs permission to reassociate where `combine` rounds.
        """
        lanes = vector.lanes
        while lanes > 1:
            lanes //= 2
            low = self.shuffle(vector, vector, range(lanes))
            high = self.shuffle(vector, vector, range(lanes, 2 * lanes))
            vector = combine(low, high)
        return self.extract(vector, 0) if vector.lanes > 1 else vector
