"""The machine code that TorchInductor generates, called natively: no Python, no guards, no dispatch. What it leaves to
library calls runs through the generated wrapper, which has no guards either.
Must not time anything through `torch.compile`'s own call."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch._inductor.config as inductor_config
from numpy.typing import NDArray
from torch import Tensor
from torch._inductor.codecache import PyCodeCache
from torch._inductor.compile_fx import compile_fx

from benchmarks.buffers import Buffers
from benchmarks.case import Case
from benchmarks.peers import Attempt, Prepared, Style, torch_attention
from benchmarks.peers.torch_eager import trivial as torch_trivial
from benchmarks.peers.torch_formulas import Formula, tensors_for
from benchmarks.peers.torch_table import formulas_of
from benchmarks.timing import Call, NativeCall, PythonCall, in_order, repeater

torch.set_num_threads(1)
inductor_config.compile_threads = 1

_CACHES = tempfile.TemporaryDirectory(prefix="autotune-benchmarks-inductor-")
"""Holds one cache a compilation; the libraries in it stay mapped, and it goes when the process ends."""
_KERNEL_PREFIX = "cpp_"
_SYMBOL = "kernel"
_BATCHED = ("batched_small_matmul",)
_TEMPLATES: dict[str, Any] = {"max_autotune": True, "max_autotune_gemm_backends": "CPP"}
"""Makes it write products itself; of plain ones it does that only where the weights are constant."""
_LIBRARY_CALL = re.compile(r"^\s+.*\b(extern_kernels|aten|torch\.ops\.\w+)\.(\w+)", re.MULTILINE)


class NoKernel(RuntimeError):
    """Inductor made of a formula something that cannot be called natively."""

    def __init__(self, formula: str, found: str) -> None:
        super().__init__(f"expected generated C++ kernels for {formula}, found {found}")


class UnknownPointer(RuntimeError):
    """The generated wrapper passes its kernel something that is not a tensor."""

    def __init__(self, formula: str, argument: object) -> None:
        super().__init__(f"the kernel for {formula} takes a {type(argument).__name__}; only tensors can be passed on")


class NotTheOutput(RuntimeError):
    """A compiled formula returns something that the shared output cannot stand in for."""

    def __init__(self, formula: str) -> None:
        super().__init__(f"{formula} returns a view; return a contiguous tensor with memory of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class _KernelCall:
    """One call that the generated wrapper makes: the library, and the tensors passed, in order."""

    library: str
    passed: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Generated:
    """What one compilation left behind: the module of its wrapper, the kernel calls of one run and what it returned."""

    wrapper: ModuleType
    calls: tuple[_KernelCall, ...]
    inputs: tuple[Tensor, ...]
    returned: Tensor


def attempts(case: Case, buffers: Buffers, style: Style) -> Iterator[tuple[str, Attempt]]:
    """The formula as written; the best style adds the other formulations."""
    if case.kernel.startswith("attention"):
        for name, formula in torch_attention.flexible(case):
            yield name, partial(_prepare, name, formula, buffers)
        return
    formulas = formulas_of(case)
    for formula in formulas if style is Style.BEST else formulas[:1]:
        yield formula.__name__, partial(_prepare, formula.__name__, formula, buffers)
    if style is Style.BEST and case.kernel in _BATCHED:
        yield f"{case.kernel}, template", partial(_prepare, "template", formulas[0], buffers, _TEMPLATES)


def trivial() -> Call:
    """One addition of two tensors of one element into a third, for what is called through a wrapper."""
    return torch_trivial()


def _prepare(name: str, formula: Formula, buffers: Buffers, options: dict[str, Any] | None = None) -> Prepared:
    inputs = tensors_for(formula, buffers.inputs)
    generated = _compile(name, formula, inputs, options or {})
    libraries = _LIBRARY_CALL.findall(_call_text(generated.wrapper))
    if libraries or not generated.calls:
        called = ", ".join(sorted({operation for _, operation in libraries})) or "no kernel"
        return _through_wrapper(f"{name} (wrapper: {called})", generated)
    return _natively(name, generated, buffers)


def _natively(name: str, generated: _Generated, buffers: Buffers) -> Prepared:
    moved = _moved(name, generated, buffers)
    calls = [
        NativeCall(address=_entry(each.library), arguments=tuple(moved(value) for value in each.passed))
        for each in generated.calls
    ]
    call, table = in_order(calls)
    once = repeater(call)

    def outcome(kept: object = (table, generated)) -> NDArray[np.float32]:
        once(1)
        return buffers.y

    return Prepared(formulation=name, call=call, outcome=outcome)


def _through_wrapper(name: str, generated: _Generated) -> Prepared:
    entry: Callable[[list[Tensor]], tuple[Tensor, ...]] = vars(generated.wrapper)["call"]
    inputs = generated.inputs

    @torch.inference_mode()
    def call() -> Tensor:
        return entry(list(inputs))[0]

    return Prepared(formulation=name, call=PythonCall(function=call), outcome=lambda: call().contiguous().numpy())


def _compile(name: str, formula: Formula, inputs: tuple[Tensor, ...], options: dict[str, Any]) -> _Generated:
    """Compile in a cache of its own, then run the generated wrapper once with its kernels replaced by recorders."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(dir=_CACHES.name)
    torch.compiler.reset()
    known = len(PyCodeCache.modules)
    received: list[tuple[Tensor, ...]] = []
    compiled = torch.compile(formula, fullgraph=True, dynamic=False, backend=partial(_compile_graph, received, options))
    with torch.no_grad():
        compiled(*inputs)
        wrappers = [module for module in PyCodeCache.modules[known:] if hasattr(module, "call")]
        if len(wrappers) != 1:
            raise NoKernel(name, f"{len(wrappers)} wrappers")
        (wrapper,) = wrappers
        calls: list[_KernelCall] = []
        kernels = {name: kernel for name, kernel in vars(wrapper).items() if _is_kernel(name, kernel)}
        for kernel_name, kernel in kernels.items():
            setattr(wrapper, kernel_name, partial(_record, kernel, calls))
        returned = compiled(*inputs)
        for kernel_name, kernel in kernels.items():
            setattr(wrapper, kernel_name, kernel)
    return _Generated(wrapper=wrapper, calls=tuple(calls), inputs=received[-1], returned=returned)


