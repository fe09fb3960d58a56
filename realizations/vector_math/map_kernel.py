"""A kernel that applies one variant to an array: what tests, probes and benchmarks of vector math run.
Must not know which variants there are."""

from __future__ import annotations

from autotune.ir.types import DType
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.vector_math.variant import Emit

SYMBOL = "map_kernel"


def emit_map(builder: Builder, dtype: DType, lanes: int, function: Emit, *, trips: float = 1.0) -> None:
    """Emit `y[i] = function(x[i])` for i below n, a multiple of `lanes`; slots: x, y, n; run `last - first` times."""
    x, y = builder.argument_pointer(0, dtype), builder.argument_pointer(1, dtype)
    n = builder.argument_scalar(2, DType.I64)

    def element(i: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
        builder.store(y, i, function(builder.load(x, i, lanes), builder))
        return ()

    def again(_: Vector, __: tuple[Vector, ...]) -> tuple[Vector, ...]:
        builder.loop(builder.index(0), n, lanes, (), element, trips=trips)
        return ()

    builder.loop(builder.first, builder.last, 1, (), again, trips=1.0)
