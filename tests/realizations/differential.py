"""Draws legal candidates of a program, runs them between guard pages on poisoned memory, and asks the oracle.
Must not know any single kernel."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune import jit
from autotune.build import SYMBOL, emit_text
from autotune.ir.buffer import BufferProgram, Planner, Tail, Transfer
from autotune.ir.interpret import Interpretation
from autotune.ir.phases import PhaseKind
from autotune.ir.program import AxisKind, For, Number, Program, Scalar, Tensor, statements
from autotune.ir.types import APPROXIMABLE, DType
from autotune.ir.verdict import Correct, check
from autotune.language.kernel import Kernel
from autotune.realizations import vector_math
from autotune.realizations.candidate import (
    Block,
    Buffered,
    Candidate,
    Clones,
    Compute,
    Contribution,
    Direct,
    Inline,
    Storage,
    Tile,
)
from autotune.realizations.candidate import Mapping as LaneMapping
from autotune.realizations.choices import chain_options, loop_choices, variant_choices
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.enumerate import structures
from autotune.realizations.legality import contexts, judge, refuse_candidate
from autotune.realizations.lower import lower
from autotune.realizations.predicates import known_prefix
from autotune.realizations.structure import NestChoice, Structure, assemble
from autotune.realizations.target import Target
from autotune.realizations.tiled import Tiled, tiled
from autotune.realizations.verdict import Legal

Array = NDArray[Any]
Arguments = dict[str, Array | Number]

NUMPY = {
    DType.F32: np.float32,
    DType.F64: np.float64,
    DType.I8: np.int8,
    DType.I32: np.int32,
    DType.I64: np.int64,
    DType.BOOL: np.bool_,
}
_LIBC = ctypes.CDLL(None, use_errno=True)
_SENTINEL = 0x5A
MAX_STRUCTURES = 5000
PLAIN_SCALAR = 0.25


# ---- data -----------------------------------------------------------------------------------------------------------
def arguments_of(kernel: Kernel, program: Program, sizes: Mapping[str, int], seed: int) -> Arguments:
    """Inputs of a bound program: what the kernel's own generator gives, and plain random data for the rest."""
    rng = np.random.default_rng(seed)
    given: Arguments = dict(kernel.inputs_function(rng, "normal", **sizes)) if kernel.inputs_function else {}
    for parameter in program.parameters:
        if isinstance(parameter, Scalar):
            given.setdefault(parameter.name, PLAIN_SCALAR if parameter.default is None else parameter.default)
        elif parameter.name not in given:
            given[parameter.name] = _random(rng, parameter)
    return given


def _random(rng: np.random.Generator, tensor: Tensor) -> Array:
    shape = tuple(extent.constant for extent in tensor.shape)
    if tensor.dtype is DType.BOOL:
        return rng.random(shape) < 0.7
    if tensor.dtype.is_integer:
        return rng.integers(0, 8, shape).astype(NUMPY[tensor.dtype])
    return rng.standard_normal(shape).astype(NUMPY[tensor.dtype])


