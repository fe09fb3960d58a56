"""What a CPU can do, as data: lanes, registers, masks, gathers, cache sizes, budgets. Holds no scores.
Must not know the machine it runs on; `autotune.jit` fills one in for the host."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.ir.types import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Capabilities of one instruction set on one machine.

    Units: `_bytes`; budgets in builder instructions. `masked_sizes_bytes` are the element sizes whose loads and stores
    the instruction set can mask. `allowed_calls` are the external functions that emitted code may name.
    """

    name: str  # avx512 | avx2 | sse2 | neon
    triple: str
    cpu: str
    features: str  # LLVM feature string, "+avx512f,+fma,..."
    vector_bytes: int
    vector_registers: int
    masked_sizes_bytes: tuple[int, ...]
    has_fma: bool
    has_gather: bool
    has_scatter: bool
    has_scalef: bool  # x·2^⌊n⌋ in one instruction
    has_table_permute: bool  # 16 or 32 single-precision entries selected by a vector of indices
    has_rsqrt_estimate: bool = False  # 1/√x of single precision to 14 bits in one instruction
    has_mask_registers: bool = False  # comparisons give bits in registers of their own
    has_round: bool = True  # floor, ceil and rint in one instruction
    tune: str = ""  # CPU whose timings guide scheduling, no instruction of its own
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    l3_bytes: int = 32 * 1024 * 1024
    clone_budget_instructions: int = 4096
    source_budget_instructions: int = 8192

    def registers(self, dtype: DType, lanes: int) -> int:
        """Vector registers (at least one) that `lanes` elements of `dtype` take; bool counts as one mask register."""
        if dtype is DType.BOOL:
            return 1
        return max(1, -(-lanes * dtype.size_bytes // self.vector_bytes))

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return max(1, self.vector_bytes // dtype.size_bytes)

    def masks(self, dtype: DType) -> bool:
        """Whether loads and stores of `dtype` can leave lanes untouched without a branch a lane."""
        return dtype.size_bytes in self.masked_sizes_bytes
