"""What a kernel is checked on: arguments of each input kind with the oracle's answer, made once a workload.
Must not know candidates, buffers' addresses or workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from autotune.ir.interpret import Expected, Interpretation, interpret
from autotune.ir.program import Number, Program, Tensor
from autotune.ir.types import DType
from autotune.measure.buffers import MEMORY_TYPES, NAN_POISON, Array
from autotune.measure.inputs import Arguments, Generator, InputKind, make_arguments, shape_of

Oracle: TypeAlias = Callable[[Program, Mapping[str, Array | Number]], Interpretation]

ORACLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """Arguments of one input kind and the outputs they must give.

    Shapes: `untouched` has an output's shape and marks what no program stores; it lists only outputs with such places.
    """

    kind: InputKind
    arguments: Arguments
    expected: Interpretation
    untouched: dict[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Envelope:
    """Smallest and largest right answer an element, in the output's own type: what lies between is right, what does
    not is for the oracle to judge (NaN that must be NaN, for one)."""

    low: Array
    high: Array

    def holds(self, found: Array) -> bool:
        return bool(np.all(found >= self.low) and np.all(found <= self.high))


def envelopes(program: Program, case: Case) -> dict[str, Envelope]:
    """Envelopes of a case's f32 and f64 outputs, by name: a check in two passes instead of ten."""
    types = {p.name: p.dtype for p in program.parameters if isinstance(p, Tensor)}
    floats = {o.name: o for o in case.expected.outputs if types[o.name] in (DType.F32, DType.F64)}
    return {name: _envelope(expected, MEMORY_TYPES[types[name]]) for name, expected in floats.items()}


def _envelope(expected: Expected, dtype: np.dtype[Any]) -> Envelope:
    with np.errstate(all="ignore"):
        exact_low, exact_high = expected.values - expected.bound, expected.values + expected.bound
        low, high = exact_low.astype(dtype), exact_high.astype(dtype)
        infinity = dtype.type(np.inf)
        low = np.where(low < exact_low, np.nextafter(low, infinity), low)
        high = np.where(high > exact_high, np.nextafter(high, -infinity), high)
    return Envelope(low=low, high=high)


def make_cases(
    program: Program,
    seed: int,
    *,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Number],
    generator: Generator | None = None,
    oracle: Oracle = interpret,
    oracle_seconds: float = ORACLE_SECONDS,
) -> tuple[Case, ...]:
    """Cases in the order of InputKind, the normal one first. Stops early, never before the first, once the oracle has
    taken `oracle_seconds`: a compiled kernel has one shape, so a slow oracle is asked about fewer kinds.

    Raises: WrongInput, UnknownInput, MissingScalar, and what the oracle raises.
    """
    cases: list[Case] = []
    spent = 0.0
    for kind in InputKind:
        if cases and spent + spent / len(cases) > oracle_seconds:
            break
        arguments = make_arguments(program, kind, seed, sizes=sizes, scalars=scalars, generator=generator)
        start = time.perf_counter()
        expected, untouched = _expect(program, arguments, oracle)
        spent += time.perf_counter() - start
        cases.append(Case(kind=kind, arguments=arguments, expected=expected, untouched=untouched))
    return tuple(cases)


def _expect(program: Program, arguments: Arguments, oracle: Oracle) -> tuple[Interpretation, dict[str, Array]]:
    """The oracle's answer; what is not stored must keep its poison."""
    answer = oracle(program, arguments)
    unknown = {o.name for o in answer.outputs if o.name not in arguments and np.isinf(o.bound).any()}
    if not unknown:
        return answer, {}
    poisoned: Arguments = dict(arguments)
    for parameter in program.parameters:
        if isinstance(parameter, Tensor) and parameter.name in unknown:
            poisoned[parameter.name] = poison_array(parameter, NAN_POISON)
    kept = oracle(program, poisoned)
    untouched = {
        before.name: np.isinf(before.bound) & (after.bound == 0)
        for before, after in zip(answer.outputs, kept.outputs, strict=True)
        if before.name in unknown
    }
    return kept, {name: mask for name, mask in untouched.items() if mask.any()}


def poison_array(tensor: Tensor, poison: int) -> Array:
    """What a tensor of poisoned bytes reads as; a poisoned bool is true."""
    dtype, shape = MEMORY_TYPES[tensor.dtype], shape_of(tensor)
    if dtype == np.bool_:
        return np.ones(shape, dtype=np.bool_)
    raw = np.full(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, poison, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)
