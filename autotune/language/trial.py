"""A kernel tried at a small shape: refused where its results depend on block sizes.
Must not know candidates or machine code."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.program import AxisKind, Number, Program
from autotune.language.kernel import Kernel
from autotune.language.oracle import refuse_block_dependence
from autotune.measure.inputs import Arguments, InputKind, make_arguments

TRIAL_EXTENTS = (13, 12, 16, 24)
"""No dimension is longer than this in a trial; the first at which the kernel binds. 13 leaves every tile a tail, the
others suit kernels that halve a dimension or want multiples."""

_TILES = (AxisKind.TILE, AxisKind.PROGRAM_TILE)


def refuse_block_dependent(kernel: Kernel, shape: Mapping[str, Number], seed: int) -> None:
    """Run the interpreter on normal data at block sizes 1, 3 and the full extent; nothing for a kernel without tiles.

    The trial is made at a shape whose dimensions are cut to one of TRIAL_EXTENTS, which takes some milliseconds; at
    `shape` itself where the kernel (or its own generator of inputs) knows none of those.

    Raises: DependsOnBlocks, and what binding and making inputs at `shape` raise.
    """
    if any(axis.kind in _TILES for axis in kernel.program.axes):
        refuse_block_dependence(*_trial(kernel, shape, seed))


def _trial(kernel: Kernel, shape: Mapping[str, Number], seed: int) -> tuple[Program, Arguments]:
    dims = kernel.program.dims
    for longest in TRIAL_EXTENTS:
        smaller = {name: min(value, longest) if name in dims else value for name, value in shape.items()}
        try:
            return _bound(kernel, smaller, seed)
        except Exception:  # a rule of binding, or whatever the author's generator raises at a shape it is not made for
            continue
    return _bound(kernel, shape, seed)


def _bound(kernel: Kernel, shape: Mapping[str, Number], seed: int) -> tuple[Program, Arguments]:
    dims = kernel.program.dims
    sizes = {name: int(value) for name, value in shape.items() if name in dims}
    scalars = {name: value for name, value in shape.items() if name not in dims}
    program = kernel.bind(**shape)
    arguments = make_arguments(
        program, InputKind.NORMAL, seed, sizes=sizes, scalars=scalars, generator=kernel.inputs_function
    )
    return program, arguments
