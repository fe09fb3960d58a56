"""LLVM assembly as text: types, literals, and one function under construction.
Must not know vectors of the builder, targets' instructions or kernels."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from autotune.ir.program import Number
from autotune.ir.types import DType

_ELEMENT = {
    DType.F64: "double",
    DType.F32: "float",
    DType.F16: "half",
    DType.BF16: "bfloat",
    DType.I64: "i64",
    DType.I32: "i32",
    DType.I8: "i8",
    DType.BOOL: "i1",
}
_SUFFIX = {**{dtype: text for dtype, text in _ELEMENT.items() if text.startswith("i")},
           DType.F64: "f64", DType.F32: "f32", DType.F16: "f16", DType.BF16: "bf16"}  # fmt: skip


def type_text(dtype: DType, lanes: int) -> str:
    """`float`, `<16 x float>`."""
    element = _ELEMENT[dtype]
    return element if lanes == 1 else f"<{lanes} x {element}>"


def suffix_text(dtype: DType, lanes: int) -> str:
    """The type as intrinsic names spell it: `f32`, `v16f32`."""
    suffix = _SUFFIX[dtype]
    return suffix if lanes == 1 else f"v{lanes}{suffix}"


def memory_text(dtype: DType, lanes: int) -> str:
    """The type in memory: bool is a byte."""
    return type_text(DType.I8 if dtype is DType.BOOL else dtype, lanes)


def element_literal(dtype: DType, value: Number) -> str:
    """One number as an operand without its type; floats as exact bit patterns."""
    match dtype:
        case DType.BOOL:
            return "true" if value else "false"
        case DType.I64 | DType.I32 | DType.I8:
            return str(int(value))
        case DType.F64 | DType.F32:
            wide = float(value) if dtype is DType.F64 else _round_to_f32(float(value))
            return f"0x{struct.unpack('<Q', struct.pack('<d', wide))[0]:016X}"
        case DType.F16:
            return f"0xH{struct.unpack('<H', struct.pack('<e', float(value)))[0]:04X}"
        case DType.BF16:
            return f"0xR{_bf16_bits(float(value)):04X}"


def _round_to_f32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _bf16_bits(value: float) -> int:
    bits = int(struct.unpack("<I", struct.pack("<f", _round_to_f32(value)))[0])
    if math.isnan(value):
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def literal(dtype: DType, value: Number, lanes: int) -> str:
    """The same number in every lane."""
    element = element_literal(dtype, value)
    return element if lanes == 1 else f"splat ({_ELEMENT[dtype]} {element})"


def lanes_literal(dtype: DType, values: Sequence[Number]) -> str:
    """One number a lane."""
    element = _ELEMENT[dtype]
    return "<" + ", ".join(f"{element} {element_literal(dtype, value)}" for value in values) + ">"


_SCOPES = 1_000_000  # first metadata number of memory scopes, past those of any number of loops


class FunctionText:
    """Lines of one function, its stack slots, the intrinsics it declares and its loop metadata.

    Values are named in order of creation, so equal calls give equal text.
    """

    __slots__ = ("_attributes", "_declarations", "_lines", "_metadata", "_names", "_prologue", "_scopes", "block")

    def __init__(self) -> None:
        self._names = 0
        self._prologue: list[str] = []
        self._lines: list[str] = []
        self._declarations: dict[str, str] = {}
        self._metadata: list[str] = []
        self._scopes = 0
        self.block = "body"

    def name(self) -> str:
        """A fresh value name."""
        self._names += 1
        return f"%v{self._names}"

    def value(self, text: str) -> str:
        """Append an instruction and give its result's name."""
        self._names += 1
        name = f"%v{self._names}"
        self._lines.append(f"  {name} = {text}")
        return name

    def prologue_value(self, text: str) -> str:
        """The same in the entry block, which dominates everything."""
        name = self.name()
        self._prologue.append(f"  {name} = {text}")
        return name

    def effect(self, text: str) -> None:
        """Append an instruction without a result."""
        self._lines.append(f"  {text}")

    def hole(self) -> int:
        """Keep a line for `fill`."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, hole: int, text: str) -> None:
        """Write the kept line."""
        self._lines[hole] = f"  {text}"

    def label(self, hint: str) -> str:
        """A fresh block name."""
        self._names += 1
        return f"{hint}{self._names}"

    def start(self, label: str) -> None:
        """Begin a block; the one before must have ended in a branch."""
        self._lines.append(f"{label}:")
        self.block = label

    def call(
        self, result: str, callee: str, operands: str, parameters: str, attributes: str = "", attachment: str = ""
    ) -> str:
        """Call an intrinsic or function with a result, declaring it once.

        `attributes` are those of the declaration, `attachment` the metadata of the call.
        """
        self.declare(result, callee, parameters, attributes)
        return self.value(f"call {result} @{callee}({operands}){attachment}")

    def declare(self, result: str, callee: str, parameters: str, attributes: str = "") -> None:
        """Declare a function once."""
        self._declarations.setdefault(callee, f"declare {result} @{callee}({parameters}){attributes}")

    def loop_metadata(self) -> str:
        """A loop identity that forbids unrolling and vectorisation."""
        number = len(self._metadata) + 3
        self._metadata.append(f"!{number} = distinct !{{!{number}, !0, !1}}")
        return f"!llvm.loop !{number}"

    def scope(self) -> int:
        """A fresh memory scope: what is accessed in it overlaps nothing that is accessed in another one."""
        self._scopes += 1
        return self._scopes - 1

    def in_scope(self, scope: int) -> str:
        """The attachment that puts an access into a scope."""
        return f", !alias.scope !{_SCOPES + 3 * scope + 1}, !noalias !{_SCOPES + 3 * scope + 2}"

    def _scope_metadata(self) -> list[str]:
        lines = [f"!{_SCOPES - 1} = distinct !{{!{_SCOPES - 1}}}"] if self._scopes else []
        for scope in range(self._scopes):
            node = _SCOPES + 3 * scope
            others = ", ".join(f"!{_SCOPES + 3 * other}" for other in range(self._scopes) if other != scope)
            lines.append(f"!{node} = distinct !{{!{node}, !{_SCOPES - 1}}}")
            lines.append(f"!{node + 1} = !{{!{node}}}")
            lines.append(f"!{node + 2} = !{{{others}}}")
        return lines

    def unlikely(self) -> str:
        """Branch weights of a condition that hardly ever holds."""
        return "!prof !2"

    def module(self, header: str, signature: str, attributes: str) -> str:
        """The whole module's text."""
        parts = [header, f"define {signature} #0 {{", "entry:", *self._prologue, "  br label %body", "body:"]
        parts += [*self._lines, "  ret void", "}", *self._declarations.values(), f"attributes #0 = {{ {attributes} }}"]
        parts += ['!0 = !{!"llvm.loop.unroll.disable"}', '!1 = !{!"llvm.loop.vectorize.enable", i1 false}']
        parts += ['!2 = !{!"branch_weights", i32 1, i32 1000}', *self._metadata, *self._scope_metadata()]
        return "\n".join(parts) + "\n"
