"""From a kernel to its program: parameters read, body traced, result settled and checked.
Must not know targets or sizes."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass

from autotune.errors import BadAnnotation, DimensionOnlyInExpression, Place, StoresNothing
from autotune.ir.affine import Affine, as_affine, dim
from autotune.ir.program import Number, Parameter, Program, Scalar, ScalarArgument, Tensor
from autotune.ir.types import DType
from autotune.language.annotations import ElementType, TensorType, dimension_names, parse_dimension
from autotune.language.context import Context
from autotune.language.drafted import Requirement
from autotune.language.finish import finish
from autotune.language.kernel import Kernel
from autotune.language.operands import TensorName
from autotune.language.places import Places
from autotune.language.source import Source, read_source
from autotune.language.statements import Statements
from autotune.language.structure import check_structure


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A traced kernel: its program, what only sizes can decide, and where its lines are."""

    program: Program
    requirements: tuple[Requirement, ...]
    places: Places


def trace(kernel: Kernel) -> Program:
    """The program of a kernel, its dimensions still symbols.

    Raises: SourceError, one subclass for each mistake.
    """
    return kernel.program


def trace_kernel(kernel: Kernel) -> Traced:
    """Trace a kernel anew.

    Raises: SourceError, one subclass for each mistake.
    """
    source = read_source(kernel.function)
    parameters, dims = read_parameters(kernel, source)
    context = Context(source, parameters, dims)
    statements = Statements(context)
    context.draft.line = source.first_line
    for number, parameter in enumerate(parameters):
        if isinstance(parameter, Tensor):
            statements.names[parameter.name] = TensorName(parameter=number)
        else:
            value = ScalarArgument(parameter=number)
            statements.names[parameter.name] = context.draft.emit(value, parameter.dtype, ())
    parallel = statements.kernel(source.tree.body, kernel.name)
    program = finish(context.draft, name=kernel.name, dims=dims, parameters=parameters, parallel=parallel)
    if not program.stored_tensors():
        raise StoresNothing(source.place(source.tree), name=kernel.name)
    places = Places(source=source)
    check_structure(program, places)
    return Traced(program=program, requirements=tuple(context.draft.requirements), places=places)


def read_parameters(kernel: Kernel, source: Source) -> tuple[tuple[Parameter, ...], tuple[str, ...]]:
    """Parameters of a kernel and its dimensions in order of first appearance.

    Raises: BadAnnotation, DimensionOnlyInExpression.
    """
    nodes = {a.arg: a for a in (*source.tree.args.posonlyargs, *source.tree.args.args, *source.tree.args.kwonlyargs)}
    try:
        signature = inspect.signature(kernel.function, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        problem = f"its annotations cannot be read ({error})"
        raise BadAnnotation(source.place(source.tree), name=kernel.name, problem=problem) from None
    dims: dict[str, int] = {}
    alone: set[str] = set()
    parameters: list[Parameter] = []
    for name, parameter in signature.parameters.items():
        node: ast.AST = nodes.get(name, source.tree)
        parameters.append(_parameter(source, node, parameter, dims, alone))
    for name in dims:
        if name not in alone:
            raise DimensionOnlyInExpression(source.place(source.tree), dim=name)
        if name in signature.parameters:
            problem = "a dimension has the same name"
            raise BadAnnotation(source.place(nodes.get(name, source.tree)), name=name, problem=problem)
    return tuple(parameters), tuple(dims)


def _parameter(
    source: Source, node: ast.AST, parameter: inspect.Parameter, dims: dict[str, int], alone: set[str]
) -> Parameter:
    name, annotation, default = parameter.name, parameter.annotation, parameter.default
    place = source.place(node)
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise BadAnnotation(place, name=name, problem="* and ** are outside the language")
    match annotation:
        case TensorType(dtype=dtype, dims=names):
            if default is not inspect.Parameter.empty:
                raise BadAnnotation(place, name=name, problem="a tensor has no default")
            try:
                shape = tuple(_extent(d, dims, alone) for d in names)
            except ValueError as error:
                raise BadAnnotation(place, name=name, problem=str(error)) from None
            return Tensor(name=name, dtype=dtype, shape=shape)
        case ElementType(dtype=dtype):
            return Scalar(name=name, dtype=dtype, default=_default(place, name, dtype, default))
        case _:
            problem = "it is missing" if annotation is inspect.Parameter.empty else f"{annotation!r} is no element type"
            raise BadAnnotation(place, name=name, problem=problem)


def _default(place: Place, name: str, dtype: DType, default: object) -> Number | None:
    if default is inspect.Parameter.empty:
        return None
    allowed = (bool,) if dtype is DType.BOOL else (int, float) if dtype.is_float else (int,)
    if type(default) not in allowed:
        raise BadAnnotation(place, name=name, problem=f"its default {default!r} is no {dtype.value}")
    assert isinstance(default, bool | int | float)
    return float(default) if dtype.is_float else default


def _extent(dimension: str | int, dims: dict[str, int], alone: set[str]) -> Affine:
    if not isinstance(dimension, str | int):
        raise ValueError(f"{dimension!r} is no dimension")
    if isinstance(dimension, int):
        if dimension < 0:
            raise ValueError(f"{dimension} is no extent")
        return as_affine(dimension)
    for name in dimension_names(dimension):
        dims.setdefault(name, len(dims))
    tree = parse_dimension(dimension)
    if isinstance(tree, ast.Name):
        alone.add(tree.id)
    return _dimension_affine(tree, dims)


def _dimension_affine(node: ast.expr, dims: dict[str, int]) -> Affine:
    match node:
        case ast.Name(id=name):
            return dim(dims[name])
        case ast.Constant(value=int() as value):
            return as_affine(value)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _dimension_affine(left, dims), _dimension_affine(right, dims)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case _:
                    return a // b
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is no dimension")
