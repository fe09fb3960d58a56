"""Compiles LLVM assembly to object files and loads them; the only user of llvmlite.binding.
Must not know what the code computes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from autotune.object_file import ObjectSummary, summarize
from autotune.realizations.target import Target
from autotune.realizations.targets import ALLOWED_CALLS, TARGET_NAMES, UnknownTargetError, named_target, with_caches

_NEEDED_FEATURES = {
    "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "fma", "bmi2"),
    "avx2": ("avx2", "fma", "bmi2"),
    "sse2": ("sse2",),
    "neon": ("neon",),
}
_CODE_GENERATION_LEVEL = 2
CODE_GENERATION_VERSION = 6
"""Part of every key of the store. Raise it when an unchanged candidate may compile to other machine code: when the
emitter (`autotune/realizations`) writes other instructions for it, and when the passes below change."""

_generating = threading.Lock()


class ObjectRefusedError(RuntimeError):
    """An object that calls, or writes to, what emitted code may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledObject:
    """Machine code of one module.

    Units: seconds of wall clock; `text_bytes` of machine code. Equal modules and targets give equal bytes.
    """

    object_bytes: bytes
    sha256: str
    summary: ObjectSummary
    compile_seconds: float
    target: Target
    source: str = field(repr=False)

    def assembly(self) -> str:
        """The same code as text, generated anew."""
        return assembly(self.source, self.target)


@dataclass(slots=True, kw_only=True, eq=False)
class Handle:
    """Loaded machine code; callable at `address` for as long as the handle lives."""

    address: int
    symbol: str
    _engine: Any = field(repr=False)

    def function(self) -> Callable[[object, int | None, int, int], None]:
        """`entry(args, workspace, first, last)`; calls release the interpreter lock."""
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        entry = prototype(self.address)
        entry.handle = self  # type: ignore[attr-defined]
        return entry


def llvm_version() -> str:
    """Version of the LLVM that llvmlite was built with, as `22.1.0`."""
    return ".".join(str(part) for part in llvm.llvm_version_info)


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


# ---- targets --------------------------------------------------------------------------------------------------------
@cache
def _host_features() -> frozenset[str]:
    _initialize()
    return frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)


def can_run(target: Target) -> bool:
    """Whether this machine has every instruction of the target."""
    _initialize()
    same_architecture = llvm.get_process_triple().split("-")[0] == target.triple.split("-")[0]
    return same_architecture and all(name in _host_features() for name in _NEEDED_FEATURES[target.name])


@cache
def host_target(name: str | None = None) -> Target:
    """The named instruction set, or the widest this machine has, with this machine's caches and tuning.

    Raises: UnknownTargetError; a set that cannot run here keeps typical caches.
    """
    if name is None:
        name = next((each for each in TARGET_NAMES if can_run(named_target(each))), "sse2")
    target = named_target(name)
    if not can_run(target):
        return target
    l1_bytes, l2_bytes, l3_bytes = _cache_sizes(target)
    return with_caches(target, l1_bytes, l2_bytes, l3_bytes, llvm.get_host_cpu_name())


def parse_target(text: str) -> Target:
    """`simd` or `simd:avx2` as users write it.

    Raises: UnknownTargetError.
    """
    kind, _, name = text.partition(":")
    if kind != "simd" or (":" in text and name not in TARGET_NAMES):
        raise UnknownTargetError(text)
    return host_target(name or None)


def _cache_sizes(target: Target) -> tuple[int, int, int]:
    """First, second and third level data caches; the target's own where the system does not tell."""
    sizes = {1: target.l1_bytes, 2: target.l2_bytes, 3: target.l3_bytes}
    for directory in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind = (directory / "type").read_text().strip()
            level = int((directory / "level").read_text())
            size = (directory / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size.endswith("K"):
            sizes[level] = 1024 * int(size[:-1])
    return sizes[1], sizes[2], sizes[3]


# ---- compilation ----------------------------------------------------------------------------------------------------
def _machine(target: Target) -> Any:
    _initialize()
    made = llvm.Target.from_triple(target.triple)
    return made.create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=_CODE_GENERATION_LEVEL,
        reloc="pic",
        codemodel="small",  # constants are addressed relative to the code
    )


@contextmanager
def _without_strength_reduction() -> Iterator[None]:
    """Generate code without loop strength reduction: more than half of the time, and spills where addresses are many.

    LLVM has one switch for the whole process, so it is put back at once: numba and others compile with it on.
    """
    with _generating:
        llvm.set_option("autotune", "-disable-lsr=true")
        try:
            yield
        finally:
            llvm.set_option("autotune", "-disable-lsr=false")


def _optimized(text: str, machine: Any) -> Any:
    """Parse, verify and optimise.

    Emitted code is blocked, vectorised and mostly free of repetition already: slots must become registers, and the
    rest must be simplified; LLVM's own pipelines give the same machine code for four times the time.
    """
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def compile_module(text: str, target: Target) -> CompiledObject:
    """Optimise and generate an object file.

    Raises: RuntimeError from LLVM where the text is not valid; ObjectRefusedError.
    """
    begin = time.perf_counter()
    machine = _machine(target)
    module = _optimized(text, machine)
    with _without_strength_reduction():
        data: bytes = machine.emit_object(module)
    seconds = time.perf_counter() - begin
    summary = summarize(data)
    _check(summary)
    return CompiledObject(
        object_bytes=data,
        sha256=hashlib.sha256(data).hexdigest(),
        summary=summary,
        compile_seconds=seconds,
        target=target,
        source=text,
    )


def _check(summary: ObjectSummary) -> None:
    foreign = sorted(set(summary.undefined) - ALLOWED_CALLS)
    if foreign:
        raise ObjectRefusedError(
            f"the object calls {', '.join(foreign)}; only {', '.join(sorted(ALLOWED_CALLS))} may be"
        )
    if summary.writable_sections:
        raise ObjectRefusedError(f"the object has writable data: {', '.join(summary.writable_sections)}")


def optimized_ir(text: str, target: Target) -> str:
    """LLVM assembly after the passes."""
    return str(_optimized(text, _machine(target)))


def assembly(text: str, target: Target) -> str:
    """Machine code as assembly text."""
    machine = _machine(target)
    machine.set_asm_verbosity(False)
    module = _optimized(text, machine)
    with _without_strength_reduction():
        return str(machine.emit_assembly(module))


# ---- loading --------------------------------------------------------------------------------------------------------
@cache
def _bind_allowed_calls() -> None:
    """Tell the loader where the math library's functions are."""
    library = ctypes.CDLL("libm.so.6") if os.name == "posix" else ctypes.CDLL(None)
    for name in sorted(ALLOWED_CALLS):
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None
        llvm.add_symbol(name, address)


def load(object_bytes: bytes, symbol: str) -> Handle:
    """Map the object's code into this process; it goes away with the handle.

    Raises: ObjectRefusedError; ValueError where the object lacks the symbol.
    """
    summary = summarize(object_bytes)
    _check(summary)
    if symbol not in summary.defined:
        raise ValueError(f"the object defines {', '.join(summary.defined)}, not {symbol}")
    _bind_allowed_calls()
    # An engine owns its machine: two engines on one machine crash.
    host = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host)
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_bytes))
    engine.finalize_object()
    return Handle(address=int(engine.get_function_address(symbol)), symbol=symbol, _engine=engine)
