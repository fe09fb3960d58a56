"""Buffer programs as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from autotune.ir.buffer import BufferProgram
from autotune.ir.buffer_text import buffer_lines, print_buffer_program
from autotune.ir.serial import MalformedJson, from_json, to_json
from tests.ir.buffer_programs import ALL, matmul, newton, softmax, tiled

MATMUL = """\
buffer program "matmul"
  axis a0 i : program_tile 64 in blocks of 32
  axis a1 j : program_tile 40 in blocks of 40
  axis a2 k : full 48
  workspace 9216 bytes
body any
  b0 : f32[a2 48 stride 16, a1 40 stride 1 panels 16 stride 768] workspace @0 9216 bytes holds %1
  nest 0 tail mask
    for a2
      for a1 step 1x16
        b0 = %1
  nest 1 tail mask
    for a0 step 4
      for a1 step 2x16
        inline %3 = sum %2 over a2 for a2 step 4
        c[a0, a1] = %3
"""


def split() -> BufferProgram:
    return tiled(part=True)


@pytest.mark.parametrize("make", [*ALL, split])
def test_json_round_trip(make: Callable[[], BufferProgram]) -> None:
    plan = make()
    assert from_json(BufferProgram, json.loads(json.dumps(to_json(plan)))) == plan


def test_json_of_another_form_is_refused() -> None:
    data = to_json(softmax())
    data["bodies"][0]["steps"][0]["type"] = "Trip"
    with pytest.raises(MalformedJson, match="Trip"):
        from_json(BufferProgram, data)


def test_a_matmul_reads_as_one_page() -> None:
    assert print_buffer_program(matmul()) == MATMUL


def test_control_flow_is_indented() -> None:
    text = print_buffer_program(newton())
    assert "\n  while a1\n    nest 1 " in text
    assert "\n  do if %5\n    nest 2 " in text
    assert "\n  if %9\n    nest 4 " in text
    assert "\n  else\n    nest 5 " in text


def test_a_split_loop_shows_its_bound() -> None:
    text = print_buffer_program(split())
    assert "\n  blocks a1 by 32 up to 64\n" in text
    assert "\n  blocks a1 by 32 from 64\n" in text


@pytest.mark.parametrize("make", ALL)
def test_every_part_of_a_body_has_a_line(make: Callable[[], BufferProgram]) -> None:
    plan = make()
    shown = [id(line.item) for line in buffer_lines(plan)]
    for body in plan.bodies:
        assert {id(body), *map(id, body.buffers), *map(id, body.steps)} <= set(shown)
