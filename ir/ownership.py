"""Which values of a program are phases of their own, and which are free to evaluate anywhere.
Must not know what phases are used for."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.program import (
    Carried,
    Const,
    Elementwise,
    Final,
    For,
    If,
    IndexValue,
    Joined,
    Let,
    Load,
    MergeSide,
    Program,
    Reduce,
    Region,
    Reindex,
    ScalarArgument,
    Statement,
    Store,
    While,
    operands,
    regions,
    statements,
)
from autotune.ir.types import EXPENSIVE


def phase_values(program: Program) -> frozenset[int]:
    """Loads, reductions, truth values that control flow hangs on, and elementwise values that are expensive, that more
    than one phase uses, or that many points read: factors of a contraction, and values from before a loop that are
    used in it.

    Found from the last use back to the first: a value's users are phases, cheap values between them left out.
    """
    lets = program.lets()
    users = _ends(program, lets)
    reread = _factors(lets) | _entering_loops(program.body, lets)
    own = set(truth_values(program))
    for number in sorted(lets, reverse=True):
        if number in own or _is_phase(lets, number, len(users[number]) + (number in reread)):
            own.add(number)
            users[number] = {("value", number, 0)}
        for operand in operands(lets[number].value):
            users[operand] |= users[number]
    return frozenset(own)


def truth_values(program: Program) -> frozenset[int]:
    """Conditions of branches and while loops, but for those that are the state of a loop or left by a branch."""
    lets = program.lets()
    conditions = {s.condition for s in statements(program.body) if isinstance(s, If | While)}
    return frozenset(c for c in conditions if not isinstance(lets[c].value, Carried | Final | Joined))


def is_invariant(lets: Mapping[int, Let], number: int) -> bool:
    """Made of constants, arguments and index values by cheap operations alone: free to evaluate anywhere."""
    value = lets[number].value
    match value:
        case Const() | ScalarArgument() | IndexValue():
            return True
        case Elementwise(op=op, args=args):
            return (op not in EXPENSIVE or is_uniform(lets, number)) and all(is_invariant(lets, a) for a in args)
        case Reindex(value=inner):
            return is_invariant(lets, inner)
        case _:
            return False


def is_uniform(lets: Mapping[int, Let], number: int) -> bool:
    """Made of constants, arguments and dimensions alone, by whatever operations: one number for the whole call."""
    value = lets[number].value
    match value:
        case Const() | ScalarArgument():
            return True
        case IndexValue(expression=expression):
            return not expression.axes()
        case Elementwise(args=args):
            return all(is_uniform(lets, a) for a in args)
        case _:
            return False


def _is_phase(lets: Mapping[int, Let], number: int, users: int) -> bool:
    value = lets[number].value
    match value:
        case Load() | Reduce():
            return True
        case Elementwise(op=op):
            expensive = op in EXPENSIVE and not is_uniform(lets, number)
            return expensive or (users > 1 and not is_invariant(lets, number))
        case Reindex():
            return users > 1 and not is_invariant(lets, number)
        case Const() | ScalarArgument() | IndexValue() | Carried() | Final() | Joined() | MergeSide():
            return False


def _factors(lets: Mapping[int, Let]) -> frozenset[int]:
    """Computed factors of contractions, each read by many outputs."""
    found = (let.value.contraction for let in lets.values() if isinstance(let.value, Reduce))
    return frozenset(f for c in found if c is not None for f in (c.lhs, c.rhs))


def _entering_loops(region: Region, lets: Mapping[int, Let]) -> frozenset[int]:
    """Values that a loop reads again in every trip, although they were made before it."""
    found: set[int] = set()

    def visit(inner: Region, outside: frozenset[int]) -> None:
        here = set(outside)
        for statement in inner:
            if isinstance(statement, Let):
                here.add(statement.id)
            for nested in regions(statement):
                if isinstance(statement, For | While):
                    used = {o for s in statements(nested) for o in _direct(s)}
                    found.update(used & here)
                visit(nested, frozenset(here))

    visit(region, frozenset())
    return frozenset(found)


def _direct(statement: Statement) -> tuple[int, ...]:
    """Value numbers that a statement itself reads each time it runs."""
    match statement:
        case Let(value=value):
            return operands(value)
        case Store(value=value, mask=mask):
            return (value,) if mask is None else (value, mask)
        case For(carries=carries):
            return tuple(c.updated for c in carries)
        case While(carries=carries, condition=condition):
            return (condition, *(c.updated for c in carries))
        case If(condition=condition, choices=choices):
            return (condition, *(v for c in choices for v in (c.then, c.otherwise)))


def _ends(program: Program, lets: Mapping[int, Let]) -> dict[int, set[tuple[str, int, int]]]:
    """For every value the stores and carried variables that read it."""
    users: dict[int, set[tuple[str, int, int]]] = {v: set() for v in lets}
    for position, statement in enumerate(statements(program.body)):
        match statement:
            case Store(value=value, mask=mask):
                for v in (value,) if mask is None else (value, mask):
                    users[v].add(("store", position, 0))
            case For(axis=axis, carries=carries) | While(axis=axis, carries=carries):
                for slot, carry in enumerate(carries):
                    users[carry.initial].add(("carry", axis, slot))
                    users[carry.updated].add(("carry", axis, slot))
                if isinstance(statement, While):
                    users[statement.condition].add(("condition", axis, 0))
            case If(branch=branch, condition=condition, choices=choices):
                users[condition].add(("branch", branch, 0))
                for slot, choice in enumerate(choices):
                    users[choice.then].add(("joined", branch, slot))
                    users[choice.otherwise].add(("joined", branch, slot))
            case Let():
                pass
    return users
