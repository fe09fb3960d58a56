"""What a measurement is valid for: every field that must agree, next to the hash of them all.
Must not know measurements, candidates or how a kernel is written."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.metadata import version

from autotune.ir.program import Program, Tensor
from autotune.ir.serial import Json, MalformedJson, from_json, to_json
from autotune.ir.text import fingerprint
from autotune.ir.types import DType
from autotune.realizations.target import Target
from autotune.store.errors import UnknownAlignment, UnknownColdTensor

SPACE_VERSION = 4  # raised whenever the choices of a candidate change their meaning


class StrideClass(Enum):
    """How the tensors of a call are laid out."""

    CONTIGUOUS = "contiguous"


class AlignmentClass(Enum):
    """What the addresses of the tensors are multiples of when a kernel is measured.

    Emitted code asks for element alignment only, so a policy measured on whole lines also serves other addresses,
    only slower. Arrays of NumPy are often multiples of 16 bytes and of no more.
    """

    LINE = "64 bytes"
    SIXTEEN = "16 bytes"

    @property
    def size_bytes(self) -> int:
        return int(self.value.removesuffix(" bytes"))

    @classmethod
    def of(cls, size_bytes: int) -> AlignmentClass:
        """Raises: UnknownAlignment."""
        for each in cls:
            if each.size_bytes == size_bytes:
                return each
        raise UnknownAlignment(found=size_bytes, known=" or ".join(str(each.size_bytes) for each in cls))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMode:
    """Where the tensors are when a timed call starts: in no cache those with the parameter numbers in `cold`, the
    others where the call before left them."""

    cold: tuple[int, ...] = ()

    @property
    def value(self) -> str:
        """`hot`, or `cold 0,2` with the parameter numbers: a key knows no names."""
        return f"cold {','.join(map(str, self.cold))}" if self.cold else "hot"

    @classmethod
    def parse(cls, text: str) -> CacheMode:
        """The mode with this value.

        Raises: MalformedJson.
        """
        if text == "hot":
            return cls()
        kind, _, numbers = text.partition(" ")
        listed = numbers.split(",")
        if kind != "cold" or not all(number.isdecimal() for number in listed):
            raise MalformedJson(f"expected 'hot' or 'cold' and parameter numbers, found {text!r:.80}")
        return cls(cold=tuple(map(int, listed)))

    def names(self, program: Program) -> tuple[str, ...]:
        """The cold tensors as the program calls them."""
        return tuple(program.parameters[number].name for number in self.cold)


HOT = CacheMode()
EVERY_TENSOR = "all"


def cache_mode(program: Program, cold: Sequence[str]) -> CacheMode:
    """The mode in which the tensors of these names are cold; `all` stands for every tensor.

    Raises: UnknownColdTensor.
    """
    numbers = {p.name: number for number, p in enumerate(program.parameters) if isinstance(p, Tensor)}
    if EVERY_TENSOR in cold:
        return CacheMode(cold=tuple(numbers.values()))
    for name in cold:
        if name not in numbers:
            raise UnknownColdTensor(kernel=program.name, name=name, tensors=",".join(numbers))
    return CacheMode(cold=tuple(sorted({numbers[name] for name in cold})))


@dataclass(frozen=True, slots=True, kw_only=True)
class Isa:
    """The instruction set and the machine behind it.

    Units: `_bytes`.
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What turned candidates into machine code."""

    llvm: str
    llvmlite: str
    code_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadKey:
    """All that decides how fast a candidate runs; two measurements compare only where every field agrees.

    `kernel` is the fingerprint of the program with symbolic dimensions, `shape` its dimensions in order, `dtypes`
    those of its parameters in order.
    """

    kernel: str
    shape: tuple[int, ...]
    dtypes: tuple[DType, ...]
    strides: StrideClass = StrideClass.CONTIGUOUS
    alignment: AlignmentClass = AlignmentClass.LINE
    cache: CacheMode = HOT
    threads: int = 1
    isa: Isa
    toolchain: Toolchain
    space: int = SPACE_VERSION

    @property
    def id(self) -> str:
        """SHA-256 of all fields, in hexadecimal."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> Json:
        return {**to_json(self), "cache": self.cache.value}

    @staticmethod
    def from_json(data: Json) -> WorkloadKey:
        """Raises: MalformedJson."""
        if isinstance(data, dict) and isinstance(data.get("cache"), str):
            data = {**data, "cache": to_json(CacheMode.parse(data["cache"]))}
        key = from_json(WorkloadKey, data)
        assert isinstance(key, WorkloadKey)
        return key


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A key with the names people use for it; the names are no part of its identity."""

    key: WorkloadKey
    kernel_name: str
    dims: tuple[str, ...]

    @property
    def title(self) -> str:
        """`softmax:M=129,N=512`."""
        sizes = ",".join(f"{name}={size}" for name, size in zip(self.dims, self.key.shape, strict=True))
        return f"{self.kernel_name}:{sizes}" if sizes else self.kernel_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key field in which a stored record departs from what was asked for."""

    field: str
    wanted: str
    stored: str

    def __str__(self) -> str:
        return f"{self.field} is {self.wanted} here, {self.stored} in the record"


