"""The gate and the clock on hand-written kernels inside the test process: in-out tensors, scalars, partial stores."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import replace

import numpy as np
import pytest

from autotune.build import CompiledKernel
from autotune.ir.affine import Affine, coord
from autotune.ir.program import (
    Axis,
    AxisKind,
    Const,
    Elementwise,
    IndexValue,
    Let,
    Load,
    Parameter,
    Program,
    Region,
    Scalar,
    ScalarArgument,
    Store,
    Tensor,
)
from autotune.ir.types import DType, Op
from autotune.jit import compile_module, host_target, load
from autotune.measure.bench import Bench
from autotune.measure.buffers import NAN_POISON, plan_layout
from autotune.measure.cases import envelopes, make_cases
from autotune.measure.clock import LOOP_SYMBOL, Clock, UnknownControlWord, loop_text
from autotune.measure.gate import Passed, check_kernel
from autotune.measure.inputs import InputKind
from autotune.measure.protocol import Subject
from autotune.measure.states import Wrong

N = 133
EXTENT = Affine(constant=N)


@pytest.fixture(scope="module")
def clock() -> Clock:
    loop = compile_module(loop_text(), host_target())
    return Clock(load(loop.object_bytes, LOOP_SYMBOL), seed=1)


def over_i(parameters: tuple[Parameter, ...], body: Region) -> Program:
    axis = Axis(id=0, kind=AxisKind.PROGRAM, extent=EXTENT)
    return Program(name="p", dims=(), parameters=parameters, axes=(axis,), parallel=(0,), body=body)


def scaling_in_place() -> Program:
    """y[i] = y[i] · scale, the scalar named before the tensor."""
    return over_i(
        (Scalar(name="scale", dtype=DType.F32), Tensor(name="y", dtype=DType.F32, shape=(EXTENT,))),
        (
            Let(id=0, value=Load(tensor=1, index=(coord(0),)), dtype=DType.F32, axes=(0,)),
            Let(id=1, value=ScalarArgument(parameter=0), dtype=DType.F32, axes=()),
            Let(id=2, value=Elementwise(op=Op.MUL, args=(0, 1)), dtype=DType.F32, axes=(0,)),
            Store(tensor=1, index=(coord(0),), value=2),
        ),
    )


def positive_below(limit: int, stored: DType) -> Program:
    """y[i] = x[i] > 0 as bool, or minus one as an integer, for i < limit; the rest is not stored."""
    value = Elementwise(op=Op.GT, args=(0, 1)) if stored is DType.BOOL else Const(value=-1)
    return over_i(
        (Tensor(name="x", dtype=DType.F32, shape=(EXTENT,)), Tensor(name="y", dtype=stored, shape=(EXTENT,))),
        (
            Let(id=0, value=Load(tensor=0, index=(coord(0),)), dtype=DType.F32, axes=(0,)),
            Let(id=1, value=Const(value=0.0), dtype=DType.F32, axes=()),
            Let(id=2, value=value, dtype=stored, axes=(0,) if stored is DType.BOOL else ()),
            Let(id=3, value=IndexValue(expression=coord(0)), dtype=DType.I64, axes=(0,)),
            Let(id=4, value=Const(value=limit), dtype=DType.I64, axes=()),
            Let(id=5, value=Elementwise(op=Op.LT, args=(3, 4)), dtype=DType.BOOL, axes=(0,)),
            Store(tensor=1, index=(coord(0),), value=2, mask=5),
        ),
    )


def kernel_of(step: str, end: int) -> CompiledKernel:
    """An entry that runs `step` for %i below `end`; %p0 and %p1 are its first two argument slots as addresses."""
    text = f"""
define void @entry(ptr %args, ptr %workspace, i64 %first, i64 %last) {{
start:
  %slot1 = getelementptr i64, ptr %args, i64 1
  %p0 = load ptr, ptr %args
  %p1 = load ptr, ptr %slot1
  %scale = load float, ptr %slot1
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %i.next, %loop ]
  {step}
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, {end}
  br i1 %more, label %loop, label %end
end:
  ret void
}}
declare void @llvm.x86.sse.ldmxcsr(ptr)"""
    compiled = compile_module(text, host_target())
    return CompiledKernel(
        object_bytes=compiled.object_bytes,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        symbol="entry",
        workspace_bytes=0,
        packets=1,
        instructions=0,
        code_bytes=0,
        compile_seconds=0.0,
        decision="",
    )


def bench_of(program: Program, **scalars: float) -> Bench:
    cases = make_cases(program, 5, sizes={}, scalars=scalars)
    return Bench(
        Subject(
            program=program,
            target=host_target(),
            cases=cases,
            envelopes=tuple(envelopes(program, case) for case in cases),
            layout=plan_layout(program),
            build="",
            seed=5,
            l2_bytes=1 << 20,
            memory_bytes=1 << 30,
        )
    )


def verdict(program: Program, clock: Clock, kernel: CompiledKernel, **scalars: float) -> Passed | Wrong:
    bench = bench_of(program, **scalars)
    return check_kernel(bench, clock, bench.loaded(kernel), lambda text, is_call: None)


SCALE_STEP = """
  %at = getelementptr float, ptr %p0, i64 %i
  %old = load float, ptr %at
  %new = fmul float %old, %scale
  store float %new, ptr %at
