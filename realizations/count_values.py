"""Events of values and arithmetic: constants, lanes, conversions and elementwise instructions.
Must not know memory, loops or the entry function's arguments."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import frexp
from typing import NamedTuple

from autotune.ir.program import Number
from autotune.ir.types import STRICT, DType, MathPolicy
from autotune.realizations import rounding
from autotune.realizations.builder import Builder, Compare, LoopName, Vector
from autotune.realizations.events import EVENT_COUNT, Event
from autotune.realizations.facts import INT_OF_SIZE, folded_cast
from autotune.realizations.memo import Memo
from autotune.realizations.target import Target

ALU, MUL, FMA, SHUFFLE = int(Event.ALU), int(Event.MUL), int(Event.FMA), int(Event.SHUFFLE)
MASK, SCALAR_ALU = int(Event.MASK), int(Event.SCALAR_ALU)
_DIV_VECTOR, _DIV_SCALAR = int(Event.DIV_VECTOR), int(Event.DIV_SCALAR)
_SQRT_VECTOR, _SQRT_SCALAR = int(Event.SQRT_VECTOR), int(Event.SQRT_SCALAR)
_BROADCAST_LOAD, _SCALAR_LOAD = int(Event.BROADCAST_LOAD), int(Event.SCALAR_LOAD)
_SATURATING_STEPS = 4  # convert, clamp above, replace NaN


class Scalar:
    """Handle of a one-lane value, with the loop depth that made it."""

    __slots__ = ("depth", "floating", "loaded", "registers")

    def __init__(self, depth: int, loaded: bool) -> None:
        self.depth = depth
        self.loaded = loaded  # still only a load that a splat can take over
        self.floating = False  # the bits of a float, not moved to a general register yet
        self.registers = 1


class Shape:
    """Handle shared by all wide values of one type: how many registers, and the one Vector standing for them."""

    __slots__ = ("registers", "vector")

    def __init__(self, dtype: DType, lanes: int, registers: int) -> None:
        self.registers = registers
        self.vector = Vector(dtype, lanes, self)


class Slot:
    """Handle of register storage: how many lanes the last store had."""

    __slots__ = ("lanes",)

    def __init__(self) -> None:
        self.lanes = 0


class Place(NamedTuple):
    """A piece of code that runs `factor` times for each time that the place around it does, with its own events."""

    around: int | None
    factor: float
    name: LoopName | None
    counts: list[float]


class CountingValues(Builder, ABC):
    """Wide values of one type are one object, since nothing but their type matters; one-lane values are told apart."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.instructions = 0
        self.places = [Place(None, 1.0, None, [0.0] * EVENT_COUNT)]
        self._here = self.places[0].counts
        self._opened = [0]  # numbers of the places that stand open, outermost first
        self._cold = [0.0] * EVENT_COUNT
        self._shapes: dict[tuple[DType, int], Shape] = {}
        self._masks: dict[tuple[int, int], Shape] = {}
        self._constants: dict[tuple[DType, Number, int], Vector] = {}
        self._made: Memo[tuple[object, ...], Vector] = Memo()

    # ---- recording ----------------------------------------------------------------------------------------------
    def _put(self, event: int, times: float) -> None:
        self._here[event] += times

    def _put_at(self, depth: int, event: int, times: float) -> None:
        """Charge where a hoisted instruction ends up."""
        opened = self._opened
        self.places[opened[min(depth, len(opened) - 1)]].counts[event] += times

    def _enter(self, factor: float, name: LoopName | None = None) -> None:
        """Open a place inside the innermost one that is executed `factor` times as often."""
        self.places.append(Place(self._opened[-1], factor, name, [0.0] * EVENT_COUNT))
        self._opened.append(len(self.places) - 1)
        self._here = self.places[-1].counts

    def _leave(self) -> None:
        self._opened.pop()
        self._here = self.places[self._opened[-1]].counts

    def _shape(self, dtype: DType, lanes: int) -> Shape:
        key = (dtype, lanes)
        if (found := self._shapes.get(key)) is None:
            found = Shape(dtype, lanes, self.target.registers(dtype, lanes))
            self._shapes[key] = found
        return found

    def _result(self, dtype: DType, lanes: int) -> Vector:
        if dtype is DType.BOOL:
            return self._mask(lanes, self.target.registers(DType.I32, lanes))
        return self._shape(dtype, lanes).vector

    def _mask(self, lanes: int, registers: int) -> Vector:
        """A BOOL vector that came from `registers` registers of comparison."""
        if lanes == 1:
            return self._scalar(DType.BOOL)
        key = (lanes, 1 if self.target.has_mask_registers else registers)
        if (found := self._masks.get(key)) is None:
            found = Shape(DType.BOOL, lanes, key[1])
            self._masks[key] = found
        return found.vector

    def _scalar(self, dtype: DType) -> Vector:
        return Vector(dtype, 1, Scalar(len(self._opened) - 1, False))

    def _again(self, value: Vector) -> Vector:
        """A wide value without the fact that it is constant."""
        return value.handle.vector  # type: ignore[attr-defined,no-any-return]

    def _do(self, event: int, a: Vector) -> Vector:
        """One instruction a register, with a result like the operand."""
        self.instructions += 1
        if a.lanes == 1:
            self._here[SCALAR_ALU] += 1.0
            return Vector(a.dtype, 1, Scalar(len(self._opened) - 1, False))
        shape: Shape = a.handle  # type: ignore[assignment]
        self._here[event] += shape.registers
        return shape.vector

    def _do_times(self, event: int, a: Vector, times: int) -> Vector:
        result = self._do(event, a)
        for _ in range(times - 1):
            self._do(event, a)
        self.instructions -= times - 1
        return result

    # ---- values -------------------------------------------------------------------------------------------------
    def constant(self, dtype: DType, value: Number, lanes: int = 1) -> Vector:
        value = bool(value) if dtype is DType.BOOL else value
        key = (dtype, value, lanes)
        if (found := self._constants.get(key)) is None:
            handle = Scalar(0, False) if lanes == 1 else self._result(dtype, lanes).handle
            found = Vector(dtype, lanes, handle, value)
            self._constants[key] = found
        return found

    def constants(self, dtype: DType, values: Sequence[Number]) -> Vector:
        return self._scalar(dtype) if len(values) == 1 else self._result(dtype, len(values))

    def splat(self, scalar: Vector, lanes: int) -> Vector:
        if lanes == 1:
            return scalar
        if scalar.constant is not None:
            return self.constant(scalar.dtype, scalar.constant, lanes)
        handle: Scalar = scalar.handle  # type: ignore[assignment]
        key = ("splat", handle, lanes)
        if (found := self._made.find(key)) is None:
            self.instructions += 1
            if handle.loaded:
                self._put_at(handle.depth, _SCALAR_LOAD, -1)
                self._put_at(handle.depth, _BROADCAST_LOAD, 1)
                handle.loaded = False
            elif scalar.dtype is DType.BOOL:
                self._put_at(handle.depth, MASK, 2)
            else:
                moved = scalar.dtype.is_integer and not self.target.has_mask_registers  # AVX-512 broadcasts integers
                self._put_at(handle.depth, SHUFFLE, 1 + moved)
            found = self._result(scalar.dtype, lanes)
            self._made.keep(key, found)
        return found

    def extract(self, vector: Vector, lane: int) -> Vector:
        if vector.lanes == 1:
            return vector
        self.instructions += 1
        if vector.dtype is DType.BOOL:
            self._put(MASK, 2)
        else:
            in_register = lane % self.target.lanes(vector.dtype)
            self._put(SHUFFLE, (in_register > 0) + (in_register * vector.dtype.size_bytes >= 16 and in_register % 2))
        return self._scalar(vector.dtype)

    def shuffle(self, left: Vector, right: Vector, lanes: Sequence[int]) -> Vector:
        if len(lanes) == 1:
            side, lane = (left, lanes[0]) if lanes[0] < left.lanes else (right, lanes[0] - left.lanes)
            return self.extract(side, lane)
        self.instructions += 1
        result = self._result(left.dtype, len(lanes))
        if not self._picks_registers(left, lanes):
            self._put(SHUFFLE, self.target.registers(left.dtype, len(lanes)))
        return result

    def _picks_registers(self, source: Vector, lanes: Sequence[int]) -> bool:
        """Whether the lanes are whole registers of a source, or the first lanes of one, which costs nothing."""
        full = self.target.lanes(source.dtype)
        first, count = lanes[0], len(lanes)
        consecutive = all(lane == first + at for at, lane in enumerate(lanes))
        return consecutive and first % full == 0 and (first % source.lanes) + count <= source.lanes

    def cast(self, value: Vector, dtype: DType) -> Vector:
        source, lanes = value.dtype, value.lanes
        if source is dtype:
            return value
        if (folded := folded_cast(value, dtype)) is not None:
            return self.constant(dtype, folded, lanes)
        if dtype is DType.BOOL:
            return self.compare(Compare.NE, value, self.constant(source, 0, lanes))
        self.instructions += 1
        steps = _SATURATING_STEPS if source.is_float and dtype.is_integer else 1
        if lanes == 1:
            self._put(SCALAR_ALU, steps)
            return self._scalar(dtype)
        registers = max(self.target.registers(source, lanes), self.target.registers(dtype, lanes))
        self._put(ALU, steps * registers)
        if source.size_bytes != dtype.size_bytes and source is not DType.BOOL and registers > 1:
            self._put(SHUFFLE, registers // 2)
        return self._result(dtype, lanes)

    def bitcast(self, value: Vector, dtype: DType) -> Vector:
        if value.lanes == 1:
            result = self._scalar(dtype)
            if value.dtype.is_float and dtype.is_integer:
                result.handle.floating = True  # type: ignore[attr-defined]
            elif value.dtype.is_integer and not value.handle.floating:  # type: ignore[attr-defined]
                self._put(SHUFFLE, 1)  # from a general register to a vector register
            return result
        return self._result(dtype, value.lanes)

    # ---- arithmetic ---------------------------------------------------------------------------------------------
    def add(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        return self._do(ALU, self._general(a))

    def sub(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        return self._do(ALU, self._general(a))

    def _general(self, a: Vector) -> Vector:
        """An operand of integer arithmetic: the bits of one float move to a general register; logic leaves them."""
        if a.lanes == 1 and a.handle.floating:  # type: ignore[attr-defined]
            self._put(SHUFFLE, 1)
        return a

    def mul(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        return self._do(MUL, a)

    def div(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        if a.dtype.is_float and b.constant is not None and abs(frexp(b.constant)[0]) == 0.5:
            return self._do(MUL, a)  # by the exact reciprocal
        self.instructions += 1
        if a.lanes == 1:
            self._put(_DIV_SCALAR, 1)
            if a.dtype.is_integer:
                self._put(SCALAR_ALU, 4)
            return self._scalar(a.dtype)
        if a.dtype.is_float:
            self._put(_DIV_VECTOR, a.handle.registers)  # type: ignore[attr-defined]
            return self._again(a)
        self._put(_DIV_SCALAR, a.lanes)
        self._put(SHUFFLE, 3 * a.lanes)
        return self._do_times(ALU, a, 6)

    def mod(self, a: Vector, b: Vector) -> Vector:
        if a.dtype.is_float:
            return self.fma(self.neg(self.floor(self.div(a, b))), b, a)
        return self.sub(a, self.mul(self.div(a, b), b))

    def fma(self, a: Vector, b: Vector, c: Vector) -> Vector:
        if self.target.has_fma:
            return self._do(FMA, a)
        self._do(MUL, a)
        return self._do(ALU, a)

    def neg(self, a: Vector) -> Vector:
        return self._do(ALU, a)

    def abs(self, a: Vector) -> Vector:
        return self._do(ALU, a)

    def minimum(self, a: Vector, b: Vector) -> Vector:
        return self._do_times(ALU, a, self._extremum_steps(a.dtype))

    def maximum(self, a: Vector, b: Vector) -> Vector:
        return self._do_times(ALU, a, self._extremum_steps(a.dtype))

    def _extremum_steps(self, dtype: DType) -> int:
        """fmin and fmax ignore NaN, which x86 does by a comparison and a blend."""
        return 3 if dtype.is_float and self.target.name != "neon" else 1

    def keep_minimum(self, a: Vector, kept: Vector) -> Vector:
        return self._do(ALU, a)

    def keep_maximum(self, a: Vector, kept: Vector) -> Vector:
        return self._do(ALU, a)

    def sqrt(self, a: Vector) -> Vector:
        if a.lanes > 1:
            return self._do(_SQRT_VECTOR, a)
        self.instructions += 1
        self._put(_SQRT_SCALAR, 1)
        return self._scalar(a.dtype)

    def floor(self, a: Vector) -> Vector:
        return self._do(ALU, a) if self.target.has_round else rounding.floor(self, a)

    def ceil(self, a: Vector) -> Vector:
        return self._do(ALU, a) if self.target.has_round else rounding.ceil(self, a)

    def rint(self, a: Vector) -> Vector:
        return self._do(ALU, a) if self.target.has_round else rounding.rint(self, a)

    def truncate_to_int(self, a: Vector) -> Vector:
        self._do(ALU, a)
        dtype = INT_OF_SIZE[a.dtype.size_bytes]
        return self._scalar(dtype) if a.lanes == 1 else self._result(dtype, a.lanes)

    def scalef(self, a: Vector, n: Vector) -> Vector:
        assert self.target.has_scalef, "this target has no scalef"
        return self._in_vectors(FMA, a)

    def rsqrt_estimate(self, a: Vector) -> Vector:
        assert self.target.has_rsqrt_estimate, "this target has no estimate of the reciprocal square root"
        assert a.dtype is DType.F32
        return self._in_vectors(MUL, a)

    def _in_vectors(self, event: int, a: Vector) -> Vector:
        """An operation of one register at a time, a vector instruction for one lane as well."""
        if a.lanes > 1:
            self.instructions += a.handle.registers - 1  # type: ignore[attr-defined]
            return self._do(event, a)
        self.instructions += 1
        self._put(event, 1)
        return self._scalar(a.dtype)

    def table(self, entries: Sequence[float], index: Vector) -> Vector:
        assert self.target.has_table_permute, "this target has no table permutation"
        dtype = DType.F32 if index.dtype is DType.I32 else DType.F64
        self.instructions += 1
        self._put(SHUFFLE, index.handle.registers + (index.lanes == 1))  # type: ignore[attr-defined]
        return self._scalar(dtype) if index.lanes == 1 else self._result(dtype, index.lanes)

    def bit_and(self, a: Vector, b: Vector) -> Vector:
        return self._logic(a)

    def bit_or(self, a: Vector, b: Vector) -> Vector:
        return self._logic(a)

    def bit_xor(self, a: Vector, b: Vector) -> Vector:
        return self._logic(a)

    def bit_not(self, a: Vector) -> Vector:
        return self._logic(a)

    def _logic(self, a: Vector) -> Vector:
        result = self._do(MASK if a.dtype is DType.BOOL and self.target.has_mask_registers else ALU, a)
        if a.lanes == 1:
            result.handle.floating = a.handle.floating  # type: ignore[attr-defined]
        return result

    def shift_left(self, a: Vector, bits: int) -> Vector:
        return self._do(ALU, self._general(a))

    def shift_right(self, a: Vector, bits: int, *, arithmetic: bool = False) -> Vector:
        return self._do(ALU, self._general(a))

    def compare(self, how: Compare, a: Vector, b: Vector) -> Vector:
        self._do(ALU, a)
        return self._mask(a.lanes, a.handle.registers)  # type: ignore[attr-defined]

    def select(self, mask: Vector, a: Vector, b: Vector) -> Vector:
        if mask.constant is not None:
            return a if mask.constant else b
        return self._logic(a)
