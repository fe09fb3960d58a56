"""Every named check refuses the program that breaks its rule, and marks the line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given

from autotune.ir.affine import Affine, Coord, coord, dim
from autotune.ir.errors import InvalidProgram
from autotune.ir.parse import parse
from autotune.ir.program import Axis, AxisKind, Let, Program, Tensor, bind
from autotune.ir.verify import CHECKS, verify
from tests.ir import control_programs, programs
from tests.ir.generate import whole_programs

HEAD = """\
program "test"
dim N
tensor x : f32[N, N]
tensor label : i32[N]
tensor y : f32[N]
scalar s : f32
axis i : program N
axis k : full N
axis k2 : full N
axis j : tile N
parallel i
"""
BODY = """\
%0 = load x[i, k] : f32(i, k)
%1 = reduce sum %0 over k : f32(i)
for j carry %1 -> %4 : f32(i)
  %2 = load x[i, j] : f32(i, j)
  %3 = reduce sum %2 over j : f32(i)
  %4 = add %1 %3 : f32(i)
%5 = final j.0 : f32(i)
store y[i] %5
"""


@pytest.mark.parametrize("make", (*programs.ALL, *control_programs.ALL), ids=lambda f: f.__name__)
def test_well_formed_programs_pass_also_bound(make: Callable[[], Program]) -> None:
    program = make()
    verify(program)
    verify(bind(program, {d: 8 + k for k, d in enumerate(program.dims)}))


@given(whole_programs())
def test_generated_programs_pass(program: Program) -> None:
    verify(program)


# (check, line to replace, replacement, message); the marked line is the replacement unless another is given.
BROKEN = [
    (
        "check_dense_numbering",
        "%5 = final j.0 : f32(i)\nstore y[i] %5",
        "%7 = final j.0 : f32(i)\nstore y[i] %7",
        "value %7 is number 5",
    ),
    ("check_references", "store y[i] %5", "store y[i] %9", "there is no value number 9"),
    ("check_references", "store y[i] %5", "store s[i] %5", "there is no tensor number 3"),
    ("check_tensor_ranks", "store y[i] %5", "store x[i] %5", "1 indices for a tensor of 2 dimensions"),
    ("check_tensor_ranks", "tensor y : f32[N]", "tensor y : f32[N] strides [1, 1]", "2 strides for 1 dimensions"),
    ("check_parallel_axes", "axis i : program N", "axis i : full N", "an axis of kind full is among the parallel axes"),
    ("check_parallel_axes", "axis k2 : full N", "axis k2 : program N", "kind program is not among the parallel axes"),
    ("check_parallel_axes", "axis i : program N", "axis i : program N + k", "extent of a parallel axis depends"),
    ("check_axis_steps", "axis k : full N", "axis k : full N step 2", "an axis of kind full with a start or step"),
    ("check_axis_steps", "axis k : full N", "axis k : full N + k", "an axis whose extent depends on itself"),
    ("check_loops", "axis k2 : full N", "axis k2 : tile N", "no loop walks this axis of kind tile"),
    ("check_loops", "axis j : tile N", "axis j : full N", "a loop over an axis of kind full"),
    ("check_defined_before_use", "%1 = reduce sum %0", "%1 = reduce sum %5", "%5 is not defined here"),
    ("check_defined_before_use", "store y[i] %5", "store y[i] %4", "%4 is not defined here"),
    (
        "check_defined_before_use",
        "%5 = final j.0",
        "%5 = carried j.0",
        "this is not inside a loop that has such a slot",
    ),
    ("check_defined_before_use", "%5 = final j.0", "%5 = final j.1", "this is not after a loop that has such a slot"),
    ("check_axes_in_scope", "%0 = load x[i, k]", "%0 = load x[i, k + j]", "axis number 3 is used outside its loop"),
    ("check_axes_in_scope", "axis k : full N", "axis k : full j.stop", "axis number 3 is used outside its loop"),
    ("check_axes", "%0 = load x[i, k] : f32(i, k)", "%0 = load x[i, k] : f32(k, i)", "axes do not ascend"),
    (
        "check_axes",
        "%4 = add %1 %3 : f32(i)",
        "%4 = add %1 %3 : f32()",
        "the value varies along axis number 0",
    ),
    (
        "check_reindexes",
        "%0 = load x[i, k] : f32(i, k)\n%1 = reduce sum %0 over k",
        "%0 = load x[i, k] : f32(i, k)\n%1 = reindex %0 k -> i",
        "only full axes can be renamed",
    ),
    ("check_reduction_axes", "over k", "over i", "a reduction over an axis that is neither full nor a tile"),
    ("check_reduction_axes", "over k", "over k2", "a reduction over an axis that its body lacks"),
    ("check_reduction_axes", "over k", "over k k", "a reduction names an axis twice"),
    ("check_reduction_axes", "over k", "over k init %0", "the start varies along an axis that is reduced"),
    (
        "check_reduction_axes",
        "%3 = reduce sum %2 over j",
        "%3 = reduce argmax %2 over j init %1",
        "argmax takes one axis and no start",
    ),
    ("check_dtypes", "%4 = add %1 %3", "%4 = add %1 %3 %3", "add takes 2 arguments, found 3"),
    ("check_dtypes", "%4 = add %1 %3 : f32", "%4 = lt %1 %3 : f32", "type f32 where bool_ is due"),
    ("check_dtypes", "%4 = add %1 %3 : f32", "%4 = and %1 %3 : f32", "and of floating-point numbers"),
    ("check_dtypes", "%4 = add %1 %3", "%4 = where %1 %3 %3", "the condition of where is not of type bool_"),
    ("check_dtypes", "%1 = reduce sum", "%1 = reduce any", "any of values that are not of type bool_"),
    ("check_dtypes", "store y[i] %5", "store label[i] %5", "a value of type f32 is stored to a tensor of i32"),
    ("check_dtypes", "store y[i] %5", "store y[i] %5 mask %1", "a mask is not of type bool_"),
    ("check_dtypes", "%0 = load x[i, k] : f32", "%0 = load x[i, k] : f64", "type f64 where f32 is due"),
    ("check_math", "%4 = add %1 %3", "%4 = exp %3", "exp declares no max_ulp"),
    ("check_math", "over k :", "over k ordered reassociate :", "an ordered reduction allows reassociation"),
    ("check_loop_carries", "-> %4 : f32(i)", "-> %4 : f64(i)", "%1 has another type than slot 0"),
    ("check_loop_carries", "-> %4 : f32(i)", "-> %4 : f32()", "%1 varies along axes that slot 0 lacks"),
    ("check_loop_carries", "-> %4 : f32(i)", "-> %4 : f32(i, j)", "slot 0 varies along the loop's own axis"),
    (
        "check_loop_carries",
        "%5 = final j.0 : f32(i)",
        "%5 = final j.0 : f32(i, k)",
        "type or axes differ from those of the carry",
    ),
    ("check_store_indices", "store y[i] %5", "store y[0] %5", "the index does not name axis number 0"),
    ("check_store_indices", "store y[i] %5", "store y[i] %0", "the index does not name axis number 1"),
    ("check_outputs", "store y[i] %5\n", "", "the program stores nothing"),
]


@pytest.mark.parametrize(("check", "old", "new", "message"), BROKEN)
def test_a_broken_program_is_refused_by_name(check: str, old: str, new: str, message: str) -> None:
    text = HEAD + BODY
    assert old in text
    with pytest.raises(InvalidProgram) as caught:
        verify(parse(text.replace(old, new)))
    assert caught.value.check == check
    assert message in caught.value.message


CONTROL_HEAD = """\
program "control"
dim N
tensor x : f32[N, N]
tensor y : f32[N]
axis i : program N
axis t : program_tile N
axis k : full N
axis j : tile N
axis r : range N
axis w : while
parallel i t
"""
CONTROL = """\
%0 = load x[i, k] : f32(i, k)
%1 = load x[k, t] : f32(t, k)
%2 = mul %0 %1 : f32(i, t, k)
%3 = reduce sum %2 over k contracting %0 %1 batch () m (i) n (t) k (k) in f32 : f32(i, t)
for j carry %3 -> %4 : f32(i, t)
  %4 = carried j.0 : f32(i, t)
