"""The noise floor of this machine by a small program of its own: y = 2·x raced against itself.
Must not know user kernels, searches or what the floor is used for."""

from __future__ import annotations

from autotune.ir.affine import Affine, coord
from autotune.ir.program import Axis, AxisKind, Const, Elementwise, Let, Load, Program, Store, Tensor
from autotune.ir.types import DType, Op
from autotune.jit import host_target
from autotune.measure.cases import make_cases
from autotune.measure.noise import NoiseFloor
from autotune.measure.server import ForkServer
from autotune.measure.session import Session
from autotune.measure.states import CompileError, CompileTimeout, Crash
from autotune.realizations.reference import reference_candidate

ELEMENTS = 4096  # in the first level cache, a fraction of a microsecond a call


def doubling(elements: int = ELEMENTS) -> Program:
    """y[i] = x[i] · 2 over f32[elements]."""
    shape = (Affine(constant=elements),)
    return Program(
        name="doubling",
        dims=(),
        parameters=(
            Tensor(name="x", dtype=DType.F32, shape=shape),
            Tensor(name="y", dtype=DType.F32, shape=shape),
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


def machine_noise() -> NoiseFloor | None:
    """What the program's reference candidate, raced against itself, shows; None where it does not compile or run."""
    program, target = doubling(), host_target()
    cases = make_cases(program, 0, sizes={}, scalars={}, oracle_seconds=0)
    with ForkServer() as server, Session(server, program, target, cases) as session:
        kernel = session.compile(reference_candidate(program, target)).result()
        if isinstance(kernel, CompileError | CompileTimeout | Crash):
            return None
        noise = session.noise_floor(kernel)
    return noise if isinstance(noise, NoiseFloor) else None
