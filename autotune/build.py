"""From a chosen candidate to machine code: judge, lower, emit, compile. Runs in workers and at a kernel's first call.
Must not know how candidates are chosen or measured."""

from __future__ import annotations

import time
from dataclasses import dataclass

from autotune import jit
from autotune.errors import AutotuneError
from autotune.ir.buffer import BufferProgram
from autotune.ir.buffer_verify import verify_buffer_program
from autotune.ir.program import Program
from autotune.realizations.candidate import Candidate
from autotune.realizations.emit import emit
from autotune.realizations.legality import decision, judge
from autotune.realizations.llvm import LlvmBuilder
from autotune.realizations.lower import lower
from autotune.realizations.target import Target
from autotune.realizations.verdict import Refused

SYMBOL = "entry"
PADDING_SYMBOL = "padding"


class IllegalCandidateError(AutotuneError):
    """A candidate that may not be emitted was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """Machine code of one candidate.

    Units: `workspace_bytes` of private memory a worker needs; `instructions` written to the builder; `code_bytes` of
    machine code; `compile_seconds` of wall clock for lowering, emission and LLVM together. `decision` says what became
    of a requested full clone.
    """

    object_bytes: bytes
    sha256: str
    symbol: str
    workspace_bytes: int
    packets: int
    instructions: int
    code_bytes: int
    compile_seconds: float
    decision: str


def plan(program: Program, candidate: Candidate, target: Target) -> BufferProgram:
    """The buffer program of a legal candidate, verified on its own.

    Raises: IllegalCandidateError with every reason where the candidate is refused; InvalidBufferProgram with the first
    broken rule where lowering went wrong.
    """
    verdict = judge(program, candidate, target)
    if isinstance(verdict, Refused):
        reasons = "; ".join(f"{reason.rule}: {reason.sentence}" for reason in verdict.reasons)
        raise IllegalCandidateError(what=f"candidate {candidate.id} is not legal here: {reasons}")
    lowered = lower(program, candidate)
    verify_buffer_program(lowered)
    return lowered


def emit_text(buffer_program: BufferProgram, target: Target) -> tuple[str, int]:
    """LLVM assembly of a buffer program and the number of builder instructions in it."""
    builder = LlvmBuilder(SYMBOL, target)
    emit(buffer_program, builder)
    return builder.finish(), builder.instructions


def padded(text: str, padding_bytes: int) -> str:
    """A module's text with a function of at least so many bytes before its own, so that the entry lies elsewhere.

    Its bytes are data before its first instruction, which loaders map and nothing runs.
    """
    if padding_bytes <= 0:
        return text
    filler = f"define void @{PADDING_SYMBOL}() prefix [{padding_bytes - 1} x i8] zeroinitializer {{\n  ret void\n}}\n"
    head, define, rest = text.partition("define ")
    return f"{head}{filler}{define}{rest}"


def build(program: Program, candidate: Candidate, target: Target, *, padding_bytes: int = 0) -> CompiledKernel:
    """Compile one candidate of a bound program, with other code before its entry where padding is asked for.

    Equal arguments give equal object bytes.
    Units: `padding_bytes` of machine code, counted in `code_bytes` too.
    Raises: IllegalCandidateError; InvalidBufferProgram; what LLVM raises. LLVM may also end the process, so searches
    call this in a worker.
    """
    started = time.perf_counter()
    buffer_program = plan(program, candidate, target)
    text, instructions = emit_text(buffer_program, target)
    compiled = jit.compile_module(padded(text, padding_bytes), target)
    return CompiledKernel(
        object_bytes=compiled.object_bytes,
        sha256=compiled.sha256,
        symbol=SYMBOL,
        workspace_bytes=buffer_program.workspace_bytes,
        packets=buffer_program.packets,
        instructions=instructions,
        code_bytes=compiled.summary.text_bytes,
        compile_seconds=time.perf_counter() - started,
        decision=decision(buffer_program, candidate.packet, target).value,
    )
