"""A kernel y[i, :] = x[i, :] * a with hand-written machine code, for tests of calls and lookups.
Must not know which test uses it."""

from __future__ import annotations

from dataclasses import dataclass

from autotune import jit
from autotune.ir.affine import coord, dim
from autotune.ir.program import (
    Axis,
    AxisKind,
    Elementwise,
    Let,
    Load,
    Number,
    Program,
    Scalar,
    ScalarArgument,
    Store,
    Tensor,
    bind,
)
from autotune.ir.types import DType, Op
from autotune.realizations.candidate import Candidate, Clones, Mapping, Tile
from autotune.realizations.target import Target

PROGRAM = Program(
    name="scale",
    dims=("M", "N"),
    parameters=(
        Tensor(name="x", dtype=DType.F32, shape=(dim(0), dim(1))),
        Tensor(name="y", dtype=DType.F32, shape=(dim(0), dim(1))),
        Scalar(name="a", dtype=DType.F32, default=2.0),
    ),
    axes=(
        Axis(id=0, kind=AxisKind.PROGRAM, extent=dim(0)),
        Axis(id=1, kind=AxisKind.FULL, extent=dim(1)),
    ),
    parallel=(0,),
    body=(
        Let(id=0, value=Load(tensor=0, index=(coord(0), coord(1))), dtype=DType.F32, axes=(0, 1)),
        Let(id=1, value=ScalarArgument(parameter=2), dtype=DType.F32, axes=()),
        Let(id=2, value=Elementwise(op=Op.MUL, args=(0, 1)), dtype=DType.F32, axes=(0, 1)),
        Store(tensor=1, index=(coord(0), coord(1)), value=2),
    ),
)


@dataclass(eq=False)
class Kernel:
    """What `@at.kernel` makes, as far as a call sees it."""

    program: Program = PROGRAM
    file: str = "examples/scale.py"

    @property
    def name(self) -> str:
        return self.program.name

    def bind(self, **dims: Number) -> Program:
        return bind(self.program, {name: int(size) for name, size in dims.items()})


def candidate(block: int = 1) -> Candidate:
    return Candidate(
        tiles=(Tile(axis=0, block=block),), mapping=((0, Mapping(axis=1, lanes=4)),), storage=(), nests=(), transfer=(),
        compute=(), tail=(), packet=Clones.GENERAL,
    )  # fmt: skip


# Each row goes through the workspace, so that two calls sharing one would disturb each other.
_TEXT = """
target triple = "{triple}"
define void @scale(ptr %args, ptr %workspace, i64 %first, i64 %last) {{
start:
  %x = load ptr, ptr %args
  %py = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %py
  %pa = getelementptr i64, ptr %args, i64 2
  %given = load float, ptr %pa
  %a = fmul float %given, {factor}
  br label %rows
rows:
  %r = phi i64 [%first, %start], [%r1, %row_end]
  %more = icmp slt i64 %r, %last
  br i1 %more, label %in, label %end
in:
  %base = mul i64 %r, {n}
  br label %copy
copy:
  %i = phi i64 [0, %in], [%i1, %copy]
  %ix = add i64 %base, %i
  %from = getelementptr float, ptr %x, i64 %ix
  %v = load float, ptr %from
  %w = getelementptr float, ptr %workspace, i64 %i
  store volatile float %v, ptr %w
  %i1 = add i64 %i, 1
  %c1 = icmp slt i64 %i1, {n}
  br i1 %c1, label %copy, label %scale
scale:
  %j = phi i64 [0, %copy], [%j1, %scale]
  %wj = getelementptr float, ptr %workspace, i64 %j
  %u = load volatile float, ptr %wj
  %s = fmul float %u, %a
  %iy = add i64 %base, %j
  %to = getelementptr float, ptr %y, i64 %iy
  store float %s, ptr %to
  %j1 = add i64 %j, 1
  %c2 = icmp slt i64 %j1, {n}
  br i1 %c2, label %scale, label %row_end
row_end:
  %r1 = add i64 %r, 1
  br label %rows
end:
  ret void
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    object_bytes: bytes
    sha256: str
    symbol: str
    workspace_bytes: int
    packets: int


def build(program: Program, chosen: Candidate, target: Target, factor: float = 1.0) -> Compiled:
    """Right at `factor` 1; the block size of the candidate leaves the code as it is."""
    rows, columns = (extent.evaluate({}) for extent in program.tensor(0).shape)
    made = jit.compile_module(_TEXT.format(triple=target.triple, n=columns, factor=f"{factor:e}"), target)
    return Compiled(
        object_bytes=made.object_bytes, sha256=made.sha256, symbol="scale", workspace_bytes=4 * columns, packets=rows
    )