class GuardedMemory:
    """Arrays that end (or begin) at a page that nothing may touch."""

    def __init__(self) -> None:
        self._mappings: list[mmap.mmap] = []

    def place(self, array: Array, at_end: bool) -> Array:
        """A copy of an array whose last byte (or first one) lies next to an unreadable page."""
        page = mmap.PAGESIZE
        room = -(-max(array.nbytes, 1) // page) * page
        mapping = mmap.mmap(-1, room + 2 * page)
        self._mappings.append(mapping)
        raw = np.frombuffer(mapping, np.uint8)
        for start in (0, room + page):
            assert _LIBC.mprotect(ctypes.c_void_p(raw.ctypes.data + start), ctypes.c_size_t(page), 0) == 0
        first = page + (room - array.nbytes if at_end else 0)
        placed = raw[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
        placed[...] = array
        return placed


# ---- running --------------------------------------------------------------------------------------------------------
def compile_plan(plan: BufferProgram, target: Target) -> jit.CompiledObject:
    """Machine code of a buffer program."""
    return jit.compile_module(emit_text(plan, target)[0], target)


def run(plan: BufferProgram, target: Target, arguments: Arguments, *, at_end: bool = True) -> dict[str, Array]:
    """The tensors after one call between guard pages."""
    return call(jit.load(compile_plan(plan, target).object_bytes, SYMBOL), plan, arguments, at_end=at_end)


def call(handle: jit.Handle, plan: BufferProgram, arguments: Arguments, *, at_end: bool) -> dict[str, Array]:
    """The tensors after one call between guard pages, on a workspace full of NaN, packets in two ranges."""
    program = plan.program
    memory = GuardedMemory()
    placed = {
        p.name: memory.place(np.asarray(arguments[p.name]), at_end) for p in program.parameters if isinstance(p, Tensor)
    }
    slots = (ctypes.c_uint64 * max(1, len(program.parameters)))()
    for number, slot in program.slots().items():
        parameter = program.parameters[number]
        if isinstance(parameter, Tensor):
            slots[slot] = placed[parameter.name].ctypes.data
        else:
            bits = np.array([arguments[parameter.name]], NUMPY[parameter.dtype]).tobytes()
            slots[slot] = int.from_bytes(bits.ljust(8, b"\xff"), "little")
    raw = memory.place(np.full(-(-max(plan.workspace_bytes, 1) // 64) * 64, 0xFF, np.uint8), True)
    half = plan.packets // 2
    for first, last in ((half, plan.packets), (0, half)):
        handle.function()(slots, raw.ctypes.data, first, last)
    return placed


def outputs_poisoned(program: Program, arguments: Arguments) -> Arguments:
    """The arguments with everything that the program only writes filled with a sentinel."""
    written = set(program.stored_tensors()) - set(program.loaded_tensors())
    poisoned = dict(arguments)
    for number in written:
        array = np.array(arguments[program.tensor(number).name])
        fill = True if array.dtype == np.bool_ else _SENTINEL
        poisoned[program.tensor(number).name] = np.full_like(array, fill)
    return poisoned


def difference(
    plan: BufferProgram, target: Target, arguments: Arguments, expected: Interpretation, *, at_end: bool = True
) -> str | None:
    """What is wrong with a candidate's outputs, None where nothing is; twice gives the same bits at either edge."""
    program = plan.program
    handle = jit.load(compile_plan(plan, target).object_bytes, SYMBOL)
    found = call(handle, plan, arguments, at_end=at_end)
    again = call(handle, plan, arguments, at_end=not at_end)
    for name, array in found.items():
        if array.tobytes() != again[name].tobytes():
            return f"two calls left different bits in {name}"
    verdict = check({o.name: found[o.name] for o in expected.outputs}, expected)
    if not isinstance(verdict, Correct):
        return str(verdict)
    stored = set(program.stored_tensors())
    for number, parameter in enumerate(program.parameters):
        if isinstance(parameter, Tensor) and number not in stored:
            before = np.asarray(arguments[parameter.name])
            if before.tobytes() != found[parameter.name].tobytes():
                return f"input {parameter.name} was overwritten"
    return None


# ---- candidates -----------------------------------------------------------------------------------------------------
class Sampler:
    """Legal candidates of one program: uniform draws from the enumerated choices, and free ones."""

    def __init__(self, program: Program, target: Target, seed: int) -> None:
        self.program = program
        self.target = target
        self.rng = random.Random(seed)
        self.structures = list(islice(structures(program, target), MAX_STRUCTURES))
        self.views: dict[int, ProgramFacts] = {}

    def view(self, candidate: Candidate | Structure) -> Tiled:
        """The program that the choices of a candidate refer to."""
        return tiled(self.program, candidate.tiles)

    def facts(self, program: Program) -> ProgramFacts:
        return self.views.setdefault(id(program), ProgramFacts(program, self.target))

    def legal(self, candidate: Candidate) -> bool:
        return isinstance(judge(self.program, candidate, self.target), Legal)

    def enumerated(self, count: int, tries: int = 20) -> Iterator[Candidate]:
        """Legal candidates from the tables of random structures."""
        found = 0
        for _ in range(tries * count):
            if found == count:
                return
            candidate = self._from_tables()
            if candidate is not None and self.legal(candidate):
                found += 1
                yield candidate

    def _from_tables(self) -> Candidate | None:
        structure = self.rng.choice(self.structures)
        view = self.view(structure)
        facts = self.facts(view.program)
        plain = NestChoice(axis=None, lanes=1, blocks=(), chains=1, tail=Tail.MASK, variants=())
        candidate = assemble(structure, dict.fromkeys(structure.nest_numbers, plain))
        if any(refuse_candidate(facts, view.graph, candidate)):
            return None
        plan = lower(self.program, candidate)
        choices: dict[int, NestChoice] = {}
        by_nest: dict[int, list[NestContext]] = {}
        for context in contexts(facts, plan, plan.bodies[-1], candidate):
            by_nest.setdefault(context.nest.number, []).append(context)
        for number, around in by_nest.items():
            main = max(around, key=lambda c: (len(c.nest.inline), len(c.nest.loops)))
            options = list(loop_choices(main, structure, around))
            if not options:
                return None
            choice = self.rng.choice(options)
            chains = self.rng.choice(chain_options(main, choice))
            variants = self.rng.choice(list(variant_choices(*around)))
            choices[number] = replace(choice, chains=chains, variants=variants)
        return replace(assemble(structure, choices), planner=self.rng.choice(list(Planner)))

    def free(self, count: int, tries: int = 60) -> Iterator[Candidate]:
        """Legal candidates whose fields are drawn with little regard for the tables."""
        found = 0
        for _ in range(tries * count):
            if found == count:
                return
            candidate = self.mutated(self._from_tables() or self._from_tables())
            if candidate and self.legal(candidate):
                found += 1
                yield candidate

    def mutated(self, candidate: Candidate | None) -> Candidate | None:
        """The candidate with a few fields changed at random."""
        if candidate is None:
            return None
        changes = [
            self._tiles,
            self._storage,
            self._nests,
            self._mapping,
            self._compute,
            self._contribution,
            self._transfer,
            self._tail,
            self._predicates,
        ]
        for change in self.rng.sample(changes, self.rng.randint(1, 4)):
            candidate = change(candidate)
        if self.rng.random() < 0.3:
            candidate = replace(candidate, packet=self.rng.choice(list(Clones)))
        return candidate

    def _tiles(self, c: Candidate) -> Candidate:
        """Other blocks; the same where they would leave a program with other phases."""
        tiles = []
        axes = [a for a in self.program.axes if a.kind is AxisKind.TILE or a.id in self.program.parallel]
        for axis in axes:
            extent = max(1, axis.extent.constant)
            known = [t.block for t in c.tiles if t.axis == axis.id]
            block = self.rng.choice([1, 2, 3, 4, 5, 8, 16, 32, extent, *known, *known])
            tiles.append(Tile(axis=axis.id, block=min(block, extent)))
        changed = replace(c, tiles=tuple(tiles))
        same = len(self.view(changed).graph.phases) == len(self.view(c).graph.phases)
        return changed if same else c

    def _storage(self, c: Candidate) -> Candidate:
        storage: dict[int, Storage] = dict(c.storage)
        for phase in self.view(c).graph.phases:
            computed = phase.kind in (PhaseKind.LOAD, PhaseKind.ELEMENTWISE) or phase.number in dict(c.contribution)
            if not computed or self.rng.random() < 0.5:
                continue
            if self.rng.random() < 0.6:
                layout = list(phase.axes)
                self.rng.shuffle(layout)
                panel = self.rng.choice([0, 0, 4, 8, 16, 32]) if len(layout) > 1 else 0
                storage[phase.number] = Buffered(layout=tuple(layout), panel=panel)
            else:
                storage[phase.number] = Direct() if phase.kind is PhaseKind.LOAD else Inline()
        return self._nests(replace(c, storage=tuple(sorted(storage.items()))))

    def _contribution(self, c: Candidate) -> Candidate:
        """Some reductions computed inside nests, with lanes and blocks of any kind, others with loops of their own."""
        storage, chosen = dict(c.storage), dict(c.contribution)
        for phase in self.view(c).graph.phases:
            if phase.kind is not PhaseKind.REDUCTION or self.rng.random() < 0.3:
                continue
            if self.rng.random() < 0.3:
                storage.pop(phase.number, None)
                chosen.pop(phase.number, None)
                continue
            kept = Buffered(layout=phase.axes) if self.rng.random() < 0.5 else Inline()
            storage.setdefault(phase.number, kept)
            axis = self.rng.choice([None, *phase.contribution])
            factors = [(a, self.rng.choice([1, 1, 2, 3, 4])) for a in phase.contribution]
            chosen[phase.number] = Contribution(
                axis=axis,
                lanes=1 if axis is None else self.rng.choice([4, 8, 16]),
                blocks=tuple(Block(axis=a, factor=f) for a, f in factors if f > 1),
                chains=self.rng.choice([1, 1, 2, 3]),
                group=1 if axis is None else self.rng.choice([1, 2, 3, 4, 8]),
            )
        return self._nests(
            replace(c, storage=tuple(sorted(storage.items())), contribution=tuple(sorted(chosen.items())))
        )

    def _predicates(self, c: Candidate) -> Candidate:
        program = self.view(c).program
        loops = (s for s in statements(program.body) if isinstance(s, For))
        known = tuple(s.axis for s in loops if known_prefix(program, s) is not None)
        return replace(c, predicates=known if self.rng.random() < 0.7 else ())

    def _nests(self, c: Candidate) -> Candidate:
        """Sinks numbered anew in program order, some joined with the one before."""
        buffered = {p for p, s in c.storage if isinstance(s, Buffered)}
        inside = set(dict(c.contribution)) - buffered
        computed = (PhaseKind.LOAD, PhaseKind.ELEMENTWISE)
        sinks = [
            p.number
            for p in self.view(c).graph.phases
            if (p.kind not in computed and p.number not in inside) or p.number in buffered
        ]
        numbers: dict[int, int] = {}
        current = -1
        for phase in sinks:
            if current < 0 or self.rng.random() < 0.6:
                current += 1
            numbers[phase] = current
        mapping, compute, chosen = dict(c.mapping), dict(c.compute), {}
        default = (LaneMapping(axis=None, lanes=1), Compute())
        for phase in sinks:
            own = (mapping.get(phase, default[0]), compute.get(phase, default[1]))
            first = chosen.setdefault(numbers[phase], own)
            mapping[phase] = first[0]
            compute[phase] = replace(first[1], variants=self._all_variants(c, first[1].variants))
        tails = dict(c.tail)
        return replace(
            c,
            nests=tuple(sorted(numbers.items())),
            mapping=tuple(sorted((p, m) for p, m in mapping.items() if p in numbers)),
            compute=tuple(sorted((p, m) for p, m in compute.items() if p in numbers)),
            tail=tuple((n, tails.get(n, Tail.MASK)) for n in range(current + 1)),
        )

    def _all_variants(self, c: Candidate, known: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        chosen = dict(known)
        for let in self.view(c).program.lets().values():
            op = getattr(let.value, "op", None)
            if op in APPROXIMABLE and op.value not in chosen:
                options = vector_math.variants(op, let.dtype, self.target, let.value.math.max_ulp)
                chosen[op.value] = self.rng.choice(options).name
        return tuple(sorted(chosen.items()))

    def _per_nest(self, c: Candidate) -> dict[int, list[int]]:
        groups: dict[int, list[int]] = {}
        for phase, nest in c.nests:
            groups.setdefault(nest, []).append(phase)
        return groups

    def _mapping(self, c: Candidate) -> Candidate:
        mapping = dict(c.mapping)
        for phases in self._per_nest(c).values():
            axis = self.rng.choice([None, *(a.id for a in self.program.axes)])
            lanes = 1 if axis is None else self.rng.choice([2, 4, 8, 16])
            for phase in phases:
                mapping[phase] = LaneMapping(axis=axis, lanes=lanes)
        return replace(c, mapping=tuple(sorted(mapping.items())))

    def _compute(self, c: Candidate) -> Candidate:
        """Register blocks, chains and loop orders of any kind."""
        compute = dict(c.compute)
        for phases in self._per_nest(c).values():
            blocks = tuple(
                Block(axis=a.id, factor=f)
                for a in self.program.axes
                if (f := self.rng.choice([1, 1, 1, 2, 3, 4, 5, 8])) > 1
            )
            chains = self.rng.choice([1, 1, 2, 3, 4])
            order = tuple(self.rng.sample([a.id for a in self.program.axes], self.rng.choice([0, 0, 1, 2])))
            for phase in phases:
                compute[phase] = replace(compute[phase], blocks=blocks, chains=chains, order=order)
        return replace(c, compute=tuple(sorted(compute.items())))

    def _transfer(self, c: Candidate) -> Candidate:
        memory = [p.number for p in self.view(c).graph.phases if p.kind in (PhaseKind.LOAD, PhaseKind.STORE)]
        known = dict(c.transfer)
        for phase in memory:
            if self.rng.random() < 0.5:
                known[phase] = self.rng.choice(list(Transfer))
        return replace(c, transfer=tuple(sorted(known.items())))

    def _tail(self, c: Candidate) -> Candidate:
        return replace(c, tail=tuple((n, self.rng.choice(list(Tail))) for n, _ in c.tail))
