"""Every mistake a kernel can contain is refused with its own class, its own sentence and its place."""
# ruff: noqa: B007, F821, F841, RUF059, SIM105, SIM108

import inspect
import re

import numpy as np
import pytest

import autotune as at
from autotune import errors
from autotune.errors import (
    BadAnnotation,
    BadAxis,
    BadExtent,
    BadIndex,
    BlockDependent,
    BranchShapeDiffers,
    BranchTypeDiffers,
    CarriedShapeChanges,
    CarriedTypeChanges,
    DimensionOnlyInExpression,
    DivisionByZero,
    DivisorMayBeZero,
    EmptyArgmax,
    LiteralDoesNotFit,
    MergeMisfit,
    MismatchedExtents,
    MissingArgument,
    MissingDimension,
    NoParallel,
    NotAFunction,
    NotRealizedYet,
    OutsideParallel,
    ParallelMisplaced,
    ReshapeMisfit,
    ReshapeOfState,
    SourceError,
    SourceUnavailable,
    StoreOutOfBounds,
    StoresNothing,
    TileMismatch,
    TileOutsideLoop,
    TileReshaped,
    TooManyArguments,
    TooManyIndices,
    TooManyPositions,
    UnknownDimension,
    UnknownFunction,
    UnknownName,
    UnsupportedSyntax,
    UsedOutsideBranch,
    UsedOutsideLoop,
    WholeTensorUsed,
    WrongArguments,
    WrongShape,
    WrongType,
)
from autotune.ir.parse import parse
from autotune.ir.program import bind
from autotune.ir.text import print_program
from autotune.ir.verify import verify
from autotune.language.load import load_kernels

NOT_A_NUMBER = [1, 2, 3]
CASES = []


def refused(kind, text):
    """Register a kernel that tracing must refuse with `kind`, its message containing `text`."""

    def register(kernel):
        CASES.append(pytest.param(kernel, kind, text, id=kernel.name))
        return kernel

    return register


def a_plain_function(v):
    return v


@at.function
def helper(v, w):
    return v + w


@at.function
def endless(v):
    return endless(v)


@at.function
def without_return(v):
    w = v


@at.function
def early(v):
    """A helper that returns from an arm."""
    if v > 0:
        return v
    return -v


@at.function
def storing(t, v):
    t[0] = v
    return v


# Names and calls


@refused(UnknownName, "unknown name 'vv'.*did you mean v")
@at.kernel
def unknown_name(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i]
        y[i] = vv


