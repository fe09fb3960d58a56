"""One fork server and the program y = 2·x for all measurement tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.ir.affine import Affine, coord
from autotune.ir.program import Axis, AxisKind, Const, Elementwise, Let, Load, Program, Store, Tensor
from autotune.ir.types import DType, Op
from autotune.measure.server import ForkServer

ELEMENTS = 1003


def doubling(elements: int, strides: tuple[int, ...] | None = None) -> Program:
    """y[i] = x[i] · 2 over f32[elements]."""
    shape = (Affine(constant=elements),)
    return Program(
        name="doubling",
        dims=("N",),
        parameters=(
            Tensor(name="x", dtype=DType.F32, shape=shape),
            Tensor(name="y", dtype=DType.F32, shape=shape, strides=strides),
        ),
        axes=(Axis(id=0, kind=AxisKind.PROGRAM, extent=shape[0]),),
        parallel=(0,),
        body=(
            Let(id=0, value=Load(tensor=0, index=(coord(0),)), dtype=DType.F32, axes=(0,)),
            Let(id=1, value=Const(value=2.0), dtype=DType.F32, axes=()),
            Let(id=2, value=Elementwise(op=Op.MUL, args=(0, 1)), dtype=DType.F32, axes=(0,)),
            Store(tensor=1, index=(coord(0),), value=2),
        ),
    )


@pytest.fixture(scope="session")
def program() -> Program:
    return doubling(ELEMENTS)


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    with ForkServer("fake_build") as running:
        yield running
    sys.path.remove(folder)
