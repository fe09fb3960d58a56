"""The vector builder that counts events instead of writing instructions; called for thousands of candidates.
Must not know what an event costs, nor programs, nests or candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from autotune.ir.program import Number
from autotune.ir.types import DType
from autotune.realizations.builder import Body, LoopName, Pointer, Space, Vector
from autotune.realizations.count_values import ALU, MASK, SHUFFLE, CountingValues, Scalar, Slot
from autotune.realizations.events import EVENT_COUNT, Event, Events
from autotune.realizations.facts import gathers, known_trips, mask_lane_type, scatters
from autotune.realizations.target import Target
from autotune.realizations.targets import ALLOWED_CALLS

_VECTOR_LOAD, _VECTOR_STORE = int(Event.VECTOR_LOAD), int(Event.VECTOR_STORE)
_MASKED_LOAD, _MASKED_STORE = int(Event.MASKED_LOAD), int(Event.MASKED_STORE)
_SCALAR_LOAD, _SCALAR_STORE = int(Event.SCALAR_LOAD), int(Event.SCALAR_STORE)
_GATHER_LANE, _SCATTER_LANE = int(Event.GATHER_LANE), int(Event.SCATTER_LANE)
_ADDRESS, _LOOP, _BRANCH, _CALL = int(Event.ADDRESS), int(Event.LOOP), int(Event.BRANCH), int(Event.CALL)
_DIVISION_STEPS = 4  # multiply high, shift and corrections by a constant that is no power of two


class CountingBuilder(CountingValues):
    """Counts what LlvmBuilder's code would issue: once for the text, and weighted by trips and probabilities.

    A loop's body runs once, with its weight. Slots cost nothing but the gathering of lanes stored one by one. Index
    arithmetic and splats are charged where their operands were made, since LLVM hoists them there, and once in every
    place that no earlier one dominates. So is a load that no store has followed.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.workspace = Pointer(DType.I8, Space.WORKSPACE, None)
        self.first = self._scalar(DType.I64)
        self.last = self._scalar(DType.I64)
        self._arguments: dict[tuple[int, DType, bool], Pointer | Vector] = {}
        self._index_constants: dict[int, Vector] = {}
        self._stores: dict[object, int] = {}  # by memory scope, to know which loads still hold

    def events(self) -> Events:
        """Expected events of one call of the entry over one packet, as weighted by the trips given."""
        total = [0.0] * EVENT_COUNT
        weights: list[float] = []
        for place in self.places:
            weight = place.factor * (1.0 if place.around is None else weights[place.around])
            weights.append(weight)
            for event, times in enumerate(place.counts):
                total[event] += weight * times
        return Events(tuple(total))

    def weights(self) -> tuple[float, ...]:
        """How often each place that stands open is executed in one call of the entry, outermost first."""
        weights = [1.0]
        for number in self._opened[1:]:
            weights.append(weights[-1] * self.places[number].factor)
        return tuple(weights)

    def made_at(self, depth: int, dtype: DType) -> Vector:
        """A one-lane number that the place at some depth made."""
        return Vector(dtype, 1, Scalar(depth, False))

    def stand_inside(self, levels: int) -> None:
        """Go on as if inside so many places beside the entry, each executed once."""
        for _ in range(levels):
            self._enter(1.0)
            self._made.push()

    def static_events(self) -> Events:
        """Events in the text, each once."""
        return Events(tuple(map(sum, zip(self._cold, *(place.counts for place in self.places), strict=True))))

    def argument_pointer(self, slot: int, dtype: DType) -> Pointer:
        key = (slot, dtype, True)
        if key not in self._arguments:
            self._arguments[key] = Pointer(dtype, Space.TENSOR, None)
            self._put_at(0, _SCALAR_LOAD, 1)
            self.instructions += 1
        pointer = self._arguments[key]
        assert isinstance(pointer, Pointer)
        return pointer

    def argument_scalar(self, slot: int, dtype: DType) -> Vector:
        key = (slot, dtype, False)
        if key not in self._arguments:
            self._arguments[key] = Vector(dtype, 1, Scalar(0, False))
            self._put_at(0, _SCALAR_LOAD, 1)
            self.instructions += 1
        scalar = self._arguments[key]
        assert isinstance(scalar, Vector)
        return scalar

    # ---- memory -------------------------------------------------------------------------------------------------
    def prefetch(self, base: Pointer, index: Vector) -> None:
        self.instructions += 1
        self._put(Event.PREFETCH, 1)

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
        dtype = base.dtype
        self.instructions += 2 if dtype is DType.BOOL else 1
        everywhere = mask is None or mask.constant is True
        if base.space is Space.REGISTER:
            slot: Slot = base.handle  # type: ignore[assignment]
            if slot.lanes == 1 < lanes:
                self._put(SHUFFLE, lanes - 1)  # a vector of what was stored one by one
            slot.lanes = lanes
            return self._scalar(dtype) if lanes == 1 else self._result(dtype, lanes)
        since: object = self._stores.setdefault(_scope(base), 0)
        if not everywhere and mask is not None:
            since = (mask.handle, *self._stores.values())  # LLVM keeps a masked load past no store at all
        key = ("load", base, index.handle, lanes, since)
        if (found := self._made.find(key)) is None:
            found = self._load(dtype, lanes, everywhere, fill)
            self._made.keep(key, found)
        return found

    def _load(self, dtype: DType, lanes: int, everywhere: bool, fill: Number) -> Vector:
        if lanes == 1:
            self._put(_SCALAR_LOAD, 1)
            if not everywhere:
                self._put(_BRANCH, 1)
            return Vector(dtype, 1, Scalar(len(self._opened) - 1, everywhere and dtype is not DType.BOOL))
        result = self._result(dtype, lanes)
        registers = self._memory_registers(dtype, lanes)
        if everywhere:
            self._put(_VECTOR_LOAD, registers)
        elif self.target.masks(dtype):
            self._put(_MASKED_LOAD, registers)
            if fill and not self.target.has_mask_registers:
                self._put(ALU, registers)
        else:
            self._put(_SCALAR_LOAD, lanes)
            self._put(_BRANCH, lanes)
            self._put(SHUFFLE, lanes)
        if dtype is DType.BOOL:
            self._make_bits(lanes)
        return result

    def _make_bits(self, lanes: int) -> None:
        """Bytes of bools are compared with zero, and without mask registers spread to the width of the lanes."""
        self._put(ALU, self._memory_registers(DType.BOOL, lanes))
        if not self.target.has_mask_registers:
            self._put(SHUFFLE, 2 * self.target.registers(DType.I32, lanes) - 1)

    def _memory_registers(self, dtype: DType, lanes: int) -> int:
        return max(1, -(-lanes * dtype.size_bytes // self.target.vector_bytes))

    def store(
        self,
        base: Pointer,
        index: Vector,
        value: Vector,
        *,
        mask: Vector | None = None,
        align_bytes: int | None = None,
    ) -> None:
        dtype, lanes = value.dtype, value.lanes
        self.instructions += 2 if dtype is DType.BOOL else 1
        everywhere = mask is None or mask.constant is True
        if base.space is Space.REGISTER:
            base.handle.lanes = lanes  # type: ignore[attr-defined]
            return
        self._stored(base)
        if lanes == 1:
            self._put(_SCALAR_STORE, 1)
            if not everywhere:
                self._put(_BRANCH, 1)
            return
        registers = self._memory_registers(dtype, lanes)
        if dtype is DType.BOOL:
            self._put(ALU, registers)
        if everywhere:
            self._put(_VECTOR_STORE, registers)
        elif self.target.masks(dtype):
            self._put(_MASKED_STORE, registers)
        else:
            self._put(_SCALAR_STORE, lanes)
            self._put(_BRANCH, lanes)
            self._put(SHUFFLE, lanes)

    def gather(self, base: Pointer, indices: Vector, *, mask: Vector | None = None, fill: Number = 0) -> Vector:
        lanes, dtype = indices.lanes, base.dtype
        if lanes == 1:
            return self.load(base, indices, 1, mask=mask, fill=fill)
        self.instructions += 2 if dtype is DType.BOOL else 1
        everywhere = mask is None or mask.constant is True
        if gathers(self.target, dtype):
            pieces = self._pieces(indices, dtype)
            self._put(_GATHER_LANE, lanes)
            self._put(MASK, pieces)
            self._put(SHUFFLE, pieces - self._memory_registers(dtype, lanes))
        else:
            self.instructions += 3 * lanes - 1 if everywhere else 0
            self._put(_SCALAR_LOAD, lanes)
            self._put(SHUFFLE, self._taken_apart(indices) + lanes - (dtype is not DType.BOOL))
            if not everywhere:
                self._put(_BRANCH, lanes)
        if dtype is DType.BOOL:
            self._make_bits(lanes)
        return self._result(dtype, lanes)

    def _taken_apart(self, indices: Vector) -> int:
        """Shuffles that bring the lanes of an index vector to general registers: one a lane but the first, whose index
        was a scalar, and one for every 16 bytes but the first of a register."""
        size = indices.lanes * indices.dtype.size_bytes
        return indices.lanes - 1 + size // 16 - self.target.registers(indices.dtype, indices.lanes)

    def _pieces(self, indices: Vector, dtype: DType) -> int:
        """Gather or scatter instructions: as many as the wider of indices and elements needs registers."""
        size = max(indices.dtype.size_bytes, dtype.size_bytes)
        return max(1, -(-indices.lanes * size // self.target.vector_bytes))

    def scatter(self, base: Pointer, indices: Vector, value: Vector, *, mask: Vector | None = None) -> None:
        lanes = indices.lanes
        if lanes == 1:
            self.store(base, indices, value, mask=mask)
            return
        self.instructions += 1
        self._stored(base)
        everywhere = mask is None or mask.constant is True
        if scatters(self.target, base.dtype):
            pieces = self._pieces(indices, base.dtype)
            self._put(_SCATTER_LANE, lanes)
            self._put(MASK, pieces)
            self._put(SHUFFLE, pieces - self._memory_registers(base.dtype, lanes))
        else:
            self.instructions += 3 * lanes - 1 if everywhere else 0
            self._put(_SCALAR_STORE, lanes)
            self._put(SHUFFLE, 2 * lanes)
            if not everywhere:
                self._put(_BRANCH, lanes)

    def _stored(self, base: Pointer) -> None:
        self._stores[_scope(base)] = self._stores.get(_scope(base), 0) + 1

    def slot(self, dtype: DType, elements: int, align_bytes: int) -> Pointer:
        return Pointer(dtype, Space.REGISTER, Slot())

    def stack(self, dtype: DType, elements: int, align_bytes: int) -> Pointer:
        return Pointer(dtype, Space.WORKSPACE, None)

    def view(self, workspace: Pointer, offset_bytes: int, dtype: DType) -> Pointer:
        return Pointer(dtype, Space.WORKSPACE, None)

    # ---- index arithmetic ---------------------------------------------------------------------------------------
    def index(self, value: int) -> Vector:
        if (found := self._index_constants.get(value)) is None:
            self._index_constants[value] = found = self.constant(DType.I64, value)
        return found

    def _index(self, operation: str, a: Vector, b: Vector, steps: int = 1) -> Vector:
        """Charged at the depth of the deeper operand, once for equal operands."""
        key = (operation, a.handle, b.handle)
        if (found := self._made.find(key)) is not None:
            return found
        depth = max(a.handle.depth, b.handle.depth)  # type: ignore[attr-defined]
        self.instructions += 1
        if steps:
            self._put_at(depth, _ADDRESS, steps)
        made = Vector(DType.I64, 1, Scalar(depth, False))
        self._made.keep(key, made)
        return made

    def index_add(self, a: Vector, b: Vector) -> Vector:
        if a.constant is not None and b.constant is not None:
            return self.index(int(a.constant) + int(b.constant))
        if a.constant == 0:
            return b
        if b.constant == 0:
            return a
        folded = a.constant is not None or b.constant is not None
        return self._index("add", a, b, 0 if folded else 1)

    def index_scale(self, a: Vector, factor: int) -> Vector:
        if a.constant is not None or factor == 0:
            return self.index(int(a.constant or 0) * factor)
        return a if factor == 1 else self._index("scale", a, self.index(factor))

    def index_floordiv(self, a: Vector, divisor: int) -> Vector:
        if a.constant is not None:
            return self.index(int(a.constant) // divisor)
        return a if divisor == 1 else self._index("div", a, self.index(divisor), _division_steps(divisor))

    def index_mod(self, a: Vector, divisor: int) -> Vector:
        if a.constant is not None or divisor == 1:
            return self.index(int(a.constant or 0) % divisor)
        return self._index("mod", a, self.index(divisor), _division_steps(divisor))

    def index_min(self, a: Vector, b: Vector) -> Vector:
        if a.constant is not None and b.constant is not None:
            return self.index(min(int(a.constant), int(b.constant)))
        return self._index("min", a, b, 2)

    def index_max(self, a: Vector, b: Vector) -> Vector:
        if a.constant is not None and b.constant is not None:
            return self.index(max(int(a.constant), int(b.constant)))
        return self._index("max", a, b, 2)

    def first_lanes(self, count: Vector, lanes: int) -> Vector:
        if count.constant is not None:
            live = int(count.constant)
            if live <= 0 or live >= lanes:
                return self.constant(DType.BOOL, live >= lanes, lanes)
            return self._mask(lanes, 1)
        key = ("first", count.handle, lanes)
        if (found := self._made.find(key)) is None:
            depth: int = count.handle.depth  # type: ignore[attr-defined]
            registers = self.target.registers(mask_lane_type(self.target, lanes), lanes)
            self.instructions += 4
            self._put_at(depth, _ADDRESS, 4)
            self._put_at(depth, SHUFFLE, 1 if self.target.has_mask_registers else 2)
            self._put_at(depth, ALU, registers)
            found = self._mask(lanes, registers)
            self._made.keep(key, found)
        return found

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
        expected = known if known is not None else trips
        assert expected is not None, "a loop whose bounds are not constants needs its expected trips"
        self.instructions += 1
        if known is None:
            self._put(_BRANCH, 1)
        with self._repeated():
            self._enter(expected, name)
            self._put(_LOOP, 1)
            results = body(self._scalar(DType.I64), self._renamed(carried))
            self._leave()
        return self._renamed(results)

    @contextmanager
    def _repeated(self) -> Iterator[None]:
        """A later trip may follow a store that stands after a load in the text."""
        self._made.push()
        before = dict(self._stores)
        self._stores = {scope: stores + 1 for scope, stores in before.items()}
        yield
        for scope, stores in before.items():
            if self._stores[scope] == stores + 1:
                self._stores[scope] = stores
        self._made.pop()

    def repeat(self, test: Callable[[], Vector], body: Callable[[], None], *, trips: float) -> None:
        self.instructions += 1
        with self._repeated():
            self._enter(trips + 1)
            test()
            self._put(_BRANCH, 1)
            self._leave()
            self._made.push()
            self._enter(trips)
            body()
            self._put(_LOOP, 1)
            self._leave()
            self._made.pop()

    def _renamed(self, values: tuple[Vector, ...]) -> tuple[Vector, ...]:
        """The same values as made at this depth."""
        return tuple([self._scalar(value.dtype) if value.lanes == 1 else self._again(value) for value in values])

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
        self.instructions += 1
        self._put(_BRANCH, 1)
        for arm, share in ((then, probability), (otherwise, 1.0 - probability)):
            if arm is not None:
                self._enter(share)
                self._made.push()
                arm()
                self._made.pop()
                self._leave()

    def repair(self, lanes: Vector, value: Vector, call: str, argument: Vector) -> Vector:
        assert call in ALLOWED_CALLS, f"{call} is not in the list of allowed calls"
        self.instructions += 2
        self._put(MASK, 1)
        self._put(_BRANCH, 1)
        if value.lanes == 1:
            self._cold[_CALL] += 1
            return self._scalar(value.dtype)
        registers = self.target.registers(value.dtype, value.lanes)
        cold = {_CALL: 1, _SCALAR_LOAD: 1, _SCALAR_STORE: 1, _LOOP: 1, _VECTOR_STORE: 2 * registers}
        for event, times in {**cold, _VECTOR_LOAD: registers}.items():
            self._cold[event] += times  # in the text, but expected never to run
        return value


def _scope(base: Pointer) -> object:
    """What a store through a pointer may change: its tensor, or the whole workspace."""
    return base if base.space is Space.TENSOR else base.space


def _division_steps(divisor: int) -> int:
    return 1 if divisor & (divisor - 1) == 0 else _DIVISION_STEPS
