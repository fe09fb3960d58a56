"""Checks of a program at one shape: extents, slices, stores, divisors, empty argmax.
Must not know syntax; a mistake is reported at the line its statement came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.errors import (
    BadExtent,
    DivisorMayBeZero,
    EmptyArgmax,
    MismatchedExtents,
    MissingDimension,
    NotRealizedYet,
    ReshapeMisfit,
    SliceOutOfBounds,
    StoreOutOfBounds,
    UnknownDimension,
)
from autotune.ir.affine import Affine, Atom, Coord, Dim, Quotient, Remainder, Start, Stop
from autotune.ir.program import (
    Axis,
    AxisKind,
    Const,
    Elementwise,
    If,
    IndexValue,
    Let,
    Load,
    Number,
    Program,
    Reduce,
    Region,
    Scalar,
    Store,
    bind,
    regions,
    statements,
)
from autotune.ir.types import DType, Op, ReduceOp
from autotune.language.drafted import EqualCounts, EqualExtents, Requirement
from autotune.language.kernel import Kernel
from autotune.language.places import Places

Ranges = dict[Atom, tuple[int, int]]


def bind_checked(kernel: Kernel, sizes: Mapping[str, Number]) -> Program:
    """The kernel's program at one shape, checked.

    Raises: UnknownDimension, MissingDimension, BadExtent, MismatchedExtents, SliceOutOfBounds, StoreOutOfBounds,
    DivisorMayBeZero, EmptyArgmax.
    """
    program = kernel.program
    extents = checked_sizes(program, sizes)
    bound = bind(program, extents)
    check_index_divisors(bound, kernel.traced.places)
    for requirement in kernel.traced.requirements:
        _check_requirement(requirement, program, extents)
    if all(_constant(bound.axes[a].extent) for a in bound.parallel):  # extent 0 runs no program
        check_bounds(bound, kernel.traced.places)
        check_divisors(bound, kernel.traced.places)
        check_argmax(bound, kernel.traced.places)
    return bound


def check_realized(kernel: Kernel) -> None:
    """Refuse what is traced and interpreted, but what no candidate covers: half precision, products of integers, and
    dimensions kept open.

    Raises: NotRealizedYet.
    """
    for feature, line, instead in _unrealized(kernel):
        raise NotRealizedYet(kernel.traced.places.line(line), feature=feature, instead=instead)


def _unrealized(kernel: Kernel) -> Iterator[tuple[str, int, str]]:
    """Every such feature, the line it stands on (0 for the parameters), and what to write instead."""
    program, wider = kernel.program, "write at.f32 or at.f64"
    if kernel.dynamic:
        yield f"dynamic={list(kernel.dynamic)}", 0, "leave it out; one kernel is tuned for each shape"
    for parameter in program.parameters:
        if parameter.dtype in _HALVES:
            yield f"element type {parameter.dtype.value}", 0, wider
    for let in program.lets().values():
        contraction = let.value.contraction if isinstance(let.value, Reduce) else None
        if let.dtype in _HALVES:
            yield f"element type {let.dtype.value}", let.line, wider
        elif contraction is not None and contraction.accumulator.is_integer:
            feature = f"a contraction of integers, accumulated in {contraction.accumulator.value},"
            yield feature, let.line, "write at.cast(..., at.f32) around its factors"


_HALVES = frozenset({DType.F16, DType.BF16})


def checked_sizes(program: Program, sizes: Mapping[str, Number]) -> dict[str, int]:
    """Extents of a program's dimensions out of a workload, whose scalars are left aside.

    Raises: UnknownDimension, MissingDimension, BadExtent.
    """
    dims = ", ".join(program.dims)
    scalars = {p.name for p in program.parameters if isinstance(p, Scalar)}
    for name in sizes:
        if name not in program.dims and name not in scalars:
            raise UnknownDimension(kernel=program.name, dim=name, dims=dims)
    missing = [name for name in program.dims if name not in sizes]
    if missing:
        example = ",".join(f"{name}=128" for name in program.dims)
        raise MissingDimension(kernel=program.name, missing=", ".join(missing), dims=dims, example=example)
    result: dict[str, int] = {}
    for name in program.dims:
        value = sizes[name]
        if isinstance(value, bool) or int(value) != value or value < 0:
            raise BadExtent(dim=name, value=value)
        result[name] = int(value)
    return result


def check_bounds(program: Program, places: Places) -> None:
    """Refuse an unmasked store whose index may leave its tensor.

    Raises: StoreOutOfBounds.
    """
    ranges = axis_ranges(program)
    for store in (s for s in statements(program.body) if isinstance(s, Store) and s.mask is None):
        tensor = program.tensor(store.tensor)
        for entry, extent in zip(store.index, tensor.shape, strict=True):
            if any(_is_empty(program.axes[a], ranges) for a in entry.axes()):
                continue
            bounds, size = entry.range(ranges), _constant(extent)
            if bounds is None or bounds[0] < 0 or bounds[1] >= size:
                low, high = bounds if bounds is not None else ("?", "?")
                facts = {"tensor": tensor.name, "low": low, "high": high, "extent": size}
                raise StoreOutOfBounds(places.line(store.line), index=_position(store, entry), **facts)


def check_divisors(program: Program, places: Places) -> None:
    """Refuse an integer division whose divisor may be zero.

    Raises: DivisorMayBeZero.
    """
    ranges, lets = axis_ranges(program), program.lets()
    for let, guarded in _with_guards(program.body, lets, frozenset()):
        match let.value:
            case Elementwise(op=Op.FLOORDIV | Op.MOD as op, args=(_, divisor)):
                if divisor not in guarded and not _never_zero(divisor, lets, ranges):
                    sign = "//" if op is Op.FLOORDIV else "%"
                    raise DivisorMayBeZero(places.line(let.line), operation=sign)
            case _:
                pass


def _with_guards(
    region: Region, lets: Mapping[int, Let], guarded: frozenset[int]
) -> Iterator[tuple[Let, frozenset[int]]]:
    """Every definition, with the values that the branches around it keep from being zero."""
    for statement in region:
        match statement:
            case Let():
                yield statement, guarded
            case If(condition=condition):
                known = _guarded(condition, lets)
                for holds, arm in ((True, statement.then), (False, statement.otherwise)):
                    yield from _with_guards(arm, lets, guarded | ({known[holds]} if holds in known else set()))
            case _:
                for inner in regions(statement):
                    yield from _with_guards(inner, lets, guarded)


def check_index_divisors(program: Program, places: Places) -> None:
    """Refuse an index expression that may divide by zero.

    Raises: DivisorMayBeZero.
    """
    ranges = axis_ranges(program)
    for expression, line in _index_expressions(program):
        for a in expression.atoms():
            if isinstance(a, Quotient | Remainder):
                bounds = a.denominator.range(ranges)
                if bounds is None or bounds[0] <= 0 <= bounds[1]:
                    sign = "//" if isinstance(a, Quotient) else "%"
                    raise DivisorMayBeZero(places.line(line), operation=f"{sign} in an index")


def _index_expressions(program: Program) -> Iterator[tuple[Affine, int]]:
    """Every index expression of a program with the line it came from, 0 for the extents of its axes."""
    for axis in program.axes:
        yield axis.extent, 0
        yield axis.start, 0
    for statement in statements(program.body):
        match statement:
            case Store(index=index, line=line):
                yield from ((entry, line) for entry in index)
            case Let(value=IndexValue(expression=expression), line=line):
                yield expression, line
            case Let(value=Load(index=entries), line=line):
                yield from ((entry, line) for entry in entries if isinstance(entry, Affine))
            case _:
                pass


def check_argmax(program: Program, places: Places) -> None:
    """Refuse an argmax over no element.

    Raises: EmptyArgmax.
    """
    ranges = axis_ranges(program)
    for let in program.lets().values():
        match let.value:
            case Reduce(op=ReduceOp.ARGMAX, axes=axes):
                if any(_is_empty(program.axes[a], ranges) for a in axes):
                    raise EmptyArgmax(places.line(let.line))
            case _:
                pass


def axis_ranges(program: Program) -> Ranges:
    """Inclusive bounds of the coordinates and block bounds of every axis of a bound program.

    An axis without any coordinate gets bounds that are the wrong way round.
    """
    ranges: Ranges = {}
    for axis in program.axes:
        extent = axis.extent.range(ranges)
        start = axis.start.range(ranges)
        if extent is None or start is None:
            continue
        last = (extent[1] - 1) * axis.step
        ranges[Coord(axis=axis.id)] = (start[0] + min(last, 0), start[1] + max(last, 0))
        if extent[1] <= 0:
            ranges[Coord(axis=axis.id)] = (0, -1)
        ranges[Start(axis=axis.id)] = (0, max(extent[1] - 1, 0))
        ranges[Stop(axis=axis.id)] = (min(1, extent[1]), max(extent[1], 0))
    return ranges


def _is_empty(axis: Axis, ranges: Ranges) -> bool:
    return axis.kind is not AxisKind.PROGRAM and ranges.get(Coord(axis=axis.id)) == (0, -1)


def _constant(expression: Affine) -> int:
    return expression.evaluate({})


def _position(store: Store, entry: Affine) -> int:
    return next(k for k, one in enumerate(store.index) if one is entry)


def _check_requirement(requirement: Requirement, program: Program, sizes: Mapping[str, int]) -> None:
    values: dict[Atom, int] = {Dim(index=k): sizes[name] for k, name in enumerate(program.dims)}

    def number(expression: Affine) -> int:
        return expression.evaluate(values)

    if isinstance(requirement, EqualExtents):
        left, right = number(requirement.left), number(requirement.right)
        if left != right:
            raise MismatchedExtents(requirement.place, left=left, right=right, position=requirement.position)
        return
    if isinstance(requirement, EqualCounts):
        before, after = number(requirement.before), number(requirement.after)
        if before != after:
            raise ReshapeMisfit(requirement.place, before=before, after=after)
        return
    count, extent = number(requirement.count), number(requirement.extent)
    first, last = number(requirement.first), number(requirement.last)
    low, high = min(first, last), max(first, last)
    if count < 0 or (count > 0 and (low < 0 or high >= extent)):
        facts = {"tensor": requirement.tensor, "low": low, "high": high, "extent": extent}
        raise SliceOutOfBounds(requirement.place, **facts)


def _never_zero(number: int, lets: Mapping[int, Let], ranges: Ranges) -> bool:
    """True where an integer value can be shown to differ from zero by its form."""
    value = lets[number].value
    match value:
        case Const(value=constant):
            return constant != 0
        case IndexValue(expression=expression):
            bounds = expression.range(ranges)
            return bounds is not None and (bounds[0] > 0 or bounds[1] < 0)
        case Elementwise(op=Op.CAST | Op.ABS | Op.NEG, args=(inner,)):
            return _never_zero(inner, lets, ranges)
        case Elementwise(op=Op.MAXIMUM | Op.MINIMUM as op, args=args):
            sign = 1 if op is Op.MAXIMUM else -1
            constants = (lets[a].value for a in args)
            return any(isinstance(c, Const) and c.value * sign > 0 for c in constants)
        case Elementwise(op=Op.WHERE, args=(condition, left, right)):
            guarded = _guarded(condition, lets)
            return (left == guarded.get(True) or _never_zero(left, lets, ranges)) and (
                right == guarded.get(False) or _never_zero(right, lets, ranges)
            )
        case _:
            return False


def _guarded(condition: int, lets: Mapping[int, Let]) -> dict[bool, int]:
    """Values that are not zero where a condition holds (True), or where it does not (False)."""
    value = lets[condition].value
    if not (isinstance(value, Elementwise) and len(value.args) == 2):
        return {}
    left, right = value.args
    zero = lets[right].value
    if not (isinstance(zero, Const) and zero.value == 0):
        return {}
    if value.op in (Op.NE, Op.GT, Op.LT):
        return {True: left}
    return {False: left} if value.op in (Op.EQ, Op.GE, Op.LE) else {}