@refused(UnknownFunction, "no function at.softmax")
@at.kernel
def unknown_function(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.softmax(x[i])


@refused(UnknownFunction, r"no function np.exp\b.*write at.exp")
@at.kernel
def numpy_function(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = np.exp(x[i])


@refused(UnknownFunction, r"no function at.mean.*write at.sum\(x\) / N")
@at.kernel
def mean(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.mean(x[i, :])


@refused(UnknownFunction, "no function a_plain_function")
@at.kernel
def plain_function(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = a_plain_function(x[i])


@refused(UnknownFunction, r"no function max.*write at.maximum\(x, y\)")
@at.kernel
def python_function(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = max(x[i], 0)


@refused(WrongArguments, r"wrong arguments to at.where: 2 positional, expected 3.*at.where\(condition, x, y\)")
@at.kernel
def too_few_arguments(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.where(x[i] > 0, x[i])


@refused(WrongArguments, "no argument is named keepdims; named ones are axis, init, ordered")
@at.kernel
def unknown_keyword(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.sum(x[i, :], keepdims=True)


@refused(WrongArguments, "wrong arguments to helper: w missing")
@at.kernel
def helper_arguments(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = helper(x[i])


@refused(WrongArguments, "2 loop variables expected, found i")
@at.kernel
def loop_variables(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0], x.shape[1]):
        y[i, 0] = x[i, 0]


@refused(WrongArguments, "the step is no integer other than 0")
@at.kernel
def zero_step(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        for k in at.range(0, 3, 0):
            y[i] = x[k]


@refused(WrongArguments, "takes one axis|no axis= is given")
@at.kernel
def argmax_of_all(x: at.f32["N", "K"], y: at.i64["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.argmax(x[:, :])


# Python outside the language


@refused(UnsupportedSyntax, "a comprehension is outside the kernel language")
@at.kernel
def comprehension(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.sum([x[k] for k in (1, 2)])


@refused(UnsupportedSyntax, "try is outside the kernel language")
@at.kernel
def trying(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        try:
            y[i] = x[i]
        except ValueError:
            pass


@refused(UnsupportedSyntax, "an attribute write is outside the kernel language")
@at.kernel
def attribute_write(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        x.shape = 3


@refused(UnsupportedSyntax, "a lambda is outside")
@at.kernel
def lambdas(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        f = lambda v: v  # noqa: E731


@refused(UnsupportedSyntax, r"\*\* is outside.*write x \* x")
@at.kernel
def power(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] ** 2


@refused(UnsupportedSyntax, "and/or is outside.*write & and |")
@at.kernel
def logic(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.where(x[i] > 0 and x[i] < 1, x[i], 0)


@refused(UnsupportedSyntax, r"a conditional expression is outside.*at.where\(condition, x, y\)")
@at.kernel
def conditional(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] if x[i] > 0 else 0


@refused(UnsupportedSyntax, "a loop over Python's range is outside.*at.range")
@at.kernel
def python_range(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        for k in range(3):
            y[i] = x[k]


@refused(UnsupportedSyntax, "a loop over x.shape is outside")
@at.kernel
def odd_loop(x: at.f32["N"], y: at.f32["N"]):
    for i in x.shape:
        y[i] = x[i]


@refused(UnsupportedSyntax, "return is outside.*stores its results")
@at.kernel
def returning(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        return x[i]


@refused(UnsupportedSyntax, "a string is outside")
@at.kernel
def strings(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = "one"


@refused(UnsupportedSyntax, "a value that nothing uses is outside")
@at.kernel
def idle(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        at.exp(x[i])


@refused(UnsupportedSyntax, "an assignment to the tensor 'y' is outside")
@at.kernel
def overwrites_name(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y = x[i]


@refused(UnsupportedSyntax, "an assignment into a value of type f32")
@at.kernel
def writes_into_value(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        v[0] = 1.0


@refused(UnsupportedSyntax, "unpacking 1 items into 2 names")
@at.kernel
def unpacking(x: at.f32["N"], y: at.f32["N"]):
    M, N = x.shape


@refused(UnsupportedSyntax, "the attribute .mean of a value of type f32.*written at.mean")
@at.kernel
def methods(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i, :].mean()


@refused(UnsupportedSyntax, "the recursion of endless")
@at.kernel
def recursion(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = endless(x[i])


@refused(UnsupportedSyntax, "the helper without_return without a return at its end")
@at.kernel
def no_return(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = without_return(x[i])


@refused(UnsupportedSyntax, "a return before a helper's end is outside.*return it at the end")
@at.kernel
def early_return(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = early(x[i])


@refused(UnsupportedSyntax, "a store inside a helper")
@at.kernel
def stores_in_helper(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = storing(y, x[i])


@refused(UnsupportedSyntax, "a call of the kernel power")
@at.kernel
def calls_kernel(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = power(x[i])


# Scopes and loops


@refused(UsedOutsideLoop, "'last' is assigned only inside the loop of line .* and used after it")
@at.kernel
def only_in_loop(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        for k in at.range(3):
            last = x[i, k]
        y[i] = last


@refused(TileOutsideLoop, "the tile or index 'j' is used outside its loop")
@at.kernel
def tile_outside(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        for j in at.tile(x.shape[1]):
            y[i, j] = x[i, j]
        y[i, j] = 0


@refused(CarriedShapeChanges, r"the carried variable 'v' changes shape: \(\) before the loop, \(tile j,\) after")
@at.kernel
def carried_shape(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        v = 0.0
        for j in at.tile(x.shape[1]):
            v = x[i, j]
        y[i] = v


@refused(CarriedTypeChanges, "the carried variable 'v' changes type: f32 before the loop, f64 after.*dtype=at.f64")
@at.kernel
def carried_type(x: at.f64["M", "N"], y: at.f64["M"]):
    for i in at.parallel(x.shape[0]):
        v = 0.0
        for j in at.tile(x.shape[1]):
            v += at.sum(x[i, j])
        y[i] = v


@refused(NoParallel, "kernel 'no_parallel' has no at.parallel")
@at.kernel
def no_parallel(x: at.f32["N"], y: at.f32["N"]):
    N = x.shape[0]


@refused(ParallelMisplaced, "at.parallel stands where it may not: it is inside another loop")
@at.kernel
def inner_parallel(x: at.f32["N"], y: at.f32["N"]):
    for k in at.range(3):
        for i in at.parallel(x.shape[0]):
            y[i] = x[i]


@refused(ParallelMisplaced, "at.parallel stands where it may not: the kernel already has one")
@at.kernel
def two_parallels(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        for k in at.parallel(x.shape[0]):
            y[i] = x[i]


@refused(OutsideParallel, "a statement outside the at.parallel loop")
@at.kernel
def after_parallel(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i]
    y[0] = 1.0


@refused(OutsideParallel, "a store outside the at.parallel loop")
@at.kernel
def before_parallel(x: at.f32["N"], y: at.f32["N"]):
    y[0] = 1.0
    for i in at.parallel(x.shape[0]):
        y[i] = x[i]


@refused(StoresNothing, "kernel 'stores_nothing' stores nothing")
@at.kernel
def stores_nothing(x: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        v = x[i]


# Shapes, axes and indices


@refused(MismatchedExtents, "mismatched extents: M does not fit N at position 0")
@at.kernel
def mismatched(x: at.f32["M"], z: at.f32["N"], y: at.f32["M"]):
    for _p in at.parallel(1):
        y[:] = x[:] + z[:]


@refused(MismatchedExtents, "mismatched extents: N does not fit N - 1")
@at.kernel
def mismatched_slice(x: at.f32["N"], y: at.f32["N"]):
    for _p in at.parallel(1):
        y[:] = x[:] - x[1:]


@refused(TileMismatch, "mismatched axes: tile i does not fit N at position 0.*a tile lines up only with itself")
@at.kernel
def tile_with_whole(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(at.tile(x.shape[0])):
        y[i] = x[i] + x[:]


@refused(BadAxis, "at.sum reduces over axis 1, which the value lacks")
@at.kernel
def missing_axis(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.sum(x[i, :], axis=1)


@refused(BadAxis, "at.max reduces over axis None, which the value lacks; it is a single number")
@at.kernel
def reduced_number(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.max(x[i])


@refused(BadAxis, "at.sum reduces over axis 0, which the value lacks; it is the same all along N")
@at.kernel
def constant_along_axis(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.sum(at.zeros(x.shape))


@refused(TooManyIndices, "x has 1 dimensions and is indexed with 2")
@at.kernel
def too_many_indices(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i, :]


@refused(TooManyPositions, r"the value has 1 positions where the target y\[...\] has 0")
@at.kernel
def too_many_positions(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i, :]


@refused(TooManyPositions, "the value has 1 positions where the target of init= has 0")
@at.kernel
def wide_init(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.sum(x[i, :], init=x[i, :])


@refused(MismatchedExtents, "mismatched extents: N does not fit 1 at position 0")
@at.kernel
def store_along_one(x: at.f32["M", "N"], y: at.f32["M", 1]):
    for i in at.parallel(x.shape[0]):
        y[i, :] = x[i, :]


@refused(BadIndex, "a value of type f32 cannot index x")
@at.kernel
def float_index(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[x[i]]


@refused(BadIndex, "an index read through another one cannot index x")
@at.kernel
def two_levels(x: at.f32["N"], label: at.i32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[label[label[i]]]


@refused(BadIndex, "cannot index y in a store.*no store goes through an integer tensor")
@at.kernel
def scatter(x: at.f32["N"], label: at.i32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[label[i]] = x[i]


@refused(BadIndex, r"k\*k cannot index x.*an affine index")
@at.kernel
def quadratic(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        for k in at.range(3):
            y[i] = x[k * k]


@refused(BadIndex, "0 cannot index a computed value")
@at.kernel
def indexed_value(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :] + 1
        y[i] = v[0]


@refused(WholeTensorUsed, r"tensor 'x' is used as a value without an index.*write x\[:, :\]")
@at.kernel
def whole_tensor(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        y[i, :] = x * 2


# Numbers


@refused(WrongType, r"// does not take floating-point numbers.*at.floor\(x / y\)")
@at.kernel
def float_floordiv(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] // 2.0


@refused(WrongType, "& does not take floating-point numbers")
@at.kernel
def float_logic(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] & x[i]


@refused(WrongType, r"\+ does not take truth values")
@at.kernel
def truth_sum(b: at.bool_["N"], y: at.bool_["N"]):
    for i in at.parallel(b.shape[0]):
        y[i] = b[i] + b[i]


@refused(WrongType, "at.where does not take a value of type f32 first")
@at.kernel
def float_condition(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.where(x[i], x[i], 0)


@refused(WrongType, "an expression does not take a tuple")
@at.kernel
def tuple_number(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] + x.shape


@refused(WrongType, "an expression does not take 'NOT_A_NUMBER'")
@at.kernel
def global_list(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] + NOT_A_NUMBER


@refused(LiteralDoesNotFit, "0.5 is no value of type i32")
@at.kernel
def literal_in_integer(k: at.i32["N"]):
    for i in at.parallel(k.shape[0]):
        k[i] = 0.5


@refused(LiteralDoesNotFit, "300 is no value of type i8")
@at.kernel
def large_literal(k: at.i8["N"]):
    for i in at.parallel(k.shape[0]):
        k[i] = k[i] + 300


@refused(DivisionByZero, "division by the constant zero")
@at.kernel
def divides_by_zero(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i] / 0


# Parameters


@refused(BadAnnotation, "parameter 'x' has no usable annotation: it is missing")
@at.kernel
def no_annotation(x, y: at.f32["N"]):
    for i in at.parallel(y.shape[0]):
        y[i] = x


@refused(BadAnnotation, "parameter 'x' has no usable annotation: <class 'float'> is no element type")
@at.kernel
def wrong_annotation(x: float, y: at.f32["N"]):
    for i in at.parallel(y.shape[0]):
        y[i] = x


@refused(BadAnnotation, "its annotations cannot be read .name 'somewhere' is not defined")
@at.kernel
def text_annotation(x: "somewhere", y: at.f32["N"]):
    for i in at.parallel(y.shape[0]):
        y[i] = x


@refused(BadAnnotation, "its default 0.5 is no i32")
@at.kernel
def wrong_default(y: at.f32["N"], k: at.i32 = 0.5):
    for i in at.parallel(y.shape[0]):
        y[i] = k


@refused(BadAnnotation, "'N/2' is no dimension")
@at.kernel
def wrong_dimension(x: at.f32["N/2"], y: at.f32["N"]):
    for i in at.parallel(y.shape[0]):
        y[i] = 0


@refused(DimensionOnlyInExpression, "dimension 'D' appears only inside an expression")
@at.kernel
def hidden_dimension(x: at.f32["D//2"], y: at.f32["N"]):
    for i in at.parallel(y.shape[0]):
        y[i] = 0


# Contractions and reshapes


@refused(WrongArguments, r"wrong arguments to at.dot: a single number has no position to contract.*x \* y")
@at.kernel
def dot_of_number(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        y[i, :] = at.dot(x[i, :], 2.0)


@refused(MismatchedExtents, "K does not fit M at position 1")
@at.kernel
def dot_extents(a: at.f32["M", "K"], b: at.f32["M", "N"], c: at.f32["M", "N"]):
    for i, j in at.parallel(at.tile(a.shape[0]), at.tile(b.shape[1])):
        c[i, j] = at.dot(a[i, :], b[:, j])


@refused(MismatchedExtents, "1 does not fit K at position 1")
@at.kernel
def dot_of_one(a: at.f32["M", "K"], b: at.f32["K", "N"], c: at.f32["M", "N"]):
    for i, j in at.parallel(at.tile(a.shape[0]), at.tile(b.shape[1])):
        c[i, j] = at.dot(a[i, 0:1], b[:, j])


@refused(TileMismatch, "tile k does not fit K at position 1")
@at.kernel
def dot_tiles(a: at.f32["M", "K"], b: at.f32["K", "N"], c: at.f32["M", "N"]):
    for i, j in at.parallel(at.tile(a.shape[0]), at.tile(b.shape[1])):
        acc = at.zeros((i, j))
        for k in at.tile(a.shape[1]):
            acc += at.dot(a[i, k], b[:, j])
        c[i, j] = acc


@refused(WrongType, r"at.dot does not take truth values.*at.any\(a & b, axis=...\)")
@at.kernel
def dot_of_truth(a: at.bool_["M", "K"], y: at.f32["M"]):
    for i in at.parallel(a.shape[0]):
        y[i] = at.dot(a[i, :], a[i, :])


@refused(BadAxis, "at.dot reduces over axis 0, which the value lacks; it is the same all along K")
@at.kernel
def dot_of_constants(a: at.f32["M", "K"], y: at.f32["M"]):
    for i in at.parallel(a.shape[0]):
        y[i] = at.dot(at.zeros((a.shape[1],)), at.zeros((a.shape[1],)))


def einsum_refused(subscripts, text, count=2):
    """Register a kernel with one einsum of matrices that tracing must refuse."""
    operands = ", ".join(["a[:, :]"] * count)
    CASES_OF_EINSUM.append(pytest.param(subscripts, operands, text, id=subscripts))


CASES_OF_EINSUM = []
einsum_refused("...ij,jk->ik", "an ellipsis stands for positions that are not named")
einsum_refused("ii,ij->ij", "a letter stands twice in 'ii', which would be a diagonal")
einsum_refused("ij,jk->iik", "a letter stands twice in the result 'iik'")
einsum_refused("ij,jk->iq", "no factor has the letter 'q' of the result")
einsum_refused("ij,jk,kl->il", "names 3 factors, 2 are given")
einsum_refused("ij,j->i", "'j' names 1 positions of a value that has 2")
einsum_refused("i1,1j->ij", "has signs other than letters, commas and one '->'")
einsum_refused("ij,jk->i->k", "has signs other than letters, commas and one '->'")
einsum_refused("ij->ji", "it takes two factors or more", count=1)
EINSUM = """
import autotune as at

@at.kernel
def kernel(a: at.f32["N", "N"], y: at.f32["N", "N"]):
    for _p in at.parallel(1):
        y[:, :] = at.einsum({subscripts!r}, {operands})
"""


@pytest.mark.parametrize(("subscripts", "operands", "text"), CASES_OF_EINSUM)
def test_what_einsum_cannot_do_is_refused(tmp_path, subscripts, operands, text):
    path = tmp_path / "kernel.py"
    path.write_text(EINSUM.format(subscripts=subscripts, operands=operands))
    with pytest.raises(WrongArguments, match=re.escape(text)):
        at.trace(load_kernels(path)["kernel"])


@refused(WrongArguments, "the first argument is no string of subscripts")
@at.kernel
def einsum_without_text(a: at.f32["M", "K"], y: at.f32["M"]):
    for i in at.parallel(a.shape[0]):
        y[i] = at.einsum(a[i, :], a[i, :])


@refused(ReshapeMisfit, "a reshape of 6 elements into 8")
@at.kernel
def reshape_misfit(x: at.f32["M", 6], y: at.f32["M", 8]):
    for i in at.parallel(x.shape[0]):
        y[i, :] = x[i, :].reshape(8)


@refused(ReshapeMisfit, "a reshape of some elements into two extents of -1")
@at.kernel
def reshape_unknown(x: at.f32["M", 6], y: at.f32["M", 2, 3]):
    for i in at.parallel(x.shape[0]):
        y[i, :, :] = x[i, :].reshape(-1, -1)


@refused(TileReshaped, r"positions \(tile i, N\) splits, joins or moves a tile")
@at.kernel
def reshape_tile(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(at.tile(x.shape[0])):
        y[i] = at.max(at.reshape(x[i, :], (-1,)))


@refused(ReshapeOfState, "a reshape of what a loop or branch hands on")
@at.kernel
def reshape_state(x: at.f32["M", 6], y: at.f32["M", 2, 3]):
    for i in at.parallel(x.shape[0]):
        v = x[i, :]
        for k in at.range(3):
            v = v * 2
        y[i, :, :] = v.reshape(2, 3)


@refused(WrongArguments, "wrong arguments to at.reshape: a value of type f32 is no extent and no tile")
@at.kernel
def reshape_by_value(x: at.f32["M", 6], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.max(x[i, :].reshape(x[i, 0]))


# Branches, while loops, merge rules


@refused(UsedOutsideBranch, "'v' is assigned in only one arm of the if of line .* and used after it.*in both arms")
@at.kernel
def one_arm(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        if x[i] > 0:
            v = x[i]
        y[i] = v


@refused(UsedOutsideBranch, "'v' is assigned in only one arm")
@at.kernel
def one_inner_arm(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        if x[i] > 0:
            if x[i] > 1:
                v = x[i]
            else:
                w = x[i]
        else:
            v = 0.0
        y[i] = v


@refused(UsedOutsideLoop, "'v' is assigned only inside the loop of line")
@at.kernel
def only_in_while(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        n = 0
        while n < 3:
            v = x[i]
            n += 1
        y[i] = v


@refused(BranchShapeDiffers, r"'v' has the shape \(\) after one arm of an if and \(N,\) after the other.*at.full")
@at.kernel
def arm_shapes(x: at.f32["M", "N"], y: at.f32["M", "N"]):
    for i in at.parallel(x.shape[0]):
        if x[i, 0] > 0:
            v = 0.0
        else:
            v = x[i, :]
        y[i, :] = v


@refused(BranchTypeDiffers, r"'v' has type f32 after one arm of an if and i64 after the other.*at.cast\(..., at.f32\)")
@at.kernel
def arm_types(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        if x[i] > 0:
            v = x[i]
        else:
            v = i
        y[i] = v


@refused(UnsupportedSyntax, "the name 'v' for a tuple in one arm and a value of type f32 in the other")
@at.kernel
def arm_kinds(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        if x[i] > 0:
            v = x.shape
        else:
            v = x[i]
        y[i] = v


@refused(WrongType, "if does not take a value of type f32.*write a comparison of single numbers")
@at.kernel
def condition_number(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        if x[i]:
            y[i] = 0


@refused(WrongType, r"if does not take a value with the positions \(N,\).*at.any")
@at.kernel
def condition_row(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        if x[i, :] > 0:
            y[i] = 0


@refused(BlockDependent, "tile 'i': a condition depends on where its blocks begin or end")
@at.kernel
def condition_of_block(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(at.tile(x.shape[0])):
        v = x[i]
        if i.start > 3:
            v = v * 2
        y[i] = v


@refused(BlockDependent, "tile 'j': an unfinished reduction over it decides a branch")
@at.kernel
def branch_of_part(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        total = 0.0
        for j in at.tile(x.shape[1]):
            part = at.sum(x[i, j])
            if part > 0:
                total += part
        y[i] = total


@refused(UnsupportedSyntax, "a while loop that no trip can end")
@at.kernel
def forever(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        v = 0.0
        while x[i] > 0:
            v += 1
        y[i] = v


@refused(UnsupportedSyntax, "a while loop that no trip can end")
@at.kernel
def while_true(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        while True:
            y[i] = x[i]


@refused(UnsupportedSyntax, "the tuple 's', assigned before and inside a loop, is outside")
@at.kernel
def carried_tuple(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        s = (x[i], 0.0)
        for k in at.range(3):
            s = (s[1], s[0])
        y[i] = s[0]


@refused(ParallelMisplaced, "at.parallel stands where it may not: it is inside a branch")
@at.kernel
def parallel_in_branch(x: at.f32["N"], y: at.f32["N"], n: at.i32):
    if n > 0:
        for i in at.parallel(x.shape[0]):
            y[i] = x[i]


@at.function
def sums_only(a, b):
    return a[0] + b[0]


@at.function
def wider(a, b):
    return a + at.cast(b, at.f64)


@refused(MergeMisfit, "it returns 1 values, the loop carries low, total")
@at.kernel
def merge_count(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        low, total = at.inf, 0.0
        for j in at.tile(x.shape[1], merge=sums_only):
            total = total + at.sum(x[i, j])
            low = at.minimum(low, at.min(x[i, j]))
        y[i] = total + low


@refused(MergeMisfit, r"'total' is f32\(\) and becomes f64\(\)")
@at.kernel
def merge_type(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        total = 0.0
        for j in at.tile(x.shape[1], merge=wider):
            total = total + at.sum(x[i, j])
        y[i] = total


@refused(WrongArguments, "the merge rule without_return has 1 parameters, 2 expected")
@at.kernel
def merge_parameters(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        total = 0.0
        for j in at.tile(x.shape[1], merge=without_return):
            total = total + at.sum(x[i, j])
        y[i] = total


@refused(WrongArguments, "merge= is 'at.sum', which is no merge rule")
@at.kernel
def merge_by_sum(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        total = 0.0
        for j in at.tile(x.shape[1], merge=at.sum):
            total = total + at.sum(x[i, j])
        y[i] = total


@refused(WrongArguments, "wrong arguments to at.online_softmax: the loop carries 1 variables, 3 expected")
@at.kernel
def merge_roles(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        m = -at.inf
        for j in at.tile(x.shape[1], merge=at.online_softmax):
            m = at.maximum(m, at.max(x[i, j]))
        y[i] = m


@refused(WrongArguments, "wrong arguments to at.online_softmax: max starts at 0.0, not at -inf")
@at.kernel
def merge_start(x: at.f32["M", "N"], y: at.f32["M"]):
    for i in at.parallel(x.shape[0]):
        m, total, acc = 0.0, 0.0, 0.0
        for j in at.tile(x.shape[1], merge=at.online_softmax):
            acc += at.sum(x[i, j] * x[i, j])
            total += at.sum(x[i, j])
            m = at.maximum(m, at.max(x[i, j]))
        y[i] = m + acc + total


@refused(WrongArguments, "merge= belongs to a loop inside a program")
@at.kernel
def merge_of_programs(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(at.tile(x.shape[0], merge=at.online_softmax)):
        y[i] = x[i]


# To come


@refused(NotRealizedYet, "the state of a loop or branch that meets itself along a tile is not realized yet")
@at.kernel
def outer_state(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(at.tile(x.shape[0])):
        v = x[i]
        for k in at.range(3):
            v = v + 1
        y[i] = at.max(v[:, None] * v[None, :], axis=1)


@at.kernel
def half(x: at.f16["N"], y: at.f16["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i]


@at.kernel
def half_inside(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.cast(x[i], at.bf16)


@at.kernel
def bytes_dot(a: at.i8["M", "K"], y: at.i32["M"]):
    for i in at.parallel(a.shape[0]):
        y[i] = at.dot(a[i, :], a[i, :])


@at.kernel(dynamic=["N"])
def dynamic(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i]


def test_what_no_candidate_covers_is_refused_at_binding_and_interpreted():
    with pytest.raises(NotRealizedYet, match="element type f16 is not realized yet"):
        half.bind(N=3)
    with pytest.raises(NotRealizedYet, match="element type bf16 is not realized yet"):
        half_inside.bind(N=3)
    with pytest.raises(NotRealizedYet, match="a contraction of integers, accumulated in i32, is not realized yet"):
        bytes_dot.bind(M=3, K=2)
    with pytest.raises(NotRealizedYet, match=r"dynamic=\['N'\] is not realized yet"):
        dynamic.bind(N=3)
    x = np.array([0.1, -3.0, 7.5])
    for kernel, dtype in ((half, np.float16), (half_inside, np.float32), (dynamic, np.float32)):
        result = at.interpret(kernel, x.astype(dtype), x.astype(dtype))["y"]
        assert np.allclose(result.values, x, rtol=2.0**-8)
    a = np.array([[100, 100], [-128, 3]], np.int8)
    assert at.interpret(bytes_dot, a, np.zeros(2, np.int32))["y"].values.tolist() == [20000, 16393]


@at.kernel
def pairs(x: at.f32["N"], y: at.f32[2, "H"]):
    for _p in at.parallel(1):
        y[:, :] = x[:].reshape(2, -1)


def test_a_reshape_that_only_sizes_can_judge_is_refused_at_binding():
    with pytest.raises(ReshapeMisfit, match="a reshape of 5 elements into 4"):
        pairs.bind(N=5, H=2)


@pytest.mark.parametrize(("kernel", "kind", "text"), CASES)
def test_a_mistake_is_refused_by_its_sentence(kernel, kind, text):
    with pytest.raises(kind, match=re.compile(text, re.DOTALL)) as caught:
        at.trace(kernel)
    place = caught.value.place
    lines, first = inspect.getsourcelines(kernel.function)
    assert place.file == __file__
    assert first <= place.line < first + len(lines) or "helper" in str(caught.value)
    assert str(caught.value).startswith(f"{place.file}:{place.line}:{place.column}: ")


def test_an_error_quotes_its_line_and_points_at_the_mistake():
    with pytest.raises(UnknownFunction) as caught:
        at.trace(unknown_function)
    first = unknown_function.function.__code__.co_firstlineno
    assert str(caught.value).splitlines() == [
        f"{__file__}:{first + 4}:16: the kernel language has no function at.softmax",
        "            y[i] = at.softmax(x[i])",
        "                   ^",
        "  expected at.<function> or a helper under @at.function",
    ]


# Mistakes that only sizes reveal


@at.kernel
def leaves(x: at.f32["N"], y: at.f32["K"]):
    for i in at.parallel(x.shape[0]):
        y[i + 1] = x[i]


def test_a_store_that_may_leave_its_tensor_is_refused_at_binding():
    assert leaves.bind(N=3, K=4).is_bound
    text = r"the store may leave 'y': index 0 runs over 1\.\.4, the extent is 4"
    with pytest.raises(StoreOutOfBounds, match=text) as caught:
        leaves.bind(N=4, K=4)
    assert caught.value.place.text.strip() == "y[i + 1] = x[i]"
    assert leaves.bind(N=0, K=0).is_bound


@at.kernel
def divides(k: at.i32["N"], d: at.i32["N"], y: at.i32["N"]):
    for i in at.parallel(k.shape[0]):
        y[i] = k[i] // d[i]


@at.kernel
def divides_in_arm(k: at.i32["N"], d: at.i32["N"], y: at.i32["N"]):
    for i in at.parallel(k.shape[0]):
        n, q = d[i], 0
        if n == 0:
            q = at.cast(-1, at.i32)
        else:
            q = k[i] // n
        y[i] = q


@at.kernel
def divides_index(k: at.i32["N"], y: at.i32["N"]):
    for i in at.parallel(k.shape[0]):
        y[i] = k[i] % (i + k.shape[0] - 3)


@at.kernel
def groups(x: at.f32["N"], y: at.f32["N"], z: at.f32["G"]):
    for i in at.parallel(x.shape[0]):
        y[i] = x[i // (x.shape[0] // z.shape[0])]


def test_an_integer_divisor_that_may_be_zero_is_refused():
    with pytest.raises(DivisorMayBeZero, match=r"the integer divisor of // may be zero\n.*\n.*\n.*guard it: at.where"):
        divides.bind(N=3)
    assert divides_in_arm.bind(N=3).is_bound
    with pytest.raises(DivisorMayBeZero, match="the integer divisor of % may be zero"):
        divides_index.bind(N=3)
    assert divides_index.bind(N=4).is_bound
    assert groups.bind(N=8, G=2).is_bound
    with pytest.raises(DivisorMayBeZero, match="the integer divisor of // in an index may be zero"):
        groups.bind(N=2, G=8)


@at.kernel
def arg(x: at.f32["M", "N"], y: at.i64["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.argmax(x[i, :])


def test_argmax_over_nothing_is_refused():
    assert arg.bind(M=2, N=1).is_bound
    with pytest.raises(EmptyArgmax, match="argmax over nothing"):
        arg.bind(M=2, N=0)


@at.kernel
def halves(x: at.f32["N"], y: at.f32["N"]):
    N = x.shape[0]
    for _p in at.parallel(1):
        y[0 : N // 2] = x[0 : N // 2] + x[N // 2 : N]


def test_extents_that_differ_only_for_some_sizes_are_refused_at_binding():
    assert halves.bind(N=4).is_bound
    with pytest.raises(MismatchedExtents, match="mismatched extents: 2 does not fit 3"):
        halves.bind(N=5)


def test_extents_must_be_given_and_known():
    with pytest.raises(MissingDimension, match=r"kernel 'arg' needs an extent for N\n  give every one of M, N"):
        arg.bind(M=3)
    with pytest.raises(UnknownDimension, match="kernel 'arg' has no dimension 'K'\n  its dimensions are M, N"):
        arg.bind(M=3, N=4, K=5)
    with pytest.raises(BadExtent, match=r"N = 2\.5 is no extent"):
        arg.bind(M=3, N=2.5)
    with pytest.raises(BadExtent, match="N = -1 is no extent"):
        arg.bind(M=3, N=-1)


# Arguments and kernels


def test_arguments_are_counted_and_shaped():
    x, y = np.zeros((2, 3), np.float32), np.zeros(2, np.int64)
    with pytest.raises(MissingArgument, match="kernel 'arg' needs a value for 'y'"):
        at.interpret(arg, x)
    with pytest.raises(TooManyArguments, match="kernel 'arg' takes 2 arguments, 3 were given"):
        at.interpret(arg, x, y, y)
    with pytest.raises(TooManyArguments, match="unknown or given twice: z"):
        at.interpret(arg, x, z=y)
    with pytest.raises(WrongShape, match=r"'y' has shape \[3\], expected \[2\]"):
        at.interpret(arg, x, np.zeros(3, np.int64))
    with pytest.raises(WrongShape, match=r"'y' has shape \[2, 1\], expected 1 dimensions"):
        at.interpret(arg, x, np.zeros((2, 1), np.int64))


def test_only_plain_functions_become_kernels():
    with pytest.raises(NotAFunction, match="take a plain Python function, found int"):
        at.kernel(3)
    with pytest.raises(NotAFunction, match="take a plain Python function, found type"):
        at.function(int)


def test_a_kernel_needs_its_source():
    scope = {"at": at}
    exec('def typed(x: at.f32["N"]):\n    pass', scope)
    with pytest.raises(SourceUnavailable, match="the source of 'typed' cannot be read"):
        at.trace(at.kernel(scope["typed"]))


def test_every_source_error_has_a_test():
    here = inspect.getsource(inspect.getmodule(test_every_source_error_has_a_test))
    elsewhere = {"LoadedWhereNotStored", "ProgramTileReduction", "StoreRace", "SliceOutOfBounds"}
    kinds = {k.__name__ for k in vars(errors).values() if inspect.isclass(k) and issubclass(k, SourceError)}
    missing = {k for k in kinds - elsewhere - {"SourceError"} if not re.search(rf"(refused|raises)\({k}\b", here)}
    assert not missing


def test_every_program_here_is_valid_and_survives_its_text(programs):
    for program in programs.values():
        verify(program)
        assert parse(print_program(program)) == program
        bound = bind(program, dict.fromkeys(program.dims, 8))
        verify(bound)
        assert bound.is_bound
