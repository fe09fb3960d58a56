"""Which value each buffer holds at every place of a body, followed along all of its paths.
Must not know offsets; buffers are told apart by number alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from autotune.ir.affine import Affine
from autotune.ir.buffer import BlockLoop, Body, Branch, Nest, Part, Step, StoreTensor, WhileLoop
from autotune.ir.buffer_access import Access, BodyAccess, steps_inside
from autotune.ir.program import (
    Carried,
    Final,
    For,
    If,
    IndexValue,
    Joined,
    Let,
    Load,
    Program,
    Reduce,
    While,
    operands,
    statements,
)

Content: TypeAlias = int | Carried | Final | Joined | None
"""A value number, the loop state or branch result that several numbers may stand for, or None: nothing of use."""

Contents: TypeAlias = dict[int, frozenset[Content]]
"""What each buffer may hold; a buffer that is missing holds nothing of use."""

NOTHING: frozenset[Content] = frozenset({None})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongContent:
    """A step that finds another value in a buffer than it needs there."""

    step: Step
    message: str


def wrong_contents(program: Program, body: Body) -> tuple[WrongContent, ...]:
    """Every place where a step may read something else from a buffer than the value it stands for.

    A loop over a state must find the initial one on entry and the updated one after each trip, and a branch result
    the value of its own arm in each.
    """
    walk = _Walk(program, body)
    walk.run(body.steps, {})
    return tuple(walk.wrong)


class _Walk:
    def __init__(self, program: Program, body: Body) -> None:
        self.program = program
        self.access = BodyAccess(program, body)
        self.lets = program.lets()
        self.loops = {s.axis: s for s in statements(program.body) if isinstance(s, For | While)}
        self.branches = {s.branch: s for s in statements(program.body) if isinstance(s, If)}
        self.materialized = dict(body.materialized)
        self.varying: dict[int, frozenset[int]] = {}
        self.wrong: list[WrongContent] = []

    # --- steps ----------------------------------------------------------------------------------------------------
    def run(self, steps: Sequence[Step], contents: Contents) -> Contents:
        for step in steps:
            match step:
                case Nest():
                    contents = self.nest(step, contents)
                case BlockLoop(axis=axis, part=part, body=body):
                    contents = self.enter(step, axis, contents, part is Part.REST)
                    contents = self.repeat(step, axis, (), body, contents)
                case WhileLoop(axis=axis, test=test, body=body):
                    contents = self.enter(step, axis, contents, False)
                    contents = self.repeat(step, axis, test, body, contents)
                case Branch():
                    contents = self.branch(step, contents)
                case _:
                    assert_never(step)
        return contents

    def nest(self, nest: Nest, contents: Contents) -> Contents:
        self.reads(nest, self.access.nest(nest), contents)
        written = {s.buffer: frozenset({self.content(s.value)}) for s in nest.sinks if not isinstance(s, StoreTensor)}
        return contents | written

    def reads(self, step: Step, access: Access, contents: Contents) -> None:
        for read in access.reads:
            self.expect(step, contents, read.buffer, {self.content(read.value)}, f"%{read.value} is read")

    def enter(self, step: Step, axis: int, contents: Contents, continues: bool) -> Contents:
        """On entry each state's buffer holds the initial state, or what the part before it left."""
        loop = self.loops.get(axis)
        entered = dict(contents)
        for slot, buffer in self.states(axis):
            assert loop is not None
            allowed = {self.content(loop.carries[slot].initial)}
            allowed |= {Final(axis=axis, slot=slot)} if continues else set()
            self.expect(step, contents, buffer, allowed, f"the loop over a{axis} begins with state {slot}")
            entered[buffer] = frozenset({Carried(axis=axis, slot=slot)})
        return entered

    def repeat(self, step: Step, axis: int, test: Sequence[Step], body: Sequence[Step], contents: Contents) -> Contents:
        """Any number of trips; afterwards the states of the loop are its final ones."""
        states = self.states(axis)
        own = {buffer for _, buffer in states}
        while True:
            kept = {b: frozenset(self.kept(axis, c) for c in held) for b, held in contents.items() if b not in own}
            head = contents | kept
            tested = self.run(test, head)
            if isinstance(step, WhileLoop):
                self.reads(step, self.access.condition(step.condition), tested)
            ended = self.run(body, tested)
            for slot, buffer in states:
                updated = self.content(self.loops[axis].carries[slot].updated)
                self.expect(step, ended, buffer, {updated}, f"a trip over a{axis} ends with state {slot}")
                ended[buffer] = frozenset({Carried(axis=axis, slot=slot)})
            wider = _either(contents, ended)
            if wider == contents:
                break
            contents = wider
        return tested | {b: frozenset({Final(axis=axis, slot=slot)}) for slot, b in states}

    def branch(self, step: Branch, contents: Contents) -> Contents:
        self.reads(step, self.access.condition(step.condition), contents)
        then, otherwise = self.run(step.then, contents), self.run(step.otherwise, contents)
        joined = _either(then, otherwise)
        for value, buffer in self.results(step):
            choice = self.branches[value.branch].choices[value.slot]
            what = f"an arm of the branch on %{step.condition} ends with result {value.slot}"
            self.expect(step, then, buffer, {self.content(choice.then)}, what)
            self.expect(step, otherwise, buffer, {self.content(choice.otherwise)}, what)
            joined[buffer] = frozenset({value})
        return joined

    # --- what stands for what -------------------------------------------------------------------------------------
    def content(self, value: int) -> Content:
        let = self.lets.get(value)
        return let.value if let is not None and isinstance(let.value, Carried | Final | Joined) else value

    def states(self, axis: int) -> tuple[tuple[int, int], ...]:
        """The state slots of a loop that have a buffer, with its number."""
        found = set()
        for value, buffer in self.materialized.items():
            inner = self.lets[value].value
            if isinstance(inner, Carried | Final) and inner.axis == axis:
                found.add((inner.slot, buffer))
        return tuple(sorted(found))

    def results(self, step: Branch) -> Iterator[tuple[Joined, int]]:
        """Results of the program's branch that a step stands for: those of its condition that its arms write.

        What a branch inside them on the same condition writes is that one's own.
        """
        numbers = {s.branch for s in self.branches.values() if s.condition == step.condition}
        for value, buffer in self.materialized.items():
            inner = self.lets[value].value
            if isinstance(inner, Joined) and inner.branch in numbers and self.writes(step, buffer):
                yield inner, buffer

    def writes(self, step: Branch, buffer: int) -> bool:
        nests = _nests((*step.then, *step.otherwise), step.condition)
        sinks = (s for n in nests for s in n.sinks if not isinstance(s, StoreTensor))
        return any(sink.buffer == buffer for sink in sinks)

    def kept(self, axis: int, content: Content) -> Content:
        """What a content is worth in another trip: nothing where it differs from trip to trip."""
        match content:
            case None:
                return None
            case Carried():
                return None if content.axis == axis else content
            case int():
                return None if axis in self.differs_over(content) else content
            case Final() | Joined():
                numbers = (n for n, let in self.lets.items() if let.value == content)
                return None if any(axis in self.differs_over(n) for n in numbers) else content
            case _:
                assert_never(content)

    def differs_over(self, value: int) -> frozenset[int]:
        """Loops from one trip of which to the next a value changes."""
        if value not in self.varying:
            let = self.lets[value]
            found = frozenset(let.axes) | self.own_loops(let)
            self.varying[value] = found.union(*(self.differs_over(o) for o in operands(let.value))) & self.loops.keys()
        return self.varying[value]

    def own_loops(self, let: Let) -> frozenset[int]:
        match let.value:
            case Carried(axis=axis):
                return frozenset({axis})
            case Final(axis=axis):
                carries = self.loops[axis].carries
                states = (s for c in carries for s in (c.initial, c.updated))
                return frozenset[int]().union(*(self.differs_over(s) for s in states)) - {axis}
            case Joined(branch=branch, slot=slot):
                statement = self.branches[branch]
                choice = statement.choices[slot]
                parts = (statement.condition, choice.then, choice.otherwise)
                return frozenset[int]().union(*(self.differs_over(p) for p in parts))
            case IndexValue(expression=expression):
                return expression.axes()
            case Load(index=index):
                return frozenset[int]().union(*(i.axes() for i in index if isinstance(i, Affine)))
            case Reduce(axes=axes):
                return frozenset(axes).union(*(self.program.axes[a].extent.axes() for a in axes))
            case _:
                return frozenset()

    def expect(self, step: Step, contents: Contents, buffer: int, allowed: set[Content], what: str) -> None:
        others = contents.get(buffer, NOTHING) - allowed
        if others:
            found = " or ".join(sorted(_show(c) for c in others))
            wrong = WrongContent(step=step, message=f"{what} from b{buffer}, which may hold {found}")
            if wrong not in self.wrong:
                self.wrong.append(wrong)


def _either(one: Contents, other: Contents) -> Contents:
    return {b: one.get(b, NOTHING) | other.get(b, NOTHING) for b in one.keys() | other.keys()}


def _nests(steps: Sequence[Step], condition: int) -> Iterator[Nest]:
    """Every nest in some steps, but for those in branches on a condition."""
    for step in steps:
        if isinstance(step, Nest):
            yield step
        elif not isinstance(step, Branch) or step.condition != condition:
            for inner in steps_inside(step):
                yield from _nests(inner, condition)


def _show(content: Content) -> str:
    match content:
        case None:
            return "nothing of use"
        case int():
            return f"%{content}"
        case Carried(axis=axis, slot=slot):
            return f"state {slot} at the start of a trip over a{axis}"
        case Final(axis=axis, slot=slot):
            return f"state {slot} after the loop over a{axis}"
        case Joined(branch=branch, slot=slot):
            return f"result {slot} of branch {branch}"
        case _:
            assert_never(content)
