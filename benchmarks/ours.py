"""Our side of a comparison: the search's winner and the reference candidate as machine code on the shared buffers.
Must not choose a candidate by itself: what the search stored is what is timed."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from autotune import tune
from autotune.build import build
from autotune.ir.interpret import interpret
from autotune.ir.program import Program, Tensor
from autotune.jit import host_target, load
from autotune.language.kernel import Kernel
from autotune.language.load import load_kernels
from autotune.measure.protocol import Kernel as CompiledCode
from autotune.realizations.candidate import Candidate
from autotune.realizations.reference import reference_candidate
from benchmarks.buffers import Buffers
from benchmarks.case import Answer, Arrays, Case
from benchmarks.peers import Prepared
from benchmarks.timing import NativeCall, repeater

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeKernel:
    """Machine code called as `entry(args: i64*, workspace: i8*, first: i64, last: i64)`.

    `args` has one 64-bit slot a parameter of the kernel, in order: tensor pointers and scalars bit-cast; a kernel
    whose extents are all constant has no others. `keep_alive` owns the code.
    """

    candidate: str
    entry_address: int
    workspace_bytes: int
    packets: int
    keep_alive: object


@dataclass(frozen=True, slots=True)
class WinnerAndReference:
    """What a full run puts on our side, each case searched for at most `budget_s` seconds."""

    budget_s: float

    def answer(self, case: Case, inputs: Arrays) -> Answer:
        """The oracle's answer and bound; inputs are matched with the example's tensors by position. Of contractions
        the answer of this folder, which takes no longer than BLAS does.

        Raises: ArgumentMismatch where an example's tensors are not those of its case.
        """
        if case.flops is not None:
            return case.answer(inputs)
        program = kernel_of(case).bind(**case.extents)
        tensors = dict(zip(_input_names(program), inputs.values(), strict=True))
        expected = interpret(program, {**tensors, **dict(case.scalars)}).outputs[0]
        return Answer(value=expected.values, bound=expected.bound)

    def prepare(self, case: Case, buffers: Buffers) -> tuple[Prepared, Prepared | None]:
        return bind(tuned(case, self.budget_s), case, buffers), bind(reference(case), case, buffers)


def tuned(case: Case, budget_s: float) -> NativeKernel:
    """The winner that a search of at most `budget_s` seconds stores for `case`, or the one it stored before.

    Raises: RuntimeError where the search ends without a correct candidate.
    """
    return _native(case, winner_of(case, budget_s))


def winner_of(case: Case, budget_s: float) -> Candidate:
    """The candidate of `tuned`.

    Raises: RuntimeError.
    """
    kernel = kernel_of(case)
    needed = {name: value for name, value in case.scalars if kernel.scalar_defaults[name] is None}
    result = tune.search(kernel, {**case.extents, **needed}, budget_s=budget_s)
    if result.winner is None:
        raise RuntimeError(f"the search of {case.name} found no correct candidate: {result.ending.value}")
    return result.winner.candidate


def reference(case: Case) -> NativeKernel:
    """The reference candidate of `case`."""
    program = kernel_of(case).bind(**case.extents)
    return _native(case, reference_candidate(program, host_target()))


def bind(kernel: NativeKernel, case: Case, buffers: Buffers, workspace: int | None = None) -> Prepared:
    """Lay out the argument slots for `buffers`; the workspace is at the given address, else taken from their arena."""
    tensors = [array.ctypes.data for array in (*buffers.inputs.values(), buffers.y)]
    slots = pack_slots(tensors, dict(case.scalars))
    workspace = buffers.scratch(max(kernel.workspace_bytes, 64)) if workspace is None else workspace
    call = NativeCall(address=kernel.entry_address, arguments=(ctypes.addressof(slots), workspace, 0, kernel.packets))
    once = repeater(call)

    def outcome(kept: object = (slots, kernel)) -> NDArray[np.float32]:
        once(1)
        return buffers.y

    return Prepared(formulation=kernel.candidate, call=call, outcome=outcome)


def pack_slots(tensors: list[int], scalars: Mapping[str, float]) -> ctypes.Array[ctypes.c_int64]:
    """The 64-bit slots of a call: pointers, then float32 scalars, each in the low half of its slot."""
    bits = [int.from_bytes(struct.pack("<f", value), "little") for value in scalars.values()]
    return (ctypes.c_int64 * (len(tensors) + len(bits)))(*tensors, *bits)


def _native(case: Case, candidate: Candidate) -> NativeKernel:
    return loaded(candidate.id, build(kernel_of(case).bind(**case.extents), candidate, host_target()))


def loaded(candidate: str, built: CompiledCode) -> NativeKernel:
    """Compiled code of the candidate with this id, loaded into this process."""
    handle = load(built.object_bytes, built.symbol)
    return NativeKernel(
        candidate=candidate,
        entry_address=handle.address,
        workspace_bytes=built.workspace_bytes,
        packets=built.packets,
        keep_alive=handle,
    )


@cache
def kernel_of(case: Case) -> Kernel:
    """The kernel of the example file that `case` names."""
    (kernel,) = load_kernels(EXAMPLES / f"{case.kernel}.py").values()
    return kernel


def _input_names(program: Program) -> list[str]:
    """Names of the tensors that an example reads: all but the last, which it writes."""
    *inputs, _ = [parameter.name for parameter in program.parameters if isinstance(parameter, Tensor)]
    return inputs
