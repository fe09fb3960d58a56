"""Checks of a traced program that need no sizes: races, loads beside stores, results that depend on block sizes.
Must not know syntax; a mistake is reported at the line its statement came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from autotune.errors import BlockDependent, LoadedWhereNotStored, StoreRace
from autotune.ir.affine import Affine, Atom, Coord
from autotune.ir.program import AxisKind, If, Index, Indirect, Let, Load, Program, Store, While, statements
from autotune.language.blocks import check_block_independence
from autotune.language.places import Places

Check = Callable[[Program, Places], None]


def check_structure(program: Program, places: Places) -> None:
    """Run every check that needs no sizes.

    Raises: StoreRace, LoadedWhereNotStored, BlockDependent.
    """
    checks: tuple[Check, ...] = (
        check_store_races,
        check_loads_of_outputs,
        check_conditions,
        check_block_independence,
    )
    for check in checks:
        check(program, places)


def check_conditions(program: Program, places: Places) -> None:
    """Refuse a condition of an if or while that depends on where a block begins or ends.

    Raises: BlockDependent.
    """
    lets = program.lets()
    for statement in statements(program.body):
        if isinstance(statement, If | While):
            for axis in lets[statement.condition].axes:
                this = program.axes[axis]
                if this.kind not in (AxisKind.PROGRAM, AxisKind.RANGE):
                    raise BlockDependent(
                        places.line(statement.line),
                        name=this.name,
                        problem="a condition depends on where its blocks begin or end",
                        instead=f"write at.where on {this.name}.index, or put the condition into a loop bound",
                    )


def check_store_races(program: Program, places: Places) -> None:
    """Refuse stores in which two programs, or two points of one store, may meet in one place.

    Every parallel axis, and every axis of the value, must have an index entry of its own, with a constant factor;
    stores to one tensor must agree on it for the parallel axes.
    Raises: StoreRace.
    """
    lets = program.lets()
    for tensor, stores in _stores(program).items():
        for store in stores:
            walked = [a for a in lets[store.value].axes if program.axes[a].kind is not AxisKind.RANGE]
            for axis in dict.fromkeys((*program.parallel, *walked)):
                if not (_is_single(program, axis) or any(_separates(entry, axis) for entry in store.index)):
                    _refuse_store(program, places, store, axis)
        for axis in program.parallel:
            if not (_is_single(program, axis) or _kept_apart(stores, axis)):
                lines = " and ".join(str(n) for n in sorted({s.line for s in stores}))
                name = program.axes[axis].name
                raise StoreRace(
                    places.line(stores[-1].line),
                    tensor=program.tensor(tensor).name,
                    problem=f"the stores of lines {lines} may meet where {name} differs",
                    instead=f"index every store with the same multiple of {name}",
                )


def _stores(program: Program) -> dict[int, list[Store]]:
    """Stores by the tensor they write."""
    result: dict[int, list[Store]] = {}
    for statement in statements(program.body):
        if isinstance(statement, Store):
            result.setdefault(statement.tensor, []).append(statement)
    return result


def _refuse_store(program: Program, places: Places, store: Store, axis: int) -> NoReturn:
    name = program.axes[axis].name
    raise StoreRace(
        places.line(store.line),
        tensor=program.tensor(store.tensor).name,
        problem=f"no index of the store is {name} times a constant plus dimensions",
        instead=f"index the store with {name}" if axis in program.parallel else "reduce the value before it is stored",
    )


def _is_single(program: Program, axis: int) -> bool:
    return program.axes[axis].extent == Affine(constant=1)


def _separates(entry: Affine, axis: int) -> bool:
    """True where the entry moves with `axis` and with nothing else."""
    return entry.axes() == {axis} and bool(entry.coefficient(axis))


def _kept_apart(stores: list[Store], axis: int) -> bool:
    """True where one index entry tells the coordinates along `axis` apart, whichever of the stores write them."""
    ways = zip(*(store.index for store in stores), strict=True)
    return any(
        all(_separates(entry, axis) for entry in way) and all(_never_meet(way[0], other, axis) for other in way[1:])
        for way in ways
    )


def _never_meet(left: Affine, right: Affine, axis: int) -> bool:
    """True where two entries are equal at no two different coordinates along `axis`."""
    factor, difference = left.coefficient(axis), left - right
    if not factor or not difference.is_constant:
        return False
    return difference.constant == 0 or difference.constant % factor != 0


def check_loads_of_outputs(program: Program, places: Places) -> None:
    """Refuse a load of a stored tensor at a place that no store of the same program names.

    Raises: LoadedWhereNotStored.
    """
    stores = _stores(program)
    for statement in statements(program.body):
        if isinstance(statement, Let) and isinstance(statement.value, Load) and statement.value.tensor in stores:
            load, own = statement.value, stores[statement.value.tensor]
            if _signature(program, load.index) not in {_signature(program, s.index) for s in own}:
                name = program.tensor(load.tensor).name
                lines = " and ".join(f"line {n}" for n in sorted({s.line for s in own}))
                raise LoadedWhereNotStored(places.line(statement.line), tensor=name, stored=lines)


def _signature(program: Program, index: tuple[Index, ...]) -> object:
    """The places an index names: axes other than parallel ones count by their range and order of appearance only."""
    order: dict[int, int] = {}
    entries: list[object] = []
    for entry in index:
        if isinstance(entry, Indirect):
            return object()  # no store names places read from memory
        mapping: dict[Atom, Affine] = {}
        for axis in sorted(entry.axes() - set(program.parallel)):
            number = order.setdefault(axis, len(order))
            mapping[Coord(axis=axis)] = Affine(terms=((Coord(axis=len(program.axes) + number), 1),))
        entries.append(entry.substitute(mapping))
    ranges = tuple((program.axes[a].extent, program.axes[a].start, program.axes[a].step) for a in order)
    return tuple(entries), ranges
