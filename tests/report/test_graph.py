"""The drawn phase graph: rows follow the order of use, and the picture is reproducible."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from autotune.ir.phases import phase_graph
from autotune.ir.program import bind
from autotune.report.graph import draw_svg, layered
from tests.ir import programs


def test_every_phase_stands_below_what_it_uses() -> None:
    for make in programs.ALL:
        graph = phase_graph(make())
        spots = layered(graph)
        assert len(set(spots)) == len(graph.phases)
        assert all(spots[e.source].row < spots[e.target].row for e in graph.edges if not e.carried)


def test_the_picture_holds_every_phase_and_is_the_same_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    graph = phase_graph(bind(programs.tiled_sum(), {"M": 3, "N": 8}))
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    draw_svg(graph, first)
    draw_svg(graph, second)
    assert first.read_bytes() == second.read_bytes()
    text = first.read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert all(f"<!-- p{p.number} " in text for p in graph.phases)
