"""The workloads of the golden tables, each with the conditions that declare its subspace.
Must not know how a table is recorded or replayed."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.attention_cases import ATTENTION
from benchmarks.case import Case, case_of
from benchmarks.cases import case as row_case
from benchmarks.contraction_cases import DOT, GEMV, MATMUL


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenCase:
    """A table: a case, and what every candidate of its subspace but the reference meets (`--only`)."""

    case: Case
    only: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """`gemv_M512_K512`."""
        return self.case.name.replace(":", "_").replace(",", "_").replace("=", "")


_EXP = ("variant.exp=table32_scalef", "packet=general")
_FOUR_VECTORS = tuple(f"p{phase}.block.a1=4" for phase in (2, 3, 4, 5, 7))
_SOFTMAX = (*_EXP, "tail=mask", "lanes=16", *_FOUR_VECTORS)
_ONE_CHAIN = ("p3.chains=1", "p5.chains=1")
_RMSNORM = ("packet=general", "tail=mask", "variant.rsqrt=estimate", "chains=1")
_ATTENTION = ("variant.exp=table32_scalef", "chains=1", "own_chains=1")
_DECODE = (
    *_ATTENTION,
    "p4.order=given",
    "p6.block.a4=4",
    "p4.block.a5=4",
    "p9.block.a4=4",
    "p11.block.a4=4",
    "p15.block.a5>=2",
    "p12.storage=direct",
)
_FEW_QUERIES = (
    *_ATTENTION,
    "packet=general",
    *(f"p{phase}.order=given" for phase in (4, 7, 13)),
    "p7.tail=mask",
    "p13.block.a5=2",
    "p7.block.a4=2",
    "p4.block.a5=3",
    "p5.tail=scalar",
    "p10.tail=mask",
    "p4.block.a2=3",
)
_PREFILL = (
    *_ATTENTION,
    "packet=general",
    *(f"p{phase}.order=given" for phase in (4, 7, 13)),
    "p7.tail=mask",
    "p4.block.a2=8",
    "p2.tail=mask",
    "p7.block.a4=2",
    "p10.tail=mask",
    "p5.tail=mask",
    "p16.block.a5=2",
)
GOLDEN_CASES: tuple[GoldenCase, ...] = (
    GoldenCase(case=row_case("softmax", 129, 65), only=(*_SOFTMAX, *_ONE_CHAIN)),
    GoldenCase(case=row_case("softmax", 129, 512), only=(*_SOFTMAX, *_ONE_CHAIN)),
    GoldenCase(case=row_case("softmax", 33, 1024), only=_SOFTMAX),
    GoldenCase(case=row_case("rmsnorm", 129, 65), only=(*_RMSNORM, "tile.row<=8")),
    GoldenCase(case=row_case("rmsnorm", 129, 512), only=(*_RMSNORM, "tile.row<=2")),
    GoldenCase(case=row_case("rmsnorm", 33, 1024), only=(*_RMSNORM, "tile.row<=2")),
    GoldenCase(case=row_case("swiglu", 129, 65)),
    GoldenCase(case=row_case("swiglu", 129, 512)),
    GoldenCase(case=row_case("swiglu", 33, 1024)),
    GoldenCase(case=case_of(MATMUL, 128, 128, 128)),
    GoldenCase(case=case_of(MATMUL, 96, 128, 80), only=("tail=mask", "order=given")),
    GoldenCase(case=case_of(MATMUL, 32, 256, 160), only=("order=given",)),
    GoldenCase(case=case_of(GEMV, 512, 512)),
    GoldenCase(case=case_of(GEMV, 300, 200)),
    GoldenCase(case=case_of(GEMV, 256, 768)),
    GoldenCase(case=case_of(DOT, 129, 1024)),
    GoldenCase(case=case_of(DOT, 65, 2048)),
    GoldenCase(case=case_of(DOT, 33, 257)),
    GoldenCase(case=case_of(ATTENTION, 1, 8, 2, 1, 512, 64, 64), only=_DECODE),
    GoldenCase(case=case_of(ATTENTION, 1, 8, 2, 3, 67, 80, 96), only=_FEW_QUERIES),
    GoldenCase(case=case_of(ATTENTION, 1, 4, 2, 32, 65, 32, 32), only=_PREFILL),
)
