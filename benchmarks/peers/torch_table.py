"""Which formulas of PyTorch compute a kernel, the one that users write first.
Must not know whether they are run eagerly or compiled."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.peers import torch_contractions as contractions
from benchmarks.peers import torch_formulas as rows
from benchmarks.peers.torch_formulas import Formula

AS_WRITTEN = {**rows.AS_WRITTEN, **contractions.AS_WRITTEN}
ALTERNATIVES = {**rows.ALTERNATIVES, **contractions.ALTERNATIVES}


def formulas_of(case: Case) -> tuple[Formula, ...]:
    """The formulas of a kernel that return their result."""
    return (AS_WRITTEN[case.kernel], *ALTERNATIVES[case.kernel])
