"""Program text: what is printed is read back, and names are no part of what is hashed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.ir.affine import coord
from autotune.ir.errors import UnreadableText
from autotune.ir.parse import parse
from autotune.ir.program import AxisKind, Program, bind
from autotune.ir.serial import MalformedJson, from_json, to_json
from autotune.ir.text import canonical, fingerprint, print_program, program_lines
from autotune.ir.types import Op, ReduceOp
from tests.ir import control_programs, programs
from tests.ir.generate import whole_programs

EVERY = (*programs.ALL, *control_programs.ALL)
every_program = pytest.mark.parametrize("make", EVERY, ids=lambda f: f.__name__)

SOFTMAX = """\
program "masked_softmax"
dim M
dim N
tensor x : f32[M, N]
tensor mask : bool_[M, N]
tensor y : f32[M, N]
axis row : program M
axis n : full N
parallel row
%0 = load mask[row, n] : bool_(row, n) @2
%1 = load x[row, n] : f32(row, n) @3
%2 = const -inf : f32() @4
%3 = where %0 %1 %2 : f32(row, n) @5
%4 = reduce max %3 over n : f32(row) @6
%5 = sub %3 %4 : f32(row, n) @7
%6 = exp %5 max_ulp 2.0 : f32(row, n) @8
%7 = reduce sum %6 over n reassociate contract : f32(row) @9
%8 = div %6 %7 : f32(row, n) @10
store y[row, n] %8 @11
"""

CARRIED_SUM = """\
dim d0
dim d1
tensor t0 : f32[d0, d1]
tensor t1 : f32[d0]
axis a0 : program d0
axis a1 : tile d1
parallel a0
%0 = const 0.0 : f32()
for a1 carry %0 -> %4 : f32(a0)
  %1 = load t0[a0, a1] : f32(a0, a1)
  %2 = reduce sum %1 over a1 reassociate contract : f32(a0)
  %3 = carried a1.0 : f32(a0)
  %4 = add %3 %2 : f32(a0)
%5 = final a1.0 : f32(a0)
store t1[a0] %5
"""


COLLATZ = """\
dim d0
tensor t0 : i64[d0]
tensor t1 : i64[d0]
axis a0 : program d0
axis a1 : while
parallel a0
%0 = load t0[a0] : i64(a0)
%1 = const 0 : i64()
while a1 %4 carry %0 -> %15 : i64(a0), carry %1 -> %18 : i64(a0)
  %2 = carried a1.0 : i64(a0)
  %3 = const 1 : i64()
  %4 = gt %2 %3 : bool_(a0)
do
  %5 = carried a1.0 : i64(a0)
  %6 = const 2 : i64()
  %7 = mod %5 %6 : i64(a0)
  %8 = const 0 : i64()
  %9 = eq %7 %8 : bool_(a0)
  if 0 %9 choice %10 %14 : i64(a0)
    %10 = floordiv %5 %6 : i64(a0)
  else
    %11 = const 3 : i64()
    %12 = mul %5 %11 : i64(a0)
    %13 = const 1 : i64()
    %14 = add %12 %13 : i64(a0)
  %15 = joined 0 slot 0 : i64(a0)
  %16 = carried a1.1 : i64(a0)
  %17 = const 1 : i64()
  %18 = add %16 %17 : i64(a0)
%19 = final a1.1 : i64(a0)
store t1[a0] %19
"""

MERGE = """\
for a1 carry %0 -> %4 : f32()
  %1 = carried a1.0 : f32()
  %2 = load t0[a1] : f32(a1)
  %3 = reduce sum %2 over a1 reassociate contract : f32()
  %4 = add %1 %3 : f32()
merge %7
  %5 = side 0 of a1.0 : f32()
  %6 = side 1 of a1.0 : f32()
  %7 = add %5 %6 : f32()
