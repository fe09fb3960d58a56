"""Small sets of candidates in which every pair of choice levels that occurs together occurs.
Must not know what a level means."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from autotune.search.encode import ChoiceMatrix

PairNumbers = NDArray[np.int32]


def levels_of(matrix: ChoiceMatrix) -> PairNumbers:
    """Numbers of the levels of every candidate. Shapes: int32[candidates, varying parameters]."""
    return _numbered([matrix.codes[:, k].astype(np.int64) for k in _varying(matrix)], len(matrix))


def pairs_of(matrix: ChoiceMatrix) -> PairNumbers:
    """Numbers of the pairs of levels of every candidate; parameters with one level are left out.

    Shapes: int32[candidates, pairs of varying parameters]; numbers run from 0 without gaps.
    """
    varying = _varying(matrix)
    if len(varying) < 2:
        return levels_of(matrix)
    codes = matrix.codes[:, varying].astype(np.int64)
    levels = int(codes.max()) + 1
    pairs = [codes[:, i] * levels + codes[:, j] for i in range(len(varying)) for j in range(i)]
    return _numbered(pairs, len(matrix))


def _varying(matrix: ChoiceMatrix) -> list[int]:
    return [k for k in range(matrix.codes.shape[1]) if len(np.unique(matrix.codes[:, k])) > 1]


def _numbered(columns: list[NDArray[np.int64]], rows: int) -> PairNumbers:
    numbered, start = [], 0
    for column in columns:
        distinct, numbers = np.unique(column, return_inverse=True)
        numbered.append(numbers.reshape(-1) + start)
        start += len(distinct)
    return np.stack(numbered, axis=1).astype(np.int32) if numbered else np.zeros((rows, 0), np.int32)


def greedy_cover(pairs: PairNumbers) -> Iterator[int]:
    """Rows, each with the most pairs that no row before it has, until every pair has occurred.

    A row's gain only shrinks, so a gain computed earlier is a bound: rows are looked at again only while they lead.
    """
    covered = np.zeros(int(pairs.max(initial=-1)) + 1, np.bool_)
    queue = [(-pairs.shape[1], row) for row in range(len(pairs))]
    heapq.heapify(queue)
    while queue:
        _, row = heapq.heappop(queue)
        gain = int(np.count_nonzero(~covered[pairs[row]]))
        if gain == 0:
            continue
        if queue and gain < -queue[0][0]:
            heapq.heappush(queue, (-gain, row))
            continue
        covered[pairs[row]] = True
        yield row


def share_covered(pairs: PairNumbers, rows: Sequence[int]) -> float:
    """Share of all pairs that occur in the given rows."""
    every = len(np.unique(pairs))
    return len(np.unique(pairs[rows])) / every if every else 1.0