def isa_of(target: Target) -> Isa:
    """The part of a target that decides speed; budgets and other policies of the target are left out."""
    return Isa(**{f.name: getattr(target, f.name) for f in dataclasses.fields(Isa)})


@cache
def current_toolchain() -> Toolchain:
    """Versions of what would compile a candidate in this process."""
    from autotune import jit  # LLVM is loaded at the first question about it, not when a store is opened

    return Toolchain(llvm=jit.llvm_version(), llvmlite=version("llvmlite"), code_generation=jit.CODE_GENERATION_VERSION)


def dtypes_of(program: Program) -> tuple[DType, ...]:
    """Element types of the parameters in order."""
    return tuple(parameter.dtype for parameter in program.parameters)


def workload_of(
    program: Program,
    sizes: Mapping[str, int],
    target: Target,
    *,
    cache: CacheMode = HOT,
    alignment: AlignmentClass = AlignmentClass.LINE,
    threads: int = 1,
    toolchain: Toolchain | None = None,
) -> Workload:
    """The workload of a program, its dimensions still symbols, at one shape on one target.

    `toolchain` is this process's where it is not given.
    Raises: KeyError where `sizes` lacks a dimension.
    """
    assert all(p.strides is None for p in program.parameters if isinstance(p, Tensor))
    key = WorkloadKey(
        kernel=fingerprint(program),
        shape=tuple(int(sizes[name]) for name in program.dims),
        dtypes=dtypes_of(program),
        cache=cache,
        alignment=alignment,
        threads=threads,
        isa=isa_of(target),
        toolchain=toolchain or current_toolchain(),
    )
    return Workload(key=key, kernel_name=program.name, dims=program.dims)


def differences(wanted: WorkloadKey, stored: WorkloadKey) -> tuple[Difference, ...]:
    """The fields in which two keys depart from each other, parts of the machine and the toolchain one by one."""
    left, right = _flat(wanted), _flat(stored)
    return tuple(
        Difference(field=name, wanted=_shown(left[name]), stored=_shown(right[name]))
        for name in left
        if left[name] != right[name]
    )


def _flat(key: WorkloadKey) -> dict[str, object]:
    fields: dict[str, object] = {}
    for f in dataclasses.fields(key):
        value = getattr(key, f.name)
        if isinstance(value, Isa | Toolchain):
            fields |= {f"{f.name}.{part.name}": getattr(value, part.name) for part in dataclasses.fields(value)}
        else:
            fields[f.name] = value
    return fields


def _shown(value: object) -> str:
    match value:
        case Enum() | CacheMode():
            return str(value.value)
        case tuple():
            return "(" + ", ".join(_shown(item) for item in value) + ")"
        case str() if len(value) > 40:
            return value[:37] + "..."
        case _:
            return str(value)
