"""Tensor accesses made ready: their element numbers as index expressions, and what is proven about them.
Must not know builders or points."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from autotune.ir.affine import Affine, Coord
from autotune.ir.dependence import coordinates
from autotune.ir.program import Index, Tensor
from autotune.realizations.ranges import Ranges


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A tensor access made ready: its element number as one expression, and that expression taken apart.

    `axes` are those along which the element number varies. `simple` says that only coordinates occur; `coefficients`
    are theirs. `unproven` are the index entries (position, entry) that may leave the tensor.
    """

    tensor: Tensor
    flat: Affine
    axes: tuple[int, ...]
    simple: bool
    coefficients: tuple[tuple[int, int], ...]
    unproven: tuple[tuple[int, Index], ...]
    indirect: bool

    @property
    def tensor_bytes(self) -> int:
        return prod(extent.constant for extent in self.tensor.shape) * self.tensor.dtype.size_bytes


def prepare(tensor: Tensor, index: tuple[Index, ...], ranges: Ranges) -> Access:
    """Take an access apart."""
    affine = tuple(i for i in index if isinstance(i, Affine))
    indirect = len(affine) < len(index)
    flat = Affine() if indirect else flatten(tensor, affine)
    return Access(
        tensor=tensor,
        flat=flat,
        axes=tuple(sorted(coordinates((flat,)))),
        simple=all(isinstance(a, Coord) for a, _ in flat.terms),
        coefficients=tuple((a.axis, c) for a, c in flat.terms if isinstance(a, Coord)),
        unproven=tuple(
            (position, entry)
            for position, entry in enumerate(index)
            if not _proven(entry, tensor.shape[position].constant, ranges)
        ),
        indirect=indirect,
    )


def _proven(entry: Index, size: int, ranges: Ranges) -> bool:
    if isinstance(entry, Affine):
        return ranges.inside(entry, size)
    low, high = ranges.interval(entry.value)
    return low >= 0 and high < size


def strides_of(tensor: Tensor) -> tuple[int, ...]:
    """Strides in elements; row-major ones where the tensor names none."""
    if tensor.strides is not None:
        return tensor.strides
    strides: list[int] = []
    pitch = 1
    for extent in reversed(tensor.shape):
        strides.append(pitch)
        pitch *= extent.constant
    return tuple(reversed(strides))


def flatten(tensor: Tensor, index: tuple[Affine, ...]) -> Affine:
    """The element number of an access as one index expression."""
    flat = Affine()
    for entry, stride in zip(index, strides_of(tensor), strict=True):
        flat = flat + entry.scaled(stride)
    return flat


def contiguous_axis(flat: Affine, except_axis: int | None = None) -> int | None:
    """The axis along which an access moves by one element a step."""
    for axis in sorted(flat.axes()):
        if axis != except_axis and flat.coefficient(axis) == 1:
            return axis
    return None


def may_meet(left: tuple[Affine, ...], right: tuple[Affine, ...], ranges: Ranges) -> bool:
    """Whether two accesses of one tensor may reach one element: not where their ranges or residues differ."""
    return not any(_apart(a, b, ranges) for a, b in zip(left, right, strict=True))


def _apart(left: Affine, right: Affine, ranges: Ranges) -> bool:
    first, second = ranges.affine(left), ranges.affine(right)
    if first is not None and second is not None and (first[1] < second[0] or second[1] < first[0]):
        return True
    step = _common_step(left, right)
    return step > 1 and (left.constant - right.constant) % step != 0


def _common_step(left: Affine, right: Affine) -> int:
    """The greatest number that divides every coefficient of both expressions."""
    step = 0
    for _, coefficient in (*left.terms, *right.terms):
        step = gcd(step, coefficient)
    return step
