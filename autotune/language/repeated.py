"""Repeated work of a draft found and merged: loads of one place, and pure values computed twice.
Must not know syntax or final numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from autotune.ir.affine import Affine
from autotune.ir.program import AxisKind, Load, Reduce, Store, Value
from autotune.ir.types import DType
from autotune.language.draft import Draft
from autotune.language.drafted import DraftFor, DraftIf, DraftLet, DraftStatement, DraftWhile, inner_regions
from autotune.language.renumbering import map_value, mentioned


def unite_equal_loads(draft: Draft, region: list[DraftStatement], stored: frozenset[int]) -> None:
    """Let loads of a region that differ only in the full axes they run over share those, where no value forbids it."""
    known: dict[object, list[tuple[int, ...]]] = {}
    for statement in region:
        match statement:
            case DraftFor() | DraftWhile() | DraftIf():
                for inner in inner_regions(statement):
                    unite_equal_loads(draft, inner, stored)
            case DraftLet(value=Load(tensor=tensor) as load) if tensor not in stored:
                key, axes = _up_to_full_axes(draft, load)
                others = known.setdefault(key, [])
                if not any(all(map(draft.unify, axes, theirs)) for theirs in others):
                    others.append(axes)
            case _:
                pass


def _up_to_full_axes(draft: Draft, load: Load) -> tuple[object, tuple[int, ...]]:
    """A load with its full axes replaced by their order of appearance and their extents, and those axes."""
    order: dict[int, None] = {}
    for entry in load.index:
        if isinstance(entry, Affine):
            order.update(dict.fromkeys(draft.root(a) for a in mentioned(entry)))
    axes = tuple(a for a in order if draft.axis(a).kind is AxisKind.FULL)
    places = {a: len(draft.axes) + k for k, a in enumerate(axes)}
    roots = {a.id: places.get(draft.root(a.id), draft.root(a.id)) for a in draft.axes}
    extents = tuple(draft.resolve_affine(draft.axis(a).extent) for a in axes)
    return (map_value(load, roots, {}), extents), axes


def merge_repeated(region: list[DraftStatement], stored: frozenset[int], names: dict[int, int]) -> None:
    """Let every repeated pure value of a region stand for its first occurrence; `names` maps the others to it.

    The product of a contraction stays its own, so that nothing else needs it; two equal contractions are still one.
    """
    products = {s.value.body for s in region if isinstance(s, DraftLet) and _contracts(s.value)}
    first: dict[tuple[str, DType], int] = {}
    kept: list[DraftStatement] = []
    for statement in region:
        match statement:
            case DraftLet(value=value, dtype=dtype):
                value = map_value(value, {}, names)
                pure = statement.id not in products and not (isinstance(value, Load) and value.tensor in stored)
                # equality would take 0.0, -0.0 and False for one number
                key = (repr(replace(value, body=-1) if _contracts(value) else value), dtype)
                if pure and first.setdefault(key, statement.id) != statement.id:
                    names[statement.id] = first[key]
                    continue
                kept.append(replace(statement, value=value))
            case Store(value=stored_value, mask=mask):
                new_mask = None if mask is None else names.get(mask, mask)
                kept.append(replace(statement, value=names.get(stored_value, stored_value), mask=new_mask))
            case DraftFor() | DraftWhile() | DraftIf():
                for inner in inner_regions(statement):
                    merge_repeated(inner, stored, names)
                _rename_results(statement, names)
                kept.append(statement)
    region[:] = kept


def _rename_results(statement: DraftFor | DraftWhile | DraftIf, names: dict[int, int]) -> None:
    """Let a statement's own references name the values that stand for the repeated ones."""

    def renamed(pairs: list[tuple[int, int, DType]]) -> list[tuple[int, int, DType]]:
        return [(names.get(a, a), names.get(b, b), dtype) for a, b, dtype in pairs]

    if isinstance(statement, DraftIf):
        statement.choices = renamed(statement.choices)
    else:
        statement.carries = renamed(statement.carries)
    if not isinstance(statement, DraftFor):
        statement.condition = names.get(statement.condition, statement.condition)
    elif statement.merge is not None:
        statement.merge.merged = [names.get(v, v) for v in statement.merge.merged]


def _contracts(value: Value) -> TypeGuard[Reduce]:
    return isinstance(value, Reduce) and value.contraction is not None
