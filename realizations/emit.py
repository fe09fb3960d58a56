"""Walks a buffer program: packets, their bodies, branches, loops and what they hold fixed.
Must not know how choices were made, nor what is inside a nest; it may raise, never decline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from math import gcd
from typing import assert_never

from autotune.ir.affine import Affine, Start
from autotune.ir.buffer import (
    BlockLoop,
    Body,
    Branch,
    Buffer,
    BufferProgram,
    Nest,
    Part,
    Role,
    Step,
    StorageClass,
    WhileLoop,
)
from autotune.ir.program import AxisKind, Scalar
from autotune.realizations.builder import Builder, Compare, Pointer, Vector
from autotune.realizations.evaluate import Evaluator, ProgramValues
from autotune.realizations.loops import WHILE_TRIPS, Surroundings
from autotune.realizations.nest_writer import NestWriter
from autotune.realizations.points import AxisPoint, Span

SLOT_ALIGNMENT_BYTES = 64
MAX_PARTIAL_COPIES = 1


WriteNest = Callable[[Evaluator, Surroundings, Nest], None]
"""Writes one nest of a body where it stands."""


def write_nest(evaluator: Evaluator, surroundings: Surroundings, nest: Nest) -> None:
    """The nest's own loops and what is in them."""
    NestWriter(evaluator, surroundings, nest).write()


def emit(buffer_program: BufferProgram, builder: Builder, write: WriteNest = write_nest) -> None:
    """Write the whole entry: packets `first .. last-1`, each through the full body where its blocks are whole."""
    _Emitter(buffer_program, builder, write).entry()