%8 = final a1.0 : f32()
"""


def test_the_text_of_a_softmax() -> None:
    assert print_program(programs.masked_softmax()) == SOFTMAX


def test_the_canonical_text_of_a_loop() -> None:
    assert canonical(programs.tiled_sum()) == CARRIED_SUM


def test_the_canonical_text_of_a_while_loop_and_a_branch() -> None:
    assert canonical(control_programs.collatz()) == COLLATZ


def test_the_text_of_a_merge_rule() -> None:
    b = programs.Builder("rule", "N")
    x, y = b.tensor("x", programs.F32, "N"), b.tensor("y", programs.F32, 1)
    i, j = b.program_axis(1, "i"), b.axis(AxisKind.TILE, "N", "j")
    with b.loop(j, b.const(0.0)) as loop:
        loop.updated = (b.op(Op.ADD, loop.carried(0), b.reduce(ReduceOp.SUM, b.load(x, coord(j)), j)),)
        loop.rule = lambda earlier, later: [b.op(Op.ADD, earlier[0], later[0])]
    b.store(y, loop.final(0), coord(i))
    assert MERGE in canonical(b.build())
    assert parse(print_program(b.build())) == b.build()


@every_program
def test_text_is_read_back(make: Callable[[], Program]) -> None:
    program = make()
    assert parse(print_program(program)) == program
    bound = bind(program, {d: 8 + k for k, d in enumerate(program.dims)})
    assert parse(print_program(bound)) == bound


@every_program
def test_canonical_text_is_a_fixed_point(make: Callable[[], Program]) -> None:
    text = canonical(make())
    assert canonical(parse(text)) == text


@every_program
def test_json_is_read_back(make: Callable[[], Program]) -> None:
    program = make()
    assert from_json(Program, json.loads(json.dumps(to_json(program)))) == program


@given(whole_programs())
def test_any_program_is_read_back_from_text_and_json(program: Program) -> None:
    assert parse(print_program(program)) == program
    assert from_json(Program, json.loads(json.dumps(to_json(program)))) == program
    assert canonical(parse(canonical(program))) == canonical(program)


def renamed(program: Program, names: st.DataObject) -> Program:
    word = st.text(max_size=6)
    return replace(
        program,
        name=names.draw(word),
        dims=tuple(names.draw(word) for _ in program.dims),
        parameters=tuple(replace(p, name=names.draw(word)) for p in program.parameters),
        axes=tuple(replace(a, name=names.draw(word)) for a in program.axes),
    )


@given(whole_programs(), st.data())
def test_names_are_no_part_of_the_fingerprint(program: Program, data: st.DataObject) -> None:
    other = renamed(program, data)
    assert fingerprint(other) == fingerprint(program)
    assert parse(print_program(other)) == other


def test_different_programs_have_different_fingerprints() -> None:
    assert len({fingerprint(make()) for make in EVERY}) == len(EVERY)
    rules = control_programs.attention(), control_programs.attention(wrong_rule=True)
    assert fingerprint(rules[0]) != fingerprint(rules[1])


def test_a_descriptor_is_part_of_the_fingerprint() -> None:
    text = print_program(control_programs.matmul())
    assert " contracting %1 %2 batch () m (i) n (j) k (k) in f32 : f32(i, j)" in text
    plain = parse(re.sub(r" contracting .* in f32", "", text))
    assert fingerprint(plain) != fingerprint(control_programs.matmul())


def test_defaults_and_lines_are_no_part_of_the_fingerprint() -> None:
    program = programs.rmsnorm()
    changed = replace(program, parameters=(*program.parameters[:3], replace(program.parameters[3], default=1.0)))
    assert fingerprint(changed) == fingerprint(program)
    text = "\n".join(line.split(" @")[0] for line in print_program(program).splitlines())
    assert parse(text) != program and fingerprint(parse(text)) == fingerprint(program)


def test_every_line_knows_what_it_shows() -> None:
    program = programs.tiled_sum()
    shown = [line.item for line in program_lines(program) if line.item is not None]
    assert shown[0] is program
    assert all(any(item is part for item in shown) for part in (*program.parameters, *program.axes, *program.body))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%0 = lod x[i] : f32(i)", "line 5: expected an operation, found 'lod x [ i ] : f32 ( i )'"),
        ("%0 = load x[q] : f32(i)", "line 5: expected a dimension or an axis, found 'q ] : f32 ( i )'"),
        ("%0 = load x[i] : f33(i)", "line 5: expected an element type, found 'f33 ( i )'"),
        ("%0 = load x[i] : f32(i) @3 4", "line 5: expected the end of the line, found '4'"),
        ("%0 = load x[i.middle] : f32(i)", "line 5: expected 'stop', found 'middle ] : f32 ( i )'"),
        ("store x[%0] %0", "line 5: expected no store through an integer tensor, found '%0'"),
        ("  %0 = load x[i] : f32(i)", "line 5: expected a statement no deeper than the one before"),
        ("else", "line 5: expected a statement no deeper than the one before, found 'else'"),
        ("if 0 %0", "line 5: expected a line 'else', found 'the end of the text'"),
        ("while i %0\nstore x[i] %0", "line 6: expected a line 'do', found 'store x [ i ] %0'"),
        ("%0 = joined 0 of 1 : f32(i)", "line 5: expected 'slot', found 'of 1 : f32 ( i )'"),
        ("%0 = load x[i] ? f32(i)", "line 5: expected a word, number or sign, found '? f32(i)'"),
    ],
)
def test_unreadable_text_names_the_line(line: str, expected: str) -> None:
    with pytest.raises(UnreadableText) as caught:
        parse(f"dim N\ntensor x : f32[N]\naxis i : program N\nparallel i\n{line}\n")
    assert str(caught.value).startswith(expected)


def test_json_errors_say_what_was_expected() -> None:
    data = to_json(programs.tiled_sum())
    for change, message in (
        ({"name": 3}, "expected str, found 3"),
        ({"extra": 1}, "Program has no field extra"),
        ({"axes": [{"type": "Tensor"}]}, "expected a Axis, found 'Tensor'"),
    ):
        with pytest.raises(MalformedJson, match=message):
            from_json(Program, {**data, **change})
    data.pop("body")
    with pytest.raises(MalformedJson, match="Program lacks the field body"):
        from_json(Program, data)
