"""Arguments of a helper that is inlined: what its parameters stand for.
Must not know how its body is traced."""

from __future__ import annotations

import ast
from typing import NoReturn

from autotune.errors import WrongArguments
from autotune.language.expressions import Expressions, Names
from autotune.language.kernel import Function


def bound_arguments(expressions: Expressions, helper: Function, tree: ast.FunctionDef, node: ast.Call) -> Names:
    """The names that a helper's body sees: its parameters, given or by default.

    Raises: WrongArguments.
    """
    parameters = [a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]
    usage = f"{helper.name}({', '.join(parameters)})"

    def refuse(problem: str) -> NoReturn:
        raise WrongArguments(expressions.context.place, name=helper.name, problem=problem, usage=usage)

    if tree.args.vararg or tree.args.kwarg or any(isinstance(a, ast.Starred) for a in node.args):
        refuse("* and ** are outside the language")
    if len(node.args) > len(parameters):
        refuse(f"{len(node.args)} given, {len(parameters)} expected")
    names: Names = {p: expressions.evaluate(a) for p, a in zip(parameters, node.args, strict=False)}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in parameters or keyword.arg in names:
            refuse(f"no free parameter is named {keyword.arg}")
        names[keyword.arg] = expressions.evaluate(keyword.value)
    for parameter, default in _defaults(helper).items():
        if parameter not in names:
            names[parameter] = expressions.outside(parameter, default)
    missing = [p for p in parameters if p not in names]
    if missing:
        refuse(f"{', '.join(missing)} missing")
    return names


def _defaults(helper: Function) -> dict[str, object]:
    code, defaults = helper.function.__code__, helper.function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    named = helper.function.__kwdefaults__ or {}
    return {**dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True)), **named}
