"""Statements of a kernel's source: assignments, stores, loops, modes and inlined helpers.
Must not know how expressions are computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from autotune.errors import NoParallel, OutsideParallel, ParallelMisplaced, UnsupportedSyntax, WrongArguments
from autotune.language.arithmetic import as_array, binary, common_dtype, typed
from autotune.language.builtins import INTRINSICS, Form, Intrinsic
from autotune.language.calls import arguments, bad_call
from autotune.language.context import Context
from autotune.language.control import Control
from autotune.language.expressions import BINARY, Expressions, Names
from autotune.language.indexing import spot, store
from autotune.language.inlining import bound_arguments
from autotune.language.kernel import Function
from autotune.language.loops import LoopAxis, parallel_axes, range_axis, tile_axis
from autotune.language.merges import Rule, State, online_softmax
from autotune.language.operands import Array, Group, Literal, Numeric, Operand, Outside, TensorName, kind_name
from autotune.language.source import Source, read_source

FORMS: Mapping[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try", "a kernel has no exceptions; write at.where for special cases"),
    ast.Raise: ("raise", "a kernel has no exceptions"),
    ast.Assert: ("assert", "shapes are checked by the dimension names of the parameters"),
    ast.Import: ("an import", "import at the top of the file"),
    ast.ImportFrom: ("an import", "import at the top of the file"),
    ast.FunctionDef: ("a nested function", "write it at the top of the file under @at.function"),
    ast.ClassDef: ("a class", "write values only"),
    ast.Delete: ("del", "leave the name unused"),
    ast.Global: ("global", "pass it as a parameter"),
    ast.Nonlocal: ("nonlocal", "pass it as a parameter"),
    ast.Break: ("break", "write at.where, or a loop bound"),
    ast.Continue: ("continue", "write at.where"),
    ast.Match: ("match", "write at.where(condition, x, y)"),
    ast.Return: ("return", "a kernel stores its results: y[...] = value"),
}
MAX_INLINE_DEPTH = 32


class Statements:
    """Traces statements in order; one instance a kernel."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.expressions = Expressions(context, self.inline)
        self.control = Control(context, self.expressions, self.block)
        self.parallel: tuple[int, ...] | None = None
        self.inside_parallel = False
        self.around: list[str] = []
        self.inline_depth = 0

    @property
    def names(self) -> Names:
        return self.expressions.names

    def kernel(self, body: Sequence[ast.stmt], name: str) -> tuple[int, ...]:
        """Trace a kernel's body; the parallel axes.

        Raises: NoParallel, OutsideParallel and what the statements raise.
        """
        for statement in body:
            if self.parallel is not None:
                with self.context.at(statement):
                    raise OutsideParallel(self.context.place, what="a statement")
            self.statement(statement)
        if self.parallel is None:
            raise NoParallel(self.context.place, name=name)
        return self.parallel

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        with self.context.at(node):
            match node:
                case ast.Assign():
                    self.assign(node)
                case ast.AnnAssign(value=ast.expr() as value, target=target):
                    self.bind(target, self.expressions.evaluate(value))
                case ast.AugAssign():
                    self.augment(node)
                case ast.For():
                    self.loop(node)
                case ast.With():
                    self.mode(node)
                case ast.Expr():
                    self.bare(node.value)
                case ast.Pass():
                    pass
                case ast.If():
                    with self.inside("a branch"):
                        self.control.branch(node)
                case ast.While():
                    with self.inside("another loop"):
                        self.control.repeat(node)
                case ast.Return() if self.inline_depth:
                    instead = "assign the result to a name in each arm, and return it at the end"
                    raise UnsupportedSyntax(
                        self.context.place, feature="a return before a helper's end", instead=instead
                    )
                case _:
                    default = (f"the Python form {type(node).__name__}", "see the language's page")
                    name, instead = FORMS.get(type(node), default)
                    raise UnsupportedSyntax(self.context.place, feature=name, instead=instead)

    # Assignments and stores

    def assign(self, node: ast.Assign) -> None:
        value = self.expressions.evaluate(node.value)
        for target in node.targets:
            self.bind(target, value)

    def bind(self, target: ast.expr, value: Operand) -> None:
        """Give a value to a name, several names, or a place of a tensor."""
        with self.context.at(target):
            match target:
                case ast.Name(id=name):
                    if isinstance(value, Outside):
                        instead = f"use {value.name} directly"
                        feature = f"a variable that stands for {kind_name(value)}"
                        raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)
                    if isinstance(self.names.get(name), TensorName):
                        instead = f"write {name}[...] = value to store, or use another name"
                        feature = f"an assignment to the tensor {name!r}"
                        raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)
                    self.names[name] = value
                case ast.Tuple(elts=targets) | ast.List(elts=targets):
                    self.unpack(targets, value)
                case ast.Subscript():
                    tensor = self.stored_tensor(target)
                    self.store(tensor, target.slice, self.expressions.numeric(value), None)
                case ast.Attribute():
                    instead = "store into a tensor: y[...] = value"
                    raise UnsupportedSyntax(self.context.place, feature="an attribute write", instead=instead)
                case _:
                    raise self.expressions.unsupported(target)

    def unpack(self, targets: Sequence[ast.expr], value: Operand) -> None:
        if not isinstance(value, Group) or len(value.items) != len(targets):
            found = f"{len(value.items)} items" if isinstance(value, Group) else kind_name(value)
            feature = f"unpacking {found} into {len(targets)} names"
            instead = "give one name for each item of a shape or tuple"
            raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)
        for target, item in zip(targets, value.items, strict=True):
            self.bind(target, item)

    def augment(self, node: ast.AugAssign) -> None:
        """`acc += v` means `acc = acc + v`."""
        op = BINARY.get(type(node.op))
        if op is None:
            name, instead = "this augmented assignment", "write x = x ... with + - * / // % & | ^"
            raise UnsupportedSyntax(self.context.place, feature=name, instead=instead)
        before = self.expressions.number(_as_loaded(node.target))
        after = binary(self.context, op, before, self.expressions.number(node.value))
        self.bind(node.target, after)

    def stored_tensor(self, target: ast.Subscript) -> int:
        base = self.expressions.evaluate(target.value)
        if isinstance(base, TensorName):
            return base.parameter
        instead = "compute a new value with at.where, or store into a tensor parameter"
        feature = f"an assignment into {kind_name(base)}"
        raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)

    def store(self, tensor: int, subscript: ast.expr, value: Numeric, mask: Numeric | None) -> None:
        if not self.inside_parallel:
            raise OutsideParallel(self.context.place, what="a store")
        if self.inline_depth:
            instead = "return the value and store it in the kernel"
            raise UnsupportedSyntax(self.context.place, feature="a store inside a helper", instead=instead)
        store(self.context, spot(self.context, tensor, subscript, self.expressions.evaluate), value, mask)

    def bare(self, node: ast.expr) -> None:
        """An expression on its own line: a docstring or at.store."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return
        if isinstance(node, ast.Call):
            function = self.expressions.evaluate(node.func)
            if isinstance(function, Outside) and function.thing is INTRINSICS["store"]:
                with self.context.at(node):
                    self.store_call(INTRINSICS["store"], node)
                return
        self.expressions.evaluate(node)
        instead = "assign it to a name, or store it: y[...] = value"
        raise UnsupportedSyntax(self.context.place, feature="a value that nothing uses", instead=instead)

    def store_call(self, intrinsic: Intrinsic, node: ast.Call) -> None:
        positional, named = arguments(self.context, intrinsic, node, 2, {"mask"})
        tensor, subscript = self.expressions.calls.target(intrinsic, positional[0])
        value = self.expressions.number(positional[1])
        mask = self.expressions.number(named["mask"]) if "mask" in named else None
        if mask is not None and common_dtype(self.context, (mask,)).value != "bool_":
            bad_call(self.context, intrinsic, "mask= is no truth value")
        self.store(tensor, subscript, value, mask)

    # Modes

    def mode(self, node: ast.With) -> None:
        for item in node.items:
            call = item.context_expr
            function = self.expressions.evaluate(call.func) if isinstance(call, ast.Call) else None
            strict = isinstance(function, Outside) and function.thing is INTRINSICS["strict"]
            if not strict or item.optional_vars is not None:
                instead = "the only one is with at.strict():"
                raise UnsupportedSyntax(self.context.place, feature="this with statement", instead=instead)
            assert isinstance(call, ast.Call)
            arguments(self.context, INTRINSICS["strict"], call, 0)
        before, self.context.draft.strict = self.context.draft.strict, True
        self.block(node.body)
        self.context.draft.strict = before

    # Loops

    @contextmanager
    def inside(self, what: str) -> Iterator[None]:
        self.around.append(what)
        yield
        self.around.pop()

    def loop(self, node: ast.For) -> None:
        if node.orelse:
            raise UnsupportedSyntax(self.context.place, feature="for ... else", instead="write it after the loop")
        intrinsic = self.loop_intrinsic(node.iter)
        assert isinstance(node.iter, ast.Call)
        with self.context.at(node.iter):
            if intrinsic.name == "parallel":
                self.check_parallel()
                entries = parallel_axes(self.context, intrinsic, node.iter, self.expressions.evaluate)
            elif intrinsic.name == "tile":
                entries = [tile_axis(self.context, intrinsic, node.iter, self.expressions.evaluate)]
            else:
                entries = [range_axis(self.context, intrinsic, node.iter, self.expressions.evaluate)]
        names = self.loop_names(node.target, intrinsic, len(entries))
        axes = [self.open_axis(entry, name) for entry, name in zip(entries, names, strict=True)]
        if intrinsic.name == "parallel":
            self.parallel, self.inside_parallel = tuple(axes), True
            self.block(node.body)
            self.inside_parallel = False
        else:
            rule = None if entries[0].merge is None else self.rule(entries[0].merge)
            with self.inside("another loop"):
                self.control.loop(node, axes[0], names, rule)

    def loop_intrinsic(self, node: ast.expr) -> Intrinsic:
        if isinstance(node, ast.Call):
            function = self.expressions.evaluate(node.func)
            match function:
                case Outside(thing=Intrinsic(form=Form.LOOP) as intrinsic):
                    return intrinsic
                case Outside(thing=thing) if thing is range:
                    feature, instead = "a loop over Python's range", "write at.range(...)"
                    raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)
                case _:
                    pass
        feature = f"a loop over {ast.unparse(node)}"
        instead = "loop over at.parallel(...), at.tile(extent) or at.range(start, stop, step)"
        raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)

    def check_parallel(self) -> None:
        problem = ""
        if self.parallel is not None:
            problem = "the kernel already has one"
        elif self.around:
            problem = f"it is inside {self.around[-1]}"
        elif self.inline_depth:
            problem = "it is inside a helper"
        elif self.context.draft.strict:
            problem = "it is inside with at.strict(); put the mode inside the loop"
        if problem:
            raise ParallelMisplaced(self.context.place, problem=problem)

    def loop_names(self, target: ast.expr, intrinsic: Intrinsic, count: int) -> list[str]:
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        if len(names) != len(targets) or len(names) != count:
            problem = f"{count} loop variable{'s' if count > 1 else ''} expected, found {ast.unparse(target)}"
            raise WrongArguments(
                self.context.place, name=f"at.{intrinsic.name}", problem=problem, usage=intrinsic.usage
            )
        return names

    def open_axis(self, entry: LoopAxis, name: str) -> int:
        axis = self.context.draft.new_axis(entry.kind, entry.extent, name, entry.start, entry.step)
        self.names[name] = entry.variable(axis)
        return axis

    # Helpers and merge rules

    def inline(self, helper: Function, node: ast.Call) -> Operand:
        """Trace a helper's body where it is called; its value is that of its last return."""
        source = read_source(helper.function)
        names = bound_arguments(self.expressions, helper, source.tree, node)
        return self.inlined(helper, source, names)

    def inlined(self, helper: Function, source: Source, names: Names) -> Operand:
        if self.inline_depth >= MAX_INLINE_DEPTH:
            instead = "a helper cannot call itself"
            raise UnsupportedSyntax(self.context.place, feature=f"the recursion of {helper.name}", instead=instead)
        outer_names, outer_source, outer_node = self.expressions.names, self.context.source, self.context.node
        self.expressions.names, self.context.source, self.context.node = names, source, source.tree
        self.inline_depth += 1
        result = self.helper_body(helper, source.tree)
        self.inline_depth -= 1
        self.expressions.names, self.context.source, self.context.node = outer_names, outer_source, outer_node
        return result

    def helper_body(self, helper: Function, tree: ast.FunctionDef) -> Operand:
        *body, last = tree.body
        if not isinstance(last, ast.Return) or last.value is None:
            with self.context.at(last):
                instead = "end it with one return of a value"
                feature = f"the helper {helper.name} without a return at its end"
                raise UnsupportedSyntax(self.context.place, feature=feature, instead=instead)
        self.block(body)
        return self.expressions.evaluate(last.value)

    def rule(self, operand: Operand) -> Rule:
        """The merge rule that `merge=` names.

        Raises: WrongArguments.
        """
        match operand:
            case Outside(thing=Intrinsic(form=Form.MERGE)):
                return online_softmax
            case Outside(thing=Function() as helper):
                return lambda _context, first, second: self.merged(helper, first, second)
            case _:
                problem = f"merge= is {kind_name(operand)}, which is no merge rule"
                usage = "merge=at.online_softmax, or merge=f with f(a, b) under @at.function"
                raise WrongArguments(self.context.place, name="at.tile", problem=problem, usage=usage)

    def merged(self, helper: Function, first: State, second: State) -> tuple[Array, ...]:
        """A helper inlined over two states, each one value or a tuple of several."""
        source = read_source(helper.function)
        parameters = [a.arg for a in (*source.tree.args.posonlyargs, *source.tree.args.args)]
        if len(parameters) != 2:
            problem = f"the merge rule {helper.name} has {len(parameters)} parameters, 2 expected"
            usage = "def combine(a, b): with the states of two parts of the loop"
            raise WrongArguments(self.context.place, name="at.tile", problem=problem, usage=usage)
        states: list[Operand] = [s[0] if len(s) == 1 else Group(items=tuple(s)) for s in (first, second)]
        result = self.inlined(helper, source, dict(zip(parameters, states, strict=True)))
        items = result.items if isinstance(result, Group) else (result,)
        numbers = [self.expressions.numeric(item) for item in items]
        wanted = [state.dtype for state in first] + [None] * len(numbers)
        return tuple(
            typed(self.context, number, dtype)
            if isinstance(number, Literal) and dtype is not None
            else as_array(self.context, number)
            for number, dtype in zip(numbers, wanted, strict=False)
        )


def _as_loaded(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment as an expression that reads it."""
    match target:
        case ast.Name(id=name):
            loaded: ast.expr = ast.Name(id=name, ctx=ast.Load())
        case ast.Subscript(value=value, slice=index):
            loaded = ast.Subscript(value=value, slice=index, ctx=ast.Load())
        case _:
            loaded = target
    return ast.copy_location(loaded, target)
