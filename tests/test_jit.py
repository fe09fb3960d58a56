"""Compilation is deterministic, quick, refuses foreign symbols, and what it loads runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import llvmlite.binding as llvm  # noqa: TID251 - stands for another user of LLVM in this process
import numpy as np
import pytest

from autotune import jit
from autotune.ir.types import DType
from autotune.realizations.builder import Builder, Vector
from autotune.realizations.targets import TARGET_NAMES, UnknownTargetError, named_target
from tests.realizations import execute
from tests.realizations.kernels import KERNELS

_ROOT = Path(__file__).parents[1]
_HASH = """
from autotune import jit
from autotune.realizations.targets import TARGET_NAMES, named_target
from tests.realizations import execute
from tests.realizations.kernels import KERNELS
for kernel in KERNELS.values():
    for name in TARGET_NAMES:
        print(execute.compiled(kernel, named_target(name)).sha256)
"""


def _text(body: str, symbol: str = "entry") -> str:
    return f"""define void @{symbol}(ptr %args, ptr %workspace, i64 %first, i64 %last) nounwind {{
{body}
  ret void
}}
"""


def test_two_processes_make_equal_objects() -> None:
    def once() -> str:
        return subprocess.run(
            [sys.executable, "-c", _HASH], cwd=_ROOT, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    first = once()
    assert len(first.split()) == len(KERNELS) * len(TARGET_NAMES)
    assert first == once()


@pytest.mark.parametrize("name", TARGET_NAMES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_target_compiles(kernel: str, name: str) -> None:
    compiled = execute.compiled(KERNELS[kernel], named_target(name))
    assert compiled.summary.defined == ("entry",)
    assert compiled.summary.undefined == ()
    assert compiled.summary.writable_sections == ()
    assert compiled.summary.text_bytes > 100
    assert "entry:" in compiled.assembly()


def test_loops_are_neither_unrolled_nor_vectorised() -> None:
    def kernel(b: Builder) -> None:
        x = b.argument_pointer(0, DType.F32)
        n = b.argument_scalar(1, DType.I64)

        def body(i: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
            value = b.load(x, i, 1)
            b.store(x, i, b.mul(value, value))
            return ()

        b.loop(b.index(0), n, 1, (), body)

    text = execute.compiled(kernel, named_target("avx512")).assembly()
    assert text.count("mulss") == 1
    assert "mulps" not in text


def test_foreign_calls_are_refused() -> None:
    text = "declare void @puts(ptr)\n" + _text("  call void @puts(ptr %args)")
    with pytest.raises(jit.ObjectRefusedError, match=r"calls puts; only .*sinf.* may be"):
        jit.compile_module(text, named_target("avx2"))


def test_writable_data_is_refused() -> None:
    text = "@state = global i64 1\n" + _text("  store i64 %first, ptr @state")
    with pytest.raises(jit.ObjectRefusedError, match=r"writable data: \.data"):
        jit.compile_module(text, named_target("avx2"))


def test_a_missing_symbol_is_named() -> None:
    compiled = jit.compile_module(_text("", "other"), jit.host_target())
    with pytest.raises(ValueError, match="defines other, not entry"):
        jit.load(compiled.object_bytes, "entry")


def test_loading_bytes_that_are_no_object() -> None:
    with pytest.raises(ValueError, match="expected a 64-bit little-endian ELF object"):
        jit.load(b"nonsense" * 20, "entry")


def test_text_that_is_no_module_raises() -> None:
    with pytest.raises(RuntimeError):
        jit.compile_module("define nothing", named_target("avx2"))


def test_many_engines_live_side_by_side() -> None:
    compiled = execute.compiled(KERNELS["sum_of_squares"], jit.host_target())
    handles = [jit.load(compiled.object_bytes, "entry") for _ in range(20)]
    assert len({handle.address for handle in handles}) == 20
    x, y = np.arange(256, dtype=np.float32), np.zeros(1, np.float32)
    for handle in handles:
        y[:] = 0
        execute.call(handle, x, y, 256)
        assert y[0] == pytest.approx(np.sum(x.astype(np.float64) ** 2), rel=1e-6)


def test_two_threads_call_one_handle() -> None:
    handle = jit.load(execute.compiled(KERNELS["sum_of_squares"], jit.host_target()).object_bytes, "entry")
    wrong: list[float] = []

    def work(value: float) -> None:
        x, y = np.full(256, value, np.float32), np.zeros(1, np.float32)
        for _ in range(200):
            execute.call(handle, x, y, 256)
            if y[0] != 256 * value * value:
                wrong.append(float(y[0]))

    threads = [threading.Thread(target=work, args=(value,)) for value in (1.0, 2.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_host_target_knows_the_caches() -> None:
    target = jit.host_target()
    assert jit.can_run(target)
    assert target.l1_bytes < target.l2_bytes < target.l3_bytes
    assert target.features == named_target(target.name).features
    assert jit.parse_target("simd") == target


def test_targets_by_name() -> None:
    assert jit.parse_target("simd:neon").triple.startswith("aarch64")
    assert not jit.can_run(named_target("neon")) or jit.host_target().name == "neon"
    for text in ("simd:avx9", "gpu", "simd:"):
        with pytest.raises(UnknownTargetError, match="NAME one of avx512, avx2, sse2, neon"):
            jit.parse_target(text)


_STRIDED_COPY = """
define void @entry(ptr %args, ptr %workspace, i64 %first, i64 %last) nounwind {
start:
  br label %loop
loop:
  %i = phi i64 [ %first, %start ], [ %next, %loop ]
  %k = mul i64 %i, 12
  %p = getelementptr float, ptr %args, i64 %k
  %q = getelementptr float, ptr %workspace, i64 %k
  %v = load float, ptr %p
  store float %v, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def test_other_users_of_llvm_keep_their_options() -> None:
    """What a peer compiles in this process does not change with what autotune compiled before it."""

    def elsewhere() -> str:
        machine = llvm.Target.from_triple(named_target("avx2").triple).create_target_machine(cpu="haswell", opt=2)
        return str(machine.emit_assembly(llvm.parse_assembly(_STRIDED_COPY)))

    jit.can_run(named_target("avx2"))  # targets are registered
    before = elsewhere()
    ours = jit.assembly(_STRIDED_COPY, named_target("avx2"))
    assert elsewhere() == before
    jit.compile_module(_STRIDED_COPY, named_target("avx2"))
    assert elsewhere() == before
    assert jit.assembly(_STRIDED_COPY, named_target("avx2")) == ours
