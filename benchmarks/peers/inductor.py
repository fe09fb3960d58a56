"""The machine code that TorchInductor generates, called natively: no Python, no guards, no dispatch.
Must not time anything through `torch.compile`'s own call."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import numpy as np
import torch
import torch._inductor.config as inductor_config
from numpy.typing import NDArray
from torch import Tensor
from torch._inductor.codecache import PyCodeCache

from benchmarks.buffers import Buffers
from benchmarks.cases import Case
from benchmarks.peers import Attempt, Prepared, Style
from benchmarks.peers.torch_formulas import ALTERNATIVES, AS_WRITTEN, Formula, tensors_for
from benchmarks.timing import Call, NativeCall, nothing, repeater

torch.set_num_threads(1)
inductor_config.compile_threads = 1

_CACHES = tempfile.TemporaryDirectory(prefix="autotune-benchmarks-inductor-")
"""Holds one cache a compilation; the libraries in it stay mapped, and it goes when the process ends."""
_KERNEL_PREFIX = "cpp_fused"
_SYMBOL = "kernel"


class NotOneKernel(RuntimeError):
    """Inductor made of a formula something else than one generated kernel that is called once."""

    def __init__(self, formula: str, found: str) -> None:
        super().__init__(f"expected one generated C++ kernel for {formula}, called once, found {found}")


class UnknownPointer(RuntimeError):
    """The generated wrapper passes its kernel something that is not a tensor."""

    def __init__(self, formula: str, argument: object) -> None:
        super().__init__(f"the kernel for {formula} takes a {type(argument).__name__}; only tensors can be passed on")


class NotTheOutput(RuntimeError):
    """A compiled formula returns something that the shared output cannot stand in for."""

    def __init__(self, formula: str) -> None:
        super().__init__(f"{formula} returns a view; return a contiguous tensor with memory of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Generated:
    """What one compilation left behind: the library, and the tensors its kernel was called with, in order."""

    library: str
    passed: tuple[object, ...]
    returned: Tensor


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """The formula as written; the best style adds the other formulations."""
    more = ALTERNATIVES[case.kernel] if style is Style.BEST else ()
    for formula in (AS_WRITTEN[case.kernel], *more):
        yield formula.__name__, partial(_prepare, formula, buffers)


def trivial() -> Call:
    """A native function that returns at once: nothing here is called from Python."""
    return nothing(4)


def _prepare(formula: Formula, buffers: Buffers) -> Prepared:
    inputs = tensors_for(formula, buffers.inputs)
    generated = _compile(formula, inputs)
    addresses = _addresses(formula, generated, inputs, buffers)
    library = ctypes.CDLL(generated.library)
    _check_symbol(generated.library)
    entry = ctypes.cast(getattr(library, _SYMBOL), ctypes.c_void_p).value
    assert entry is not None
    call = NativeCall(address=entry, arguments=addresses)
    once = repeater(call)

    def outcome() -> NDArray[np.float32]:
        once(1)
        return buffers.y

    return Prepared(formulation=formula.__name__, call=call, outcome=outcome)


def _compile(formula: Formula, inputs: tuple[Tensor, ...]) -> _Generated:
    """Compile in a cache of its own, then run the generated wrapper once with its kernel replaced by a recorder."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(dir=_CACHES.name)
    torch.compiler.reset()
    known = len(PyCodeCache.modules)
    compiled = torch.compile(formula, fullgraph=True, dynamic=False)
    with torch.no_grad():
        compiled(*inputs)
        wrapper, name = _only_kernel(formula, PyCodeCache.modules[known:])
        kernel = getattr(wrapper, name)
        calls: list[tuple[object, ...]] = []

        def record(*arguments: object) -> None:
            calls.append(arguments)
            kernel(*arguments)

        setattr(wrapper, name, record)
        returned = compiled(*inputs)
        setattr(wrapper, name, kernel)
    if len(calls) != 1:
        raise NotOneKernel(formula.__name__, f"{len(calls)} calls")
    return _Generated(library=kernel.__self__.__file__, passed=calls[0], returned=returned)


def _only_kernel(formula: Formula, modules: list[ModuleType]) -> tuple[ModuleType, str]:
    found = [(module, name) for module in modules for name in vars(module) if name.startswith(_KERNEL_PREFIX)]
    if len(found) != 1:
        raise NotOneKernel(formula.__name__, f"{len(found)}: {', '.join(name for _, name in found) or 'none'}")
    return found[0]


def _addresses(
    formula: Formula, generated: _Generated, inputs: tuple[Tensor, ...], buffers: Buffers
) -> tuple[int, ...]:
    """Where the native call finds what the wrapper passed: an input, a place in the output, or room of its own.

    The wrapper passes views too (two halves of one result), so places are told by storage and offset.
    """
    bases = {_storage_address(tensor): _storage_address(tensor) for tensor in inputs}
    if not generated.returned.is_contiguous() or generated.returned.untyped_storage().nbytes() != buffers.y.nbytes:
        raise NotTheOutput(formula.__name__)
    bases[_storage_address(generated.returned)] = buffers.y.ctypes.data
    addresses = []
    for value in generated.passed:
        if not isinstance(value, Tensor):
            raise UnknownPointer(formula.__name__, value)
        base = _storage_address(value)
        if base not in bases:
            bases[base] = buffers.scratch(value.untyped_storage().nbytes())
        addresses.append(bases[base] + value.data_ptr() - base)
    return tuple(addresses)


def _storage_address(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _check_symbol(library: str) -> None:
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    if not any(line.split()[1:] == ["T", _SYMBOL] for line in listing.stdout.splitlines()):
        raise NotOneKernel(library, f"no exported function {_SYMBOL}")
