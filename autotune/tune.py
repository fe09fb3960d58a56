"""The road from a kernel to its tuned policy, one call an arrow.
Must not know how any arrow does its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.calibration.prior import prior
from autotune.ir.program import Number
from autotune.ir.verify import verify
from autotune.jit import can_run, host_target, parse_target
from autotune.language.kernel import Kernel
from autotune.language.trial import refuse_block_dependent
from autotune.measure.cases import make_cases
from autotune.measure.server import ForkServer
from autotune.measure.session import Session
from autotune.realizations.target import Target
from autotune.search.conditions import parse_conditions
from autotune.search.errors import NoWorkload, SeveralWorkloads, TooManyCandidates
from autotune.search.foreign import compile_only
from autotune.search.join import K_BEST, search_set
from autotune.search.ledger import refused_rules
from autotune.search.loop import Stopwatch
from autotune.search.notebook import Notebook
from autotune.search.progress import OnEvent, Phase, PhaseStarted, ignore
from autotune.search.repro import FOLDER as REPRO_FOLDER
from autotune.search.repro import Inputs, ReproFolder
from autotune.search.restriction import forbidden_mechanisms
from autotune.search.result import SearchResult
from autotune.search.run import remembered, run
from autotune.search.space import JoinStatus, SearchSet
from autotune.search.stop import limits_for
from autotune.search.strategies import DEFAULT_STRATEGY, Exhaustive, strategy_named
from autotune.settings import Effort, load_settings
from autotune.store.database import open_database
from autotune.store.keys import AlignmentClass, cache_mode, workload_of

ENUMERATED_FILE = "enumerated.sqlite"  # beside the policy database; made again where it is missing


def search(
    kernel: Kernel,
    shape: Mapping[str, Number] | None = None,
    target: Target | str | None = None,
    *,
    effort: Effort | str = Effort.DEFAULT,
    budget_s: float | None = None,
    max_trials: int | None = None,
    calls: float | None = None,
    strategy: str = DEFAULT_STRATEGY,
    max_candidates: int = K_BEST,
    seed: int = 0,
    fresh: bool = False,
    database: Path | None = None,
    forbid: Sequence[str] = (),
    allow: Sequence[str] = (),
    only: Sequence[str] = (),
    cold: Sequence[str] = (),
    alignment_bytes: int = AlignmentClass.LINE.size_bytes,
    on_event: OnEvent | None = None,
) -> SearchResult:
    """Find, verify, measure and store the fastest candidate of one kernel at one shape: call time of one thread.

    Ctrl-C ends it with the best so far; the same call continues, and measures nothing twice, unless it starts `fresh`:
    then earlier records stay and are not read. For a target that this
    machine cannot run, the best by the model are compiled, and nothing is measured or stored.

    `forbid` names mechanisms (`autotune.realizations.mechanisms`) that no candidate but the reference may use, `allow`
    ones that are off by default. `only` holds conditions (`autotune.search.conditions`) that every candidate but the
    reference meets, a choice without a phase in every phase that has it. What a search that leaves something out finds
    replaces a stored winner of searches that did not only where that one was merely raced, and is slower.

    Calls are timed with hot caches, but for the tensors named in `cold` (`all` for every one): no cache holds those
    when a call starts. Tensors lie at multiples of `alignment_bytes`, 64 or 16. Both are part of the key of what is
    stored.

    Shapes: `shape` gives every dimension, and scalars without a default; the kernel's only workload if left out.
    `effort` says how long a search goes on where `budget_s` and `max_trials` do not; `calls` how often the winner will
    be called, so that no more is spent than that can bring back. `strategy` names how the next candidate is picked; an
    exhaustive search takes every legal candidate and refuses to start on more than `max_candidates`, of which the
    others keep the best by the model.

    Units: seconds; an infinite budget is none. `max_trials` counts the trials of earlier runs too; `target` is this
    machine's if left out, and `database` the settings'.
    Raises: NoWorkload, SeveralWorkloads, UnknownMechanism, ForbiddenAndAllowed, BadCondition, UnknownChoice,
    UnknownStrategy, TooManyCandidates, UnknownColdTensor, UnknownAlignment, ColdUnavailable, DependsOnBlocks, any
    SourceError, and what the store and binding raise.
    """
    watch = Stopwatch()
    notify = on_event or ignore
    machine = _target(target)
    given = _shape(kernel, shape)
    sizes = {name: int(given[name]) for name in kernel.program.dims if name in given}
    scalars = {name: value for name, value in given.items() if name not in sizes}
    limits = limits_for(Effort(effort), budget_s=budget_s, max_trials=max_trials, calls=calls)
    chosen = strategy_named(strategy)
    if chosen is Exhaustive:
        limits = replace(limits, patience=None)
    forbidden = forbidden_mechanisms(forbid, allow)

    program = kernel.bind(**given)
    conditions = parse_conditions(only, program)
    cache, alignment = cache_mode(kernel.program, cold), AlignmentClass.of(alignment_bytes)
    workload = workload_of(kernel.program, sizes, machine, cache=cache, alignment=alignment)
    notify(PhaseStarted(title=workload.title, phase=Phase.TRACE))
    verify(program)
    refuse_block_dependent(kernel, given, seed)
    place = database or load_settings().database
    enumerated = place.with_name(ENUMERATED_FILE)

    def enumerate_space() -> SearchSet:
        notify(PhaseStarted(title=workload.title, phase=Phase.ENUMERATE))
        return search_set(
            program,
            machine,
            prior(machine),
            limit=max_candidates,
            seed=seed,
            cache=enumerated,
            forbidden=forbidden,
            only=conditions,
        )

    if not can_run(machine):
        space = enumerate_space()
        with ForkServer() as server, Session(server, program, machine, (), seed=seed) as compiler:
            return compile_only(
                space, compiler, workload, limits, target=machine.name, seed=seed, watch=watch, on_event=notify
            )

    with open_database(place) as store, ForkServer() as server:
        space = enumerate_space()
        if chosen is Exhaustive and space.status is not JoinStatus.EXACT:
            raise TooManyCandidates(count=space.legal_count, limit=max_candidates)
        refused = refused_rules(space.refused)
        book = Notebook(
            store,
            workload,
            legal_count=space.legal_count,
            refused=refused,
            forbidden=forbidden,
            only=space.only,
            fresh=fresh,
        )
        if not space.candidates or book.covers(limits, seed):
            known = remembered(space, book, limits, target=machine.name, seed=seed, watch=watch)
            return replace(known, cold=cache.names(program))

        notify(PhaseStarted(title=workload.title, phase=Phase.ORACLE))
        own = kernel.inputs_function is not None
        inputs = Inputs(
            sizes=sizes, scalars=scalars, seed=seed, generator=(str(kernel.file), kernel.name) if own else None
        )
        cases = make_cases(program, seed, sizes=sizes, scalars=scalars, generator=kernel.inputs_function)
        watch.add("preparing", watch.elapsed_s)
        with Session(
            server, program, machine, cases, seed=seed, alignment_bytes=alignment_bytes, cold=cache.cold
        ) as session:
            found = run(
                space,
                session,
                book,
                limits,
                target=machine.name,
                seed=seed,
                watch=watch,
                on_event=notify,
                strategy=chosen,
                repro=ReproFolder(place.with_name(REPRO_FOLDER), program, machine, inputs),
            )
        return replace(found, cold=cache.names(program))


def _target(target: Target | str | None) -> Target:
    match target:
        case None:
            return host_target()
        case str():
            return parse_target(target)
        case Target():
            return target


def _shape(kernel: Kernel, shape: Mapping[str, Number] | None) -> dict[str, Number]:
    if shape is not None:
        return dict(shape)
    if len(kernel.workloads) == 1:
        return dict(kernel.workloads[0])
    if kernel.workloads:
        raise SeveralWorkloads(kernel=kernel.name, count=len(kernel.workloads), example=_text(kernel.workloads[0]))
    raise NoWorkload(kernel=kernel.name, example=_text(dict.fromkeys(kernel.program.dims, 128)))


def _text(shape: Mapping[str, Number]) -> str:
    return ", ".join(f"{name}={value}" for name, value in shape.items())
