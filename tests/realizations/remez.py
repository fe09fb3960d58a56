"""Minimax polynomials and quotients by Remez exchange: how the coefficients in `realizations/vector_math` were made.
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


def minimax_quotient(f: Real, over: int, under: int, high: float) -> tuple[list[mp.mpf], list[mp.mpf], float]:
    """Coefficients of two polynomials of these degrees whose quotient has the least relative error against f on
    [0, high], scaled so that the last of the first is 1, and that error.

    Source: the exchange algorithm, each system of equations solved by iteration on the level.
    """
    with mp.workdps(50):
        count = over + under + 2
        points = [mp.mpf(high) / 2 * (1 - mp.cos(mp.pi * (k + mp.mpf("0.5")) / count)) for k in range(count)]
        grid = [high * (mp.mpf(k) / 600) ** 2 for k in range(601)]
        values = [f(x) for x in grid]
        level, worst = mp.mpf(0), mp.mpf(0)
        for _ in range(8):
            top, bottom, level = _levelled(f, over, under, points, level)
            errors = [polynomial(top, x) / polynomial(bottom, x) / y - 1 for x, y in zip(grid, values, strict=True)]
            worst = max(abs(e) for e in errors)
            if worst < abs(level) * mp.mpf("1.0005"):
                break
            points = _extrema(grid, errors, count)
        return [c / top[-1] for c in top], [c / top[-1] for c in bottom], float(worst)


def polynomial(coefficients: Sequence[mp.mpf], x: mp.mpf) -> mp.mpf:
    """Its value, lowest coefficient first."""
    return sum((c * x**k for k, c in enumerate(coefficients)), mp.mpf(0))


def _levelled(
    f: Real, over: int, under: int, points: Sequence[mp.mpf], level: mp.mpf
) -> tuple[list[mp.mpf], list[mp.mpf], mp.mpf]:
    """The quotient, its first denominator coefficient 1, whose relative error at the points is ±level by turns."""
    solution = mp.matrix(over + under + 2, 1)
    for _ in range(6):
        rows, right = [], []
        for k, x in enumerate(points):
            sign, y = (-1) ** k, f(x)
            goal = y * (1 + sign * level)
            rows.append([*(x**p for p in range(over + 1)), *(-goal * x**p for p in range(1, under + 1)), -sign * y])
            right.append(goal)
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix(right))
        level += solution[over + under + 1]
    bottom = [mp.mpf(1), *(solution[over + p] for p in range(1, under + 1))]
    return [solution[p] for p in range(over + 1)], bottom, level


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