merge %7
  %5 = side 0 of j.0 : f32(i, t)
  %6 = side 1 of j.0 : f32(i, t)
  %7 = add %5 %6 : f32(i, t)
%8 = final j.0 : f32(i, t)
for r
  %9 = load x[i, r] : f32(i, r)
  %10 = lt %9 %9 : bool_(i, r)
  if 0 %10 choice %11 %12 : f32(i, r)
    %11 = neg %9 : f32(i, r)
  else
    %12 = abs %9 : f32(i, r)
  %13 = joined 0 slot 0 : f32(i, r)
%14 = load y[i] : f32(i)
while w %16 carry %14 -> %17 : f32(i)
  %15 = carried w.0 : f32(i)
  %16 = gt %15 %14 : bool_(i)
do
  %17 = neg %15 : f32(i)
%18 = final w.0 : f32(i)
store x[i, t] %8
"""

# (check, text to replace, replacement, message)
BROKEN_CONTROL = [
    ("check_loops", "axis w : while", "axis w : tile N", "a while loop over an axis of kind tile"),
    ("check_loops", "axis r : range N", "axis r : while", "a loop over an axis of kind while"),
    ("check_loops", "axis w : while", "axis w : while\naxis w2 : while", "no loop walks this axis of kind while"),
    ("check_while_axes", "axis w : while", "axis w : while N", "an axis of kind while with an extent"),
    ("check_while_axes", "axis k : full N", "axis k : full w", "an extent depends on the trips of a while loop"),
    ("check_while_axes", "%14 = load y[i] : f32(i)", "%14 = load y[i] : f32(i, w)", "as if it had coordinates"),
    ("check_while_axes", "store x[i, t] %8", "store x[i, t + w] %8", "as if it had coordinates"),
    ("check_references", "contracting %0 %1", "contracting %0 %90", "there is no value number 90"),
    ("check_references", "if 0 %10", "if 0 %90", "there is no value number 90"),
    ("check_references", "merge %7", "merge %70", "there is no value number 70"),
    ("check_defined_before_use", "%13 = joined 0", "%13 = joined 1", "this is not after a branch that has such a slot"),
    ("check_defined_before_use", "slot 0 : f32(i, r)", "slot 1 : f32(i, r)", "not after a branch that has such a slot"),
    ("check_defined_before_use", "choice %11 %12", "choice %12 %12", "%12 is not defined here"),
    ("check_defined_before_use", "abs %9 : f32(i, r)", "abs %11 : f32(i, r)", "%11 is not defined here"),
    ("check_defined_before_use", "%13 = joined 0 slot 0", "%13 = neg %12", "%12 is not defined here"),
    ("check_defined_before_use", "add %5 %6", "add %4 %6", "%4 is not defined here"),
    ("check_defined_before_use", "merge %7", "merge %4", "%4 is not defined here"),
    ("check_defined_before_use", "%5 = side 0 of j.0", "%5 = side 0 of j.1", "not inside the merge rule of a loop"),
    ("check_defined_before_use", "%5 = side 0 of j.0", "%5 = carried j.0", "not inside a loop that has such a slot"),
    ("check_defined_before_use", "%5 = side 0", "%5 = side 2", "side 2 of a merge; the sides are 0 and 1"),
    ("check_defined_before_use", "%8 = final j.0", "%8 = side 0 of j.0", "not inside the merge rule of a loop"),
    ("check_defined_before_use", "%18 = final w.0", "%18 = neg %15", "%15 is not defined here"),
    ("check_defined_before_use", "while w %16 carry", "while w %17 carry", "%17 is not defined here"),
    ("check_axes_in_scope", "%5 = side 0 of j.0", "%5 = load x[i, j]", "axis number 3 is used outside its loop"),
    ("check_contractions", "reduce sum %2", "reduce max %2", "a contraction by max; it is a sum"),
    ("check_contractions", "%2 = mul", "%2 = add", "%2 is not the product of %0 and %1"),
    ("check_contractions", "contracting %0 %1", "contracting %0 %0", "%2 is not the product of %0 and %0"),
    ("check_contractions", "in f32 : f32", "in f64 : f32", "the sum runs in f64, its result is of type f32"),
    ("check_contractions", "k (k) in", "k (i) in", "the axes k are not those that are reduced"),
    (
        "check_contractions",
        "%1 = load x[k, t] : f32(t, k)",
        "%1 = load x[0, t] : f32(t)",
        "a factor lacks an axis of k",
    ),
    (
        "check_contractions",
        "batch () m (i)",
        "batch (i) m ()",
        "the axes batch are not [], as those of the factors say",
    ),
    ("check_contractions", "in f32 : f32(i, t)", "in f32 : f32(i)", "the result lacks an axis of n"),
    (
        "check_loop_carries",
        "while w %16 carry %14 -> %17",
        "while w %16 carry %14 -> %16",
        "has another type than slot",
    ),
    ("check_loop_carries", "%6 = side 1 of j.0 : f32(i, t)", "%6 = side 1 of j.0 : f32(i)", "type or axes differ"),
    ("check_branches", "choice %11 %12", "choice %11 %10", "%10 has another type than choice 0"),
    ("check_branches", "choice %11 %12 : f32(i, r)", "choice %11 %12 : f32(i)", "%11 varies along axes that choice 0"),
    ("check_branches", "slot 0 : f32(i, r)", "slot 0 : f32(i, t, r)", "differ from those of the choice it reads"),
    ("check_conditions", "if 0 %10", "if 0 %9", "the condition %9 is not of type bool_"),
    (
        "check_conditions",
        "%10 = lt %9 %9 : bool_(i, r)",
        "%10 = lt %8 %8 : bool_(i, t)",
        "an axis of kind program_tile",
    ),
    ("check_conditions", "gt %15 %14 : bool_(i)", "gt %0 %0 : bool_(i, k)", "an axis of kind full"),
    ("check_merge_rules", "merge %7", "merge", "0 merged values for 1 carries"),
    ("check_merge_rules", "%7 = add %5 %6 : f32(i, t)", "%7 = lt %5 %6 : bool_(i, t)", "has another type than slot 0"),
    (
        "check_merge_rules",
        "%7 = add %5 %6 : f32(i, t)",
        "%7 = add %5 %6 : f32(i, t, k)",
        "varies along axes that slot 0",
    ),
    ("check_merge_rules", "  %7 = add", "  store y[i] %5\n  %7 = add", "a merge rule stores"),
]


def test_the_control_program_is_well_formed() -> None:
    verify(parse(CONTROL_HEAD + CONTROL))


@pytest.mark.parametrize(("check", "old", "new", "message"), BROKEN_CONTROL)
def test_broken_control_is_refused_by_name(check: str, old: str, new: str, message: str) -> None:
    text = CONTROL_HEAD + CONTROL
    assert text.count(old) == 1
    with pytest.raises(InvalidProgram) as caught:
        verify(parse(text.replace(old, new)))
    assert (caught.value.check, message in caught.value.message) == (check, True), str(caught.value)


def test_branches_are_numbered_in_program_order() -> None:
    text = (CONTROL_HEAD + CONTROL).replace("if 0 %10", "if 2 %10").replace("joined 0", "joined 2")
    with pytest.raises(InvalidProgram, match="check_branches: branch 2 is number 0 in program order"):
        verify(parse(text))


def test_what_a_condition_decides_varies_with_it() -> None:
    text = CONTROL_HEAD + CONTROL
    for old, new in (
        ("%11 = neg %9 : f32(i, r)\n", "%11 = const 1.0 : f32()\n"),
        ("%12 = abs %9 : f32(i, r)\n", "%12 = const 2.0 : f32()\n"),
        ("choice %11 %12 : f32(i, r)", "choice %11 %12 : f32()"),
        ("%13 = joined 0 slot 0 : f32(i, r)", "%13 = joined 0 slot 0 : f32()"),
    ):
        text = text.replace(old, new)
    with pytest.raises(InvalidProgram, match="check_conditions: the condition %10 varies along axes that slot 0 lacks"):
        verify(parse(text))


def test_reductions_and_indices_of_the_wrong_type() -> None:
    for old, new, message in (
        ("%0 = load x[i, k] : f32(i, k)", "%0 = index i + k : i32(i, k)", "type i32 where i64 is due"),
        ("%3 = reduce sum %2 over j : f32", "%3 = reduce sum %2 over j : f64", "type f32 where f64 is due"),
        ("%2 = load x[i, j]", "%2 = load x[%1, j]", "an index read from memory is no integer"),
        ("%4 = add %1 %3", "%4 = cast %1 %3", "cast takes 1 arguments, found 2"),
        ("%0 = load x[i, k] : f32(i, k)", "%0 = const true : f32()", "a reduction over an axis that its body lacks"),
    ):
        with pytest.raises(InvalidProgram) as caught:
            verify(parse((HEAD + BODY).replace(old, new)))
        assert message in caught.value.message


def test_a_reindex_to_an_axis_that_the_value_has_or_of_another_extent() -> None:
    square = programs.outer_product()
    verify(square)
    with pytest.raises(InvalidProgram, match="check_reindexes: the value already varies along the new axis"):
        verify(parse(HEAD + "%0 = load x[k, k2] : f32(k, k2)\n%1 = reindex %0 k -> k2 : f32(k2)\n" + _unused_loop()))
    uneven = replace(bind(square, {"M": 2, "N": 3}), axes=_with_extent(bind(square, {"M": 2, "N": 3}).axes, 2, 4))
    with pytest.raises(InvalidProgram, match="check_reindexes: the two axes have different extents"):
        verify(uneven)


def _unused_loop() -> str:
    return "for j\n  store y[i] %1\n"


def _with_extent(axes: tuple[Axis, ...], number: int, extent: int) -> tuple[Axis, ...]:
    return tuple(replace(a, extent=Affine(constant=extent)) if a.id == number else a for a in axes)


def test_what_text_cannot_say_is_checked_too() -> None:
    program = programs.shifted()
    first = program.body[0]
    assert isinstance(first, Let)
    scrambled = Affine(terms=((Coord(axis=0), 1), (Coord(axis=0), 1)))
    axis, tensor = program.axes[0], program.parameters[0]
    assert isinstance(tensor, Tensor)
    for check, broken in (
        ("check_dense_numbering", replace(program, axes=(replace(axis, id=4),))),
        ("check_references", replace(program, parallel=(3,))),
        ("check_references", replace(program, axes=(replace(axis, extent=dim(7)),))),
        ("check_affine_form", replace(program, axes=(replace(axis, extent=scrambled),))),
        (
            "check_tensor_ranks",
            replace(program, parameters=(replace(tensor, shape=(coord(0),)), *program.parameters[1:])),
        ),
        ("check_parallel_axes", replace(program, parallel=(0, 0))),
        ("check_parallel_axes", replace(program, parallel=(), axes=(replace(axis, kind=AxisKind.FULL),))),
        ("check_axis_steps", replace(program, axes=(replace(axis, step=0),))),
    ):
        with pytest.raises(InvalidProgram) as caught:
            verify(broken)
        assert caught.value.check == check


def test_two_loops_over_one_axis() -> None:
    again = "for j\n  %6 = load x[i, j] : f32(i, j)\nstore y[i] %5\n"
    with pytest.raises(InvalidProgram, match="check_loops: a second loop over the same axis"):
        verify(parse(HEAD + BODY.replace("store y[i] %5\n", again)))


def test_every_check_is_broken_by_some_test() -> None:
    broken = {check for check, *_ in (*BROKEN, *BROKEN_CONTROL)}
    assert {check.__name__ for check in CHECKS} - broken == {"check_affine_form"}


def test_the_offending_line_is_marked() -> None:
    with pytest.raises(InvalidProgram) as caught:
        verify(parse((HEAD + BODY).replace("%4 = add %1 %3", "%4 = add %1 %2")))
    assert str(caught.value) == (
        "check_axes: the value varies along axis number 3, which it does not name\n"
        "  17 |   %4 = add %1 %2 : f32(i)\n"
        "         ^^^^^^^^^^^^^^^^^^^^^^^"
    )
