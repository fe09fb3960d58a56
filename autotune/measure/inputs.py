"""Argument data for a bound program: four kinds of it, drawn from a seed or by the kernel's own generator.
Must not know where the data is placed or what a kernel makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias, assert_never

import numpy as np

from autotune.errors import AutotuneError
from autotune.ir.program import Number, Program, Scalar, Tensor
from autotune.ir.types import DType
from autotune.measure.buffers import MEMORY_TYPES, Array

Arguments: TypeAlias = dict[str, Array | Number]
Generator: TypeAlias = Callable[..., Mapping[str, Any]]

TRUE_SHARE = 0.8
INTEGER_LIMIT = 8
TAIL_ELEMENTS = 3
WIDE_EXPONENTS = (-24, 6)


class InputKind(Enum):
    """Which weakness of a kernel the data is to show."""

    NORMAL = "normal"
    CANCELLING = "cancelling"  # neighbours that nearly cancel: sums small beside their terms
    WIDE_RANGE = "wide range"  # thirty binades of magnitude, exact zeros, a first row that is masked out wholly
    RAGGED_TAIL = "ragged tail"  # the last coordinates of every axis outweigh the rest


class WrongInput(AutotuneError):
    sentence = "the input generator of {kernel!r} gave {found} for {name!r} ({kind})"
    remedy = "expected {expected}"


class UnknownInput(AutotuneError):
    sentence = "the input generator of {kernel!r} gave {name!r}, which is no parameter"
    remedy = "return a dict with keys among {parameters}"


class MissingScalar(AutotuneError):
    sentence = "kernel {kernel!r} needs a value for the scalar {name!r}"
    remedy = "give it a default, put {name}=... into the workload or --shape, or return it from @kernel.inputs"


def make_arguments(
    program: Program,
    kind: InputKind,
    seed: int,
    *,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Number],
    generator: Generator | None = None,
) -> Arguments:
    """Values of all parameters of a bound program except tensors that are only stored to; the same for the same seed.

    `generator(rng, kind, **dims)` may give any of them, the rest is default data. A scalar comes from `scalars`, else
    from the generator, else from its default.

    Raises: WrongInput, UnknownInput, MissingScalar.
    """
    rng = np.random.default_rng([seed, list(InputKind).index(kind)])
    given = dict(generator(rng, kind.value, **sizes)) if generator else {}
    _check_names(program, given)
    arguments: Arguments = {}
    loaded = set(program.loaded_tensors())
    for number, parameter in enumerate(program.parameters):
        match parameter:
            case Scalar():
                arguments[parameter.name] = _scalar(program, parameter, scalars, given)
            case Tensor() if number not in loaded:
                continue
            case Tensor() if parameter.name in given:
                arguments[parameter.name] = _checked(program, parameter, kind, given[parameter.name])
            case Tensor():
                arguments[parameter.name] = _default_data(rng, kind, parameter)
            case _:
                assert_never(parameter)
    return arguments


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Extents of a tensor of a bound program."""
    return tuple(extent.evaluate({}) for extent in tensor.shape)


def _check_names(program: Program, given: Mapping[str, Any]) -> None:
    names = [p.name for p in program.parameters]
    for name in given:
        if name not in names:
            raise UnknownInput(kernel=program.name, name=name, parameters=", ".join(names))


def _scalar(program: Program, scalar: Scalar, scalars: Mapping[str, Number], given: Mapping[str, Any]) -> Number:
    for value in (scalars.get(scalar.name), given.get(scalar.name), scalar.default):
        if value is not None:
            number: Number = MEMORY_TYPES[scalar.dtype].type(value).item()
            return number
    raise MissingScalar(kernel=program.name, name=scalar.name)


def _checked(program: Program, tensor: Tensor, kind: InputKind, value: Any) -> Array:
    dtype, shape = MEMORY_TYPES[tensor.dtype], shape_of(tensor)
    array = np.asarray(value)
    if array.shape != shape or array.dtype != dtype:
        raise WrongInput(
            kernel=program.name,
            name=tensor.name,
            kind=kind.value,
            found=f"{array.dtype} of shape {list(array.shape)}",
            expected=f"a NumPy array of {dtype} with shape {list(shape)}",
        )
    return np.ascontiguousarray(array)


def _default_data(rng: np.random.Generator, kind: InputKind, tensor: Tensor) -> Array:
    shape = shape_of(tensor)
    if tensor.dtype is DType.BOOL:
        return _truths(rng, kind, shape)
    if tensor.dtype.is_integer:
        return rng.integers(0, INTEGER_LIMIT, shape).astype(MEMORY_TYPES[tensor.dtype])
    values = _floats(rng, kind, shape)
    if tensor.dtype is DType.BF16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(MEMORY_TYPES[tensor.dtype])


def _floats(rng: np.random.Generator, kind: InputKind, shape: tuple[int, ...]) -> Array:
    normal = rng.standard_normal(shape)
    match kind:
        case InputKind.NORMAL:
            return normal
        case InputKind.CANCELLING:
            return _alternating(shape) * (8.0 + 2.0**-10 * normal)
        case InputKind.WIDE_RANGE:
            exponents = rng.uniform(*WIDE_EXPONENTS, shape)
            return np.where(rng.random(shape) < 1 / 16, 0.0, np.copysign(np.exp2(exponents), normal))
        case InputKind.RAGGED_TAIL:
            return np.where(_tail(shape), 4.0 + np.abs(normal), 0.25 * normal)
        case _:
            assert_never(kind)


def _truths(rng: np.random.Generator, kind: InputKind, shape: tuple[int, ...]) -> Array:
    truths: Array = rng.random(shape) < TRUE_SHARE
    match kind:
        case InputKind.NORMAL | InputKind.CANCELLING:
            return truths
        case InputKind.WIDE_RANGE:
            if len(shape) > 1 and shape[0] > 1:
                truths[0] = False
            return truths
        case InputKind.RAGGED_TAIL:
            return truths | _tail(shape)
        case _:
            assert_never(kind)


def _alternating(shape: tuple[int, ...]) -> Array:
    """+1 and -1 by turns along every axis."""
    total: Array = np.zeros(shape, dtype=np.int64)
    for k in np.indices(shape, sparse=True):
        total = total + k
    return 1.0 - 2.0 * (total % 2)


def _tail(shape: tuple[int, ...]) -> Array:
    """Where some coordinate is among the last of its axis."""
    tail: Array = np.zeros(shape, dtype=np.bool_)
    for extent, k in zip(shape, np.indices(shape, sparse=True), strict=True):
        tail = tail | (k >= extent - min(TAIL_ELEMENTS, max(1, extent // 2)))
    return tail
