"""The phase graph: what is a phase, what its edges say, and that names do not enter."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given

from autotune.ir.affine import coord
from autotune.ir.phases import PhaseGraph, PhaseKind, phase_graph
from autotune.ir.program import Carried, Final, Program, bind
from autotune.ir.serial import from_json, to_json
from autotune.ir.types import DType, Op, ReduceOp
from tests.ir import programs
from tests.ir.generate import whole_programs
from tests.ir.programs import Builder

F32 = DType.F32
LOAD, REDUCTION, ELEMENTWISE = PhaseKind.LOAD, PhaseKind.REDUCTION, PhaseKind.ELEMENTWISE
CARRY, STORE = PhaseKind.CARRY, PhaseKind.STORE


def softmax_graph() -> PhaseGraph:
    return phase_graph(bind(programs.masked_softmax(), {"M": 129, "N": 65}))


def test_the_phases_of_a_softmax() -> None:
    graph = softmax_graph()
    assert [p.kind for p in graph.phases] == [
        LOAD,
        LOAD,
        ELEMENTWISE,
        REDUCTION,
        ELEMENTWISE,
        REDUCTION,
        ELEMENTWISE,
        STORE,
    ]
    assert [p.op for p in graph.phases[2:7]] == [Op.WHERE, ReduceOp.MAX, Op.EXP, ReduceOp.SUM, Op.DIV]
    assert [p.axes for p in graph.phases] == [(0, 1)] * 3 + [(0,), (0, 1), (0,), (0, 1), (0, 1)]
    assert graph.phases[3].contribution == graph.phases[5].contribution == (1,)
    assert [p.reads for p in graph.phases[:2]] == [(1,), (0,)]
    assert graph.phases[7].writes == (2,)
    assert graph.phases[4].math is not None and graph.phases[4].math.max_ulp == 2.0


def test_the_text_of_a_softmax_graph() -> None:
    assert softmax_graph().text().splitlines()[4:9] == [
        "p2 elementwise where -> f32(a0, a1)",
        "    %3 -> p3, 260 bytes",
        "    %3 -> p4, 260 bytes",
        "p3 reduction max over (a1) -> f32(a0)",
        "    %4 -> p4, 4 bytes",
    ]


def test_cheap_values_belong_to_the_one_phase_that_uses_them() -> None:
    graph = softmax_graph()
    minus_infinity, difference, exponential = 2, 5, 6
    assert graph.phase_of(minus_infinity) is None
    owner = graph.phase_of(difference)
    assert owner is not None and owner.value == exponential
    assert graph.members(owner.number) == (difference, exponential)
    assert minus_infinity in graph.members(2)


def test_edges_count_uses_and_name_strides() -> None:
    graph = phase_graph(bind(programs.rmsnorm(), {"M": 4, "N": 32}))
    square = next(e for e in graph.edges if (e.source, e.target) == (0, 1))
    assert (square.uses, square.bytes, square.strides) == (2, 128, ((0, 32), (1, 1)))
    assert [e.target for e in graph.outputs(0)] == [1, 5]
    assert [e.source for e in graph.inputs(5)] == [0, 3, 4]
    assert graph.live_range(0) == (0, 5)


def test_sizes_and_strides_of_an_unbound_program_are_open() -> None:
    graph = phase_graph(programs.column_softmax())
    assert {e.bytes for e in graph.edges} == {None}
    assert graph.phases[0].access is not None
    assert graph.phases[0].access.strides == ((0, 1), (1, None))


def test_uniform_numbers_are_no_phases() -> None:
    b = Builder("uniform", "N")
    x, y, s = b.tensor("x", F32, "N"), b.tensor("y", F32, "N"), b.scalar("s")
    i = b.program_axis("N")
    inverse = b.op(Op.DIV, b.const(1.0), b.op(Op.SQRT, b.argument(s)))
    v = b.load(x, coord(i))
    b.store(y, b.op(Op.ADD, b.op(Op.MUL, v, inverse), inverse), coord(i))
    graph = phase_graph(b.build())
    assert [p.kind for p in graph.phases] == [LOAD, STORE]
    assert graph.phase_of(inverse) is None and inverse in graph.members(1)


def test_a_cheap_value_that_two_phases_use_is_a_phase() -> None:
    b = Builder("shared", "M", "N")
    x, y = b.tensor("x", F32, "M", "N"), b.tensor("y", F32, "M", "N")
    row, n = b.program_axis("M"), b.full("N")
    v = b.load(x, coord(row), coord(n))
    centred = b.op(Op.SUB, v, b.reduce(ReduceOp.SUM, v, n))
    squares = b.reduce(ReduceOp.SUM, b.op(Op.MUL, centred, centred), n)
    b.store(y, b.op(Op.MUL, centred, squares), coord(row), coord(n))
    graph = phase_graph(b.build())
    assert [p.kind for p in graph.phases] == [LOAD, REDUCTION, ELEMENTWISE, REDUCTION, STORE]
    assert graph.phases[2].value == centred


def test_a_carried_value_is_a_phase_with_a_marked_edge() -> None:
    program = bind(programs.tiled_sum(), {"M": 3, "N": 8})
    graph = phase_graph(program)
    assert [p.kind for p in graph.phases] == [CARRY, LOAD, REDUCTION, STORE]
    assert graph.phases[0].carry == (1, 0) and graph.phases[0].region == graph.phases[1].region == (1,)
    assert graph.phases[3].region == ()
    assert {(e.source, e.target) for e in graph.edges if e.carried} == {(0, 0), (2, 0)}
    for number, let in program.lets().items():
        if isinstance(let.value, Carried | Final):
            assert graph.owners[number] == 0


def test_a_gather_has_no_constant_stride_along_its_labels() -> None:
    graph = phase_graph(bind(programs.gather(), {"M": 3, "N": 4}))
    assert graph.phases[1].access is not None
    assert graph.phases[1].access.strides == ((0, None),)
    assert [(e.source, e.target) for e in graph.edges] == [(0, 1), (1, 2)]


@pytest.mark.parametrize("make", programs.ALL, ids=lambda f: f.__name__)
def test_json_and_node_link_are_read_back(make: Callable[[], Program]) -> None:
    graph = phase_graph(make())
    assert from_json(PhaseGraph, json.loads(json.dumps(to_json(graph)))) == graph
    data = json.loads(json.dumps(graph.node_link()))
    again = nx.node_link_graph(data, edges="edges")
    assert nx.utils.graphs_equal(again, graph.networkx())


@given(whole_programs())
def test_any_graph_is_acyclic_without_its_carried_edges(program: Program) -> None:
    graph = phase_graph(program)
    assert [p.number for p in graph.phases] == list(range(len(graph.phases)))
    assert all(e.source < e.target for e in graph.edges if not e.carried)
    stored = [p for p in graph.phases if p.kind is STORE]
    assert [p.store for p in stored] == list(range(len(stored)))
    for phase in graph.phases:
        for value in graph.members(phase.number):
            assert graph.owners[value] in (phase.number, None)


@given(whole_programs())
def test_names_do_not_enter(program: Program) -> None:
    other = replace(
        program,
        name="other",
        dims=tuple(f"q{k}" for k, _ in enumerate(program.dims)),
        parameters=tuple(replace(p, name=f"p{k}") for k, p in enumerate(program.parameters)),
        axes=tuple(replace(a, name="") for a in program.axes),
    )
    assert phase_graph(other) == phase_graph(program)
