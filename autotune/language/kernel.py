"""What `@at.kernel` and `@at.function` make of a Python function.
Must not know how a kernel is tuned; tracing and calling are reached when first needed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from autotune.errors import NotAFunction
from autotune.ir.program import Number, Program, Scalar

if TYPE_CHECKING:
    from autotune.language.trace import Traced

Workload: TypeAlias = dict[str, Number]
PythonFunction: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A helper whose body is inlined where a kernel calls it."""

    function: PythonFunction

    @property
    def name(self) -> str:
        return self.function.__name__

    def __call__(self, *_arguments: object, **_named: object) -> Any:
        raise TypeError(f"{self.name} is an @at.function; it is called inside kernels only")


class Kernel:
    """A kernel: its source, its workloads, and what its author attached."""

    def __init__(self, function: PythonFunction, workloads: Sequence[Workload], dynamic: Sequence[str]) -> None:
        if not inspect.isfunction(function):
            raise NotAFunction(found=type(function).__name__)
        self.function = function
        self.workloads: list[Workload] = [dict(w) for w in workloads]
        self.dynamic = tuple(dynamic)
        self.reference_function: PythonFunction | None = None
        self.inputs_function: PythonFunction | None = None
        self.__doc__ = function.__doc__
        self._traced: Traced | None = None
        self._call: Callable[[Kernel, tuple[Any, ...], dict[str, Any]], None] | None = None

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def file(self) -> str:
        return inspect.getsourcefile(self.function) or "<unknown>"

    @property
    def program(self) -> Program:
        """The traced program, its dimensions still symbols; traced once.

        Raises: SourceError for any mistake in the kernel's source.
        """
        return self.traced.program

    @property
    def traced(self) -> Traced:
        """The program with what binding must check (`autotune.language.trace.Traced`)."""
        if self._traced is None:
            from autotune.language.trace import trace_kernel  # the front end is loaded when a kernel is first traced

            self._traced = trace_kernel(self)
        return self._traced

    @property
    def scalar_defaults(self) -> dict[str, Number | None]:
        """Scalar parameters in order, with their defaults; None where there is none."""
        return {p.name: p.default for p in self.program.parameters if isinstance(p, Scalar)}

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the tensors that the kernel stores to."""
        return tuple(self.program.tensor(k).name for k in self.program.stored_tensors())

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the arguments that the kernel reads, in order: tensors it loads, and every scalar."""
        loaded = self.program.loaded_tensors()
        parameters = enumerate(self.program.parameters)
        return tuple(p.name for k, p in parameters if isinstance(p, Scalar) or k in loaded)

    def bind(self, **dims: Number) -> Program:
        """The program at one shape, checked; scalars of a workload may be given too and play no part.

        Raises: NotRealizedYet for what no candidate covers; UnknownDimension, MissingDimension, BadExtent;
        MismatchedExtents, StoreOutOfBounds and the other checks of `autotune.language.checks`.
        """
        from autotune.language.checks import bind_checked, check_realized

        check_realized(self)
        return bind_checked(self, dims)

    def reference(self, function: PythonFunction) -> PythonFunction:
        """Attach an independent NumPy meaning.

        The function receives `input_names` (arrays and scalars) by keyword and returns a dictionary from each
        output's name to its array; it computes in float64.
        """
        self.reference_function = function
        return function

    def inputs(self, function: PythonFunction) -> PythonFunction:
        """Attach a generator `(rng, kind, **dims) -> dict` of the arguments for which default data would not do.

        What the dictionary lacks gets default data.
        """
        self.inputs_function = function
        return function

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Run the best known policy for these shapes, in place on the given arrays."""
        if self._call is None:
            self._call = importlib.import_module("autotune.call").call  # the run time is loaded at the first call
        self._call(self, arguments, named)

    def __repr__(self) -> str:
        return f"<kernel {self.name} of {self.file}>"


@overload
def kernel(function: PythonFunction, /) -> Kernel: ...
@overload
def kernel(
    *, workloads: Sequence[Mapping[str, Number]] = (), dynamic: Sequence[str] = ()
) -> Callable[[PythonFunction], Kernel]: ...
def kernel(
    function: PythonFunction | None = None,
    /,
    *,
    workloads: Sequence[Mapping[str, Number]] = (),
    dynamic: Sequence[str] = (),
) -> Kernel | Callable[[PythonFunction], Kernel]:
    """Make a kernel of a function: `@at.kernel`, or `@at.kernel(workloads=[dict(M=129, N=512)])`.

    Raises: NotAFunction.
    """

    def make(target: PythonFunction) -> Kernel:
        return Kernel(target, [dict(w) for w in workloads], dynamic)

    return make if function is None else make(function)


def function(target: PythonFunction, /) -> Function:
    """Make a helper of a function: its body is inlined where a kernel calls it.

    Raises: NotAFunction.
    """
    if not inspect.isfunction(target):
        raise NotAFunction(found=type(target).__name__)
    return Function(target)
