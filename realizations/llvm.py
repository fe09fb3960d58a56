"""The vector builder that writes LLVM assembly for one entry function.
Must not know programs, nests or candidates, nor how the text is compiled."""

from __future__ import annotations

from collections.abc import Callable

from autotune.ir.program import Number
from autotune.ir.types import DType
from autotune.realizations import llvm_text as text
from autotune.realizations.builder import Body, Compare, LoopName, Pointer, Space, Vector
from autotune.realizations.facts import gathers, known_trips, mask_lane_type, scatters
from autotune.realizations.llvm_values import LlvmValues
from autotune.realizations.target import Target
from autotune.realizations.targets import ALLOWED_CALLS


class LlvmBuilder(LlvmValues):
    """Writes `entry(args: ptr, workspace: ptr, first: i64, last: i64)`; `finish` gives the module's text.

    A Vector's handle is its LLVM operand text, a Pointer's the name of its base. Every tensor and the workspace is a
    memory scope of its own: callers never pass an output that overlaps another tensor, so loads may move past stores.
    """

    def __init__(self, symbol: str, target: Target) -> None:
        super().__init__(target)
        self.symbol = symbol
        self.workspace = Pointer(DType.I8, Space.WORKSPACE, "%workspace")
        self.first = Vector(DType.I64, 1, "%first")
        self.last = Vector(DType.I64, 1, "%last")
        self._arguments: dict[tuple[int, DType, bool], Pointer | Vector] = {}
        self._memory_scopes = {"%workspace": self._out.scope()}
        self._index_constants: dict[int, Vector] = {}

    def argument_pointer(self, slot: int, dtype: DType) -> Pointer:
        key = (slot, dtype, True)
        if key not in self._arguments:
            address = self._out.prologue_value(f"getelementptr i64, ptr %args, i64 {slot}")
            base = self._out.prologue_value(f"load ptr, ptr {address}, align 8")
            self._arguments[key] = Pointer(dtype, Space.TENSOR, base)
            self._memory_scopes[base] = self._out.scope()
            self.instructions += 1
        pointer = self._arguments[key]
        assert isinstance(pointer, Pointer)
        return pointer

    def argument_scalar(self, slot: int, dtype: DType) -> Vector:
        key = (slot, dtype, False)
        if key not in self._arguments:
            address = self._out.prologue_value(f"getelementptr i64, ptr %args, i64 {slot}")
            name = self._out.prologue_value(f"load {text.memory_text(dtype, 1)}, ptr {address}, align 8")
            if dtype is DType.BOOL:
                name = self._out.prologue_value(f"icmp ne i8 {name}, 0")
            self._arguments[key] = Vector(dtype, 1, name)
            self.instructions += 1
        scalar = self._arguments[key]
        assert isinstance(scalar, Vector)
        return scalar

    def finish(self) -> str:
        """Module text; nothing may be written afterwards."""
        bits = 8 * self.target.vector_bytes
        attributes = [
            "nounwind",
            f'"target-cpu"="{self.target.cpu}"',
            f'"target-features"="{self.target.features}"',
            f'"prefer-vector-width"="{bits}"',
            f'"min-legal-vector-width"="{bits}"',
            '"no-trapping-math"="true"',
        ]
        if self.target.tune:
            attributes.append(f'"tune-cpu"="{self.target.tune}"')
        header = f'target triple = "{self.target.triple}"'
        signature = f"void @{self.symbol}(ptr noalias readonly %args, ptr noalias %workspace, i64 %first, i64 %last)"
        return self._out.module(header, signature, " ".join(attributes))

    # ---- memory -------------------------------------------------------------------------------------------------
    def _attachment(self, base: Pointer) -> str:
        scope = self._memory_scopes.get(str(base.handle))
        return "" if scope is None else self._out.in_scope(scope)

    def _address(self, base: Pointer, index: Vector) -> str:
        if index.constant == 0:
            return str(base.handle)
        return self._out.value(
            f"getelementptr {text.memory_text(base.dtype, 1)}, ptr {base.handle}, "
            f"{text.type_text(index.dtype, index.lanes)} {index.handle}"
        )

    def load(
        self,
        base: Pointer,
        index: Vector,
        lanes: int,
        *,
        mask: Vector | None = None,
        fill: Number = 0,
        align_bytes: int | None = None,
    ) -> Vector:
        address = self._address(base, index)
        kind = text.memory_text(base.dtype, lanes)
        align = align_bytes or base.dtype.size_bytes
        self.instructions += 1
        if mask is None or mask.constant is True:
            name = self._out.value(f"load {kind}, ptr {address}, align {align}{self._attachment(base)}")
        else:
            name = self._masked_load(base, lanes, address, mask, fill, align)
        return self._from_memory(base.dtype, lanes, name)

    def prefetch(self, base: Pointer, index: Vector) -> None:
        address = self._address(base, index)
        self.instructions += 1
        self._out.declare("void", "llvm.prefetch.p0", "ptr, i32, i32, i32")
        self._out.effect(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 2, i32 1)")

    def _masked_load(self, base: Pointer, lanes: int, address: str, mask: Vector, fill: Number, align: int) -> str:
        stored = DType.I8 if base.dtype is DType.BOOL else base.dtype
        kind, bits = _vector_text(stored, lanes), _vector_text(DType.BOOL, lanes)
        name = self._out.call(
            kind,
            f"llvm.masked.load.v{lanes}{text.suffix_text(stored, 1)}.p0",
            f"ptr align {align} {address}, {bits} {self._mask_text(mask)}, {kind} {_filled(stored, fill, lanes)}",
            f"ptr, {bits}, {kind}",
            attachment=self._attachment(base),
        )
        return self._out.value(f"extractelement {kind} {name}, i64 0") if lanes == 1 else name

    def _mask_text(self, mask: Vector) -> str:
        return str(self._as_vector(mask).handle if mask.lanes == 1 else mask.handle)

    def _from_memory(self, dtype: DType, lanes: int, name: str) -> Vector:
        if dtype is not DType.BOOL:
            return Vector(dtype, lanes, name)
        kind = text.type_text(DType.I8, lanes)
        return self._new(dtype, lanes, f"icmp ne {kind} {name}, {text.literal(DType.I8, 0, lanes)}")

    def _to_memory(self, value: Vector) -> Vector:
        return self.cast(value, DType.I8) if value.dtype is DType.BOOL else value

    def store(
        self,
        base: Pointer,
        index: Vector,
        value: Vector,
        *,
        mask: Vector | None = None,
        align_bytes: int | None = None,
    ) -> None:
        stored = self._to_memory(value)
        address = self._address(base, index)
        align = align_bytes or base.dtype.size_bytes
        self.instructions += 1
        if mask is None or mask.constant is True:
            kind = text.type_text(stored.dtype, stored.lanes)
            self._out.effect(f"store {kind} {stored.handle}, ptr {address}, align {align}{self._attachment(base)}")
            return
        lanes = stored.lanes
        wide = self._as_vector(stored) if lanes == 1 else stored
        kind, bits = _vector_text(stored.dtype, lanes), _vector_text(DType.BOOL, lanes)
        name = f"llvm.masked.store.v{lanes}{text.suffix_text(stored.dtype, 1)}.p0"
        self._out.declare("void", name, f"{kind}, ptr, {bits}")
        self._out.effect(
            f"call void @{name}({kind} {wide.handle}, ptr align {align} {address}, {bits} {self._mask_text(mask)})"
            f"{self._attachment(base)}"
        )

    def gather(self, base: Pointer, indices: Vector, *, mask: Vector | None = None, fill: Number = 0) -> Vector:
        if indices.lanes == 1:
            return self.load(base, indices, 1, mask=mask, fill=fill)
        everywhere = mask is None or mask.constant is True
        if everywhere and not gathers(self.target, base.dtype):
            return self._gather_lanes(base, indices)
        stored = DType.I8 if base.dtype is DType.BOOL else base.dtype
        lanes, kind = indices.lanes, text.type_text(stored, indices.lanes)
        bits = text.type_text(DType.BOOL, lanes)
        allowed = text.literal(DType.BOOL, True, lanes) if mask is None else mask.handle
        self.instructions += 1
        name = self._out.call(
            kind,
            f"llvm.masked.gather.{text.suffix_text(stored, lanes)}.v{lanes}p0",
            f"<{lanes} x ptr> align {stored.size_bytes} {self._address(base, indices)}, {bits} {allowed}, "
            f"{kind} {_filled(stored, fill, lanes)}",
            f"<{lanes} x ptr>, {bits}, {kind}",
            attachment=self._attachment(base),
        )
        return self._from_memory(base.dtype, lanes, name)

    def _gather_lanes(self, base: Pointer, indices: Vector) -> Vector:
        kind, wide = text.memory_text(base.dtype, 1), text.memory_text(base.dtype, indices.lanes)
        name = "poison"
        for lane in range(indices.lanes):
            address = self._address(base, self.extract(indices, lane))
            element = self._out.value(
                f"load {kind}, ptr {address}, align {base.dtype.size_bytes}{self._attachment(base)}"
            )
            name = self._out.value(f"insertelement {wide} {name}, {kind} {element}, i64 {lane}")
        self.instructions += 2 * indices.lanes
        return self._from_memory(base.dtype, indices.lanes, name)

    def scatter(self, base: Pointer, indices: Vector, value: Vector, *, mask: Vector | None = None) -> None:
        if indices.lanes == 1:
            self.store(base, indices, value, mask=mask)
            return
        everywhere = mask is None or mask.constant is True
        stored, lanes = self._to_memory(value), indices.lanes
        if everywhere and not scatters(self.target, base.dtype):
            for lane in range(lanes):
                part = self.extract(stored, lane)
                address = self._address(base, self.extract(indices, lane))
                self._out.effect(
                    f"store {text.type_text(part.dtype, 1)} {part.handle}, ptr {address}{self._attachment(base)}"
                )
            self.instructions += lanes
            return
        kind, bits = text.type_text(stored.dtype, lanes), text.type_text(DType.BOOL, lanes)
        allowed = text.literal(DType.BOOL, True, lanes) if mask is None else mask.handle
        name = f"llvm.masked.scatter.{text.suffix_text(stored.dtype, lanes)}.v{lanes}p0"
        self.instructions += 1
        self._out.declare("void", name, f"{kind}, <{lanes} x ptr>, {bits}")
        self._out.effect(
            f"call void @{name}({kind} {stored.handle}, "
            f"<{lanes} x ptr> align {stored.dtype.size_bytes} {self._address(base, indices)}, {bits} {allowed})"
            f"{self._attachment(base)}"
        )

    def slot(self, dtype: DType, elements: int, align_bytes: int) -> Pointer:
        name = self._out.prologue_value(f"alloca [{elements} x {text.memory_text(dtype, 1)}], align {align_bytes}")
        return Pointer(dtype, Space.REGISTER, name)

    def stack(self, dtype: DType, elements: int, align_bytes: int) -> Pointer:
        name = self._out.prologue_value(f"alloca [{elements} x {text.memory_text(dtype, 1)}], align {align_bytes}")
        self._memory_scopes[name] = self._out.scope()
        return Pointer(dtype, Space.WORKSPACE, name)

    def view(self, workspace: Pointer, offset_bytes: int, dtype: DType) -> Pointer:
        if offset_bytes == 0:
            return Pointer(dtype, Space.WORKSPACE, workspace.handle)
        address = self._out.value(f"getelementptr i8, ptr {workspace.handle}, i64 {offset_bytes}")
        self._memory_scopes[address] = self._memory_scopes["%workspace"]
        return Pointer(dtype, Space.WORKSPACE, address)

    # ---- index arithmetic ---------------------------------------------------------------------------------------
    def index(self, value: int) -> Vector:
        if (found := self._index_constants.get(value)) is None:
            self._index_constants[value] = found = self.constant(DType.I64, value)
        return found

    def _index(self, opcode: str, a: Vector, b: Vector) -> Vector:
        return self._shared((opcode, a.handle, b.handle), lambda: self._like(a, f"{opcode} i64 {a.handle}, {b.handle}"))

    def index_add(self, a: Vector, b: Vector) -> Vector:
        if a.constant is not None and b.constant is not None:
            return self.index(int(a.constant) + int(b.constant))
        if a.constant == 0:
            return b
        return a if b.constant == 0 else self._index("add nsw", a, b)

    def index_scale(self, a: Vector, factor: int) -> Vector:
        if a.constant is not None or factor == 0:
            return self.index(int(a.constant or 0) * factor)
        return a if factor == 1 else self._index("mul nsw", a, self.index(factor))

    def index_floordiv(self, a: Vector, divisor: int) -> Vector:
        if a.constant is not None:
            return self.index(int(a.constant) // divisor)
        return a if divisor == 1 else self._index("udiv", a, self.index(divisor))

    def index_mod(self, a: Vector, divisor: int) -> Vector:
        if a.constant is not None or divisor == 1:
            return self.index(int(a.constant or 0) % divisor)
        return self._index("urem", a, self.index(divisor))

    def index_min(self, a: Vector, b: Vector) -> Vector:
        if a.constant is not None and b.constant is not None:
            return self.index(min(int(a.constant), int(b.constant)))
        return self._shared(("smin", a.handle, b.handle), lambda: self._intrinsic("smin", a, b))

    def index_max(self, a: Vector, b: Vector) -> Vector:
        if a.constant is not None and b.constant is not None:
            return self.index(max(int(a.constant), int(b.constant)))
        return self._shared(("smax", a.handle, b.handle), lambda: self._intrinsic("smax", a, b))

    def first_lanes(self, count: Vector, lanes: int) -> Vector:
        if count.constant is not None:
            live = int(count.constant)
            if live <= 0 or live >= lanes:
                return self.constant(DType.BOOL, live >= lanes, lanes)
            return Vector(DType.BOOL, lanes, text.lanes_literal(DType.BOOL, [lane < live for lane in range(lanes)]))
        return self._shared(("first", count.handle, lanes), lambda: self._first_lanes(count, lanes))

    def _first_lanes(self, count: Vector, lanes: int) -> Vector:
        within = self.index_max(self.index(0), self.index_min(count, self.index(lanes)))
        dtype = mask_lane_type(self.target, lanes)
        narrow = within if dtype is DType.I64 else self._new(dtype, 1, f"trunc i64 {within.handle} to i32")
        return self.compare(Compare.LT, self.iota(dtype, lanes), self.splat(narrow, lanes))

    # ---- control ------------------------------------------------------------------------------------------------
    def loop(
        self,
        start: Vector,
        stop: Vector,
        step: int,
        carried: tuple[Vector, ...],
        body: Body,
        *,
        trips: float | None = None,
        name: LoopName | None = None,
    ) -> tuple[Vector, ...]:
        known = known_trips(start, stop, step)
        if known == 0:
            return carried
        if known == 1:
            return body(start, carried)
        out = self._out
        head, done, before = out.label("loop"), out.label("done"), out.block
        if known is None:
            runs = out.value(f"icmp slt i64 {start.handle}, {stop.handle}")
            out.effect(f"br i1 {runs}, label %{head}, label %{done}")
        else:
            out.effect(f"br label %{head}")
        out.start(head)
        index, inside = Vector(DType.I64, 1, out.name()), [self._renamed(value) for value in carried]
        holes = [out.hole() for _ in range(1 + len(carried))]
        self._made.push()
        results = body(index, tuple(inside))
        self._made.pop()
        following = out.value(f"add nsw i64 {index.handle}, {step}")
        again = out.value(f"icmp slt i64 {following}, {stop.handle}")
        out.effect(f"br i1 {again}, label %{head}, label %{done}, {out.loop_metadata()}")
        self.instructions += 1
        latch = out.block
        out.fill(holes[0], f"{index.handle} = phi i64 [ {start.handle}, %{before} ], [ {following}, %{latch} ]")
        for hole, state, first, result in zip(holes[1:], inside, carried, results, strict=True):
            kind = text.type_text(state.dtype, state.lanes)
            out.fill(hole, f"{state.handle} = phi {kind} [ {first.handle}, %{before} ], [ {result.handle}, %{latch} ]")
        out.start(done)
        if known is not None:
            return results
        return tuple(self._merged(a, before, b, latch) for a, b in zip(carried, results, strict=True))

    def repeat(self, test: Callable[[], Vector], body: Callable[[], None], *, trips: float) -> None:
        out = self._out
        head, inside, done = out.label("test"), out.label("trip"), out.label("done")
        out.effect(f"br label %{head}")
        out.start(head)
        self._made.push()
        condition = test()
        out.effect(f"br i1 {condition.handle}, label %{inside}, label %{done}")
        self.instructions += 1
        out.start(inside)
        body()
        self._made.pop()
        out.effect(f"br label %{head}, {out.loop_metadata()}")
        out.start(done)

    def _renamed(self, value: Vector) -> Vector:
        return Vector(value.dtype, value.lanes, self._out.name())

    def _merged(self, a: Vector, a_block: str, b: Vector, b_block: str) -> Vector:
        kind = text.type_text(a.dtype, a.lanes)
        name = self._out.value(f"phi {kind} [ {a.handle}, %{a_block} ], [ {b.handle}, %{b_block} ]")
        return Vector(a.dtype, a.lanes, name)

    def branch(
        self,
        condition: Vector,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        *,
        probability: float = 0.5,
    ) -> None:
        if condition.constant is not None:
            chosen = then if condition.constant else otherwise
            if chosen is not None:
                chosen()
            return
        out = self._out
        yes, no, after = out.label("then"), out.label("else"), out.label("after")
        target = after if otherwise is None else no
        out.effect(f"br i1 {condition.handle}, label %{yes}, label %{target}")
        self.instructions += 1
        for label, arm in ((yes, then), (no, otherwise)):
            if arm is not None:
                out.start(label)
                self._made.push()
                arm()
                self._made.pop()
                out.effect(f"br label %{after}")
        out.start(after)

    def repair(self, lanes: Vector, value: Vector, call: str, argument: Vector) -> Vector:
        assert call in ALLOWED_CALLS, f"{call} is not in the list of allowed calls"
        out, before = self._out, self._out.block
        cold, done = out.label("cold"), out.label("repaired")
        if value.lanes == 1:
            any_set = lanes.handle
        else:
            bits = out.value(f"bitcast <{lanes.lanes} x i1> {lanes.handle} to i{lanes.lanes}")
            any_set = out.value(f"icmp ne i{lanes.lanes} {bits}, 0")
        out.effect(f"br i1 {any_set}, label %{cold}, label %{done}, {out.unlikely()}")
        out.start(cold)
        self.instructions += 2
        fixed = self._called(call, argument) if value.lanes == 1 else self._repaired(bits, value, call, argument)
        last = out.block
        out.effect(f"br label %{done}")
        out.start(done)
        return self._merged(value, before, Vector(value.dtype, value.lanes, fixed), last)

    def _called(self, call: str, argument: Vector) -> str:
        kind = text.type_text(argument.dtype, 1)
        return self._out.call(kind, call, f"{kind} {argument.handle}", kind, " nounwind")

    def _repaired(self, bits: str, value: Vector, call: str, argument: Vector) -> str:
        """Loop over the set bits through two stack arrays: call, store, clear the lowest bit."""
        out, lanes = self._out, value.lanes
        wide, kind, number = text.type_text(value.dtype, lanes), text.type_text(value.dtype, 1), f"i{lanes}"
        arrays = [out.prologue_value(f"alloca {wide}, align 64") for _ in range(2)]
        out.effect(f"store {wide} {argument.handle}, ptr {arrays[0]}, align 64")
        out.effect(f"store {wide} {value.handle}, ptr {arrays[1]}, align 64")
        before, head, done = out.block, out.label("lane"), out.label("lanes")
        out.effect(f"br label %{head}")
        out.start(head)
        left, hole = out.name(), out.hole()
        lane = out.call(number, f"llvm.cttz.{number}", f"{number} {left}, i1 true", f"{number}, i1")
        offset = out.value(f"zext {number} {lane} to i64")
        source = out.value(f"getelementptr {kind}, ptr {arrays[0]}, i64 {offset}")
        given = Vector(value.dtype, 1, out.value(f"load {kind}, ptr {source}"))
        result = self._called(call, given)
        place = out.value(f"getelementptr {kind}, ptr {arrays[1]}, i64 {offset}")
        out.effect(f"store {kind} {result}, ptr {place}")
        lower = out.value(f"sub {number} {left}, 1")
        rest = out.value(f"and {number} {left}, {lower}")
        out.fill(hole, f"{left} = phi {number} [ {bits}, %{before} ], [ {rest}, %{head} ]")
        more = out.value(f"icmp ne {number} {rest}, 0")
        out.effect(f"br i1 {more}, label %{head}, label %{done}, {out.loop_metadata()}")
        out.start(done)
        return out.value(f"load {wide}, ptr {arrays[1]}, align 64")


def _vector_text(dtype: DType, lanes: int) -> str:
    """A vector type even for one lane, as masked intrinsics want it."""
    return f"<{lanes} x {text.type_text(dtype, 1)}>"


def _filled(dtype: DType, fill: Number, lanes: int) -> str:
    """A splat even for one lane."""
    return f"splat ({text.type_text(dtype, 1)} {text.element_literal(dtype, fill)})"