def _compile_graph(
    received: list[tuple[Tensor, ...]], options: dict[str, Any], graph: torch.fx.GraphModule, examples: list[Tensor]
) -> Any:
    """Inductor as a backend that notes what its wrapper receives: inputs in the order of their first use."""
    compiled = compile_fx(graph, examples, config_patches=options)

    def run(*inputs: Tensor) -> object:
        received.append(inputs)
        return compiled(*inputs)

    return run


def _is_kernel(name: str, value: object) -> bool:
    return name.startswith(_KERNEL_PREFIX) and callable(value) and hasattr(value, "__self__")


def _record(kernel: Any, calls: list[_KernelCall], *arguments: object) -> None:
    calls.append(_KernelCall(library=kernel.__self__.__file__, passed=arguments))
    kernel(*arguments)


def _call_text(wrapper: ModuleType) -> str:
    """The source of the wrapper's own function: what it calls besides its kernels."""
    text = Path(str(wrapper.__file__)).read_text()
    return text[text.index("def call(") : text.index("def get_args")] if "def get_args" in text else text


def _moved(name: str, generated: _Generated, buffers: Buffers) -> Callable[[object], int]:
    """Where the native call finds a tensor that the wrapper passed: the result in the shared output, all else in place.

    The wrapper passes views too (two halves of one result), so places are told by storage and offset. The tensors it
    made for itself stay allocated as long as the record of its calls.
    """
    returned = generated.returned
    if not returned.is_contiguous() or returned.untyped_storage().nbytes() != buffers.y.nbytes:
        raise NotTheOutput(name)
    result = _storage_address(returned)

    def address(value: object) -> int:
        if not isinstance(value, Tensor):
            raise UnknownPointer(name, value)
        base = _storage_address(value)
        return int(value.data_ptr()) - base + (buffers.y.ctypes.data if base == result else base)

    return address


def _storage_address(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _entry(library: str) -> int:
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    if not any(line.split()[1:] == ["T", _SYMBOL] for line in listing.stdout.splitlines()):
        raise NoKernel(library, f"no exported function {_SYMBOL}")
    entry = ctypes.cast(getattr(ctypes.CDLL(library), _SYMBOL), ctypes.c_void_p).value
    assert entry is not None
    return entry
