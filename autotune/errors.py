"""What a user can do wrong, one class a mistake: a fixed sentence, where it happened and what to write instead.
Must not know how kernels are traced, tuned or run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A position in a kernel file: 1-based line and column, and the text of that line."""

    file: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class AutotuneError(Exception):
    """A mistake in what the tool was given; `sentence` and `remedy` are filled with the facts given by keyword."""

    sentence: ClassVar[str] = "{what}"
    remedy: ClassVar[str] = ""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        self.message = self.sentence.format(**facts)
        self.advice = self.remedy.format(**facts)
        super().__init__(self._render())

    def _render(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class SourceError(AutotuneError):
    """A mistake in a kernel's source, shown with its place and the quoted line."""

    def __init__(self, place: Place, **facts: object) -> None:
        self.place = place
        super().__init__(**facts)

    def _render(self) -> str:
        pointer = " " * (self.place.column - 1) + "^"
        quoted = f"    {self.place.text}\n    {pointer}" if self.place.text else ""
        parts = (f"{self.place}: {self.message}", quoted, f"  {self.advice}" if self.advice else "")
        return "\n".join(part for part in parts if part)


# Names, calls and syntax


class UnknownName(SourceError):
    sentence = "unknown name {name!r}"
    remedy = "expected a parameter, a variable assigned above, or a number of this file{hint}"


class UnknownFunction(SourceError):
    sentence = "the kernel language has no function {name}"
    remedy = "expected at.<function> or a helper under @at.function{hint}"


class WrongArguments(SourceError):
    sentence = "wrong arguments to {name}: {problem}"
    remedy = "write {usage}"


class UnsupportedSyntax(SourceError):
    sentence = "{feature} is outside the kernel language"
    remedy = "{instead}"


class NotRealizedYet(SourceError):
    sentence = "{feature} is not realized yet"
    remedy = "{instead}"


class UsedOutsideLoop(SourceError):
    sentence = "{name!r} is assigned only inside the loop of line {line} and used after it"
    remedy = "assign {name!r} before the loop too, so that the loop carries it"


class UsedOutsideBranch(SourceError):
    sentence = "{name!r} is assigned in only one arm of the if of line {line} and used after it"
    remedy = "assign {name!r} in both arms, or before the if"


class TileOutsideLoop(SourceError):
    sentence = "the tile or index {name!r} is used outside its loop"
    remedy = "use it inside the loop that ends on line {line}, or loop again"


# Parameters


class BadAnnotation(SourceError):
    sentence = "parameter {name!r} has no usable annotation: {problem}"
    remedy = 'write {name}: at.f32["M", "N"] for a tensor or {name}: at.f32 for a scalar'


class DimensionOnlyInExpression(SourceError):
    sentence = "dimension {dim!r} appears only inside an expression"
    remedy = "give some tensor a dimension that is {dim!r} alone, so that its extent is known"


# Shapes


class MismatchedExtents(SourceError):
    sentence = "mismatched extents: {left} does not fit {right} at position {position}"
    remedy = "expected equal extents, or 1 on one side; write [:, None] or [None, :] to place an axis elsewhere"


class TileMismatch(SourceError):
    sentence = "mismatched axes: {left} does not fit {right} at position {position}"
    remedy = "a tile lines up only with itself; index both values with the same tile"


class ReshapeMisfit(SourceError):
    sentence = "a reshape of {before} elements into {after}"
    remedy = "expected as many elements after as before; one extent may be -1"


class TileReshaped(SourceError):
    sentence = "a reshape of a value with the positions {shape} splits, joins or moves a tile"
    remedy = "keep each tile a position of its own, in the same order; .T turns positions around"


class ReshapeOfState(SourceError):
    sentence = "a reshape of what a loop or branch hands on"
    remedy = "reshape what it is computed from, or give the variable the wanted positions from the start"


class TooManyPositions(SourceError):
    sentence = "the value has {found} positions where the target {target} has {expected}"
    remedy = "reduce the value, or store it where it fits"


class TooManyIndices(SourceError):
    sentence = "{target} has {expected} dimensions and is indexed with {found}"
    remedy = "write one index, slice or tile for each dimension"


class BadIndex(SourceError):
    sentence = "{found} cannot index {target}"
    remedy = "expected {expected}"


class WholeTensorUsed(SourceError):
    sentence = "tensor {name!r} is used as a value without an index"
    remedy = "write {name}[{colons}] for all of it"


class BadAxis(SourceError):
    sentence = "{function} reduces over axis {axis}, which the value lacks; {reason}"
    remedy = "{instead}"


class ProgramTileReduction(SourceError):
    sentence = "{function} reduces over the parallel tile {name!r}; the result would depend on its block size"
    remedy = "loop over the extent inside the program: for j in at.tile({extent})"


class BlockDependent(SourceError):
    sentence = "the result would depend on the block size of tile {name!r}: {problem}"
    remedy = "{instead}"


# Numbers


class WrongType(SourceError):
    sentence = "{operation} does not take {found}"
    remedy = "{instead}"


class LiteralDoesNotFit(SourceError):
    sentence = "{value} is no value of type {dtype}"
    remedy = "write a number that {dtype} holds, or at.cast the other operand"


class DivisionByZero(SourceError):
    sentence = "division by the constant zero"
    remedy = "write another divisor"


class DivisorMayBeZero(SourceError):
    sentence = "the integer divisor of {operation} may be zero"
    remedy = "guard it: at.where(d != 0, d, 1), at.maximum(d, 1), or if d != 0: around the division"


# Loops and stores


class NoParallel(SourceError):
    sentence = "kernel {name!r} has no at.parallel"
    remedy = "put the work into one loop: for row in at.parallel(x.shape[0]):"


class StoresNothing(SourceError):
    sentence = "kernel {name!r} stores nothing"
    remedy = "store its results: y[row, :] = value"


class ParallelMisplaced(SourceError):
    sentence = "at.parallel stands where it may not: {problem}"
    remedy = "a kernel has one at.parallel loop, at its top level, with all work inside"


class OutsideParallel(SourceError):
    sentence = "{what} outside the at.parallel loop"
    remedy = "move it inside: only shapes and scalars may be prepared before, and nothing may follow"


class CarriedShapeChanges(SourceError):
    sentence = "the carried variable {name!r} changes shape: {before} before the loop, {after} after a trip"
    remedy = "give it the same axes before the loop and at the end of each trip, or use another name for a temporary"


class CarriedTypeChanges(SourceError):
    sentence = "the carried variable {name!r} changes type: {before} before the loop, {after} after a trip"
    remedy = "start it with dtype=at.{after}, or write at.cast(..., at.{before})"


class BranchShapeDiffers(SourceError):
    sentence = "the variable {name!r} has the shape {then} after one arm of an if and {otherwise} after the other"
    remedy = "give it the same axes in both arms: at.full(shape, value) makes a number fill them"


class BranchTypeDiffers(SourceError):
    sentence = "the variable {name!r} has type {then} after one arm of an if and {otherwise} after the other"
    remedy = "write at.cast(..., at.{then}) in the other arm"


class MergeMisfit(SourceError):
    sentence = "the merge rule does not fit what the loop carries: {problem}"
    remedy = "a rule takes two states and returns one: a value, or a tuple in the order of first assignment"


class StoreRace(SourceError):
    sentence = "two programs may store to one place of {tensor!r}: {problem}"
    remedy = "{instead}"


class LoadedWhereNotStored(SourceError):
    sentence = "{tensor!r} is stored to and also loaded at a place that its own program does not store"
    remedy = "load it only at the places the kernel stores ({stored}), or write to another tensor"


class StoreOutOfBounds(SourceError):
    sentence = "the store may leave {tensor!r}: index {index} runs over {low}..{high}, the extent is {extent}"
    remedy = "keep the index inside, or write at.store({tensor}[...], value, mask=...)"


class SliceOutOfBounds(SourceError):
    sentence = "the slice of {tensor!r} runs over {low}..{high}, the extent is {extent}"
    remedy = "a slice stays inside its dimension; write the dimension's own extent as its bound"


class EmptyArgmax(SourceError):
    sentence = "argmax over nothing: the reduced extent is 0"
    remedy = "argmax needs at least one element"


# Kernels, files and shapes


class NotAFunction(AutotuneError):
    sentence = "@at.kernel and @at.function take a plain Python function, found {found}"
    remedy = "write @at.kernel above def name(...):"


class SourceUnavailable(AutotuneError):
    sentence = "the source of {name!r} cannot be read"
    remedy = "kernels are read from their file; define {name!r} in a .py file instead of a prompt"


class KernelFileMissing(AutotuneError):
    sentence = "no kernel file {path}"
    remedy = "give the path of a Python file that has an @at.kernel function"


class KernelFileBroken(AutotuneError):
    sentence = "the kernel file {path} cannot be loaded: {problem}"
    remedy = "it must import as a plain Python file: python {path}"


class NoKernelInFile(AutotuneError):
    sentence = "no kernel in {path}"
    remedy = "put @at.kernel above a function"


class UnknownDimension(AutotuneError):
    sentence = "kernel {kernel!r} has no dimension {dim!r}"
    remedy = "its dimensions are {dims}"


class MissingDimension(AutotuneError):
    sentence = "kernel {kernel!r} needs an extent for {missing}"
    remedy = "give every one of {dims}, e.g. {example}"


class BadExtent(AutotuneError):
    sentence = "{dim} = {value!r} is no extent"
    remedy = "an extent is an integer of at least 0"


class WrongShape(AutotuneError):
    sentence = "{name!r} has shape {found}, expected {expected}"
    remedy = "one dimension name means one extent in all arguments"


class DependsOnBlocks(AutotuneError):
    sentence = "the result of kernel {kernel!r} depends on block sizes: at block size {block}, {difference}"
    remedy = "a tile is an arbitrary part of its extent: reduce over at.tile loops by acc += at.sum(...), or use [:]"


class MissingArgument(AutotuneError):
    sentence = "kernel {kernel!r} needs a value for {name!r}"
    remedy = "pass it: {kernel}(..., {name}=...)"


class TooManyArguments(AutotuneError):
    sentence = "kernel {kernel!r} takes {expected} arguments, {found} were given{names}"
    remedy = "pass its parameters in order: {parameters}"
