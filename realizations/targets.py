"""The named instruction sets: what `--target simd:NAME` may say, and what each can do.
Must not know the machine it runs on; `autotune.jit` adds the host's caches and tuning."""

from __future__ import annotations

from dataclasses import replace

from autotune.realizations.target import Target

ALLOWED_CALLS = frozenset({"sin", "cos", "sinf", "cosf", "memset", "memcpy", "memmove"})
"""External functions that emitted code may name: scalar paths and what LLVM makes of long fills and copies."""

_X86 = "x86_64-unknown-linux-gnu"

_AVX512 = Target(
    name="avx512",
    triple=_X86,
    cpu="x86-64-v4",
    features="+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,+fma,+bmi,+bmi2,-prefer-256-bit",
    vector_bytes=64,
    vector_registers=32,
    masked_sizes_bytes=(1, 2, 4, 8),
    has_fma=True,
    has_gather=True,
    has_scatter=True,
    has_scalef=True,
    has_table_permute=True,
    has_rsqrt_estimate=True,
    has_mask_registers=True,
)
_AVX2 = Target(
    name="avx2",
    triple=_X86,
    cpu="x86-64-v3",
    features="+avx2,+fma,+bmi,+bmi2",
    vector_bytes=32,
    vector_registers=16,
    masked_sizes_bytes=(4, 8),
    has_fma=True,
    has_gather=False,  # LLVM splits AVX2 gathers into scalar loads unless the CPU has fast ones
    has_scatter=False,
    has_scalef=False,
    has_table_permute=False,
)
_SSE2 = Target(
    name="sse2",
    triple=_X86,
    cpu="x86-64",
    features="+sse2",
    vector_bytes=16,
    vector_registers=16,
    masked_sizes_bytes=(),
    has_fma=False,
    has_gather=False,
    has_scatter=False,
    has_scalef=False,
    has_table_permute=False,
    has_round=False,
)
_NEON = Target(
    name="neon",
    triple="aarch64-unknown-linux-gnu",
    cpu="generic",
    features="+neon",
    vector_bytes=16,
    vector_registers=32,
    masked_sizes_bytes=(),
    has_fma=True,
    has_gather=False,
    has_scatter=False,
    has_scalef=False,
    has_table_permute=False,
)
_TARGETS = {target.name: target for target in (_AVX512, _AVX2, _SSE2, _NEON)}

TARGET_NAMES = tuple(_TARGETS)
"""Widest first within one architecture."""


class UnknownTargetError(ValueError):
    """A target name that is not in the list."""

    def __init__(self, given: str) -> None:
        names = ", ".join(TARGET_NAMES)
        super().__init__(
            f"unknown target {given!r}: write simd for this machine, or simd:NAME with NAME one of {names}"
        )


def named_target(name: str) -> Target:
    """The named feature set with typical cache sizes.

    Raises: UnknownTargetError.
    """
    try:
        return _TARGETS[name]
    except KeyError:
        raise UnknownTargetError(name) from None


def with_caches(target: Target, l1_bytes: int, l2_bytes: int, l3_bytes: int, tune: str) -> Target:
    """The same instruction set on a machine with these caches, scheduled for CPU `tune`."""
    return replace(target, l1_bytes=l1_bytes, l2_bytes=l2_bytes, l3_bytes=l3_bytes, tune=tune)
