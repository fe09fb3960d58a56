"""The canonical form of a nest: equal for nests that are counted alike, whatever their numbers, names and tile sizes.
Must not know how nests are counted or where counts are kept."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from functools import cached_property
from hashlib import blake2b

from autotune.ir.affine import Affine, Coord, Start, Stop
from autotune.ir.buffer import (
    Body,
    Buffer,
    BufferAxis,
    InlineReduction,
    Nest,
    NestLoop,
    ReduceInto,
    StoreBuffer,
    StoreTensor,
)
from autotune.ir.program import IndexValue, Indirect, Let, Load, Reduce, Reindex, ScalarArgument, operands
from autotune.ir.types import DType
from autotune.realizations.builder import Vector
from autotune.realizations.evaluate import ProgramValues
from autotune.realizations.points import AxisPoint, Span
from autotune.realizations.visits import Visit

_KNOWN = {
    Nest: "number loops sinks tail variants inline transfers store_transfers",
    NestLoop: "axis factor lanes",
    InlineReduction: "value loops chains group prefetch_bytes",
    ReduceInto: "buffer value chains",
    Buffer: "id dtype axes storage offset_bytes",
    BufferAxis: "axis extent stride panel panel_stride",
}
for _kind, _names in _KNOWN.items():
    assert [f.name for f in fields(_kind)] == _names.split(), f"the canonical form of a nest lacks a field of {_kind}"

Form = object
"""Nested tuples of numbers, text and None."""


class CanonicalNest:
    """What the sinks of a nest compute, with values, axes, tensors and buffers numbered in the order they are met.

    Loops, tails, polynomials and partial chains are left out: `choice` adds them. Strides of buffers that no tensor
    access shares are told apart, but not by their size; nor are blocks, beyond what `choice` says of them.
    """

    def __init__(self, values: ProgramValues, body: Body, nest: Nest) -> None:
        self._values = values
        self._materialized = dict(body.materialized)
        self._buffers = {buffer.id: buffer for buffer in body.buffers}
        written = (s for s in nest.sinks if isinstance(s, StoreBuffer | ReduceInto))
        self._produced = {s.value for s in written if self._materialized.get(s.value) == s.buffer}
        self.values: dict[int, int] = {}
        self.axes: dict[int, int] = {}
        self._forms: list[Form] = []
        self._tensors: dict[int, int] = {}
        self._arguments: dict[int, int] = {}
        self._touched: dict[int, int] = {}
        self._coefficients: set[int] = {0, 1}
        sinks = tuple(self._sink(sink) for sink in nest.sinks)
        for loop in nest.loops:
            self._axis(loop.axis)
        transfers = tuple((self.values[v], t.value) for v, t in nest.transfers if v in self.values)
        stores = [s.store if isinstance(s, StoreTensor) else None for s in nest.sinks]
        kept = tuple((stores.index(number), t.value) for number, t in nest.store_transfers)
        buffers = self._buffer_forms()
        axes = self._axis_forms()
        form = (sinks, tuple(self._forms), transfers, kept, buffers, axes, self._tensor_forms())
        self.digest = blake2b(repr(form).encode(), digest_size=16).digest()

    @cached_property
    def panels(self) -> dict[int, tuple[int, ...]]:
        """Widths of the panels into which buffers of the nest cut an axis."""
        found: dict[int, set[int]] = {}
        for number in self._touched:
            for entry in self._buffers[number].axes:
                if entry.panel:
                    found.setdefault(entry.axis, set()).add(entry.panel)
        return {axis: tuple(sorted(widths)) for axis, widths in found.items()}

    # ---- sinks and values ---------------------------------------------------------------------------------------
    def _sink(self, sink: StoreTensor | StoreBuffer | ReduceInto) -> Form:
        match sink:
            case StoreTensor(store=number):
                store = self._values.stores[number]
                mask = None if store.mask is None else self._value(store.mask)
                access = self._values.store_access(number)
                self._coefficients.update(c for _, c in access.coefficients)
                index = tuple(self._affine(entry) for entry in store.index)
                return "store", self._tensor(store.tensor), index, self._value(store.value), mask
            case StoreBuffer(buffer=buffer, value=value, source=source):
                own = value in self._produced
                if source is not None:
                    return "copy", self._buffer(source), self._buffer(buffer), own
                return "keep", self._value(value), self._buffer(buffer), own
            case ReduceInto(buffer=buffer, value=value):
                return "reduce", self._value(value), self._buffer(buffer), value in self._produced

    def _value(self, number: int) -> int:
        if number not in self.values:
            let = self._values.lets[number]
            form = self._let(number, let)
            axes = tuple(self._axis(a) for a in let.axes)
            physical = self._values.ranges.physical(let).value
            self.values[number] = len(self._forms)
            self._forms.append((form, let.dtype.value, physical, axes))
        return self.values[number]

    def _let(self, number: int, let: Let) -> Form:
        value = let.value
        if number in self._materialized and number not in self._produced:
            return "read", self._buffer(self._materialized[number])
        match value:
            case Load(tensor=tensor, index=index, fill=fill):
                self._coefficients.update(c for _, c in self._values.load_access(number, value).coefficients)
                entries = tuple(
                    ("at", self._value(i.value), self._proven(i.value)) if isinstance(i, Indirect) else self._affine(i)
                    for i in index
                )
                return "load", self._tensor(tensor), entries, fill
            case ScalarArgument(parameter=parameter):
                return "argument", self._arguments.setdefault(parameter, len(self._arguments))
            case IndexValue(expression=expression):
                return "index", self._affine(expression)
            case Reindex(value=inner, source=source, target=target):
                return "reindex", self._value(inner), self._axis(source), self._axis(target)
            case Reduce(body=body, axes=axes, init=init):
                start = None if init is None else self._value(init)
                math = _plain(value.math)
                return "reduce", value.op.value, self._value(body), tuple(map(self._axis, axes)), start, math
            case _:
                arguments = tuple(self._value(v) for v in operands(value))
                signs = tuple(self._proven(v) for v in operands(value)) if let.dtype.is_integer else ()
                own = tuple(_plain(getattr(value, f.name)) for f in fields(value) if f.name != "args")
                return type(value).__name__, own, arguments, signs

    def _proven(self, number: int) -> Form:
        """What is known of the numbers that an integer value can be, as far as it decides what is written."""
        dtype = self._values.lets[number].dtype
        return self._values.ranges.interval(number) if dtype in (DType.I8, DType.I32, DType.I64) else None

    # ---- axes and indices ---------------------------------------------------------------------------------------
    def _axis(self, axis: int) -> int:
        return self.axes.setdefault(axis, len(self.axes))

    def _affine(self, expression: Affine) -> Form:
        return expression.constant, tuple((self._atom(a), c) for a, c in expression.terms)

    def _atom(self, a: object) -> Form:
        if isinstance(a, Coord | Start | Stop):
            return type(a).__name__, self._axis(a.axis)
        parts = (getattr(a, f.name) for f in fields(a))  # type: ignore[arg-type]
        return type(a).__name__, tuple(self._affine(part) for part in parts)

    def _axis_forms(self) -> Form:
        """Definitions of the axes met, of those that these depend on, and so on: all that index ranges follow from."""
        program = self._values.program
        forms: list[Form] = []
        while len(forms) < len(self.axes):
            axis = program.axes[list(self.axes)[len(forms)]]
            forms.append((axis.kind.value, self._affine(axis.extent), self._affine(axis.start), axis.step))
        return tuple(forms)

    # ---- memory -------------------------------------------------------------------------------------------------
    def _tensor(self, number: int) -> int:
        return self._tensors.setdefault(number, len(self._tensors))

    def _tensor_forms(self) -> Form:
        tensors = (self._values.program.tensor(number) for number in self._tensors)
        return tuple((t.dtype.value, tuple(e.constant for e in t.shape), t.strides) for t in tensors)

    def _buffer(self, number: int) -> int:
        return self._touched.setdefault(number, len(self._touched))

    def _buffer_forms(self) -> Form:
        """Buffers with their strides: sizes only of those that index arithmetic may share with a tensor."""
        names: dict[int, Form] = {}

        def stride(size: int) -> Form:
            return size if size in self._coefficients else names.setdefault(size, ("stride", len(names)))

        def along(entry: BufferAxis) -> Form:
            pitch = stride(entry.panel_stride // entry.panel) if entry.panel else 0
            return self._axis(entry.axis), stride(entry.stride), entry.panel, stride(entry.panel_stride), pitch

        def of(buffer: Buffer) -> Form:
            return buffer.dtype.value, buffer.storage.value, tuple(along(entry) for entry in buffer.axes)

        return tuple(of(self._buffers[number]) for number in self._touched)

    # ---- what is around and what is chosen ----------------------------------------------------------------------
    def surroundings(self, visit: Visit) -> bytes:
        """The digest of what stands around a nest, without its sinks."""
        known: dict[int, int] = {}
        places = tuple(
            (_span(visit.spans.get(axis), known), _fixed(visit.fixed.get(axis), known)) for axis in self.axes
        )
        assumed = tuple(sorted(self.values[v] for v in visit.assumed if v in self.values))
        form = (len(visit.weights), places, assumed)
        return blake2b(repr(form).encode(), digest_size=16).digest()

    def choice(self, nest: Nest, visit: Visit) -> tuple[object, ...]:
        """Everything else that the count of one execution depends on."""
        values, axes = self.values, self.axes
        chains = tuple(s.chains for s in nest.sinks if isinstance(s, ReduceInto))
        loops = tuple((axes[p.axis], p.factor, p.lanes, self._block(p, visit)) for p in nest.loops)
        inline = tuple(
            (
                values[spec.value],
                spec.chains,
                spec.group,
                spec.prefetch_bytes,
                tuple((axes[p.axis], p.factor, p.lanes, self._block(p, visit)) for p in spec.loops),
            )
            for spec in nest.inline
            if spec.value in values
        )
        return loops, inline, nest.tail.value, chains, nest.variants

    def _block(self, loop: NestLoop, visit: Visit) -> Form:
        """How a block divides into the steps of a loop: none, one or several whole ones, and what is left."""
        extent = visit.spans[loop.axis].extent
        if not isinstance(extent, int):
            return None
        whole, rest = divmod(extent, loop.step)
        panels = self.panels.get(loop.axis, ()) if rest else ()
        return min(whole, 2), rest, tuple((extent - rest) % width for width in panels)


def _plain(part: object) -> Form:
    """A field of a value as text and numbers."""
    return part.value if isinstance(part, Enum) else repr(part)


def _number(vector: Vector, known: dict[int, int]) -> Form:
    """A number around a nest: zero, another constant, or the level that makes it and which one it is."""
    if vector.constant is not None:
        return "zero" if vector.constant == 0 else "constant"
    return vector.handle.depth, known.setdefault(id(vector.handle), len(known))  # type: ignore[attr-defined]


def _span(span: Span | None, known: dict[int, int]) -> Form:
    if span is None:
        return None
    start = None if span.start is None else _number(span.start, known)
    return start, "whole" if isinstance(span.extent, int) else _number(span.extent, known)


def _fixed(point: AxisPoint | None, known: dict[int, int]) -> Form:
    if point is None:
        return None
    start = None if point.start is None else _number(point.start, known)
    return start, _number(point.iv, known)
