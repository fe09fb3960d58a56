"""The arguments of a call: which parameter each belongs to, what it must be, and the 64-bit slots they become.
Must not know policies, candidates or compilation."""

from __future__ import annotations

import ctypes
import math
import operator
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from autotune.call_errors import (
    MaskedArray,
    Misaligned,
    MissingArgument,
    NotAnArray,
    NotContiguous,
    NotExported,
    OverlappingArguments,
    ReadOnlyOutput,
    RepeatedArgument,
    TooManyArguments,
    UnknownArgument,
    UnresolvedDimension,
    WrongDtype,
    WrongExtent,
    WrongRank,
    WrongScalar,
)
from autotune.ir.affine import Affine, Atom, Dim, dim
from autotune.ir.program import Number, Parameter, Program, Scalar, Tensor
from autotune.ir.types import DType
from autotune.measure.buffers import MEMORY_TYPES

Array: TypeAlias = npt.NDArray[Any]
Sizes: TypeAlias = dict[str, int]

_INTEGER_BITS = {DType.I64: 64, DType.I32: 32, DType.I8: 8}
_FLOAT_SLOTS = {
    DType.F64: (struct.Struct("<d"), struct.Struct("<Q")),
    DType.F32: (struct.Struct("<f"), struct.Struct("<I")),
    DType.F16: (struct.Struct("<e"), struct.Struct("<H")),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signature:
    """The parameters of one kernel as a call sees them; positions count parameters."""

    kernel: str
    program: Program
    tensors: tuple[int, ...]
    scalars: tuple[int, ...]
    outputs: tuple[int, ...]

    @staticmethod
    def of(kernel: str, program: Program) -> Signature:
        """The signature of a program whose dimensions are still symbols."""
        kinds = list(enumerate(program.parameters))
        return Signature(
            kernel=kernel,
            program=program,
            tensors=tuple(k for k, p in kinds if isinstance(p, Tensor)),
            scalars=tuple(k for k, p in kinds if isinstance(p, Scalar)),
            outputs=program.stored_tensors(),
        )

    def __str__(self) -> str:
        return f"{self.kernel}({', '.join(self.describe(p) for p in self.program.parameters)})"

    def describe(self, parameter: Parameter) -> str:
        """`x: f32[M, N]`, `eps: f32 = 1e-05`."""
        match parameter:
            case Tensor(name=name, dtype=dtype, shape=shape):
                return f"{name}: {dtype.value}[{', '.join(self.extent(e) for e in shape)}]"
            case Scalar(name=name, dtype=dtype, default=default):
                return f"{name}: {dtype.value}" + ("" if default is None else f" = {default}")

    def extent(self, extent: Affine) -> str:
        """An extent as people write it where it is a name or a number."""
        for number, name in enumerate(self.program.dims):
            if extent == dim(number):
                return name
        if extent.is_constant:
            return str(extent.constant)
        terms = [
            f"{c}·{self.extent(Affine(terms=((a, 1),)))}" if c != 1 else _atom_name(self, a) for a, c in extent.terms
        ]
        return " + ".join([*terms, *([str(extent.constant)] if extent.constant else [])])

    def order(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
        """Values in parameter order, defaults filled in.

        Raises: TooManyArguments, UnknownArgument, RepeatedArgument, MissingArgument.
        """
        parameters = self.program.parameters
        if len(args) > len(parameters):
            raise TooManyArguments(kernel=self.kernel, count=len(parameters), given=len(args), signature=self)
        names = [p.name for p in parameters]
        values: dict[str, object] = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise UnknownArgument(kernel=self.kernel, name=name, signature=self)
            if name in values:
                raise RepeatedArgument(kernel=self.kernel, name=name, signature=self)
            values[name] = value
        return [values[p.name] if p.name in values else self._default(p) for p in parameters]

    def _default(self, parameter: Parameter) -> Number:
        if isinstance(parameter, Scalar) and parameter.default is not None:
            return parameter.default
        raise MissingArgument(kernel=self.kernel, name=parameter.name, signature=self)

    def arrays(self, values: Sequence[object]) -> list[Array]:
        """The tensor arguments as NumPy arrays on the same memory, in parameter order.

        Raises: NotAnArray, MaskedArray, NotExported.
        """
        return [self._array(position, values[position]) for position in self.tensors]

    def _array(self, position: int, value: object) -> Array:
        parameter = self.program.parameters[position]
        if isinstance(value, np.ma.MaskedArray):
            raise MaskedArray(kernel=self.kernel, name=parameter.name)
        if isinstance(value, np.ndarray):
            return value
        if not hasattr(value, "__dlpack__"):
            expected = self.describe(parameter)
            raise NotAnArray(kernel=self.kernel, name=parameter.name, found=type(value).__name__, expected=expected)
        try:
            return from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise NotExported(kernel=self.kernel, name=parameter.name, detail=str(error)) from error

    def check(self, arrays: Sequence[Array]) -> Sizes:
        """The size of every dimension, once every array is what its parameter asks for.

        Raises: WrongDtype, WrongRank, WrongExtent, UnresolvedDimension, NotContiguous, Misaligned, ReadOnlyOutput,
        OverlappingArguments.
        """
        for position, array in zip(self.tensors, arrays, strict=True):
            self._check_type(self.program.tensor(position), array)
        sizes = self._sizes(arrays)
        for position, array in zip(self.tensors, arrays, strict=True):
            self._check_memory(self.program.tensor(position), array, stored=position in self.outputs)
        self._check_overlap(arrays)
        return sizes

    def _check_type(self, tensor: Tensor, array: Array) -> None:
        if array.dtype != MEMORY_TYPES[tensor.dtype] or not array.dtype.isnative:
            expected = MEMORY_TYPES[tensor.dtype].name
            raise WrongDtype(kernel=self.kernel, name=tensor.name, found=array.dtype, expected=expected)
        if array.ndim != len(tensor.shape):
            raise WrongRank(
                kernel=self.kernel,
                name=tensor.name,
                found=array.ndim,
                shape=array.shape,
                expected=self.describe(tensor),
            )

    def _sizes(self, arrays: Sequence[Array]) -> Sizes:
        sizes: Sizes = {}
        origin: dict[str, str] = {}
        pairs = [(self.program.tensor(p), a) for p, a in zip(self.tensors, arrays, strict=True)]
        for tensor, array in pairs:
            for extent, size in zip(tensor.shape, array.shape, strict=True):
                name = self.extent(extent)
                if name in self.program.dims and name not in sizes:
                    sizes[name], origin[name] = size, tensor.name
        for name in self.program.dims:
            if name not in sizes:
                raise UnresolvedDimension(kernel=self.kernel, dim=name)
        values: dict[Atom, int] = {Dim(index=k): sizes[name] for k, name in enumerate(self.program.dims)}
        for tensor, array in pairs:
            expected = tuple(extent.evaluate(values) for extent in tensor.shape)
            if array.shape != expected:
                self._refuse_extent(tensor, array, sizes, origin)
        return sizes

    def _refuse_extent(self, tensor: Tensor, array: Array, sizes: Sizes, origin: dict[str, str]) -> NoReturn:
        names = [
            name for k, name in enumerate(self.program.dims) if any(Dim(index=k) in e.atoms() for e in tensor.shape)
        ]
        known = ", ".join(f"{name} is {sizes[name]} in {origin[name]!r}" for name in names)
        raise WrongExtent(
            kernel=self.kernel,
            name=tensor.name,
            shape=array.shape,
            expected=self.describe(tensor),
            reason=f"{known}; one dimension has one size in a call" if known else "the extents are fixed numbers",
        )

    def _check_memory(self, tensor: Tensor, array: Array, *, stored: bool) -> None:
        if not array.flags.c_contiguous:
            copy = f"np.ascontiguousarray({tensor.name})"
            advice = (
                f"pass {copy}" if not stored else f"pass a contiguous output and copy it back, as {copy} would copy"
            )
            raise NotContiguous(
                kernel=self.kernel, name=tensor.name, shape=array.shape, strides=array.strides, advice=advice
            )
        if array.size and address(array) % tensor.dtype.size_bytes:
            raise Misaligned(kernel=self.kernel, name=tensor.name, size=tensor.dtype.size_bytes)
        if stored and not array.flags.writeable:
            raise ReadOnlyOutput(
                kernel=self.kernel, name=tensor.name, shape=array.shape, dtype=MEMORY_TYPES[tensor.dtype].name
            )

    def _check_overlap(self, arrays: Sequence[Array]) -> None:
        placed = list(zip(self.tensors, arrays, strict=True))
        for output, written in placed:
            if output not in self.outputs:
                continue
            for other, array in placed:
                if other != output and np.may_share_memory(written, array):
                    raise OverlappingArguments(
                        kernel=self.kernel,
                        output=self.program.tensor(output).name,
                        other=self.program.tensor(other).name,
                    )

    def scalar_packers(self) -> tuple[tuple[int, Callable[[object], int]], ...]:
        """Position of every scalar and the function that makes its slot."""
        return tuple((position, self._packer(position)) for position in self.scalars)

    def _packer(self, position: int) -> Callable[[object], int]:
        parameter = self.program.parameters[position]
        assert isinstance(parameter, Scalar)

        exact = _FLOAT_SLOTS.get(parameter.dtype)

        def pack(value: object) -> int:
            try:
                if exact is not None and type(value) is float:  # the short way of the common case
                    slot: int = exact[1].unpack(exact[0].pack(value))[0]
                    return slot
                return pack_scalar(parameter.dtype, value)
            except (TypeError, ValueError, OverflowError):
                expected = self.describe(parameter)
                raise WrongScalar(
                    kernel=self.kernel, name=parameter.name, found=f"{value!r:.60}", expected=expected
                ) from None

        return pack


def _atom_name(signature: Signature, a: Atom) -> str:
    return signature.program.dims[a.index] if isinstance(a, Dim) else str(a)


def _described_address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _laid_out_address(array: Array) -> int:
    # NumPy's C interface puts the data pointer right after the object head; reading it there takes a tenth of the time
    # that describing the array does, which is most of what a call costs.
    return ctypes.c_size_t.from_address(id(array) + object.__basicsize__).value


def _choose_address() -> Callable[[Array], int]:
    """The quick way where it agrees with the described one, as it does in CPython."""
    if sys.implementation.name != "cpython":
        return _described_address
    probe = np.zeros(8)
    agree = all(_laid_out_address(a) == _described_address(a) for a in (probe, probe[3:]))
    return _laid_out_address if agree else _described_address


address = _choose_address()
"""Where an array's first element lies."""


def from_dlpack(value: Any) -> Array:
    """A NumPy array on the memory of anything that exports DLPack, never a copy.

    NumPy marks what an exporter of the unversioned protocol hands over as read-only, because that protocol cannot say;
    such memory is taken as writable, as every other consumer does.
    Raises: BufferError, RuntimeError, TypeError or ValueError from the exporter or from NumPy.
    """
    array: Array = np.from_dlpack(value)
    if array.flags.writeable or _speaks_versions(value):
        return array
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Exported(interface, array))


def _speaks_versions(value: Any) -> bool:
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:
        return False
    return "dltensor_versioned" in repr(capsule)


class _Exported:
    """Memory described by the array interface, and what keeps it alive."""

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def pack_scalar(dtype: DType, value: object) -> int:
    """The slot of a scalar: its bytes lowest, zeros above.

    Raises: TypeError, ValueError or OverflowError where the value is no number of that type.
    """
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError
    if dtype is DType.BOOL:
        if not isinstance(value, bool | np.bool_):
            raise TypeError
        return int(value)
    if dtype.is_integer:
        number = operator.index(value)  # type: ignore[arg-type]
        bits = _INTEGER_BITS[dtype]
        if isinstance(value, bool | np.bool_) or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise OverflowError
        return number & ((1 << bits) - 1)
    if isinstance(value, str | bytes | bytearray | bool | np.bool_):
        raise TypeError
    real = float(value)  # type: ignore[arg-type]
    if dtype is DType.BF16:
        return _bfloat16(real)
    number_form, slot_form = _FLOAT_SLOTS[dtype]
    slot: int = slot_form.unpack(number_form.pack(real))[0]
    return slot


def _bfloat16(number: float) -> int:
    """Bit pattern of the nearest bfloat16, ties to even."""
    pattern = int.from_bytes(struct.pack("<f", number), "little")
    if math.isnan(number):
        return (pattern >> 16) | 0x40
    return (pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16
