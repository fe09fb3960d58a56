"""Checks of a traced program that need no sizes: races, loads beside stores, results that depend on block sizes.
Must not know syntax; a mistake is reported at the line its statement came from."""

from __future__ import annotations

from collections.abc import Callable

from autotune.errors import LoadedWhereNotStored, StoreRace
from autotune.ir.affine import Affine, Atom, Coord
from autotune.ir.program import AxisKind, Index, Indirect, Let, Load, Program, Store, statements
from autotune.language.blocks import check_block_independence
from autotune.language.places import Places

Check = Callable[[Program, Places], None]


def check_structure(program: Program, places: Places) -> None:
    """Run every check that needs no sizes.

    Raises: StoreRace, LoadedWhereNotStored, BlockDependent.
    """
    checks: tuple[Check, ...] = (check_store_races, check_loads_of_outputs, check_block_independence)
    for check in checks:
        check(program, places)


def check_store_races(program: Program, places: Places) -> None:
    """Refuse a store in which two programs, or two points of one, may meet in one place.

    Every parallel axis, and every axis of the value, must have an index entry of its own, with a constant factor.
    Raises: StoreRace.
    """
    lets = program.lets()
    for store in (s for s in statements(program.body) if isinstance(s, Store)):
        walked = [a for a in lets[store.value].axes if program.axes[a].kind is not AxisKind.RANGE]
        for axis in dict.fromkeys((*program.parallel, *walked)):
            extent = program.axes[axis].extent
            if extent == Affine(constant=1) or any(_separates(entry, axis) for entry in store.index):
                continue
            name, tensor = program.axes[axis].name, program.tensor(store.tensor).name
            parallel = axis in program.parallel
            raise StoreRace(
                places.line(store.line),
                tensor=tensor,
                problem=f"no index of the store is {name} times a constant plus dimensions",
                instead=f"index the store with {name}" if parallel else "reduce the value before it is stored",
            )


def _separates(entry: Affine, axis: int) -> bool:
    """True where the entry moves with `axis` and with nothing else."""
    return entry.axes() == {axis} and bool(entry.coefficient(axis))


def check_loads_of_outputs(program: Program, places: Places) -> None:
    """Refuse a load of a stored tensor at a place that no store of the same program names.

    Raises: LoadedWhereNotStored.
    """
    stores: dict[int, list[Store]] = {}
    for statement in statements(program.body):
        if isinstance(statement, Store):
            stores.setdefault(statement.tensor, []).append(statement)
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
