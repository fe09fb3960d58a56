"""Runs a kernel written on a builder with NumPy arrays as its arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from autotune import jit
from autotune.realizations.builder import Builder
from autotune.realizations.llvm import LlvmBuilder
from autotune.realizations.target import Target

SYMBOL = "entry"


def compiled(kernel: Callable[[Builder], None], target: Target) -> jit.CompiledObject:
    """The kernel's object file."""
    builder = LlvmBuilder(SYMBOL, target)
    kernel(builder)
    return jit.compile_module(builder.finish(), target)


def slot_of(argument: object) -> int:
    """The 64 bits of one argument: an address, an integer, or a float's bits."""
    if isinstance(argument, np.ndarray):
        return int(argument.ctypes.data)
    if isinstance(argument, np.generic):
        return int.from_bytes(argument.tobytes().ljust(8, b"\0"), "little")
    assert isinstance(argument, int)
    return argument


def call(handle: jit.Handle, *arguments: object, first: int = 0, last: int = 1, workspace_bytes: int = 0) -> None:
    """Run packets first .. last-1."""
    slots = (ctypes.c_uint64 * max(1, len(arguments)))(*[slot_of(argument) for argument in arguments])
    workspace = aligned(workspace_bytes, np.uint8)
    handle.function()(slots, workspace.ctypes.data, first, last)


def run(kernel: Callable[[Builder], None], target: Target, *arguments: object, last: int = 1) -> None:
    """Compile, load and run."""
    call(jit.load(compiled(kernel, target).object_bytes, SYMBOL), *arguments, last=last, workspace_bytes=4096)


def aligned(elements: int, dtype: type[np.generic]) -> NDArray[np.generic]:
    """A zeroed array on a 64-byte boundary."""
    item = np.dtype(dtype).itemsize
    raw = np.zeros(elements * item + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + elements * item].view(dtype)


def compiled_map(kernel: Callable[[Builder], None], target: Target, symbol: str) -> jit.CompiledObject:
    """The same under another name."""
    builder = LlvmBuilder(symbol, target)
    kernel(builder)
    return jit.compile_module(builder.finish(), target)
