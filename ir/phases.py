"""The phase graph: which parts of a program are decided on separately, and what they hand to each other.
Must not know names of kernels, parameters or axes, nor targets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import networkx as nx

from autotune.ir.access import Access, access
from autotune.ir.dependence import coordinates
from autotune.ir.ownership import is_invariant, phase_values, truth_values
from autotune.ir.program import (
    AxisKind,
    Carried,
    Carry,
    Contraction,
    Elementwise,
    Final,
    For,
    If,
    Index,
    Joined,
    Let,
    Load,
    Program,
    Reduce,
    Region,
    Store,
    While,
    operands,
    statements,
)
from autotune.ir.serial import Json, to_json
from autotune.ir.types import DType, MathPolicy, Op, ReduceOp


class PhaseKind(Enum):
    """What a phase does."""

    LOAD = "load"
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    CONDITION = "condition"
    CARRY = "carry"
    JOINED = "joined"
    STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One node of the graph.

    Exactly one of `value` (the value it makes), `carry` (loop axis, slot), `joined` (branch, slot) and `store`
    (position among the program's stores) is set. `op` is the operation of an elementwise value, reduction or condition.
    `axes` are those of the result, `contribution` those that a reduction consumes; `region` names the loops around it,
    outermost first (a carried value lies inside its own loop), `arms` the branches with the arm that it lies in (0 or
    1; a joined value lies after its own). A reduction that is a contraction keeps the descriptor.
    """

    number: int
    kind: PhaseKind
    dtype: DType
    axes: tuple[int, ...]
    op: Op | ReduceOp | None = None
    contribution: tuple[int, ...] = ()
    region: tuple[int, ...] = ()
    arms: tuple[tuple[int, int], ...] = ()
    value: int | None = None
    carry: tuple[int, int] | None = None
    joined: tuple[int, int] | None = None
    store: int | None = None
    access: Access | None = None
    math: MathPolicy | None = None
    contraction: Contraction | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        """Tensor parameters it reads."""
        return (self.access.tensor,) if self.access and self.kind is not PhaseKind.STORE else ()

    @property
    def writes(self) -> tuple[int, ...]:
        """Tensor parameters it writes."""
        return (self.access.tensor,) if self.access and self.kind is PhaseKind.STORE else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A value that phase `source` makes and phase `target` uses `uses` times.

    Units: `bytes` of one program with every tile axis at its full extent; None while the program is unbound or where
    an extent depends on blocks. `strides` are those of the tensor where the source is a load.
    """

    source: int
    target: int
    value: int
    uses: int
    bytes: int | None
    carried: bool = False
    strides: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseGraph:
    """Phases in program order and the edges between them; without the carried ones the edges ascend.

    `owners[v]` is the phase that evaluates value v: None for constants, arguments and index values, and for cheap
    values of those alone, which every user evaluates for itself. `inside[p]` are the values phase p evaluates.
    """

    phases: tuple[Phase, ...]
    edges: tuple[Edge, ...]
    owners: tuple[int | None, ...]
    inside: tuple[tuple[int, ...], ...]

    def phase_of(self, value: int) -> Phase | None:
        """The phase that evaluates a value, None where every user does."""
        owner = self.owners[value]
        return None if owner is None else self.phases[owner]

    def members(self, phase: int) -> tuple[int, ...]:
        """Values that a phase evaluates itself, ascending, its result included."""
        return self.inside[phase]

    def inputs(self, phase: int) -> tuple[Edge, ...]:
        return tuple(e for e in self.edges if e.target == phase)

    def outputs(self, phase: int) -> tuple[Edge, ...]:
        return tuple(e for e in self.edges if e.source == phase)

    def live_range(self, phase: int) -> tuple[int, int]:
        """The phase itself and the last phase that uses its result."""
        return phase, max((max(e.target, e.source) for e in self.outputs(phase)), default=phase)

    def networkx(self) -> nx.MultiDiGraph:
        """The same graph for algorithms; node and edge attributes are plain JSON data."""
        graph = nx.MultiDiGraph()
        for phase in self.phases:
            graph.add_node(phase.number, **_attributes(phase, "number"), members=list(self.inside[phase.number]))
        for edge in self.edges:
            graph.add_edge(edge.source, edge.target, **_attributes(edge, "source", "target"))
        return graph

    def node_link(self) -> Json:
        """JSON in networkx's node-link form, read back by `networkx.node_link_graph(data, edges="edges")`."""
        return nx.node_link_data(self.networkx(), edges="edges")

    def text(self) -> str:
        """One phase a line, indented by the loops and arms around it, with the edges that leave it."""
        return "\n".join(line for phase in self.phases for line in self._lines(phase)) + "\n"

    def _lines(self, phase: Phase) -> Iterator[str]:
        indent = "  " * (len(phase.region) + len(phase.arms))
        yield f"{indent}{describe(phase)}"
        for edge in self.outputs(phase.number):
            size = "" if edge.bytes is None else f", {edge.bytes} bytes"
            times = "" if edge.uses == 1 else f", {edge.uses} uses"
            yield f"{indent}    %{edge.value} -> p{edge.target}{size}{times}{', carried' if edge.carried else ''}"


