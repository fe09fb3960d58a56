"""The search set: candidates that may be measured, with the model's times and where each came from.
Must not know how it was enumerated or what is picked from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from autotune.realizations.candidate import Candidate

FROM_MODEL = 0  # among the k best of the join
FROM_SAMPLE = 1  # drawn uniformly from the legal candidates, without the model


class JoinStatus(Enum):
    """What a set says about the legal candidates, the reference aside."""

    EXACT = "exact in family"  # it holds every one of them
    FEASIBLE = "feasible under budget"  # it holds the model's best of them, and a sample of the rest
    NONE_FOUND = "none found"  # some are within the budgets, and the join came to none of them
    INFEASIBLE = "proved infeasible"  # there is none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchSet:
    """Legal candidates by row.

    `reference` is the reference candidate's row. `legal_count` is the size of the whole legal family, which may be
    larger than the set. `refused` holds rule, count and an example sentence of what is not in the family. No candidate
    but the reference uses a mechanism in `forbidden` or departs from a condition in `only`.

    Shapes: `prior_ns` float64[candidates], predicted nanoseconds a call; `origin` int64[candidates], FROM_MODEL or
    FROM_SAMPLE.
    """

    candidates: Sequence[Candidate]
    prior_ns: NDArray[np.float64]
    origin: NDArray[np.int64]
    reference: int
    legal_count: int
    refused: tuple[tuple[str, int, str], ...]
    status: JoinStatus
    forbidden: frozenset[str] = frozenset()
    only: tuple[str, ...] = ()


def model_first(space: SearchSet) -> str:
    """Id of the candidate with the shortest predicted time."""
    return space.candidates[int(np.argmin(space.prior_ns))].id
