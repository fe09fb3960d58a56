"""The ratios that tuned contractions and attentions are held to, against the fastest of all peers that count.
Must not know how a ratio was measured."""

from __future__ import annotations

from benchmarks.attention_cases import ATTENTION, DECODE, PREFILL
from benchmarks.case import Case, case_of
from benchmarks.contraction_cases import BATCHED, GEMV, MATMUL, MATMUL_BT
from benchmarks.targets import FASTEST, Target

_NUMPY = "numpy best"
_TIGHTER = {
    (1, 8, 2, 256, 1024, 64, 64): 0.85,
    (1, 32, 8, 512, 512, 128, 128): 0.70,
    (1, 8, 2, 1, 2048, 64, 64): 0.65,
    (1, 8, 2, 1, 2053, 80, 96): 0.80,
    (1, 16, 4, 1, 4096, 128, 128): 0.50,
    (2, 8, 1, 1, 2053, 80, 96): 0.80,
    (1, 16, 4, 1, 8193, 128, 128): 0.75,
    (1, 8, 2, 1, 32768, 64, 96): 0.75,
    (1, 32, 8, 1, 4096, 128, 128): 0.65,
}
"""Attention shapes held to less than the fastest peer's time."""
_AT_MOST_THE_FASTEST = ((1, 4, 2, 64, 128, 64, 64), (1, 4, 2, 65, 131, 64, 64), (1, 8, 2, 3, 67, 80, 96))


def _target(case: Case, at_most: float, against: str = FASTEST) -> Target:
    return Target(case=case.name, against=against, at_most=at_most)


CONTRACTION_TARGETS: tuple[Target, ...] = (
    _target(case_of(MATMUL, 512, 512, 512), 1.0),
    _target(case_of(MATMUL, 1024, 1024, 1024), 1.0),
    _target(case_of(MATMUL, 128, 4096, 4096), 1.0),
    _target(case_of(MATMUL, 4096, 64, 64), 0.95),
    _target(case_of(MATMUL_BT, 512, 512, 512), 1.0),
    _target(case_of(GEMV, 4096, 4096), 1.02),
    *(
        _target(case_of(BATCHED, count, size, size, size), 0.5, _NUMPY)
        for count, size in ((4096, 8), (1024, 16), (256, 32))
    ),
)
ATTENTION_TARGETS: tuple[Target, ...] = tuple(
    _target(case_of(ATTENTION, *shape), _TIGHTER.get(shape, 1.0))
    for shape in (*PREFILL, *DECODE)
    if shape in _TIGHTER or shape in _AT_MOST_THE_FASTEST or shape in DECODE
)
