"""sin and cos: x = n·π/2 + r with π/2 in several parts, then the polynomial of sine or cosine that n asks for.
Must not know other functions; arguments too large for the parts take the scalar library call."""

from __future__ import annotations

from functools import partial

from autotune.ir.types import DType, Op
from autotune.realizations.builder import Builder, Compare, Vector
from autotune.realizations.vector_math.pairs import Pair, two_sum
from autotune.realizations.vector_math.variant import Variant, horner, like

_TWO_OVER_PI = 0.6366197723675814
LARGEST = {DType.F32: 2.0**15, DType.F64: 2.0**30}
"""Up to here the declared bounds hold; beyond, lanes take the library call."""

# π/2 as a sum: of three floats, of three doubles, and of doubles of 23 bits but for the last
_PARTS_F32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_PARTS_F64 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_SHORT_PARTS_F64 = (
    1.570796251296997,
    7.549789415861596e-08,
    5.390302529957765e-15,
    3.2820031633724233e-22,
    3.7950107727212256e-29,
)
# (sin r − r)/r³ and (cos r − 1 + r²/2)/r⁴ in r² for |r| ≤ π/4; source: tests/realizations/remez.py
_SINE = {
    DType.F32: (-0.1666666716337204, 0.008333329111337662, -0.00019839311426039785, 2.7181140467291698e-06),
    DType.F64: (
        -0.1666666666666663,
        0.008333333333322108,
        -0.0001984126982958002,
        2.7557313617985453e-06,
        -2.5050747214964554e-08,
        1.5896197514358056e-10,
    ),
}
_COSINE = {
    DType.F32: (0.04166664555668831, -0.0013887315290048718, 2.4433082217001356e-05),
    DType.F64: (
        0.041666666666666595,
        -0.001388888888887304,
        2.4801587288841624e-05,
        -2.75573141762942e-07,
        2.087570042235524e-09,
        -1.135851422932711e-11,
    ),
}
_INTEGER = {DType.F32: DType.I32, DType.F64: DType.I64}
_MANTISSA_BITS = {DType.F32: 23, DType.F64: 52}
_CALL = {
    (Op.SIN, DType.F32): "sinf",
    (Op.SIN, DType.F64): "sin",
    (Op.COS, DType.F32): "cosf",
    (Op.COS, DType.F64): "cos",
}


def _quarters(x: Vector, b: Builder) -> tuple[Vector, Vector]:
    """n = nearest integer to x·2/π as a float, and as the low bits of an integer."""
    shifter = like(b, x, 1.5 * 2.0 ** _MANTISSA_BITS[x.dtype])
    shifted = b.fma(x, like(b, x, _TWO_OVER_PI), shifter)
    return b.sub(shifted, shifter), b.bitcast(shifted, _INTEGER[x.dtype])


def _reduce(x: Vector, n: Vector, b: Builder) -> Vector:
    """r rounded: each multiply-add takes one more part off. Needs FMA."""
    for part in _PARTS_F32 if x.dtype is DType.F32 else _PARTS_F64:
        x = b.fma(n, like(b, x, -part), x)
    return x


def _reduce_f64_pair(x: Vector, n: Vector, b: Builder) -> Pair:
    """r as high + low. Parts of 23 bits times an n of 30 bits are exact products, with or without FMA."""
    first, second, third, fourth, fifth = (like(b, x, part) for part in _SHORT_PARTS_F64)
    rest = b.sub(b.sub(x, b.mul(n, first)), b.mul(n, second))
    high, low = two_sum(rest, b.neg(b.mul(n, third)), b)
    high, lower = two_sum(high, b.neg(b.mul(n, fourth)), b)
    tail = b.sub(b.add(low, lower), b.mul(n, fifth))
    return two_sum(high, tail, b)


