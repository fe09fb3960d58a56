"""When each buffer of a body holds something that is still needed.
Must not know sizes, offsets or what is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from autotune.ir.buffer import BlockLoop, Body, Branch, Nest, Step, WhileLoop
from autotune.ir.buffer_access import Access, BodyAccess
from autotune.ir.program import Program

Buffers: TypeAlias = frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Positions, both included, from the first to the last at which a buffer is accessed or must keep its content."""

    buffer: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A body as a sequence of positions: its nests and the conditions of its branches and while loops, in order.

    `follows` are pairs of positions of which the second may be executed right after the first; `unwritten` are buffers
    that some path reads before it writes them.
    """

    accesses: tuple[Access, ...]
    follows: frozenset[tuple[int, int]]
    lifetimes: tuple[Lifetime, ...]
    unwritten: Buffers


def lifetimes(program: Program, body: Body) -> tuple[Lifetime, ...]:
    """The lifetime of every buffer that a body accesses, by buffer number.

    A content that a later trip of a loop reads is kept for the whole loop; every loop may make no trip, and a branch
    may take either arm.
    """
    return timeline(program, body).lifetimes


def timeline(program: Program, body: Body) -> Timeline:
    """The positions of a body with their accesses, their order and the lifetimes that follow from both."""
    accesses: list[Access] = []
    nodes = _nodes(body.steps, BodyAccess(program, body), accesses)
    span: dict[int, tuple[int, int]] = {}
    unwritten = _live_before(nodes, frozenset(), span)
    follows: set[tuple[int, int]] = set()
    _follow(nodes, frozenset(), follows)
    return Timeline(
        accesses=tuple(accesses),
        follows=frozenset(follows),
        lifetimes=tuple(Lifetime(buffer=b, first=first, last=last) for b, (first, last) in sorted(span.items())),
        unwritten=unwritten,
    )


# --- control flow over positions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    position: int
    reads: Buffers
    writes: Buffers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fork:
    arms: tuple[tuple[_Node, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cycle:
    """`head` is executed before every trip and once more; `body` in a trip."""

    head: tuple[_Node, ...]
    body: tuple[_Node, ...]


_Node: TypeAlias = _Point | _Fork | _Cycle


def _nodes(steps: Sequence[Step], body: BodyAccess, accesses: list[Access]) -> tuple[_Node, ...]:
    nodes: list[_Node] = []
    for step in steps:
        match step:
            case Nest():
                nodes.append(_point(body.nest(step), accesses))
            case BlockLoop(body=inner):
                nodes.append(_Cycle(head=(), body=_nodes(inner, body, accesses)))
            case WhileLoop(test=test, condition=condition, body=inner):
                head = (*_nodes(test, body, accesses), _point(body.condition(condition), accesses))
                nodes.append(_Cycle(head=head, body=_nodes(inner, body, accesses)))
            case Branch(condition=condition, then=then, otherwise=otherwise):
                nodes.append(_point(body.condition(condition), accesses))
                nodes.append(_Fork(arms=(_nodes(then, body, accesses), _nodes(otherwise, body, accesses))))
            case _:
                assert_never(step)
    return tuple(nodes)


def _point(access: Access, accesses: list[Access]) -> _Point:
    accesses.append(access)
    return _Point(position=len(accesses) - 1, reads=access.buffers_read, writes=access.writes)


def _live_before(nodes: Sequence[_Node], after: Buffers, span: dict[int, tuple[int, int]]) -> Buffers:
    """Buffers whose content is needed before `nodes` where those in `after` are needed after them; widens `span`."""
    live = after
    for node in reversed(nodes):
        match node:
            case _Point(position=position, reads=reads, writes=writes):
                for buffer in live | reads | writes:
                    first, last = span.get(buffer, (position, position))
                    span[buffer] = min(first, position), max(last, position)
                live = (live - writes) | reads
            case _Fork(arms=arms):
                live = frozenset[int]().union(*(_live_before(arm, live, span) for arm in arms))
            case _Cycle(head=head, body=body):
                live = _live_before_cycle(head, body, live, span)
            case _:
                assert_never(node)
    return live


def _live_before_cycle(
    head: Sequence[_Node], body: Sequence[_Node], after: Buffers, span: dict[int, tuple[int, int]]
) -> Buffers:
    entry: Buffers = frozenset()
    while True:
        wider = _live_before(head, after | _live_before(body, entry, span), span)
        if wider == entry:
            return entry
        entry = wider


def _follow(nodes: Sequence[_Node], before: Buffers, follows: set[tuple[int, int]]) -> Buffers:
    """Positions that may come last once `nodes` are done, where those in `before` may come last before them."""
    for node in nodes:
        match node:
            case _Point(position=position):
                follows.update((earlier, position) for earlier in before)
                before = frozenset({position})
            case _Fork(arms=arms):
                before = frozenset[int]().union(*(_follow(arm, before, follows) for arm in arms))
            case _Cycle(head=head, body=body):
                again = _follow(body, _follow(head, before, follows), follows)
                left = _follow(head, before | again, follows)
                _follow(body, left, follows)
                before = left
            case _:
                assert_never(node)
    return before