class _Emitter:
    def __init__(self, buffer_program: BufferProgram, builder: Builder, write: WriteNest) -> None:
        self.write = write
        self.plan = buffer_program
        self.program = buffer_program.program
        self.builder = builder
        self.values = ProgramValues(self.program)
        self.ranges = self.values.ranges
        self.uids = count(1)
        slots = self.program.slots()
        self.tensors = {
            number: builder.argument_pointer(slots[number], parameter.dtype)
            for number, parameter in enumerate(self.program.parameters)
            if not isinstance(parameter, Scalar)
        }

    def entry(self) -> None:
        b = self.builder

        def packet(number: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
            self.packet(number)
            return ()

        b.loop(b.first, b.last, 1, (), packet, trips=float(self.plan.packets))

    def packet(self, number: Vector) -> None:
        """One packet: decode its coordinates, then the full body if every block is whole, else the general one."""
        b = self.builder
        spans: dict[int, Span] = {}
        whole: Vector | None = None
        whole_share = 1.0
        rest = number
        for (axis, block), along in reversed(list(zip(self.plan.blocks, self.plan.packets_along(), strict=True))):
            outermost = axis == self.plan.blocks[0][0]
            position = b.index(0) if along == 1 else rest if outermost else b.index_mod(rest, along)
            rest = rest if along == 1 or outermost else b.index_floordiv(rest, along)
            extent = self.program.axes[axis].extent.constant
            start = b.index_scale(position, block)
            spans[axis] = Span(start, block)
            if extent % block:
                left = b.index_add(b.index(extent), b.index_scale(start, -1))
                spans[axis] = Span(start, b.index_min(left, b.index(block)))
                inside = b.compare(Compare.LT, position, b.index(extent // block))
                whole = inside if whole is None else b.bit_and(whole, inside)
                whole_share *= (extent // block) / along
        self.bodies(spans, whole, whole_share)

    def bodies(self, spans: dict[int, Span], whole: Vector | None, whole_share: float) -> None:
        bodies = self.plan.bodies
        if len(bodies) == 1:
            self.body(bodies[0], spans)
            return
        assert whole is not None
        self.builder.branch(
            whole,
            lambda: self.body(bodies[0], spans),
            lambda: self.body(bodies[1], spans),
            probability=whole_share,
        )

    def body(self, body: Body, spans: dict[int, Span]) -> None:
        known = {axis: self.known(body.role, axis, span) for axis, span in spans.items()}
        _BodyWriter(self, body, known).steps(body.steps)

    def known(self, role: Role, axis: int, span: Span) -> Span:
        """The span of a parallel axis as far as the role of a body tells it at compile time."""
        blocks = dict(self.plan.blocks)
        extents = {a: self.program.axes[a].extent.constant for a in blocks}
        partial = [a for a, block in blocks.items() if extents[a] % block]
        if role is Role.WHOLE or axis not in partial:
            return Span(span.start, blocks[axis])
        if role is Role.REST and partial == [axis]:
            return Span(span.start, extents[axis] % blocks[axis])
        return span


class _BodyWriter:
    """Writes one body: its nests in order, its block loops around them."""

    def __init__(self, emitter: _Emitter, body: Body, spans: dict[int, Span]) -> None:
        self.builder = emitter.builder
        self.write = emitter.write
        self.program = emitter.program
        self.ranges = emitter.ranges
        self.role = body.role
        self.blocks = dict(emitter.plan.blocks)
        self.uids = emitter.uids
        self.spans = dict(spans)
        self.fixed: dict[int, AxisPoint] = {}
        self.partial: dict[int, float] = {}  # expected coordinates of a last block of any size
        pointers = {buffer.id: self._place(buffer) for buffer in body.buffers}
        self.evaluator = Evaluator(self.builder, emitter.values, body, emitter.tensors, pointers, self.spans)
        self.surroundings = Surroundings(self.spans, self.fixed, self.active, self.uids)
        for axis in self.program.axes:
            if axis.kind is AxisKind.FULL:
                self.spans[axis.id] = Span(None, axis.extent.constant)
        for number, block in self.blocks.items():
            if block == 1:
                start = self.spans[number].start
                assert start is not None
                self.fixed[number] = self._single(start, self.builder.index(0))

    def _place(self, buffer: Buffer) -> Pointer:
        if buffer.storage is StorageClass.REGISTER:
            return self.builder.slot(buffer.dtype, buffer.elements, SLOT_ALIGNMENT_BYTES)
        if buffer.storage is StorageClass.STACK:
            return self.builder.stack(buffer.dtype, buffer.elements, SLOT_ALIGNMENT_BYTES)
        return self.builder.view(self.builder.workspace, buffer.offset_bytes, buffer.dtype)

    def _single(self, start: Vector | None, iv: Vector) -> AxisPoint:
        return AxisPoint(start=start, iv=iv, offset=0, key=(next(self.uids), 0))

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Nest():
                    self.evaluator.memo.push()
                    self.write(self.evaluator, self.surroundings, step)
                    self.evaluator.memo.pop()
                case BlockLoop():
                    if self.program.axes[step.axis].kind is AxisKind.RANGE:
                        self.range_loop(step)
                    else:
                        self.tile_loop(step)
                case WhileLoop():
                    self.while_loop(step)
                case Branch():
                    self.branch(step)
                case _:
                    assert_never(step)

    def condition(self, value: int) -> Vector:
        """What control flow hangs on here: one element of a buffer."""
        return self.evaluator.load_buffer(self.evaluator.materialized[value], self.fixed)

    def branch(self, step: Branch) -> None:
        """Either list of steps."""
        otherwise = (lambda: self.scoped(step.otherwise)) if step.otherwise else None
        self.builder.branch(self.condition(step.condition), lambda: self.scoped(step.then), otherwise)

    def while_loop(self, loop: WhileLoop) -> None:
        """The test before every trip."""

        def test() -> Vector:
            self.scoped(loop.test)
            return self.condition(loop.condition)

        self.builder.repeat(test, lambda: self.scoped(loop.body), trips=WHILE_TRIPS)

    def scoped(self, steps: Sequence[Step]) -> None:
        """The steps of one trip; nothing computed in it is known after it."""
        self.evaluator.memo.push()
        self.steps(steps)
        self.evaluator.memo.pop()

    def range_loop(self, loop: BlockLoop) -> None:
        """One coordinate a trip, which other loops may have to be known for."""
        b, axis = self.builder, self.program.axes[loop.axis]
        first = self.evaluator.indices.uniform(axis.start, self.fixed)

        def trip(k: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
            coordinate = b.index_add(first, b.index_scale(k, axis.step))
            self.fixed[loop.axis] = self._single(None, coordinate)
            self.scoped(loop.body)
            return ()

        trips = self.evaluator.indices.uniform(axis.extent, self.fixed)
        if trips.constant is None or trips.constant > 0:
            b.loop(b.index(0), trips, 1, (), trip, trips=self.expected(loop.axis))
        self.fixed.pop(loop.axis, None)

    def tile_loop(self, loop: BlockLoop) -> None:
        """Whole blocks in a loop, then one copy of the body for each partial block that may be left."""
        b = self.builder
        extent = self.program.axes[loop.axis].extent

        def trip(start: Vector, size: int | Vector) -> None:
            self.spans[loop.axis] = Span(start, size)
            self.scoped(loop.body)

        def whole(start: Vector, _: tuple[Vector, ...]) -> tuple[Vector, ...]:
            trip(start, loop.block)
            return ()

        total = b.index_max(self.evaluator.indices.uniform(extent, self.fixed), b.index(0))
        first, last = b.index(0), self.whole_blocks(total, loop.block)
        left = self.residues(extent, loop.block)
        expected = max(self.expected(loop.axis) - sum(left) / len(left), 0.0) / loop.block
        if loop.part is not Part.ALL:
            assert loop.bound is not None
            bound = b.index_max(self.evaluator.indices.uniform(loop.bound, self.fixed), b.index(0))
            split = self.whole_blocks(b.index_min(bound, total), loop.block)
            share = self.head_share(loop)
            first, last = (first, split) if loop.part is Part.HEAD else (split, last)
            expected *= share if loop.part is Part.HEAD else 1.0 - share
        before = set(self.evaluator.assumed)
        self.evaluator.assumed.update(loop.assumed)
        b.loop(first, last, loop.block, (), whole, trips=expected)
        if loop.part is not Part.HEAD:
            self.partial_block(loop, extent, last, total, trip)
        self.evaluator.assumed = before
        self.spans.pop(loop.axis, None)

    def whole_blocks(self, total: Vector, block: int) -> Vector:
        """Coordinates in whole blocks."""
        b = self.builder
        return b.index_add(total, b.index_scale(b.index_mod(total, block), -1))

    def partial_block(
        self, loop: BlockLoop, extent: Affine, last: Vector, total: Vector, trip: Callable[[Vector, int | Vector], None]
    ) -> None:
        """What whole blocks leave: a copy for each of the few sizes it can have, else one for any size."""
        b = self.builder
        rest = b.index_add(total, b.index_scale(last, -1))
        if rest.constant is not None:
            if rest.constant:
                trip(last, int(rest.constant))
            return
        left = self.residues(extent, loop.block)
        sizes = [size for size in left if size]
        if len(sizes) <= MAX_PARTIAL_COPIES:
            for size in sizes:
                b.branch(
                    b.compare(Compare.EQ, rest, b.index(size)),
                    lambda size=size: trip(last, size),  # type: ignore[misc]
                    probability=1.0 / len(left),
                )
        else:
            self.partial[loop.axis] = sum(sizes) / len(sizes)
            b.branch(
                b.compare(Compare.GT, rest, b.index(0)), lambda: trip(last, rest), probability=len(sizes) / len(left)
            )

    def residues(self, extent: Affine, block: int) -> range:
        """What whole blocks can leave of an extent, nothing included: its terms move it by multiples of the step."""
        step = block
        for a, coefficient in extent.terms:
            known = self.blocks.get(a.axis, 1) if isinstance(a, Start) else 1
            step = gcd(step, coefficient * known)
        return range(extent.constant % step, block, step)

    def head_share(self, loop: BlockLoop) -> float:
        """The part of a loop's blocks that its HEAD takes, on average over the programs."""
        assert loop.bound is not None
        bound, extent = self.ranges.affine(loop.bound), self.ranges.affine(self.program.axes[loop.axis].extent)
        if bound is None or extent is None:
            return 0.5
        most = max(sum(extent) / 2, 1.0)
        return min(max((sum(bound) / 2 - loop.block / 2) / most, 0.0), 1.0)

    def expected(self, axis: int) -> float:
        """Coordinates along a loop on average: the middle of what is possible where the number varies."""
        extent = self.program.axes[axis].extent
        bounds = self.ranges.affine(extent)
        return max(sum(bounds) / 2, 0.0) if bounds is not None else self.ranges.most(axis) / 2

    def active(self, axis: int) -> float:
        """Coordinates that a block of unknown extent has along an axis on average."""
        if axis in self.partial:
            return self.partial[axis]
        block = self.blocks.get(axis)
        if block is None:
            return self.expected(axis)
        extent = self.program.axes[axis].extent.constant
        if self.role is Role.REST and extent % block:
            return float(extent % block)
        return extent / -(-extent // block)
