"""The float64 meaning of a kernel on given arguments.
Must not know how candidates are made or run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autotune.errors import DependsOnBlocks, MissingArgument, TooManyArguments, WrongShape
from autotune.ir.affine import Affine, Atom, Dim
from autotune.ir.interpret import Interpretation
from autotune.ir.interpret import interpret as interpret_program
from autotune.ir.program import Program, Scalar, Tensor
from autotune.ir.verdict import block_dependence
from autotune.language.checks import bind_checked
from autotune.language.kernel import Kernel


def interpret(kernel: Kernel, *arguments: Any, blocks: Mapping[int, int] | None = None, **named: Any) -> Interpretation:
    """What the kernel's outputs must hold after a call, in float64, with the bound of each element.

    Shapes: as in a call of the kernel; arguments by position or by name. They are not written to.
    Units: `blocks` maps tile axes of the program to block sizes in elements; an axis left out is one block. Without
    it, several block sizes are tried.
    Raises: TooManyArguments, MissingArgument, WrongShape, DependsOnBlocks, and what binding and the interpreter raise.
    """
    program = kernel.program
    by_name = by_parameter(program, arguments, named)
    shapes = {p.name: np.shape(by_name[p.name]) for p in program.parameters if isinstance(p, Tensor)}
    bound = bind_checked(kernel, sizes_of(program, shapes))
    if blocks is None:
        refuse_block_dependence(bound, by_name)
    return interpret_program(bound, by_name, blocks=blocks)


def refuse_block_dependence(program: Program, arguments: Mapping[str, Any]) -> None:
    """Run a bound program at block sizes 1, 3 and the full extent, and refuse it where the results differ.

    Raises: DependsOnBlocks.
    """
    for found in block_dependence(program, arguments):
        raise DependsOnBlocks(kernel=program.name, block=found.block, difference=found.difference)


def by_parameter(program: Program, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name, defaults of scalars filled in.

    Raises: TooManyArguments, MissingArgument.
    """
    names = [p.name for p in program.parameters]
    result = dict(zip(names, arguments, strict=False))
    unknown = [n for n in named if n not in names or n in result]
    if len(arguments) > len(names) or unknown:
        facts = {"expected": len(names), "found": len(arguments) + len(named), "parameters": ", ".join(names)}
        extra = f"; unknown or given twice: {', '.join(unknown)}" if unknown else ""
        raise TooManyArguments(kernel=program.name, names=extra, **facts)
    result.update(named)
    for parameter in program.parameters:
        if isinstance(parameter, Scalar) and parameter.default is not None:
            result.setdefault(parameter.name, parameter.default)
        if parameter.name not in result:
            raise MissingArgument(kernel=program.name, name=parameter.name)
    return result


def sizes_of(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Extents of the program's dimensions that the shapes of its tensors imply.

    Raises: WrongShape where a rank differs or two tensors disagree.
    """
    sizes: dict[str, int] = {}
    tensors = [p for p in program.parameters if isinstance(p, Tensor)]
    for tensor in tensors:
        found = shapes[tensor.name]
        if len(found) != len(tensor.shape):
            raise WrongShape(name=tensor.name, found=list(found), expected=f"{len(tensor.shape)} dimensions")
        for extent, size in zip(tensor.shape, found, strict=True):
            for k, name in enumerate(program.dims):
                if extent == Affine(terms=((Dim(index=k), 1),)):
                    sizes.setdefault(name, size)
    values: dict[Atom, int] = {Dim(index=k): sizes[name] for k, name in enumerate(program.dims)}
    for tensor in tensors:
        expected = [extent.evaluate(values) for extent in tensor.shape]
        if expected != list(shapes[tensor.name]):
            raise WrongShape(name=tensor.name, found=list(shapes[tensor.name]), expected=expected)
    return sizes