def _sine(r: Vector, low: Vector | None, square: Vector, b: Builder) -> Vector:
    cubic = b.mul(b.mul(square, r), horner(b, square, _SINE[r.dtype]))
    if low is None:
        return b.add(r, cubic)
    slope = b.fma(square, like(b, r, -0.5), like(b, r, 1.0))
    return b.add(r, b.fma(low, slope, cubic))


def _cosine(r: Vector, low: Vector | None, square: Vector, b: Builder) -> Vector:
    """1 − r²/2 loses bits that are added back."""
    one, half = like(b, r, 1.0), b.mul(square, like(b, r, 0.5))
    main = b.sub(one, half)
    lost = b.sub(b.sub(one, main), half)
    quartic = b.fma(b.mul(square, square), horner(b, square, _COSINE[r.dtype]), lost)
    if low is not None:
        quartic = b.sub(quartic, b.mul(r, low))
    return b.add(main, quartic)


def _combine(op: Op, r: Vector, low: Vector | None, bits: Vector, b: Builder) -> Vector:
    """Odd quarters swap the functions; the second bit is the sign; a cosine is one quarter ahead."""
    integer = bits.dtype
    square = b.mul(r, r)
    sine, cosine = _sine(r, low, square, b), _cosine(r, low, square, b)
    one = b.constant(integer, 1, r.lanes)
    ahead = b.add(bits, one) if op is Op.COS else bits
    odd = b.compare(Compare.NE, b.bit_and(ahead, one), b.constant(integer, 0, r.lanes))
    chosen = b.select(odd, cosine, sine)
    width = 8 * r.dtype.size_bytes
    sign = b.shift_left(b.bit_and(ahead, b.constant(integer, 2, r.lanes)), width - 2)
    return b.bitcast(b.bit_xor(b.bitcast(chosen, integer), sign), r.dtype)


def _repaired(op: Op, x: Vector, value: Vector, b: Builder) -> Vector:
    large = b.compare(Compare.GT, b.abs(x), like(b, x, LARGEST[x.dtype]))
    return b.repair(large, value, _CALL[op, x.dtype], x)


def _parts(op: Op, x: Vector, b: Builder) -> Vector:
    n, bits = _quarters(x, b)
    return _repaired(op, x, _combine(op, _reduce(x, n, b), None, bits, b), b)


def _pair(op: Op, x: Vector, b: Builder) -> Vector:
    n, bits = _quarters(x, b)
    r = _reduce_f64_pair(x, n, b)
    return _repaired(op, x, _combine(op, r.high, r.low, bits, b), b)


def _through_f64(op: Op, x: Vector, b: Builder) -> Vector:
    """Two parts of 23 bits and the rest leave more than enough digits for the range of f32."""
    wide = b.cast(x, DType.F64)
    n, bits = _quarters(wide, b)
    first, second, third, *_ = (like(b, wide, part) for part in _SHORT_PARTS_F64)
    rest = b.sub(b.sub(wide, b.mul(n, first)), b.mul(n, second))
    r = b.sub(rest, b.mul(n, third))
    return _repaired(op, x, b.cast(_combine(op, r, None, bits, b), DType.F32), b)


def _variants(op: Op) -> tuple[Variant, ...]:
    variant = partial(Variant, op=op)
    return (
        variant(dtype=DType.F32, name="parts", max_ulp=1.6, max_ulp_without_fma=None, needs=("has_fma",),
                emit=partial(_parts, op)),
        variant(dtype=DType.F32, name="through_f64", max_ulp=0.6, max_ulp_without_fma=0.6,
                emit=partial(_through_f64, op)),
        variant(dtype=DType.F64, name="parts", max_ulp=1.6, max_ulp_without_fma=None, needs=("has_fma",),
                emit=partial(_parts, op)),
        variant(dtype=DType.F64, name="pair", max_ulp=1.0, max_ulp_without_fma=1.0, emit=partial(_pair, op)),
    )  # fmt: skip


VARIANTS = (*_variants(Op.SIN), *_variants(Op.COS))
