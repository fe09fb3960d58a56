"""Values and arithmetic of the LLVM builder: constants, lanes, conversions and elementwise instructions.
Must not know memory, loops or the entry function's arguments."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence

from autotune.ir.program import Number
from autotune.ir.types import STRICT, DType, MathPolicy
from autotune.realizations import llvm_text as text
from autotune.realizations import rounding
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.facts import INT_OF_SIZE, folded_cast
from autotune.realizations.memo import Memo
from autotune.realizations.target import Target

_FLOAT_PREDICATE = {
    Compare.EQ: "oeq", Compare.NE: "une", Compare.LT: "olt", Compare.LE: "ole", Compare.GT: "ogt", Compare.GE: "oge",
}  # fmt: skip
_INT_PREDICATE = {
    Compare.EQ: "eq", Compare.NE: "ne", Compare.LT: "slt", Compare.LE: "sle", Compare.GT: "sgt", Compare.GE: "sge",
}  # fmt: skip


class LlvmValues(Builder, ABC):
    """A Vector's handle is its LLVM operand text."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.instructions = 0
        self._out = text.FunctionText()
        self._constants: dict[tuple[DType, str, int], Vector] = {}
        self._made: Memo[tuple[object, ...], Vector] = Memo()

    # ---- writing ------------------------------------------------------------------------------------------------
    def _new(self, dtype: DType, lanes: int, instruction: str) -> Vector:
        self.instructions += 1
        return Vector(dtype, lanes, self._out.value(instruction))

    def _like(self, a: Vector, instruction: str) -> Vector:
        self.instructions += 1
        return Vector(a.dtype, a.lanes, self._out.value(instruction))

    def _shared(self, key: tuple[object, ...], make: Callable[[], Vector]) -> Vector:
        """The value made before for this key in a dominating place, or a new one."""
        if (found := self._made.find(key)) is None:
            found = make()
            self._made.keep(key, found)
        return found

    def _intrinsic(self, stem: str, *operands: Vector) -> Vector:
        """An overloaded intrinsic whose only name suffix is the type of its operands and result."""
        first = operands[0]
        types = ", ".join(text.type_text(o.dtype, o.lanes) for o in operands)
        arguments = ", ".join(f"{text.type_text(o.dtype, o.lanes)} {o.handle}" for o in operands)
        name = f"llvm.{stem}.{text.suffix_text(first.dtype, first.lanes)}"
        self.instructions += 1
        called = self._out.call(text.type_text(first.dtype, first.lanes), name, arguments, types)
        return Vector(first.dtype, first.lanes, called)

    # ---- values -------------------------------------------------------------------------------------------------
    def constant(self, dtype: DType, value: Number, lanes: int = 1) -> Vector:
        value = bool(value) if dtype is DType.BOOL else value
        written = text.element_literal(dtype, value)
        key = (dtype, written, lanes)
        if (found := self._constants.get(key)) is None:
            found = Vector(dtype, lanes, text.literal(dtype, value, lanes), value)
            self._constants[key] = found
        return found

    def constants(self, dtype: DType, values: Sequence[Number]) -> Vector:
        if all(value == values[0] for value in values) and values[0]:
            return self.constant(dtype, values[0], len(values))
        return Vector(dtype, len(values), text.lanes_literal(dtype, values))

    def splat(self, scalar: Vector, lanes: int) -> Vector:
        if lanes == 1:
            return scalar
        if scalar.constant is not None:
            return self.constant(scalar.dtype, scalar.constant, lanes)
        return self._shared(("splat", scalar.handle, lanes), lambda: self._splat(scalar, lanes))

    def _splat(self, scalar: Vector, lanes: int) -> Vector:
        wide = text.type_text(scalar.dtype, lanes)
        one = self._out.value(f"insertelement {wide} poison, {text.type_text(scalar.dtype, 1)} {scalar.handle}, i64 0")
        return self._new(
            scalar.dtype, lanes, f"shufflevector {wide} {one}, {wide} poison, <{lanes} x i32> zeroinitializer"
        )

    def extract(self, vector: Vector, lane: int) -> Vector:
        if vector.lanes == 1:
            return vector
        wide = text.type_text(vector.dtype, vector.lanes)
        return self._new(vector.dtype, 1, f"extractelement {wide} {vector.handle}, i64 {lane}")

    def shuffle(self, left: Vector, right: Vector, lanes: Sequence[int]) -> Vector:
        if len(lanes) == 1:
            side, lane = (left, lanes[0]) if lanes[0] < left.lanes else (right, lanes[0] - left.lanes)
            return self.extract(side, lane)
        left, right = (self._as_vector(left), self._as_vector(right)) if left.lanes == 1 else (left, right)
        return self._shuffled(left, right, lanes)

    def _shuffled(self, left: Vector, right: Vector, lanes: Sequence[int]) -> Vector:
        source = f"<{left.lanes} x {text.type_text(left.dtype, 1)}>"
        picked = ", ".join(f"i32 {lane}" for lane in lanes)
        return self._new(
            left.dtype,
            len(lanes),
            f"shufflevector {source} {left.handle}, {source} {right.handle}, <{len(lanes)} x i32> <{picked}>",
        )

    def _as_vector(self, scalar: Vector) -> Vector:
        element = text.type_text(scalar.dtype, 1)
        return Vector(
            scalar.dtype,
            1,
            self._out.value(f"insertelement <1 x {element}> poison, {element} {scalar.handle}, i64 0"),
        )

    def cast(self, value: Vector, dtype: DType) -> Vector:
        source, lanes = value.dtype, value.lanes
        if source is dtype:
            return value
        if (folded := folded_cast(value, dtype)) is not None:
            return self.constant(dtype, folded, lanes)
        if dtype is DType.BOOL:
            return self.compare(Compare.NE, value, self.constant(source, 0, lanes))
        if source.is_float and dtype.is_integer:
            return self._float_to_int(value, dtype)
        types = text.type_text(source, lanes), text.type_text(dtype, lanes)
        return self._new(dtype, lanes, f"{_conversion(source, dtype)} {types[0]} {value.handle} to {types[1]}")

    def _float_to_int(self, value: Vector, dtype: DType) -> Vector:
        types = text.type_text(value.dtype, value.lanes), text.type_text(dtype, value.lanes)
        suffixes = text.suffix_text(dtype, value.lanes), text.suffix_text(value.dtype, value.lanes)
        self.instructions += 1
        name = self._out.call(
            types[1], f"llvm.fptosi.sat.{suffixes[0]}.{suffixes[1]}", f"{types[0]} {value.handle}", types[0]
        )
        return Vector(dtype, value.lanes, name)

    def bitcast(self, value: Vector, dtype: DType) -> Vector:
        if dtype is value.dtype:
            return value
        types = text.type_text(value.dtype, value.lanes), text.type_text(dtype, value.lanes)
        return Vector(dtype, value.lanes, self._out.value(f"bitcast {types[0]} {value.handle} to {types[1]}"))

    # ---- arithmetic ---------------------------------------------------------------------------------------------
    def _binary(self, for_float: str, for_int: str, a: Vector, b: Vector, math_policy: MathPolicy = STRICT) -> Vector:
        opcode = for_float + _flags(math_policy) if a.dtype.is_float else for_int
        return self._like(a, f"{opcode} {text.type_text(a.dtype, a.lanes)} {a.handle}, {b.handle}")

    def add(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        return self._binary("fadd", "add", a, b, math)

    def sub(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        return self._binary("fsub", "sub", a, b, math)

    def mul(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        return self._binary("fmul", "mul", a, b, math)

    def div(self, a: Vector, b: Vector, math: MathPolicy = STRICT) -> Vector:
        if a.dtype.is_float:
            return self._binary("fdiv", "", a, b, math)
        quotient = self._binary("", "sdiv", a, b)
        one, zero = self.constant(a.dtype, 1, a.lanes), self.constant(a.dtype, 0, a.lanes)
        return self.sub(quotient, self.select(self._floor_correction(a, b, quotient), one, zero))

    def mod(self, a: Vector, b: Vector) -> Vector:
        if a.dtype.is_float:
            return self.fma(self.neg(self.floor(self.div(a, b))), b, a)
        quotient = self._binary("", "sdiv", a, b)
        remainder = self.sub(a, self.mul(quotient, b))
        wrong = self._floor_correction(a, b, quotient)
        return self.select(wrong, self.add(remainder, b), remainder)

    def _floor_correction(self, a: Vector, b: Vector, quotient: Vector) -> Vector:
        """Where the truncated quotient lies one above the floor: a remainder of the other sign than b."""
        zero = self.constant(a.dtype, 0, a.lanes)
        remainder = self.sub(a, self.mul(quotient, b))
        signs = self.compare(Compare.LT, self.bit_xor(remainder, b), zero)
        return self.bit_and(signs, self.compare(Compare.NE, remainder, zero))

    def fma(self, a: Vector, b: Vector, c: Vector) -> Vector:
        if not self.target.has_fma:
            return self.add(self.mul(a, b), c)
        return self._intrinsic("fma", a, b, c)

    def neg(self, a: Vector) -> Vector:
        kind = text.type_text(a.dtype, a.lanes)
        if a.dtype.is_float:
            return self._like(a, f"fneg {kind} {a.handle}")
        return self._like(a, f"sub {kind} {text.literal(a.dtype, 0, a.lanes)}, {a.handle}")

    def abs(self, a: Vector) -> Vector:
        if a.dtype.is_float:
            return self._intrinsic("fabs", a)
        return self.select(self.compare(Compare.LT, a, self.constant(a.dtype, 0, a.lanes)), self.neg(a), a)

    def minimum(self, a: Vector, b: Vector) -> Vector:
        return self._intrinsic("minnum" if a.dtype.is_float else "smin", a, b)

    def maximum(self, a: Vector, b: Vector) -> Vector:
        return self._intrinsic("maxnum" if a.dtype.is_float else "smax", a, b)

    def keep_minimum(self, a: Vector, kept: Vector) -> Vector:
        return self._kept(Compare.LT, a, kept)

    def keep_maximum(self, a: Vector, kept: Vector) -> Vector:
        return self._kept(Compare.GT, a, kept)

    def _kept(self, how: Compare, a: Vector, kept: Vector) -> Vector:
        self.instructions -= 1  # the comparison and the choice become one instruction
        return self.select(self.compare(how, a, kept), a, kept)

    def sqrt(self, a: Vector) -> Vector:
        return self._intrinsic("sqrt", a)

    def floor(self, a: Vector) -> Vector:
        return self._intrinsic("floor", a) if self.target.has_round else rounding.floor(self, a)

    def ceil(self, a: Vector) -> Vector:
        return self._intrinsic("ceil", a) if self.target.has_round else rounding.ceil(self, a)

    def rint(self, a: Vector) -> Vector:
        return self._intrinsic("roundeven", a) if self.target.has_round else rounding.rint(self, a)

    def truncate_to_int(self, a: Vector) -> Vector:
        dtype = INT_OF_SIZE[a.dtype.size_bytes]
        types = text.type_text(a.dtype, a.lanes), text.type_text(dtype, a.lanes)
        return self._new(dtype, a.lanes, f"fptosi {types[0]} {a.handle} to {types[1]}")

    def scalef(self, a: Vector, n: Vector) -> Vector:
        assert self.target.has_scalef, "this target has no scalef"
        return self._by_registers(self._scalef_register, a, n)

    def _scalef_register(self, a: Vector, n: Vector) -> Vector:
        kind = text.type_text(a.dtype, a.lanes)
        bits = 8 * a.dtype.size_bytes * a.lanes
        mask = f"i{max(a.lanes, 8)}"
        rounding_type, rounding_operand = (", i32", ", i32 4") if bits == 512 else ("", "")
        name = f"llvm.x86.avx512.mask.scalef.{'ps' if a.dtype is DType.F32 else 'pd'}.{bits}"
        operands = f"{kind} {a.handle}, {kind} {n.handle}, {kind} poison, {mask} -1{rounding_operand}"
        self.instructions += 1
        called = self._out.call(kind, name, operands, f"{kind}, {kind}, {kind}, {mask}{rounding_type}")
        return Vector(a.dtype, a.lanes, called)

    def rsqrt_estimate(self, a: Vector) -> Vector:
        assert self.target.has_rsqrt_estimate, "this target has no estimate of the reciprocal square root"
        assert a.dtype is DType.F32
        return self._by_registers(self._rsqrt_register, a)

    def _rsqrt_register(self, a: Vector) -> Vector:
        kind, mask = text.type_text(a.dtype, a.lanes), f"i{max(a.lanes, 8)}"
        name = f"llvm.x86.avx512.rsqrt14.ps.{8 * a.dtype.size_bytes * a.lanes}"
        self.instructions += 1
        operands = f"{kind} {a.handle}, {kind} poison, {mask} -1"
        return Vector(a.dtype, a.lanes, self._out.call(kind, name, operands, f"{kind}, {kind}, {mask}"))

    def table(self, entries: Sequence[float], index: Vector) -> Vector:
        assert self.target.has_table_permute, "this target has no table permutation"
        dtype = DType.F32 if index.dtype is DType.I32 else DType.F64
        full = self.target.lanes(dtype)
        assert len(entries) in (full, 2 * full), f"a table holds {full} or {2 * full} entries, not {len(entries)}"
        parts = [self.constants(dtype, entries[at : at + full]) for at in range(0, len(entries), full)]
        return self._by_registers(lambda part: self._table_register(parts, part), index, widen_to=full)

    def _table_register(self, parts: Sequence[Vector], index: Vector) -> Vector:
        dtype, lanes = parts[0].dtype, parts[0].lanes
        kinds = text.type_text(dtype, lanes), text.type_text(index.dtype, lanes)
        first = f"{kinds[0]} {parts[0].handle}"
        kind = ("sf" if len(parts) == 1 else "ps") if dtype is DType.F32 else ("df" if len(parts) == 1 else "pd")
        if len(parts) == 1:
            name, operands = f"llvm.x86.avx512.permvar.{kind}.512", f"{first}, {kinds[1]} {index.handle}"
            parameters = f"{kinds[0]}, {kinds[1]}"
        else:
            name = f"llvm.x86.avx512.vpermi2var.{kind}.512"
            operands = f"{first}, {kinds[1]} {index.handle}, {kinds[0]} {parts[1].handle}"
            parameters = f"{kinds[0]}, {kinds[1]}, {kinds[0]}"
        self.instructions += 1
        return Vector(dtype, lanes, self._out.call(kinds[0], name, operands, parameters))

    def _by_registers(self, operation: Callable[..., Vector], *operands: Vector, widen_to: int = 0) -> Vector:
        """Apply a one-register intrinsic to wider vectors piece by piece, and to narrow ones inside a wider."""
        lanes, dtype = operands[0].lanes, operands[0].dtype
        full = self.target.lanes(dtype)
        least = widen_to or 16 // dtype.size_bytes
        before = self.instructions
        if lanes < least:
            return self._resized(operation(*[self._resized(operand, least) for operand in operands]), lanes)
        if lanes <= full:
            return operation(*operands)
        pieces = [
            operation(*[self._shuffled(operand, operand, range(at, at + full)) for operand in operands])
            for at in range(0, lanes, full)
        ]
        self.instructions = before + len(pieces)  # picking registers apart is free
        return self._joined(pieces)

    def _joined(self, pieces: Sequence[Vector]) -> Vector:
        before = self.instructions
        while len(pieces) > 1:
            pairs = zip(pieces[::2], pieces[1::2], strict=True)
            pieces = [self._shuffled(low, high, range(2 * low.lanes)) for low, high in pairs]
        self.instructions = before
        return pieces[0]

    def _resized(self, value: Vector, lanes: int) -> Vector:
        """More lanes, the new ones of no meaning, or the first few; free.

        The lanes are repeated whole: LLVM 22 narrows a two-source permutation wrongly where the last one is repeated.
        """
        if lanes == 1:
            value, before = value, self.instructions
            scalar = self.extract(value, 0)
            self.instructions = before
            return scalar
        source = self._as_vector(value) if value.lanes == 1 else value
        before = self.instructions
        resized = self._shuffled(source, source, [lane % source.lanes for lane in range(lanes)])
        self.instructions = before
        return resized

    def bit_and(self, a: Vector, b: Vector) -> Vector:
        return self._binary("and", "and", a, b)

    def bit_or(self, a: Vector, b: Vector) -> Vector:
        return self._binary("or", "or", a, b)

    def bit_xor(self, a: Vector, b: Vector) -> Vector:
        return self._binary("xor", "xor", a, b)

    def bit_not(self, a: Vector) -> Vector:
        ones = text.literal(a.dtype, True if a.dtype is DType.BOOL else -1, a.lanes)
        return self._like(a, f"xor {text.type_text(a.dtype, a.lanes)} {a.handle}, {ones}")

    def shift_left(self, a: Vector, bits: int) -> Vector:
        return self._like(
            a, f"shl {text.type_text(a.dtype, a.lanes)} {a.handle}, {text.literal(a.dtype, bits, a.lanes)}"
        )

    def shift_right(self, a: Vector, bits: int, *, arithmetic: bool = False) -> Vector:
        opcode = "ashr" if arithmetic else "lshr"
        return self._like(
            a, f"{opcode} {text.type_text(a.dtype, a.lanes)} {a.handle}, {text.literal(a.dtype, bits, a.lanes)}"
        )

    def compare(self, how: Compare, a: Vector, b: Vector) -> Vector:
        kind = text.type_text(a.dtype, a.lanes)
        if a.dtype.is_float:
            instruction = f"fcmp {_FLOAT_PREDICATE[how]} {kind} {a.handle}, {b.handle}"
        else:
            instruction = f"icmp {_INT_PREDICATE[how]} {kind} {a.handle}, {b.handle}"
        return self._new(DType.BOOL, a.lanes, instruction)

    def select(self, mask: Vector, a: Vector, b: Vector) -> Vector:
        if mask.constant is not None:
            return a if mask.constant else b
        kind = text.type_text(a.dtype, a.lanes)
        condition = f"{text.type_text(DType.BOOL, mask.lanes)} {mask.handle}"
        return self._like(a, f"select {condition}, {kind} {a.handle}, {kind} {b.handle}")


def _flags(math_policy: MathPolicy) -> str:
    """Fast-math flags a policy permits, each with a space before it."""
    return (" reassoc" if math_policy.reassociate else "") + (" contract" if math_policy.contract else "")


def _conversion(source: DType, target: DType) -> str:
    """LLVM's conversion between two numeric types, floats to integers apart."""
    if source.is_float:
        return "fptrunc" if target.size_bytes < source.size_bytes else "fpext"
    if target.is_float:
        return "uitofp" if source is DType.BOOL else "sitofp"
    if source is DType.BOOL:
        return "zext"
    return "trunc" if target.size_bytes < source.size_bytes else "sext"
