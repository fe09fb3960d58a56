"""Partial results of one reduction at one point of a nest: identities, chains, lanes, argmax pairs.
Must not know loops or nests."""

from __future__ import annotations

from autotune.ir.program import Elementwise, Number, Reduce
from autotune.ir.types import DType, MathPolicy, Op, ReduceOp
from autotune.realizations.builder import Builder, Compare, Pointer, Vector
from autotune.realizations.evaluate import Evaluator
from autotune.realizations.points import Point

_NO_INDEX = 2**31 - 1


def identity(op: ReduceOp, dtype: DType) -> Number:
    """The value that changes nothing, chosen per reduction and never loaded."""
    match op:
        case ReduceOp.SUM | ReduceOp.ANY:
            return False if dtype is DType.BOOL else 0
        case ReduceOp.PROD | ReduceOp.ALL:
            return True if dtype is DType.BOOL else 1
        case ReduceOp.MAX | ReduceOp.ARGMAX:
            return float("-inf") if dtype.is_float else _lowest(dtype)
        case ReduceOp.MIN:
            return float("inf") if dtype.is_float else _highest(dtype)


def _lowest(dtype: DType) -> Number:
    return False if dtype is DType.BOOL else -(2 ** (8 * dtype.size_bytes - 1))


def _highest(dtype: DType) -> Number:
    return True if dtype is DType.BOOL else 2 ** (8 * dtype.size_bytes - 1) - 1


