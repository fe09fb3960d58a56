"""Judgement of outputs against the interpretation, and of a program against its own block sizes and merge rules.
Must not know who made the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from autotune.ir.bounds import Array
from autotune.ir.errors import WrongMergeRule
from autotune.ir.interpret import Expected, Interpretation, interpret
from autotune.ir.program import AxisKind, For, Number, Program, statements

# Block sizes of the dependence test: no tiling at all is the third.
TRIAL_BLOCKS = (1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A trial of a merge rule: where the loop is cut, and what a difference then says."""

    cuts: tuple[float, ...]
    parts: str
    expected: str


_NEUTRAL = "the state before the loop must be the rule's neutral element, as -inf is that of a maximum and 0 of a sum"
_COMBINES = "the rule must give the state of both parts together, whatever their lengths"
SPLITS = (
    Split(cuts=(0.0,), parts="the initial state and the whole loop's", expected=_NEUTRAL),
    Split(cuts=(1.0,), parts="the whole loop's state and the initial one", expected=_NEUTRAL),
    Split(cuts=(0.5,), parts="the states of its two halves", expected=_COMBINES),
    Split(cuts=(0.3, 0.6), parts="the states of three parts, from left to right", expected=_COMBINES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct:
    """Every element lies within its bound; `error` is the largest |found − expected| / bound."""

    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """The element farthest outside its bound; `count` elements are outside theirs."""

    output: str
    index: tuple[int, ...]
    found: Number
    expected: Number
    bound: float
    error_over_bound: float
    count: int

    def __str__(self) -> str:
        place = f"{self.output}[{', '.join(map(str, self.index))}]"
        return f"{place} is {self.found}, expected {self.expected} ± {self.bound:.3g} ({self.count} elements wrong)"


Verdict: TypeAlias = Correct | Wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDependence:
    """An output whose value changes with the block size: `block` against one block over everything."""

    block: int
    difference: Wrong


def check(candidate_outputs: Mapping[str, Array], expected: Interpretation) -> Verdict:
    """Compare a kernel's outputs with what they must be; NaN must meet NaN, infinity the same infinity.

    Shapes: one array an output, of the tensor's shape; bfloat16 as float arrays.
    Raises: KeyError where an output is missing.
    """
    worst = 0.0
    wrong: Wrong | None = None
    for output in expected.outputs:
        verdict = _compare(np.asarray(candidate_outputs[output.name]), output)
        match verdict:
            case Correct(error=error):
                worst = max(worst, error)
            case Wrong() if wrong is None or verdict.error_over_bound > wrong.error_over_bound:
                wrong = verdict
    return wrong or Correct(error=worst)


def check_merges(program: Program, arguments: Mapping[str, Array | Number]) -> None:
    """Split every loop that has a merge rule, merge the parts, and refuse the rule where an output changes beyond its
    bound.

    Raises: WrongMergeRule, and what the interpreter raises.
    """
    loops = [s for s in statements(program.body) if isinstance(s, For) and s.merge is not None]
    whole = interpret(program, arguments) if loops else None
    for loop in loops:
        for split in SPLITS:
            assert whole is not None
            difference = _difference(whole, interpret(program, arguments, cuts={loop.axis: split.cuts}))
            if difference is not None:
                raise WrongMergeRule(
                    program=program.name,
                    line=loop.line,
                    parts=split.parts,
                    expected=split.expected,
                    difference=str(difference),
                )


def block_dependence(program: Program, arguments: Mapping[str, Array | Number]) -> tuple[BlockDependence, ...]:
    """Outputs that differ beyond their bounds between block sizes 1, 3 and the full extent, worst per block size.

    Choose small shapes: at block size 1 every loop makes one trip an element. Merge rules are tried first: with a
    wrong one a program depends on how its loop is split.
    Raises: WrongMergeRule, and what the interpreter raises.
    """
    check_merges(program, arguments)
    tiled = [a.id for a in program.axes if a.kind in (AxisKind.TILE, AxisKind.PROGRAM_TILE)]
    if not tiled:
        return ()
    whole = interpret(program, arguments)
    found = []
    for block in TRIAL_BLOCKS:
        trial = interpret(program, arguments, blocks=dict.fromkeys(tiled, block))
        difference = _difference(whole, trial)
        if difference is not None:
            found.append(BlockDependence(block=block, difference=difference))
    return tuple(found)


def _difference(whole: Interpretation, trial: Interpretation) -> Wrong | None:
    """The worst element of two interpretations that both bounds together do not explain."""
    allowed = zip(whole.outputs, trial.outputs, strict=True)
    either = tuple(Expected(name=w.name, values=w.values, bound=w.bound + t.bound) for w, t in allowed)
    verdict = check({t.name: t.values for t in trial.outputs}, Interpretation(outputs=either))
    return verdict if isinstance(verdict, Wrong) else None


def _compare(found: Array, expected: Expected) -> Verdict:
    ratio = _error_over_bound(found, expected)
    if not ratio.size:
        return Correct(error=0.0)
    worst = int(np.argmax(ratio))
    if ratio.flat[worst] <= 1.0:
        return Correct(error=float(ratio.flat[worst]))
    index = np.unravel_index(worst, ratio.shape)
    return Wrong(
        output=expected.name,
        index=tuple(int(i) for i in index),
        found=found[index].item(),
        expected=expected.values[index].item(),
        bound=float(expected.bound[index]),
        error_over_bound=float(ratio.flat[worst]),
        count=int(np.count_nonzero(ratio > 1.0)),
    )


def _error_over_bound(found: Array, expected: Expected) -> Array:
    """|found − expected| / bound; 0 where they are the same or anything goes, infinity where only one is a number."""
    values, bound = expected.values, expected.bound
    same = (found == values) | ((found != found) & (values != values))
    with np.errstate(all="ignore"):
        if values.dtype.kind == "i":
            gap = np.maximum(found, values).astype(np.float64) - np.minimum(found, values).astype(np.float64)
            gap = np.where(same, gap, np.maximum(gap, 1.0))
        else:
            gap = np.abs(found.astype(np.float64) - values.astype(np.float64))
        ratio = np.where(bound > 0, gap / np.where(bound > 0, bound, 1.0), np.inf)
    ratio = np.where(np.isnan(gap) | np.isinf(gap), np.inf, ratio)
    return np.where(same | np.isinf(bound), 0.0, ratio)