"""
POSITIVE_STEP = """
  %from = getelementptr float, ptr %p0, i64 %i
  %to = getelementptr i8, ptr %p1, i64 %i
  %x = load float, ptr %from
  %is = fcmp ogt float %x, 0.0
  %byte = {widen} i1 %is to i8
  store i8 %byte, ptr %to
"""
MINUS_STEP = """
  %to = getelementptr i32, ptr %p1, i64 %i
  store i32 -1, ptr %to
"""


def test_in_out_tensors_are_restored_before_every_run(clock: Clock) -> None:
    passed = verdict(scaling_in_place(), clock, kernel_of(SCALE_STEP, N), scale=0.75)
    assert isinstance(passed, Passed)
    assert passed.checks.kinds == tuple(k.value for k in InputKind)


def test_a_scalar_reaches_the_kernel_and_a_wrong_one_shows(clock: Clock) -> None:
    doubled = SCALE_STEP.replace("fmul float %old, %scale", "fmul float %old, 1.0")
    assert isinstance(verdict(scaling_in_place(), clock, kernel_of(doubled, N), scale=0.75), Wrong)


def test_the_timed_loop_uses_each_copy_of_an_in_out_tensor_once_between_refills(clock: Clock) -> None:
    bench = bench_of(scaling_in_place(), scale=0.5)
    bench.prepare_timing()
    (call,) = bench.timed_calls([bench.loaded(kernel_of(SCALE_STEP, N))])
    assert bench.needs_refill and call.copies > 1
    refills = []

    def refill() -> None:
        bench.refill()
        refills.append(1)

    assert clock.sample(call, 1000.0, refill) > 0
    assert len(refills) >= 200 // call.copies
    bench.refill()
    clock.run(call, call.copies)
    original = np.asarray(bench.subject.cases[0].arguments["y"])
    for copy in bench._copies:
        assert np.array_equal(copy.tensor(copy.layout.slots[0]), original * np.float32(0.5))
    assert np.array_equal(bench.arena.tensor(bench.subject.layout.slots[0]), original)


def test_places_that_are_not_stored_must_stay_untouched(clock: Clock) -> None:
    program = positive_below(100, DType.BOOL)
    step = POSITIVE_STEP.format(widen="zext")
    assert isinstance(verdict(program, clock, kernel_of(step, 100)), Passed)
    beyond = verdict(program, clock, kernel_of(step, 101))
    assert isinstance(beyond, Wrong)


def test_a_bool_is_a_byte_zero_or_one(clock: Clock) -> None:
    found = verdict(positive_below(N, DType.BOOL), clock, kernel_of(POSITIVE_STEP.format(widen="sext"), N))
    assert isinstance(found, Wrong) and "is the byte 255, no bool" in found.where


def test_an_unwritten_integer_is_noticed_even_where_poison_is_the_answer(clock: Clock) -> None:
    program = positive_below(N, DType.I32)
    assert isinstance(verdict(program, clock, kernel_of(MINUS_STEP, N)), Passed)
    found = verdict(program, clock, kernel_of(MINUS_STEP, N - 1))
    assert isinstance(found, Wrong) and found.where.startswith(f"y[{N - 1}] differs between two runs")


def test_an_empty_tensor_is_no_special_case(clock: Clock) -> None:
    program = scaling_in_place()
    axis = replace(program.axes[0], extent=Affine())
    scale, y = program.parameters
    assert isinstance(y, Tensor)
    empty = replace(program, axes=(axis,), parameters=(scale, replace(y, shape=(Affine(),))))
    nothing = kernel_of("", 1)
    assert isinstance(verdict(empty, clock, nothing, scale=0.75), Passed)


def test_checks_are_announced_with_what_they_run(clock: Clock) -> None:
    bench = bench_of(scaling_in_place(), scale=0.75)
    told: list[tuple[str, bool]] = []
    check_kernel(bench, clock, bench.loaded(kernel_of(SCALE_STEP, N)), lambda t, c: told.append((t, c)))
    assert told[0] == ("check on normal data", True) and told[1] == ("compare on normal data", False)
    assert sum(is_call for _, is_call in told) == 2 * len(InputKind) + 2


@pytest.mark.parametrize(("machine", "reset"), [("x86_64", "x86.sse.ldmxcsr"), ("aarch64", "aarch64.set.fpcr")])
def test_the_loop_resets_the_floating_point_state(machine: str, reset: str) -> None:
    assert loop_text(machine).count(f"call void @llvm.{reset}") == 2
    with pytest.raises(UnknownControlWord, match="control word of vax"):
        loop_text("vax")


def test_denormals_survive_a_kernel_that_switched_them_off(clock: Clock) -> None:
    flush = """
  %csr = alloca i32
  store i32 40896, ptr %csr
  call void @llvm.x86.sse.ldmxcsr(ptr %csr)
"""
    if platform.machine() != "x86_64":
        pytest.skip("writes the control word of x86")
    bench = bench_of(scaling_in_place(), scale=0.75)
    kernel = bench.loaded(kernel_of(flush, 1))
    bench.fill(bench.subject.cases[0], NAN_POISON)
    clock.run(bench.checked_call(kernel, bench.subject.cases[0], NAN_POISON), 3)
    assert np.float32(1e-39) * np.float32(1) != 0
