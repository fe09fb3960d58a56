"""What a verb is asked about: kernels of a file, each at a shape.
Must not know targets, stores or verbs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.errors import NoShape, NoSuchKernel, SeveralKernels, SeveralShapes
from autotune.cli.shapes import Shape, format_shape, parse_shape

if TYPE_CHECKING:
    from autotune.ir.program import Program
    from autotune.language.kernel import Kernel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """One kernel at one shape; `shape` holds its sizes and whatever scalars were given."""

    path: Path
    kernel: Kernel
    shape: Shape

    @property
    def title(self) -> str:
        """`masked_softmax:M=129,N=512`."""
        return f"{self.kernel.name}:{format_shape(self.shape)}"

    @property
    def sizes(self) -> dict[str, int]:
        """The dimensions alone, in the kernel's order."""
        return {name: int(self.shape[name]) for name in self.kernel.program.dims}

    @property
    def program(self) -> Program:
        """The kernel's program bound to the shape."""
        return self.kernel.bind(**self.shape)


def every_question(path: Path, kernel: str | None, shapes: Sequence[str] | None) -> list[Question]:
    """Each kernel of the file (or the named one) at each given shape, or at each of its workloads.

    Raises: AutotuneError for a bad file, kernel or shape.
    """
    given = [parse_shape(text) for text in shapes or ()]
    return [
        Question(path=path, kernel=found, shape=shape)
        for found in _kernels(path, kernel)
        for shape in _shapes(found, given)
    ]


def one_kernel(path: Path, kernel: str | None) -> Kernel:
    """The only kernel of the file, or the named one.

    Raises: SeveralKernels; AutotuneError for a bad file or name.
    """
    found = _kernels(path, kernel)
    if len(found) > 1:
        names = [each.name for each in found]
        raise SeveralKernels(path=path, count=len(names), kernels=", ".join(names), first=names[0])
    return found[0]


def one_question(path: Path, kernel: str | None, shape: str | None) -> Question:
    """The only kernel of the file (or the named one) at the given shape, or at its only workload.

    Raises: SeveralKernels, SeveralShapes, NoShape; AutotuneError for a bad file, kernel or shape.
    """
    found = one_kernel(path, kernel)
    shapes = _shapes(found, [parse_shape(shape)] if shape is not None else [])
    if len(shapes) > 1:
        texts = [format_shape(each) for each in shapes]
        raise SeveralShapes(kernel=found.name, count=len(texts), shapes="; ".join(texts), first=texts[0])
    return Question(path=path, kernel=found, shape=shapes[0])


def _kernels(path: Path, name: str | None) -> list[Kernel]:
    from autotune.language.load import load_kernels

    found = load_kernels(path)
    if name is None:
        return list(found.values())
    if name not in found:
        raise NoSuchKernel(path=path, name=name, kernels=", ".join(found), first=next(iter(found)))
    return [found[name]]


def _shapes(kernel: Kernel, given: list[Shape]) -> list[Shape]:
    shapes = given or [dict(workload) for workload in kernel.workloads]
    if not shapes:
        sizes = [f"{name}=128" for name in kernel.program.dims]
        raise NoShape(kernel=kernel.name, shape=",".join(sizes), arguments=", ".join(sizes))
    for shape in shapes:
        kernel.bind(**shape)  # says which names are missing or unknown, before anything slow starts
    return shapes
