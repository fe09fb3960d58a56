"""Compares compiled code with the oracle inside the calling process.
Must not know where the code came from."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autotune.call_arguments import address, pack_scalar
from autotune.ir import verdict
from autotune.ir.program import Number, Program, Scalar, Tensor
from autotune.ir.types import DType
from autotune.measure.buffers import NAN_POISON, Array
from autotune.measure.cases import Case, make_cases, poison_array

_SEED = 0


def fault(
    program: Program,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Number],
    generator: Callable[..., Any] | None,
    run: Callable[[Any], None],
) -> str | None:
    """What is wrong with the outputs that `run(slots)` leaves, None where they agree with the oracle on every case.

    Raises: what making the cases raises.
    """
    for case in make_cases(program, _SEED, sizes=sizes, scalars=scalars, generator=generator):
        arrays = _arrays(program, case)
        run(_slots(program, arrays, case))
        outputs = {program.tensor(k).name: arrays[k] for k in program.stored_tensors()}
        judgement = verdict.check(_as_numbers(program, outputs), case.expected)
        if isinstance(judgement, verdict.Wrong):
            return f"{judgement} on {case.kind.value} data"
    return None


def _arrays(program: Program, case: Case) -> dict[int, Array]:
    """A copy of every tensor argument; what is only stored to is poisoned."""
    arrays: dict[int, Array] = {}
    for number, parameter in enumerate(program.parameters):
        if isinstance(parameter, Tensor):
            given = case.arguments.get(parameter.name)
            filled = poison_array(parameter, NAN_POISON) if given is None else np.asarray(given)
            arrays[number] = np.array(filled, order="C", copy=True)
    return arrays


def _slots(program: Program, arrays: Mapping[int, Array], case: Case) -> Any:
    pointers = [address(array) for array in arrays.values()]
    scalars = [pack_scalar(p.dtype, case.arguments[p.name]) for p in program.parameters if isinstance(p, Scalar)]
    return (ctypes.c_uint64 * max(1, len(pointers) + len(scalars)))(*pointers, *scalars)


def _as_numbers(program: Program, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs as the oracle states them: bfloat16 bit patterns become floats."""
    halves = {p.name for p in program.parameters if isinstance(p, Tensor) and p.dtype is DType.BF16}
    return {n: (a.astype(np.uint32) << 16).view(np.float32) if n in halves else a for n, a in outputs.items()}