class Accumulator:
    """Running state of a reduction: `chains` slots of `lanes` lanes, and a scalar one where the tail is scalar.

    `horizontal` says that the lanes are contributions to one result rather than results of their own. One chain begins
    with `start` in place of the identity.
    """

    def __init__(
        self,
        builder: Builder,
        reduce: Reduce,
        dtype: DType,
        lanes: int,
        chains: int,
        horizontal: bool,
        scalar_tail: bool,
        start: Vector | None = None,
    ) -> None:
        self.builder = builder
        self.reduce = reduce
        self.dtype = dtype
        self.lanes = lanes
        self.horizontal = horizontal
        self.states = [self._start(lanes, start if chain == 0 else None) for chain in range(chains)]
        self.tail = self._start(1) if scalar_tail and lanes > 1 else None

    def _start(self, lanes: int, first: Vector | None = None) -> tuple[Pointer, ...]:
        b = self.builder
        starts = [b.constant(self.dtype, identity(self.reduce.op, self.dtype), lanes) if first is None else first]
        if self.reduce.op is ReduceOp.ARGMAX:
            starts.append(b.constant(DType.I32, _NO_INDEX, lanes))
        slots = []
        for start in starts:
            slot = b.slot(start.dtype, lanes, max(64, lanes * start.dtype.size_bytes))
            b.store(slot, b.index(0), start)
            slots.append(slot)
        return tuple(slots)

    def _read(self, state: tuple[Pointer, ...], lanes: int) -> tuple[Vector, ...]:
        return tuple(self.builder.load(slot, self.builder.index(0), lanes) for slot in state)

    def _write(self, state: tuple[Pointer, ...], values: tuple[Vector, ...]) -> None:
        for slot, value in zip(state, values, strict=True):
            self.builder.store(slot, self.builder.index(0), value)

    # ---- contributions ------------------------------------------------------------------------------------------
    def add(
        self, evaluator: Evaluator, reduce: Reduce, point: Point, step: int, lanes: int, mask: Vector | None
    ) -> None:
        """Merge the body at a point into a chain; lanes that do not exist leave it as it was."""
        scalar = self.tail is not None and lanes == 1
        state = self.tail if scalar and self.tail is not None else self.states[step % len(self.states)]
        width = 1 if scalar else self.lanes
        old = self._read(state, width)
        new = self._contribution(evaluator, reduce, point, width, old)
        if mask is not None:
            mask = evaluator.spread(mask, width)
            new = tuple(self.builder.select(mask, n, o) for n, o in zip(new, old, strict=True))
        self._write(state, new)

    def _contribution(
        self, evaluator: Evaluator, reduce: Reduce, point: Point, width: int, old: tuple[Vector, ...]
    ) -> tuple[Vector, ...]:
        b = self.builder
        if reduce.op is ReduceOp.ARGMAX:
            position = evaluator.indices.lanes(evaluator.argmax_index(reduce), point, DType.I32)
            candidate = (self._body(evaluator, reduce, point, width), evaluator.spread(position, width))
            return self._better(candidate, old)
        factors = self._fused_factors(evaluator, reduce, point)
        if factors is not None:
            left, right = (evaluator.lanes(f, point, width) for f in factors)
            return (b.fma(left, right, old[0]),)
        return (self.combine(self._body(evaluator, reduce, point, width), old[0]),)

    def _body(self, evaluator: Evaluator, reduce: Reduce, point: Point, width: int) -> Vector:
        return evaluator.convert(evaluator.lanes(reduce.body, point, width), self.dtype)

    def _fused_factors(self, evaluator: Evaluator, reduce: Reduce, point: Point) -> tuple[int, int] | None:
        """Factors of a product that is summed and used nowhere else, where the sum may contract."""
        body = evaluator.lets[reduce.body].value
        if reduce.op is not ReduceOp.SUM or not reduce.math.contract or not self.dtype.is_float:
            return None
        if not isinstance(body, Elementwise) or body.op is not Op.MUL or not self.builder.target.has_fma:
            return None
        if evaluator.reads_buffer(reduce.body) or reduce.body in evaluator.produced:
            return None
        return body.args[0], body.args[1]

    def combine(self, value: Vector, kept: Vector, math: MathPolicy | None = None) -> Vector:
        """One step of the reduction; `kept` holds a partial result."""
        b = self.builder
        math = self.reduce.math if math is None else math
        match self.reduce.op:
            case ReduceOp.SUM:
                return b.bit_or(value, kept) if value.dtype is DType.BOOL else b.add(kept, value, math)
            case ReduceOp.PROD:
                return b.bit_and(value, kept) if value.dtype is DType.BOOL else b.mul(kept, value, math)
            case ReduceOp.MAX:
                return b.bit_or(value, kept) if value.dtype is DType.BOOL else b.keep_maximum(value, kept)
            case ReduceOp.MIN:
                return b.bit_and(value, kept) if value.dtype is DType.BOOL else b.keep_minimum(value, kept)
            case ReduceOp.ANY:
                return b.bit_or(value, kept)
            case ReduceOp.ALL:
                return b.bit_and(value, kept)
            case ReduceOp.ARGMAX:
                raise AssertionError("argmax combines pairs")

    def _better(self, new: tuple[Vector, ...], old: tuple[Vector, ...]) -> tuple[Vector, ...]:
        """The pair with the larger value; of equal values the lower index."""
        b = self.builder
        if new[0].dtype is DType.BOOL:
            larger = b.bit_and(new[0], b.bit_not(old[0]))
        else:
            larger = b.compare(Compare.GT, new[0], old[0])
        equal = b.compare(Compare.EQ, new[0], old[0])
        earlier = b.bit_and(equal, b.compare(Compare.LT, new[1], old[1]))
        take = b.bit_or(larger, earlier)
        return tuple(b.select(take, n, o) for n, o in zip(new, old, strict=True))

    def partial(self) -> Vector:
        """The chains of a sum combined, lanes apart; the scalar tail in the first of them."""
        partial = [self._read(state, self.lanes) for state in self.states]
        while len(partial) > 1:
            pairs = [partial[k : k + 2] for k in range(0, len(partial), 2)]
            partial = [self._merge(pair[0], pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
        result = partial[0]
        if self.tail is not None:
            b, lanes = self.builder, self.lanes
            rest, zero = b.splat(self._read(self.tail, 1)[0], lanes), b.constant(self.dtype, 0, lanes)
            result = self._merge((b.shuffle(rest, zero, [0, *range(lanes + 1, 2 * lanes)]),), result)
        return result[0]

    # ---- the result ---------------------------------------------------------------------------------------------
    def finish(self, evaluator: Evaluator, reduce: Reduce, point: Point) -> Vector:
        """Chains pairwise, then lanes by halving, then the scalar tail, then the initial value."""
        partial = [self._read(state, self.lanes) for state in self.states]
        while len(partial) > 1:
            pairs = [partial[k : k + 2] for k in range(0, len(partial), 2)]
            partial = [self._merge(pair[0], pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
        result = partial[0]
        if self.horizontal and self.lanes > 1:
            result = self._across(result)
        if self.tail is not None:
            result = self._merge(self._read(self.tail, 1), result)
        if reduce.op is ReduceOp.ARGMAX:
            missing = self.builder.constant(DType.I32, _NO_INDEX, result[1].lanes)
            none = self.builder.compare(Compare.EQ, result[1], missing)
            return self.builder.select(none, self.builder.constant(DType.I32, 0, result[1].lanes), result[1])
        if reduce.init is None:
            return result[0]
        return self._started(evaluator, evaluator.value(reduce.init, point), result[0])

    def _started(self, evaluator: Evaluator, init: Vector, result: Vector) -> Vector:
        """The result with the initial value merged in once, in the wider type of the two."""
        lanes = max(init.lanes, result.lanes)
        wide = init.dtype if self.dtype is DType.I32 and init.dtype is DType.I64 else self.dtype
        values = [evaluator.convert(evaluator.spread(v, lanes), wide) for v in (init, result)]
        return self.combine(values[0], values[1])

    def _merge(self, new: tuple[Vector, ...], old: tuple[Vector, ...]) -> tuple[Vector, ...]:
        if self.reduce.op is ReduceOp.ARGMAX:
            return self._better(new, old)
        return (self.combine(new[0], old[0]),)

    def _across(self, state: tuple[Vector, ...]) -> tuple[Vector, ...]:
        b = self.builder
        if len(state) == 1:
            return (b.reduce(self.combine, state[0]),)
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            low = tuple(b.shuffle(v, v, range(lanes)) for v in state)
            high = tuple(b.shuffle(v, v, range(lanes, 2 * lanes)) for v in state)
            state = self._better(high, low)
        return tuple(b.extract(v, 0) for v in state)
