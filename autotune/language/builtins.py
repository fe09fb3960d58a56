"""The names that `at.` offers inside a kernel, one table.
Must not know how a call is traced."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from autotune.ir.types import Op, ReduceOp
from autotune.language.annotations import ELEMENT_TYPES


class Form(Enum):
    """What kind of call an intrinsic is."""

    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    FILL = "fill"
    CAST = "cast"
    CONTRACTION = "contraction"
    MEMORY = "memory"
    LOOP = "loop"
    MODE = "mode"
    MERGE = "merge"
    RESHAPE = "reshape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intrinsic:
    """A function of the kernel language; it has a meaning only in the source of a kernel."""

    name: str
    usage: str
    form: Form
    op: Op | ReduceOp | None = None

    def __call__(self, *_arguments: object, **_named: object) -> NoReturn:
        raise TypeError(f"at.{self.name} has a meaning only inside a kernel (@at.kernel or @at.function)")


def _elementwise() -> list[Intrinsic]:
    unary = (
        *(Op.ABS, Op.EXP, Op.EXP2, Op.LOG, Op.SQRT, Op.RSQRT, Op.RECIPROCAL, Op.TANH, Op.SIGMOID, Op.ERF),
        *(Op.SIN, Op.COS, Op.FLOOR, Op.CEIL, Op.ROUND),
    )
    return [
        *(Intrinsic(name=op.value, usage=f"at.{op.value}(x)", form=Form.ELEMENTWISE, op=op) for op in unary),
        Intrinsic(name="minimum", usage="at.minimum(x, y)", form=Form.ELEMENTWISE, op=Op.MINIMUM),
        Intrinsic(name="maximum", usage="at.maximum(x, y)", form=Form.ELEMENTWISE, op=Op.MAXIMUM),
        Intrinsic(name="where", usage="at.where(condition, x, y)", form=Form.ELEMENTWISE, op=Op.WHERE),
        Intrinsic(name="relu", usage="at.relu(x)", form=Form.ELEMENTWISE),
    ]


def _reductions() -> list[Intrinsic]:
    options = "axis=..., ordered=True, init=..."
    return [
        Intrinsic(name=op.value, usage=f"at.{op.value}(x, {options})", form=Form.REDUCTION, op=op) for op in ReduceOp
    ]


def _others() -> list[Intrinsic]:
    return [
        Intrinsic(name="cast", usage="at.cast(x, at.f32)", form=Form.CAST),
        Intrinsic(name="full", usage="at.full((i, N), value, dtype=at.f32)", form=Form.FILL),
        Intrinsic(name="zeros", usage="at.zeros((i, N), dtype=at.f32)", form=Form.FILL),
        Intrinsic(name="load", usage="at.load(x[i, :], fill=0)", form=Form.MEMORY),
        Intrinsic(name="store", usage="at.store(x[i, :], value, mask=...)", form=Form.MEMORY),
        Intrinsic(name="parallel", usage="for i, j in at.parallel(M, at.tile(N)):", form=Form.LOOP),
        Intrinsic(name="tile", usage="for j in at.tile(N):, or at.tile(N, merge=rule)", form=Form.LOOP),
        Intrinsic(name="range", usage="for k in at.range(start, stop, step):", form=Form.LOOP),
        Intrinsic(name="strict", usage="with at.strict():", form=Form.MODE),
        Intrinsic(name="dot", usage="at.dot(a, b)", form=Form.CONTRACTION),
        Intrinsic(name="einsum", usage="at.einsum('ij,jk->ik', a, b)", form=Form.CONTRACTION),
        Intrinsic(name="reshape", usage="at.reshape(x, (A, B)) with extents, tiles and one -1", form=Form.RESHAPE),
        Intrinsic(name="online_softmax", usage="merge=at.online_softmax", form=Form.MERGE),
    ]


INTRINSICS: dict[str, Intrinsic] = {i.name: i for i in (*_elementwise(), *_reductions(), *_others())}
CONSTANTS: dict[str, float] = {"inf": math.inf}
NAMES: dict[str, object] = {**INTRINSICS, **CONSTANTS, **ELEMENT_TYPES}
