"""Sequential loops, while loops and branches: what they carry and what they leave behind.
Must not know how their bodies are traced, nor what a loop header asks for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autotune.errors import (
    BranchShapeDiffers,
    BranchTypeDiffers,
    CarriedShapeChanges,
    CarriedTypeChanges,
    MergeMisfit,
    TileOutsideLoop,
    UnsupportedSyntax,
    UsedOutsideBranch,
    UsedOutsideLoop,
    WrongType,
)
from autotune.ir.affine import Affine
from autotune.ir.program import AxisKind, Carried, Final, Joined, MergeSide
from autotune.ir.types import DType
from autotune.language.arithmetic import as_array, common_dtype, typed
from autotune.language.broadcasting import onto
from autotune.language.context import Context
from autotune.language.drafted import DraftFor, DraftIf, DraftLoop, DraftMerge, DraftStatement, DraftWhile
from autotune.language.expressions import Expressions, Gone, Names
from autotune.language.merges import Rule, check_neutral, online_softmax
from autotune.language.operands import Array, Group, IndexTerm, Literal, Numeric, Operand, Outside, TileName, kind_name

Block: TypeAlias = Callable[[Sequence[ast.stmt]], None]
MakeState: TypeAlias = type[Carried] | type[Final]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carries:
    """The variables of a loop: those it carries, with their states before it, and all that it assigns."""

    assigned: tuple[str, ...]
    initial: dict[str, Array]


class Control:
    """Traces control flow inside a program, its bodies through the function it is given."""

    def __init__(self, context: Context, expressions: Expressions, block: Block) -> None:
        self.context = context
        self.expressions = expressions
        self.block = block

    @property
    def names(self) -> Names:
        return self.expressions.names

    # Loops

    def loop(self, node: ast.For, axis: int, index_names: Sequence[str], rule: Rule | None) -> None:
        """A tile or range loop; its carries are the names assigned before and inside it."""
        carries = self.carries(node.body, index_names)
        if rule is not None:  # the states that a rule combines stand in the order of their first assignment
            order = list(self.names)
            carries = Carries(
                assigned=carries.assigned,
                initial=dict(sorted(carries.initial.items(), key=lambda item: order.index(item[0]))),
            )
        line = self.context.source.line(node)
        statement = DraftFor(axis=axis, line=line)
        self.context.draft.add(statement)
        with self.context.draft.into(statement.body):
            self.take_states(Carried, axis, carries)
            self.block(node.body)
            for name, start in carries.initial.items():
                self.close_carry(statement, name, start)
        if rule is not None:
            statement.merge = self.merge(axis, carries, rule)
        self.leave_loop(axis, carries, line)
        end = (node.end_lineno or node.lineno) - node.lineno + line
        for name in index_names:
            self.names[name] = Gone(line=end, mistake=TileOutsideLoop)

    def repeat(self, node: ast.While) -> None:
        """A while loop; its condition is computed from the carried state before each trip."""
        if node.orelse:
            raise UnsupportedSyntax(self.context.place, feature="while ... else", instead="write it after the loop")
        carries = self.carries(node.body, ())
        line = self.context.source.line(node)
        axis = self.context.draft.new_axis(AxisKind.WHILE, Affine(), "trip")
        statement = DraftWhile(axis=axis, line=line)
        self.context.draft.add(statement)
        with self.context.draft.into(statement.test):
            self.take_states(Carried, axis, carries)
            condition = self.condition(node.test, "while")
            if isinstance(condition, bool) or not self.reads_state(condition.value, axis):
                instead = "let the condition depend on a variable that is assigned before the loop and in it"
                feature = "a while loop that no trip can end"
                raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)
            statement.condition = condition.value
        with self.context.draft.into(statement.body):
            self.take_states(Carried, axis, carries)
            self.block(node.body)
            for name, start in carries.initial.items():
                self.close_carry(statement, name, start)
        self.leave_loop(axis, carries, line)

    def carries(self, body: Sequence[ast.stmt], index_names: Sequence[str]) -> Carries:
        assigned = tuple(n for n in assigned_names(body) if n not in index_names)
        initial: dict[str, Array] = {}
        for name in assigned:
            before = self.names.get(name)
            if isinstance(before, Literal | IndexTerm | Array | TileName):
                initial[name] = as_array(self.context, self.expressions.numeric(before))
            elif isinstance(before, Group):
                instead = "carry each item by a name of its own, or use another name inside the loop"
                feature = f"the tuple {name!r}, assigned before and inside a loop,"
                raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)
        return Carries(assigned=assigned, initial=initial)

    def take_states(self, kind: MakeState, axis: int, carries: Carries) -> None:
        """Let every carried name stand for its state."""
        for slot, (name, start) in enumerate(carries.initial.items()):
            positions = self.context.draft.resolve(start.positions)
            self.names[name] = self.context.draft.emit(kind(axis=axis, slot=slot), start.dtype, positions)

    def leave_loop(self, axis: int, carries: Carries, line: int) -> None:
        for name in carries.assigned:
            if name not in carries.initial:
                self.names[name] = Gone(line=line, mistake=UsedOutsideLoop)
        self.take_states(Final, axis, carries)

    def close_carry(self, loop: DraftLoop, name: str, start: Array) -> None:
        """Record a carried variable's value after a trip.

        Raises: CarriedTypeChanges, CarriedShapeChanges.
        """
        after = self.expressions.numeric(self.expressions.name(name))
        if isinstance(after, Literal):
            after = typed(self.context, after, start.dtype)
        after = as_array(self.context, after)
        if after.dtype is not start.dtype:
            facts = {"before": start.dtype.value, "after": after.dtype.value}
            raise CarriedTypeChanges(self.context.place, name=name, **facts)
        if not self.fits(start, after):
            shapes = {"before": self.shape(start), "after": self.shape(after)}
            raise CarriedShapeChanges(self.context.place, name=name, **shapes)
        after = onto(self.context, after, self.context.draft.resolve(start.positions), name)
        loop.carries.append((start.value, after.value, start.dtype))

    def reads_state(self, value: int, axis: int) -> bool:
        """True where a condition reads the loop's state; what an inner loop or branch hands on counts as such."""
        found = (self.context.draft.lets[v].value for v in self.context.draft.reached(value))
        return any(isinstance(v, Final | Joined) or (isinstance(v, Carried) and v.axis == axis) for v in found)

    # Merge rules

    def merge(self, axis: int, carries: Carries, rule: Rule) -> DraftMerge:
        """The region of a merge rule over the two states of a loop.

        Raises: MergeMisfit, and what the rule itself raises.
        """
        result = DraftMerge()
        draft, names = self.context.draft, tuple(carries.initial)
        with draft.into(result.body):
            first, second = (
                tuple(
                    draft.emit(MergeSide(axis=axis, side=side, slot=slot), s.dtype, draft.resolve(s.positions))
                    for slot, s in enumerate(carries.initial.values())
                )
                for side in (0, 1)
            )
            merged = rule(self.context, first, second)
            if rule is online_softmax:
                check_neutral(self.context, tuple(carries.initial.values()))
            if len(merged) != len(names):
                problem = f"it returns {len(merged)} values, the loop carries {', '.join(names) or 'nothing'}"
                raise MergeMisfit(self.context.place, problem=problem)
            for name, state, value in zip(names, first, merged, strict=True):
                if value.dtype is not state.dtype or not self.fits(state, value):
                    found, wanted = (f"{a.dtype.value}{self.shape(a)}" for a in (value, state))
                    raise MergeMisfit(self.context.place, problem=f"{name!r} is {wanted} and becomes {found}")
                result.merged.append(onto(self.context, value, draft.resolve(state.positions), name).value)
        return result

    # Branches

    def branch(self, node: ast.If) -> None:
        """An if with or without else on a scalar; a condition known at tracing chooses its arm here."""
        condition = self.condition(node.test, "if")
        if isinstance(condition, bool):
            self.block(node.body if condition else node.orelse)
            return
        line = self.context.source.line(node)
        draft = self.context.draft
        statement = DraftIf(branch=draft.new_branch(), condition=condition.value, line=line)
        draft.add(statement)
        before = self.names
        then = self.arm(statement.then, node.body, before)
        otherwise = self.arm(statement.otherwise, node.orelse, before)
        self.expressions.names = before
        for name in assigned_names([*node.body, *node.orelse]):
            left, right = then.get(name), otherwise.get(name)
            if left is not None or right is not None:
                before[name] = self.joined(statement, name, left, right)

    def arm(self, region: list[DraftStatement], body: Sequence[ast.stmt], before: Names) -> Names:
        """The names after one arm, which starts from those before the branch."""
        self.expressions.names = dict(before)
        with self.context.draft.into(region):
            self.block(body)
        return self.names

    def joined(
        self, statement: DraftIf, name: str, left: Operand | Gone | None, right: Operand | Gone | None
    ) -> Operand | Gone:
        """What a name stands for after a branch."""
        if left is None or right is None:
            return Gone(line=statement.line, mistake=UsedOutsideBranch)
        if isinstance(left, Gone):
            return left
        if isinstance(right, Gone) or repr(left) == repr(right):  # equality would take 0, 0.0 and False for one number
            return right
        if isinstance(left, Group) and isinstance(right, Group) and len(left.items) == len(right.items):
            items = [self.joined(statement, name, a, b) for a, b in zip(left.items, right.items, strict=True)]
            assert not any(isinstance(item, Gone) for item in items)
            return Group(items=tuple(item for item in items if not isinstance(item, Gone)))
        numeric = Literal | IndexTerm | Array | TileName
        if isinstance(left, numeric) and isinstance(right, numeric):
            return self.choice(statement, name, self.expressions.numeric(left), self.expressions.numeric(right))
        feature = f"the name {name!r} for {kind_name(left)} in one arm and {kind_name(right)} in the other"
        raise UnsupportedSyntax(self.context.place, feature=feature, instead="use a name for each")

    def choice(self, statement: DraftIf, name: str, left: Numeric, right: Numeric) -> Array:
        """One value out of two arms, read after them.

        Raises: BranchTypeDiffers, BranchShapeDiffers, LiteralDoesNotFit.
        """
        draft = self.context.draft
        dtype = self.choice_type(name, left, right)
        with draft.into(statement.then):
            one = typed(self.context, left, dtype)
        with draft.into(statement.otherwise):
            other = typed(self.context, right, dtype)
            if not self.fits(one, other):
                shapes = {"then": self.shape(one), "otherwise": self.shape(other)}
                raise BranchShapeDiffers(self.context.place, name=name, **shapes)
            other = onto(self.context, other, draft.resolve(one.positions), name)
        statement.choices.append((one.value, other.value, dtype))
        value = Joined(branch=statement.branch, slot=len(statement.choices) - 1)
        return draft.emit(value, dtype, draft.resolve(one.positions))

    def choice_type(self, name: str, left: Numeric, right: Numeric) -> DType:
        """The type of two arms: the same in both, but that a literal takes the other's."""
        if isinstance(left, Literal) or isinstance(right, Literal):
            return common_dtype(self.context, [o for o in (left, right) if not isinstance(o, Literal)] or (left, right))
        then, otherwise = (common_dtype(self.context, (o,)) for o in (left, right))
        if then is not otherwise:
            raise BranchTypeDiffers(self.context.place, name=name, then=then.value, otherwise=otherwise.value)
        return then

    # Parts that loops and branches share

    def condition(self, node: ast.expr, word: str) -> Array | bool:
        """A scalar truth value; a bool where tracing knows it.

        Raises: WrongType.
        """
        operand = self.expressions.evaluate(node)
        with self.context.at(node):
            instead = "write a comparison of single numbers, such as n > 0; at.any(...) and at.all(...) reduce to one"
            if isinstance(operand, Outside | Group):
                raise WrongType(self.context.place, operation=word, found=kind_name(operand), instead=instead)
            value = self.expressions.numeric(operand)
            if common_dtype(self.context, (value,)) is not DType.BOOL:
                raise WrongType(self.context.place, operation=word, found=kind_name(value), instead=instead)
            if isinstance(value, Literal):
                return bool(value.value)
            array = typed(self.context, value, DType.BOOL)
            if array.positions:
                found = f"a value with the positions {self.shape(array)}"
                raise WrongType(self.context.place, operation=word, found=found, instead=instead)
            return array

    def fits(self, wanted: Array, found: Array) -> bool:
        """True where a value can stand for another: as many positions, the same tiles, extent 1 in the same places."""
        before, now = (self.context.draft.resolve(a.positions) for a in (wanted, found))
        return len(before) == len(now) and all(map(self.is_alike, before, now))

    def is_alike(self, before: int | None, now: int | None) -> bool:
        if before is None or now is None or before == now:
            return before == now
        return all(self.context.draft.axis(a).kind is AxisKind.FULL for a in (before, now))

    def shape(self, array: Array) -> str:
        return self.context.shape_text(self.context.draft.resolve(array.positions))


def assigned_names(body: Sequence[ast.stmt]) -> list[str]:
    """Names that statements assign, in order of first assignment, loop variables included."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)
