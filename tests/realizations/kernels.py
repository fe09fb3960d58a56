"""Three small kernels written by hand on a builder: an exponential map, a sum of squares, a masked tail."""

from __future__ import annotations

from collections.abc import Callable

from autotune.ir.types import REASSOCIATING, DType, Op
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.vector_math import emit, variants

SYMBOL = "entry"
Kernel = Callable[[Builder], None]


def exp_map(builder: Builder) -> None:
    """y = exp(x) over n elements, a multiple of two registers; slots x, y, n."""
    b, lanes = builder, 2 * builder.target.lanes(DType.F32)
    x, y = b.argument_pointer(0, DType.F32), b.argument_pointer(1, DType.F32)
    n = b.argument_scalar(2, DType.I64)
    variant = variants(Op.EXP, DType.F32, b.target, 2.0)[0]

    def body(i: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
        b.store(y, i, emit(Op.EXP, b.load(x, i, lanes), b, variant))
        return ()

    b.loop(b.index(0), n, lanes, (), body, trips=10)


def sum_of_squares(builder: Builder) -> None:
    """y[0] = Σ x² with four chains over n elements, a multiple of four registers; slots x, y, n."""
    b, lanes = builder, builder.target.lanes(DType.F32)
    x, y = b.argument_pointer(0, DType.F32), b.argument_pointer(1, DType.F32)
    n = b.argument_scalar(2, DType.I64)

    def body(i: Vector, chains: tuple[Vector, ...]) -> tuple[Vector, ...]:
        values = [b.load(x, b.index_add(i, b.index(chain * lanes)), lanes) for chain in range(4)]
        return tuple(b.fma(value, value, chain) for value, chain in zip(values, chains, strict=True))

    zero = b.constant(DType.F32, 0.0, lanes)
    a, c, d, e = b.loop(b.index(0), n, 4 * lanes, (zero,) * 4, body, trips=10)
    total = b.add(b.add(a, c), b.add(d, e))
    b.store(y, b.index(0), b.reduce(lambda p, q: b.add(p, q, REASSOCIATING), total))


def masked_tail(builder: Builder) -> None:
    """y[i] = x[i] / scale + table[index[i] & 1023] over any n elements; slots x, y, n, scale, table, index."""
    b, lanes = builder, builder.target.lanes(DType.F32)
    x, y = b.argument_pointer(0, DType.F32), b.argument_pointer(1, DType.F32)
    n, scale = b.argument_scalar(2, DType.I64), b.argument_scalar(3, DType.F32)
    table, index = b.argument_pointer(4, DType.F32), b.argument_pointer(5, DType.I32)
    full = b.index_scale(b.index_floordiv(n, lanes), lanes)

    def element(i: Vector, mask: Vector | None) -> None:
        quotient = b.div(b.load(x, i, lanes, mask=mask), b.splat(scale, lanes))
        where = b.bit_and(b.load(index, i, lanes, mask=mask), b.constant(DType.I32, 1023, lanes))
        b.store(y, i, b.add(quotient, b.gather(table, where)), mask=mask)

    def body(i: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
        element(i, None)
        return ()

    b.loop(b.index(0), full, lanes, (), body, trips=10)
    rest = b.index_add(n, b.index_scale(full, -1))
    b.branch(
        b.cast(rest, DType.BOOL),
        lambda: element(full, b.first_lanes(rest, lanes)),
        probability=1.0,
    )


KERNELS: dict[str, Kernel] = {"exp_map": exp_map, "sum_of_squares": sum_of_squares, "masked_tail": masked_tail}
