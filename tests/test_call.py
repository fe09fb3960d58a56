"""Calls from Python: arguments checked, the trusted code run, threads kept apart."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune import jit
from autotune.call import Calls, Dispatcher
from autotune.call_arguments import Array
from autotune.call_entry import Backend, Origin
from autotune.call_errors import (
    CallError,
    MaskedArray,
    Misaligned,
    MissingArgument,
    NotAnArray,
    NotContiguous,
    NotExported,
    OverlappingArguments,
    ReadOnlyOutput,
    RepeatedArgument,
    StalePolicyWarning,
    TooManyArguments,
    UnknownArgument,
    UntunedWarning,
    WrongDtype,
    WrongExtent,
    WrongRank,
    WrongScalar,
)
from autotune.call_recheck import fault
from autotune.ir.affine import dim
from autotune.ir.program import Program
from autotune.planner import lookup
from autotune.realizations.candidate import Candidate
from autotune.realizations.target import Target
from autotune.store.database import open_database
from autotune.store.keys import workload_of
from tests import scale_kernel
from tests.scale_kernel import PROGRAM, Compiled, Kernel, candidate
from tests.store.samples import outcome

WINNER, REFERENCE = candidate(2), candidate(1)
SHAPE = {"M": 5, "N": 7}


@dataclass(eq=False)
class World:
    """A store, and a compiler whose code for the winner can be made other or wrong."""

    path: Path
    target: Target
    factor: float = 1.0  # of the winner's code: 1 is right
    illegal: str | None = None
    built: list[Candidate] = field(default_factory=list)

    def build(self, program: Program, chosen: Candidate, target: Target) -> Compiled:
        self.built.append(chosen)
        return scale_kernel.build(program, chosen, target, self.factor if chosen == WINNER else 1.0)

    def backend(self) -> Backend:
        def check(
            _: Any, program: Program, sizes: Mapping[str, int], scalars: Mapping[str, Any], run: Any
        ) -> str | None:
            return fault(program, sizes, scalars, None, run)

        return Backend(
            target=self.target,
            lookup=lambda kernel, sizes, target: lookup(kernel, sizes, target, database=self.path),
            refusal=lambda *_: self.illegal,
            reference=lambda *_: REFERENCE,
            build=self.build,
            load=jit.load,
            fault=check,
        )

    def tune(self, sizes: Mapping[str, int], sha256: str | None = None) -> None:
        """Store a policy whose object is the one that the compiler makes, or another."""
        workload = workload_of(PROGRAM, sizes, self.target)
        made = scale_kernel.build(Kernel().bind(**sizes), WINNER, self.target)
        with open_database(self.path) as database:
            database.record(workload, WINNER, outcome(workload, WINNER, object_sha256=sha256 or made.sha256))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(path=tmp_path / "policies.sqlite", target=jit.host_target())


@pytest.fixture
def dispatcher(world: World) -> Dispatcher:
    world.tune(SHAPE)
    return Dispatcher(Kernel(), world.backend())


def arrays(rows: int = 5, columns: int = 7, dtype: Any = np.float32) -> tuple[Array, Array]:
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(dtype)
    return x, np.full_like(x, np.nan)


def origins(dispatcher: Dispatcher) -> list[Origin]:
    return [entry.origin for entry in dispatcher.entries.values() if entry is not None]


# Which code runs


def test_stored_winner_runs_without_a_word(dispatcher: Dispatcher, world: World) -> None:
    x, y = arrays()
    for _ in range(2):
        assert dispatcher((x, y, 3.0), {}) == ()
        assert np.array_equal(y, x * np.float32(3))
    assert world.built == [WINNER]
    assert origins(dispatcher) == [Origin.TUNED]


def test_defaults_and_names(dispatcher: Dispatcher) -> None:
    x, y = arrays()
    dispatcher((x,), {"y": y})
    assert np.array_equal(y, x * 2)
    dispatcher((), {"a": 0.5, "y": y, "x": x})
    assert np.array_equal(y, x * np.float32(0.5))


def test_miss_runs_the_reference_and_says_how_to_tune(world: World) -> None:
    dispatcher = Dispatcher(Kernel(), world.backend())
    x, y = arrays()
    (note,) = dispatcher((x, y), {})
    assert note.category is UntunedWarning
    assert "scale at M=5,N=7 runs the reference candidate: there is no database at" in note.text
    command = f"autotune search examples/scale.py --kernel scale --shape M=5,N=7 --target simd:{world.target.name}"
    assert note.text.endswith(f"Tune it with: {command}")
    assert np.array_equal(y, x * 2)
    assert dispatcher((x, y), {}) == ()
    assert len(dispatcher((*arrays(3, 3), 2.0), {})) == 1
    assert world.built == [REFERENCE, REFERENCE]


def test_command_names_scalars_that_have_no_default(world: World) -> None:
    x, y, a = PROGRAM.parameters
    program = replace(PROGRAM, parameters=(x, y, replace(a, default=None)))
    (note,) = Dispatcher(Kernel(program=program), world.backend())((*arrays(), 0.125), {})
    assert "--shape M=5,N=7,a=0.125 --target" in note.text


def test_other_code_is_checked_again_before_it_runs(world: World) -> None:
    world.tune(SHAPE, sha256="c" * 64)
    dispatcher = Dispatcher(Kernel(), world.backend())
    x, y = arrays()
    (note,) = dispatcher((x, y), {})
    assert note.category is StalePolicyWarning
    assert f"the stored winner {WINNER.id} of scale at M=5,N=7 compiles to other code than was measured" in note.text
    assert "it was checked again and is correct" in note.text
    assert np.array_equal(y, x * 2)
    assert origins(dispatcher) == [Origin.RECHECKED]
    assert dispatcher((x, y), {}) == ()


def test_other_code_that_is_wrong_never_touches_the_arguments(world: World) -> None:
    world.tune(SHAPE)
    world.factor = 1.5
    dispatcher = Dispatcher(Kernel(), world.backend())
    x, y = arrays()
    (note,) = dispatcher((x, y), {})
    assert note.category is StalePolicyWarning
    assert "and is wrong: y[" in note.text and "on normal data" in note.text
    assert np.array_equal(y, x * 2)
    assert origins(dispatcher) == [Origin.REFERENCE]
    assert world.built == [WINNER, REFERENCE]


def test_winner_that_became_illegal_is_not_compiled(dispatcher: Dispatcher, world: World) -> None:
    world.illegal = "lanes: 4 exceeds 2"
    x, y = arrays()
    (note,) = dispatcher((x, y), {})
    assert "is not legal any more (lanes: 4 exceeds 2); the reference candidate runs" in note.text
    assert world.built == [REFERENCE]
    assert np.array_equal(y, x * 2)


def test_unusable_store_is_loud_and_harmless(world: World) -> None:
    world.path.write_bytes(b"no database" * 1000)
    x, y = arrays()
    (note,) = Dispatcher(Kernel(), world.backend())((x, y), {})
    assert "cannot be used" in note.text
    assert np.array_equal(y, x * 2)


def test_nothing_to_write_compiles_nothing(world: World) -> None:
    dispatcher = Dispatcher(Kernel(), world.backend())
    for rows, columns in ((0, 7), (5, 0)):
        assert dispatcher(arrays(rows, columns), {}) == ()
        assert dispatcher(arrays(rows, columns), {}) == ()
    assert world.built == []


def test_warning_points_at_the_caller(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.call._CALLS", Calls(world.backend))
    kernel = Kernel()

    def as_kernel_does(*args: object, **kwargs: object) -> None:
        from autotune.call import call

        call(kernel, args, kwargs)

    x, y = arrays()
    with pytest.warns(UntunedWarning) as caught:
        as_kernel_does(x, y)
    assert [Path(warning.filename) for warning in caught] == [Path(__file__)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_kernel_does(x, y)


# Arguments


def read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def misaligned(array: Array) -> Array:
    raw = np.zeros(array.nbytes + 1, dtype=np.uint8)
    return raw[1:].view(array.dtype).reshape(array.shape)


def big_endian(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder(">"))


WRONG_ARRAYS: dict[str, tuple[Any, type[CallError], str]] = {
    "dtype": (lambda x, y: (x.astype(np.float64), y), WrongDtype, "'x' of scale has dtype float64, expected float32"),
    "byte order": (lambda x, y: (big_endian(x), y), WrongDtype, "has dtype >f4, expected float32"),
    "rank": (lambda x, y: (x[0], y), WrongRank, r"'x' of scale has 1 dimensions.*expected x: f32\[M, N\]"),
    "extent": (lambda x, y: (x, y[:3]), WrongExtent, r"shape \(3, 7\).*\n.*M is 5 in 'x', N is 7 in 'x'"),
    "strides": (lambda x, y: (np.asfortranarray(x), y), NotContiguous, r"pass np.ascontiguousarray\(x\)"),
    "output strides": (lambda x, y: (x, np.asfortranarray(y)), NotContiguous, "pass a contiguous output"),
    "reversed": (lambda x, y: (x[::-1], y), NotContiguous, "not C-contiguous"),
    "alignment": (lambda x, y: (misaligned(x), y), Misaligned, "no multiple of its 4 bytes"),
    "read-only": (lambda x, y: (x, read_only(y)), ReadOnlyOutput, "'y' of scale is written to, and .* read-only"),
    "same array": (lambda x, y: (y, y), OverlappingArguments, "'y' of scale .* shares memory with argument 'x'"),
    "list": (lambda x, y: (x.tolist(), y), NotAnArray, "'x' of scale is a list, which is no array"),
    "number": (lambda x, y: (1.0, y), NotAnArray, "is a float"),
    "masked": (lambda x, y: (np.ma.masked_array(x), y), MaskedArray, r"x.filled\(value\)"),
}


@pytest.mark.parametrize("case", WRONG_ARRAYS)
@pytest.mark.parametrize("warm", [False, True])
def test_wrong_array(dispatcher: Dispatcher, case: str, warm: bool) -> None:
    spoil, error, words = WRONG_ARRAYS[case]
    if warm:
        dispatcher(arrays(), {})
    with pytest.raises(error, match=words):
        dispatcher(spoil(*arrays()), {})
    x, y = arrays()
    dispatcher((x, y), {})
    assert np.array_equal(y, x * 2)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("shift", [-3, 0, 3])
def test_partial_overlap(dispatcher: Dispatcher, warm: bool, shift: int) -> None:
    if warm:
        dispatcher(arrays(), {})
    memory = np.zeros(100, dtype=np.float32)
    x, y = memory[10:45].reshape(5, 7), memory[10 + shift : 45 + shift].reshape(5, 7)
    with pytest.raises(OverlappingArguments):
        dispatcher((x, y), {})


def test_neighbours_do_not_overlap(dispatcher: Dispatcher) -> None:
    memory = np.arange(70, dtype=np.float32)
    x, y = memory[:35].reshape(5, 7), memory[35:].reshape(5, 7)
    for _ in range(2):
        dispatcher((x, y), {})
        assert np.array_equal(y, x * 2)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "words"),
    [
        ((1, 2, 3, 4), {}, TooManyArguments, r"takes 3 arguments, 4 were given\n  expected scale\(x: f32\[M, N\]"),
        ((1,), {}, MissingArgument, "needs the argument 'y'"),
        ((1, 2), {"z": 1}, UnknownArgument, "has no parameter 'z'"),
        ((1, 2), {"x": 1}, RepeatedArgument, "'x' twice"),
    ],
)
def test_wrong_count_or_name(
    dispatcher: Dispatcher, args: tuple[Any, ...], kwargs: dict[str, Any], error: type[CallError], words: str
) -> None:
    with pytest.raises(error, match=words):
        dispatcher(args, kwargs)


@pytest.mark.parametrize("value", ["2", None, True, np.ones(2), 1e300, 1j])
@pytest.mark.parametrize("warm", [False, True])
def test_wrong_scalar(dispatcher: Dispatcher, value: object, warm: bool) -> None:
    if warm:
        dispatcher(arrays(), {})
    with pytest.raises(WrongScalar, match=r"argument .a. of scale is .*, expected a: f32 = 2\.0"):
        dispatcher((*arrays(), value), {})


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.float64(2), np.int64(2), np.array(2.0)])
def test_numbers_of_any_kind_are_scalars(dispatcher: Dispatcher, value: object) -> None:
    x, y = arrays()
    dispatcher((x, y, value), {})
    assert np.array_equal(y, x * 2)


def test_fixed_extents_and_combinations_are_checked(world: World) -> None:
    x, y, a = PROGRAM.parameters
    program = replace(PROGRAM, parameters=(x, replace(y, shape=(dim(0), dim(1) + 1)), a))
    dispatcher = Dispatcher(Kernel(program=program), world.backend())
    with pytest.raises(WrongExtent, match=r"expected y: f32\[M, N \+ 1\]"):
        dispatcher(arrays(), {})


# DLPack


class Exporter:
    """Memory that says nothing but DLPack, of the old protocol or the one with versions."""

    def __init__(self, array: Array, *, versions: bool) -> None:
        self.array = array
        self.versions = versions

    def __dlpack__(self, **options: Any) -> Any:
        if not self.versions and options:
            raise TypeError("no such option")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("versions", [False, True])
def test_dlpack_is_used_in_place(dispatcher: Dispatcher, versions: bool) -> None:
    x, y = arrays()
    for _ in range(2):
        y[:] = np.nan
        dispatcher((Exporter(x, versions=versions), Exporter(y, versions=versions)), {})
        assert np.array_equal(y, x * 2)


def test_read_only_dlpack_output(dispatcher: Dispatcher) -> None:
    x, y = arrays()
    with pytest.raises((ReadOnlyOutput, NotExported)):
        dispatcher((x, Exporter(read_only(y), versions=True)), {})


def test_memory_elsewhere_is_refused(dispatcher: Dispatcher) -> None:
    class Elsewhere(Exporter):
        def __dlpack_device__(self) -> Any:
            return (2, 0)

        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("memory of device 2")

    x, y = arrays()
    with pytest.raises(NotExported, match="'x' of scale cannot be used without a copy: "):
        dispatcher((Elsewhere(x, versions=False), y), {})


# Threads


def test_threads_do_not_share_a_workspace(world: World) -> None:
    world.tune({"M": 64, "N": 2048})
    dispatcher = Dispatcher(Kernel(), world.backend())
    wrong: list[float] = []
    start = threading.Barrier(2)

    def work(scale: float) -> None:
        x = np.full((64, 2048), scale, dtype=np.float32)
        y = np.empty_like(x)
        start.wait()
        for _ in range(60):
            dispatcher((x, y, scale), {})
            if not (y == np.float32(scale * scale)).all():
                wrong.append(scale)

    threads = [threading.Thread(target=work, args=(scale,)) for scale in (3.0, 5.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert world.built == [WINNER]


_WAIT = """
target triple = "{triple}"
define void @scale(ptr %args, ptr %workspace, i64 %first, i64 %last) {{
start:
  %x = load ptr, ptr %args
  %py = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %py
  br label %spin
spin:
  %i = phi i64 [0, %start], [%i1, %spin]
  %v = load volatile float, ptr %x
  %i1 = add i64 %i, 1
  %zero = fcmp oeq float %v, 0.0
  %early = icmp slt i64 %i1, 4000000000
  %again = and i1 %zero, %early
  br i1 %again, label %spin, label %done
done:
  store float %v, ptr %y
  ret void
}}
"""


def test_calls_release_the_interpreter_lock(world: World) -> None:
    def build(program: Program, chosen: Candidate, target: Target) -> Compiled:
        made = jit.compile_module(_WAIT.format(triple=target.triple), target)
        return Compiled(
            object_bytes=made.object_bytes, sha256=made.sha256, symbol="scale", workspace_bytes=0, packets=1
        )

    dispatcher = Dispatcher(Kernel(), replace(world.backend(), build=build))
    x, y = np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)
    dispatcher((x, y), {})
    x[0, 0] = 0.0
    thread = threading.Thread(target=dispatcher, args=((x, y), {}))
    thread.start()
    time.sleep(0.02)
    x[0, 0] = 9.0
    thread.join()
    assert y[0, 0] == 9.0


def test_threads_prepare_a_kernel_once(world: World) -> None:
    calls, kernel, start = Calls(world.backend), Kernel(), threading.Barrier(4)
    notes: list[int] = []

    def work() -> None:
        x, y = arrays()
        start.wait()
        notes.append(len(calls.dispatcher(kernel)((x, y), {})))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(notes) == [0, 0, 0, 1]
    assert world.built == [REFERENCE]
