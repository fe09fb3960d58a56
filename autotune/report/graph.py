"""The phase graph as a picture: one row a topological generation, carried edges dashed.
Must not know candidates or measurements; matplotlib is imported only when a picture is drawn."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import networkx as nx

from autotune.ir.phases import Edge, Phase, PhaseGraph, PhaseKind

COLOURS = {
    PhaseKind.LOAD: "#cfe3f7",
    PhaseKind.REDUCTION: "#f9d9c0",
    PhaseKind.ELEMENTWISE: "#e4e4e4",
    PhaseKind.CONDITION: "#f7e7b5",
    PhaseKind.CARRY: "#e6d5f2",
    PhaseKind.JOINED: "#e6d5f2",
    PhaseKind.STORE: "#d3ecd0",
}
COLUMN_INCHES = 2.4
ROW_INCHES = 1.1
BEND = -0.75  # how far a bent edge swings to the right, as matplotlib's arc3 counts it
LOOP_ROWS = 0.42  # where the label of an edge from a phase to itself stands, below the box


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a phase is drawn, in columns from the left (halves allowed) and rows from the top."""

    column: float
    row: int


def layered(graph: PhaseGraph) -> tuple[Spot, ...]:
    """A place for every phase: below all phases it uses values of, rows centred, phases in order within a row."""
    ordered = graph.networkx()
    ordered.remove_edges_from([(e.source, e.target, k) for e, k in _keyed(graph) if e.carried])
    rows = [sorted(generation) for generation in nx.topological_generations(ordered)]
    width = max((len(row) for row in rows), default=0)
    spots = {
        number: Spot(column=(width - len(row)) / 2 + place, row=depth)
        for depth, row in enumerate(rows)
        for place, number in enumerate(row)
    }
    return tuple(spots[number] for number in range(len(graph.phases)))


def draw_svg(graph: PhaseGraph, path: str | os.PathLike[str]) -> None:
    """Draw the graph into an SVG file; the same graph gives the same bytes.

    Raises: ModuleNotFoundError where matplotlib (the extra `plot`) is not installed; OSError where `path` cannot be
    written.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    spots = layered(graph)
    columns = 1 + max((s.column for s in spots), default=0.0)
    rows = 1 + max((s.row for s in spots), default=0)
    with mpl.rc_context({"svg.hashsalt": "autotune", "font.family": "monospace", "font.size": 8}):
        figure = Figure(figsize=(columns * COLUMN_INCHES, rows * ROW_INCHES))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(-0.5, columns - 0.5)
        axes.set_ylim(rows - 0.5, -0.5)
        boxes = [_box(axes, phase, spot) for phase, spot in zip(graph.phases, spots, strict=True)]
        for edge in graph.edges:
            _arrow(axes, boxes[edge.source], boxes[edge.target], edge_label(edge.bytes, edge.uses), edge.carried)
        figure.savefig(path, format="svg", metadata={"Date": None})


def phase_label(phase: Phase) -> str:
    """Two lines: what the phase does, and the axes of its result."""
    what = f"p{phase.number} {phase.kind.value}" if phase.op is None else f"p{phase.number} {phase.op.value}"
    if phase.access:
        what += f" t{phase.access.tensor}"
    if phase.contribution:
        what += f" over {' '.join(f'a{a}' for a in phase.contribution)}"
    axes = ", ".join(f"a{a}" for a in phase.axes)
    return f"{what}\n{phase.dtype.value}({axes})"


def edge_label(size_bytes: int | None, uses: int) -> str:
    parts = [] if size_bytes is None else [f"{size_bytes} B"]
    return " ".join([*parts, *([f"x{uses}"] if uses > 1 else [])])


def _keyed(graph: PhaseGraph) -> list[tuple[Edge, int]]:
    """Every edge with the key networkx gives it among those between the same two phases."""
    seen: dict[tuple[int, int], int] = {}
    result = []
    for edge in graph.edges:
        key = seen.get((edge.source, edge.target), 0)
        seen[edge.source, edge.target] = key + 1
        result.append((edge, key))
    return result


def _box(axes: Any, phase: Phase, spot: Spot) -> Any:
    style = {"boxstyle": "round,pad=0.4", "facecolor": COLOURS[phase.kind], "edgecolor": "#555555"}
    return axes.text(spot.column, spot.row, phase_label(phase), ha="center", va="center", bbox=style, zorder=1)


def _arrow(axes: Any, source: Any, target: Any, label: str, carried: bool) -> None:
    (x0, y0), (x1, y1) = source.get_position(), target.get_position()
    # An edge that skips rows, or runs upwards, bends around the boxes between.
    bend = BEND if carried or y1 - y0 > 1 else 0.0
    style: dict[str, Any] = {
        "arrowstyle": "->",
        "linestyle": "dashed" if carried else "solid",
        "color": "#555555",
        "connectionstyle": f"arc3,rad={bend}",
        "patchA": source.get_bbox_patch(),
        "patchB": target.get_bbox_patch(),
    }
    if source is target:
        style.update(connectionstyle="arc3,rad=1.6", patchA=None, patchB=None, shrinkA=16, shrinkB=16)
        x0, x1 = x0 - 0.15, x1 + 0.15
    # Drawn after the boxes: only then do they have the size at which an arrow ends.
    axes.annotate("", xy=(x1, y1), xytext=(x0, y0), arrowprops=style, zorder=2)
    if label:
        across, down = (x1 - x0) * COLUMN_INCHES, (y1 - y0) * ROW_INCHES
        along = 0.5 if bend else 0.4  # apart from where edges between two rows cross
        x = x0 + along * (x1 - x0) - bend * down / 2 / COLUMN_INCHES
        y = y0 + along * (y1 - y0) + bend * across / 2 / ROW_INCHES
        if source is target:
            y = y0 + LOOP_ROWS
        axes.text(x + 0.03, y, label, fontsize=6, color="#555555")