def describe(phase: Phase) -> str:
    """A phase in one line, without names."""
    axes = ", ".join(f"a{a}" for a in phase.axes)
    over = f" over ({', '.join(f'a{a}' for a in phase.contribution)})" if phase.contribution else ""
    tensor = f" t{phase.access.tensor}" if phase.access else ""
    slot = f" a{phase.carry[0]}.{phase.carry[1]}" if phase.carry else ""
    slot += f" if{phase.joined[0]}.{phase.joined[1]}" if phase.joined else ""
    op = f" {phase.op.value}" if phase.op else ""
    return f"p{phase.number} {phase.kind.value}{op}{tensor}{slot}{over} -> {phase.dtype.value}({axes})"


def phase_graph(program: Program) -> PhaseGraph:
    """Split a program into phases.

    A phase is a load, a reduction, an elementwise value that is expensive or that more than one phase uses, a
    condition, a carried value, what a branch leaves behind, or a store. Cheap values that one phase uses belong to
    that phase.
    """
    return _Split(program).graph()


def _attributes(item: Phase | Edge, *omitted: str) -> dict[str, Any]:
    data: dict[str, Any] = to_json(item)
    return {name: value for name, value in data.items() if name not in ("type", *omitted)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Root:
    """Where a phase starts: its defining statement and the loops and arms around it.

    That of a carried or joined value is the loop or branch.
    """

    statement: Let | Store | For | While | If
    slot: int = 0
    region: tuple[int, ...] = ()
    arms: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class _Split:
    program: Program
    lets: dict[int, Let] = field(init=False)
    deciding: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.lets = self.program.lets()
        self.deciding = truth_values(self.program)

    def graph(self) -> PhaseGraph:
        own = phase_values(self.program)
        roots = list(self.roots(self.program.body, own, (), ()))
        numbers = {self.key(root): number for number, root in enumerate(roots)}
        inside = [self.evaluated(root, own) for root in roots]
        owners: list[int | None] = [None] * len(self.lets)
        for number, members in enumerate(inside):
            for value in members:
                if not is_invariant(self.lets, value):
                    owners[value] = number
        for number, let in self.lets.items():
            match let.value:
                case Carried(axis=axis, slot=slot) | Final(axis=axis, slot=slot):
                    owners[number] = numbers["carry", axis, slot]
                case Joined(branch=branch, slot=slot):
                    owners[number] = numbers["joined", branch, slot]
                case _ if number in self.deciding:
                    owners[number] = numbers["value", number, 0]
        stores = {id(s): k for k, s in enumerate(s for s in statements(self.program.body) if isinstance(s, Store))}
        phases = tuple(self.phase(number, root, stores) for number, root in enumerate(roots))
        edges = self.edges(roots, inside, owners, phases)
        return PhaseGraph(phases=phases, edges=tuple(edges), owners=tuple(owners), inside=tuple(inside))

    # --- phases ---------------------------------------------------------------------------------------------------

    def roots(
        self, region: Region, own: frozenset[int], loops: tuple[int, ...], arms: tuple[tuple[int, int], ...]
    ) -> Iterator[_Root]:
        for statement in region:
            match statement:
                case Let(id=number) if number in own:
                    yield _Root(statement=statement, region=loops, arms=arms)
                case Store():
                    yield _Root(statement=statement, region=loops, arms=arms)
                case For(axis=axis, carries=carries) | While(axis=axis, carries=carries):
                    inner = (*loops, axis)
                    for slot in range(len(carries)):
                        yield _Root(statement=statement, slot=slot, region=inner, arms=arms)
                    for part in (statement.body,) if isinstance(statement, For) else (statement.test, statement.body):
                        yield from self.roots(part, own, inner, arms)
                case If(branch=branch, choices=choices, then=then, otherwise=otherwise):
                    for number, arm in enumerate((then, otherwise)):
                        yield from self.roots(arm, own, loops, (*arms, (branch, number)))
                    for slot in range(len(choices)):
                        yield _Root(statement=statement, slot=slot, region=loops, arms=arms)

    def key(self, root: _Root) -> tuple[str, int, int]:
        match root.statement:
            case Let(id=number):
                return "value", number, 0
            case Store():
                return "store", id(root.statement), 0
            case For(axis=axis) | While(axis=axis):
                return "carry", axis, root.slot
            case If(branch=branch):
                return "joined", branch, root.slot

    def phase(self, number: int, root: _Root, stores: dict[int, int]) -> Phase:
        match root.statement:
            case Let(value=value, dtype=dtype, axes=axes):
                return Phase(
                    number=number,
                    kind=self.kind(root.statement),
                    dtype=dtype,
                    axes=axes,
                    op=value.op if isinstance(value, Elementwise | Reduce) else None,
                    contribution=value.axes if isinstance(value, Reduce) else (),
                    region=root.region,
                    arms=root.arms,
                    value=root.statement.id,
                    access=access(self.program, self.lets, value.tensor, value.index)
                    if isinstance(value, Load)
                    else None,
                    math=value.math if isinstance(value, Elementwise | Reduce) else None,
                    contraction=value.contraction if isinstance(value, Reduce) else None,
                )
            case Store(tensor=tensor, index=index):
                return Phase(
                    number=number,
                    kind=PhaseKind.STORE,
                    dtype=self.program.tensor(tensor).dtype,
                    axes=tuple(sorted(coordinates(index))),
                    region=root.region,
                    arms=root.arms,
                    store=stores[id(root.statement)],
                    access=self.walk(tensor, index),
                )
            case For(axis=axis, carries=carries) | While(axis=axis, carries=carries):
                carry = carries[root.slot]
                return Phase(
                    number=number,
                    kind=PhaseKind.CARRY,
                    dtype=carry.dtype,
                    axes=carry.axes,
                    region=root.region,
                    arms=root.arms,
                    carry=(axis, root.slot),
                )
            case If(branch=branch, choices=choices):
                choice = choices[root.slot]
                return Phase(
                    number=number,
                    kind=PhaseKind.JOINED,
                    dtype=choice.dtype,
                    axes=choice.axes,
                    region=root.region,
                    arms=root.arms,
                    joined=(branch, root.slot),
                )

    def kind(self, let: Let) -> PhaseKind:
        match let.value:
            case Reduce():
                return PhaseKind.REDUCTION
            case _ if let.id in self.deciding:
                return PhaseKind.CONDITION
            case Load():
                return PhaseKind.LOAD
            case _:
                return PhaseKind.ELEMENTWISE

    def walk(self, tensor: int, index: tuple[Index, ...]) -> Access:
        return access(self.program, self.lets, tensor, index)

    # --- what lies inside a phase, and the edges ------------------------------------------------------------------

    def used(self, root: _Root) -> tuple[int, ...]:
        """Values that a phase's defining statement reads."""
        match root.statement:
            case Let(value=value):
                return operands(value)
            case Store(value=value, mask=mask):
                return (value,) if mask is None else (value, mask)
            case For(carries=carries) | While(carries=carries):
                return carries[root.slot].initial, carries[root.slot].updated
            case If(condition=condition, choices=choices):
                return choices[root.slot].then, choices[root.slot].otherwise, condition

    def evaluated(self, root: _Root, own: frozenset[int]) -> tuple[int, ...]:
        found: set[int] = set()
        pending = list(self.used(root))
        while pending:
            number = pending.pop()
            if number in found or number in own or isinstance(self.lets[number].value, Carried | Final | Joined):
                continue
            found.add(number)
            pending.extend(operands(self.lets[number].value))
        if isinstance(root.statement, Let):
            found.add(root.statement.id)
        return tuple(sorted(found))

    def edges(
        self,
        roots: list[_Root],
        inside: list[tuple[int, ...]],
        owners: list[int | None],
        phases: tuple[Phase, ...],
    ) -> Iterator[Edge]:
        for target, root in enumerate(roots):
            for carried, values in self.reached(root, inside[target]):
                for value in sorted(set(values)):
                    source = owners[value]
                    if source is None or (source == target and not carried):
                        continue
                    walk = phases[source].access
                    yield Edge(
                        source=source,
                        target=target,
                        value=value,
                        uses=values.count(value),
                        bytes=self.size(value),
                        carried=carried,
                        strides=walk.strides if walk and phases[source].kind is PhaseKind.LOAD else (),
                    )

    def reached(self, root: _Root, inside: tuple[int, ...]) -> Iterator[tuple[bool, list[int]]]:
        """Values from outside that a phase reads, once for each use; apart those that only its next trip sees."""
        members = set(inside)
        if not isinstance(root.statement, For | While):
            yield False, list(self.outside(root, members))
            return
        carry: Carry = root.statement.carries[root.slot]
        yield False, list(self.leaves(carry.initial, members, set()))
        deciding = [root.statement.condition] if isinstance(root.statement, While) else []
        yield True, [*self.leaves(carry.updated, members, set()), *deciding]

    def outside(self, root: _Root, members: set[int]) -> Iterator[int]:
        own = root.statement.id if isinstance(root.statement, Let) else None
        seen: set[int] = set()
        for value in self.used(root):
            if value != own:
                yield from self.leaves(value, members, seen)

    def leaves(self, value: int, members: set[int], seen: set[int]) -> Iterator[int]:
        if value not in members:
            yield value
        elif value not in seen:
            seen.add(value)
            for operand in operands(self.lets[value].value):
                yield from self.leaves(operand, members, seen)

    def size(self, value: int) -> int | None:
        let = self.lets[value]
        extents = [_extent(self.program, a) for a in let.axes]
        if any(e is None for e in extents):
            return None
        return let.dtype.size_bytes * math.prod(e for e in extents if e is not None)


def _extent(program: Program, axis: int) -> int | None:
    """Coordinates of an axis that one program sees, None where unknown."""
    this = program.axes[axis]
    if this.kind in (AxisKind.PROGRAM, AxisKind.RANGE, AxisKind.WHILE):
        return 1
    return this.extent.constant if this.extent.is_constant else None
