"""Minimax polynomials by Remez exchange in mpmath: how the coefficients in `realizations/vector_math` were made.
Must not be needed to run anything: the coefficients are written out there, and a test compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mpmath as mp
import numpy as np

Real = Callable[[mp.mpf], mp.mpf]


def minimax(
    f: Real, powers: Sequence[int], low: float, high: float, weight: Real, digits: int = 50
) -> tuple[list[mp.mpf], float]:
    """Coefficients c of Σ c_k·x^powers[k] that minimise max |weight(x)·(p(x) − f(x))| on [low, high], and that maximum.

    Source: the exchange algorithm of E. Remez (1934), on a grid of candidates for the extrema.
    """
    with mp.workdps(digits):
        n = len(powers)
        middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
        points = [middle - half * mp.cos(mp.pi * (mp.mpf(k) / n) ** mp.mpf("1.03")) for k in range(n + 1)]  # none at 0
        grid = [middle - half * mp.cos(mp.pi * (k + mp.mpf("0.5")) / 400) for k in range(400)] + [
            mp.mpf(low),
            mp.mpf(high),
        ]
        grid.sort()
        values = [(f(x), weight(x), x) for x in grid]
        coefficients: list[mp.mpf] = []
        level = mp.mpf(0)
        for _ in range(12):
            rows = [[x**p for p in powers] + [(-1) ** k / weight(x)] for k, x in enumerate(points)]
            solution = mp.lu_solve(mp.matrix(rows), mp.matrix([f(x) for x in points]))
            coefficients, level = [solution[k] for k in range(n)], abs(solution[n])
            errors = [w * (sum(c * x**p for c, p in zip(coefficients, powers, strict=True)) - y) for y, w, x in values]
            points = _extrema([x for _, _, x in values], errors, n + 1)
            worst = max(abs(e) for e in errors)
            if worst < level * mp.mpf("1.0005"):
                break
        return coefficients, float(max(level, worst))


def _extrema(grid: Sequence[mp.mpf], errors: Sequence[mp.mpf], count: int) -> list[mp.mpf]:
    """The largest error of each run of one sign; the outermost weakest runs are dropped down to `count`."""
    runs: list[int] = []
    for k, error in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = k
        else:
            runs.append(k)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    assert len(runs) == count, "the error does not oscillate often enough: fewer powers, or a denser grid"
    return [grid[k] for k in runs]


def rounded(coefficients: Sequence[mp.mpf], dtype: type[np.floating]) -> list[float]:
    """To the nearest number of the type."""
    return [float(dtype(mp.nstr(c, 30))) for c in coefficients]
