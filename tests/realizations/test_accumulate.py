"""Reductions by their counter-examples: lengths around the lanes, initial values once, ties, NaN, nothing at all."""
# ruff: noqa: F821

from dataclasses import replace

import numpy as np
import pytest

import autotune as at
from autotune import jit
from autotune.ir.buffer import Tail
from autotune.ir.interpret import interpret
from autotune.ir.program import AxisKind, Reduce
from autotune.ir.types import DType, ReduceOp
from autotune.realizations.accumulate import identity
from autotune.realizations.candidate import Block, Candidate, Mapping
from autotune.realizations.legality import judge
from autotune.realizations.lower import lower
from autotune.realizations.ranges import Ranges, state_type
from autotune.realizations.reference import reference_candidate
from autotune.realizations.target import Target
from autotune.realizations.verdict import Legal
from tests.realizations import cases
from tests.realizations.differential import difference, run

LENGTHS = (0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 65)
TARGETS = [t for t in (jit.host_target(n) for n in ("avx512", "avx2", "sse2")) if jit.can_run(t)]


@at.kernel
def reductions(x: at.f32["N"], s: at.f32["1"], p: at.f32["1"], lo: at.f32["1"], hi: at.f32["1"], at_: at.bool_["1"]):
    for i in at.parallel(1):
        v = x[:]
        s[i] = at.sum(v + 3.0, init=2.5)
        p[i] = at.prod(v, init=2.0)
        lo[i] = at.min(v, init=9.0)
        hi[i] = at.max(v)
        at_[i] = at.any(v > 0.5)


@at.kernel
def places(x: at.f32["N"], y: at.i64["1"]):
    for i in at.parallel(1):
        y[i] = at.argmax(x[:])


def across(candidate: Candidate, axis: int, lanes: int, tail: Tail, factor: int, chains: int) -> Candidate:
    """Lanes along the reduced axis in every nest that has one, with a register block and partial chains."""
    blocks = (Block(axis=axis, factor=factor),) if factor > 1 else ()
    return replace(
        candidate,
        mapping=tuple((p, Mapping(axis=axis, lanes=lanes)) for p, _ in candidate.mapping),
        compute=tuple((p, replace(c, blocks=blocks, chains=chains)) for p, c in candidate.compute),
        tail=tuple((n, tail) for n, _ in candidate.tail),
    )


def legal_forms(kernel: object, length: int, target: Target) -> list[Candidate]:
    """The reference and every form with lanes across the contributions that is legal at a length."""
    program = kernel.bind(N=length)  # type: ignore[attr-defined]
    reference = reference_candidate(program, target)
    axis = next(a.id for a in program.axes if a.kind is AxisKind.FULL)
    forms = [
        across(reference, axis, lanes, tail, factor, chains)
        for lanes in (4, 16)
        for tail in (Tail.MASK, Tail.SCALAR)
        for factor, chains in ((1, 1), (2, 2))
    ]
    return [reference, *(c for c in forms if isinstance(judge(program, c, target), Legal))]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_lengths_around_the_lanes(target: Target) -> None:
    rng = np.random.default_rng(3)
    forms = 0
    for length in LENGTHS:
        program = reductions.bind(N=length)
        x = rng.standard_normal(length).astype(np.float32)
        outputs = {n: np.zeros(1, np.float32) for n in ("s", "p", "lo", "hi")} | {"at_": np.zeros(1, np.bool_)}
        arguments = {"x": x, **outputs}
        expected = interpret(program, arguments)
        for candidate in legal_forms(reductions, length, target):
            plan = lower(program, candidate)
            assert difference(plan, target, arguments, expected) is None, (length, candidate)
            forms += 1
    assert forms > 2 * len(LENGTHS)


def _outputs(kernel: object, x: np.ndarray, target: Target) -> list[dict[str, np.ndarray]]:
    program = kernel.bind(N=len(x))  # type: ignore[attr-defined]
    arguments = {"x": x}
    for number in program.stored_tensors():
        tensor = program.tensor(number)
        kind = {DType.F32: np.float32, DType.BOOL: np.bool_, DType.I64: np.int64}[tensor.dtype]
        arguments[tensor.name] = np.ones(1, kind)
    return [run(lower(program, c), target, arguments) for c in legal_forms(kernel, len(x), target)]


def test_initial_values_are_merged_once_and_nothing_pads() -> None:
    """A sum of seven threes from 2.5 is 23.5, with ones inside 30.5; a product with a zero inside is zero."""
    x = np.zeros(7, np.float32)
    x[0] = 1
    for target in TARGETS:
        for found in _outputs(reductions, x, target):
            assert found["s"][0] == 2.5 + 7 * 3 + 1
            assert found["p"][0] == 0
            assert found["lo"][0] == 0


def test_nothing_gives_the_initial_value_or_the_identity() -> None:
    for target in TARGETS:
        for found in _outputs(reductions, np.zeros(0, np.float32), target):
            assert (found["s"][0], found["p"][0], found["lo"][0]) == (2.5, 2.0, 9.0)
            assert found["hi"][0] == -np.inf
            assert not found["at_"][0]


@pytest.mark.parametrize(
    "values, place",
    [
        ([1, 5, 5, 2] + [0] * 29, 1),
        ([-np.inf] * 33, 0),
        ([np.nan] * 33, 0),
        ([np.nan, -np.inf] + [np.nan] * 31, 1),
        ([-1.0] * 32 + [7.0], 32),
        ([-0.0, 0.0] * 16, 0),
    ],
)
def test_places_of_ties_infinities_and_nan(values: list[float], place: int) -> None:
    for target in TARGETS:
        for found in _outputs(places, np.array(values, np.float32), target):
            assert found["y"][0] == place, target.name


def test_maximum_of_nan_alone_is_the_identity() -> None:
    for target in TARGETS:
        for found in _outputs(reductions, np.full(33, np.nan, np.float32), target):
            assert found["hi"][0] == -np.inf


def test_identities() -> None:
    assert identity(ReduceOp.SUM, DType.F32) == 0 and identity(ReduceOp.PROD, DType.I8) == 1
    assert identity(ReduceOp.MAX, DType.I8) == -128 and identity(ReduceOp.MIN, DType.I32) == 2**31 - 1
    assert identity(ReduceOp.MIN, DType.F64) == np.inf and identity(ReduceOp.ARGMAX, DType.F32) == -np.inf
    assert identity(ReduceOp.ANY, DType.BOOL) is False and identity(ReduceOp.ALL, DType.BOOL) is True


def test_sums_run_in_the_type_of_their_result() -> None:
    """Index values fit 32 bits; their sum does not, their maximum does."""
    program = cases.bound("reduce_constant", (5, 65))
    ranges, lets = Ranges(program), program.lets()
    sums = [n for n, let in lets.items() if isinstance(let.value, Reduce) and let.dtype is DType.I64]
    assert sums and {state_type(lets, n, ranges) for n in sums} == {DType.I64}
