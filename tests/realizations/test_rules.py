"""Every refusal rule refuses what it is for, with its values in the sentence; `judge` never raises."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from autotune import jit
from autotune.ir.buffer import Tail, Transfer
from autotune.ir.phases import PhaseKind
from autotune.ir.program import AxisKind
from autotune.realizations.candidate import (
    Block,
    Buffered,
    Candidate,
    Clones,
    Compute,
    Contribution,
    Direct,
    Inline,
    Mapping,
    Schedule,
    Split,
    Tile,
)
from autotune.realizations.legality import RULES, judge
from autotune.realizations.reference import reference_candidate
from autotune.realizations.target import Target
from autotune.realizations.tiled import tiled as view
from autotune.realizations.verdict import Legal, Refused
from tests.realizations import cases
from tests.realizations.differential import Sampler

AVX512, AVX2, SSE2 = (jit.host_target(name) for name in ("avx512", "avx2", "sse2"))
Change = Callable[["Trial"], Candidate]


@dataclass(frozen=True, slots=True)
class Trial:
    """A program with its reference candidate on one target."""

    name: str
    shape: tuple[int, int]
    target: Target

    @property
    def reference(self) -> Candidate:
        program = cases.bound(self.name, self.shape)
        return reference_candidate(program, self.target)

    def axis(self, kind: AxisKind) -> int:
        program = cases.bound(self.name, self.shape)
        return next(a.id for a in program.axes if a.kind is kind)

    def phases(self, kind: PhaseKind) -> list[int]:
        graph = view(cases.bound(self.name, self.shape), self.reference.tiles).graph
        return [p.number for p in graph.phases if p.kind is kind]


# ---- changes --------------------------------------------------------------------------------------------------------
def mapped(kind: AxisKind, lanes: int, *, blocks: tuple[int, ...] = (), chains: int = 1) -> Change:
    """Lanes along an axis in every nest; `blocks` is a register block along that axis."""

    def change(trial: Trial) -> Candidate:
        axis, c = trial.axis(kind), trial.reference
        block = tuple(Block(axis=axis, factor=factor) for factor in blocks)
        mapping = Mapping(axis=axis if lanes > 1 else None, lanes=lanes)
        return replace(
            c,
            mapping=tuple((p, mapping) for p, _ in c.mapping),
            compute=tuple((p, replace(old, blocks=block, chains=chains)) for p, old in c.compute),
        )

    return change


def tiled(block: int, kind: AxisKind = AxisKind.PROGRAM) -> Change:
    def change(trial: Trial) -> Candidate:
        c, axis = trial.reference, trial.axis(kind)
        others = tuple(t for t in c.tiles if t.axis != axis)
        return replace(c, tiles=(*others, Tile(axis=axis, block=block)))

    return change


def tails(tail: Tail) -> Change:
    return lambda trial: replace(trial.reference, tail=tuple((n, tail) for n, _ in trial.reference.tail))


def fused(trial: Trial) -> Candidate:
    """Everything in one scalar nest."""
    c = mapped(AxisKind.PROGRAM, 1)(trial)
    return replace(c, nests=tuple((p, 0) for p, _ in c.nests), tail=((0, Tail.MASK),))


def transferred(kind: PhaseKind, transfer: Transfer) -> Change:
    return lambda trial: replace(trial.reference, transfer=tuple((p, transfer) for p in trial.phases(kind)))


def both(*changes: Change) -> Change:
    """Each change takes effect where the next leaves the reference as it was."""

    def change(trial: Trial) -> Candidate:
        reference = trial.reference
        result = reference
        for each in changes:
            changed = each(trial)
            fields = ("tiles", "mapping", "storage", "nests", "transfer", "compute", "tail", "packet")
            different = {f: getattr(changed, f) for f in fields if getattr(changed, f) != getattr(reference, f)}
            result = replace(result, **different)
        return result

    return change


def stored(make: Callable[[int], object], kind: PhaseKind = PhaseKind.LOAD) -> Change:
    """Another storage for every phase of a kind, each buffered one in a scalar nest of its own at the front."""

    def change(trial: Trial) -> Candidate:
        c, phases = trial.reference, trial.phases(kind)
        storage = tuple((p, make(p) if p in phases else s) for p, s in c.storage)
        new = [p for p, s in storage if isinstance(s, Buffered) and p not in dict(c.nests)]
        last = {p: (Mapping(axis=None, lanes=1), Compute()) for p in new}
        sinks = sorted({*dict(c.nests), *new})
        return replace(
            c,
            storage=storage,
            nests=tuple((p, n) for n, p in enumerate(sinks)),
            mapping=tuple(sorted({**dict(c.mapping), **{p: m for p, (m, _) in last.items()}}.items())),
            compute=tuple(sorted({**dict(c.compute), **{p: k for p, (_, k) in last.items()}}.items())),
            tail=tuple((n, Tail.MASK) for n in range(len(sinks))),
        )

    return change


def direct(trial: Trial) -> Candidate:
    """Every load read at its use, in scalar nests of one sink each."""
    c = mapped(AxisKind.PROGRAM, 1)(trial)
    loads = trial.phases(PhaseKind.LOAD)
    sinks = [p for p, _ in c.nests if p not in loads]
    return replace(
        c,
        storage=tuple((p, Direct() if p in loads else s) for p, s in c.storage),
        nests=tuple((p, n) for n, p in enumerate(sinks)),
        mapping=tuple((p, m) for p, m in c.mapping if p in sinks),
        compute=tuple((p, m) for p, m in c.compute if p in sinks),
        tail=tuple((n, Tail.MASK) for n in range(len(sinks))),
    )


def direct_and_fused(trial: Trial) -> Candidate:
    c = direct(trial)
    return replace(c, nests=tuple((p, 0) for p, _ in c.nests), tail=((0, Tail.MASK),))


def disagreeing(trial: Trial) -> Candidate:
    c = fused(trial)
    (first, _), *rest = c.mapping
    return replace(c, mapping=((first, Mapping(axis=trial.axis(AxisKind.FULL), lanes=4)), *rest))


def inside(contribution: Contribution) -> Change:
    """Every reduction computed where it is used, in one way."""

    def change(trial: Trial) -> Candidate:
        c, reductions = trial.reference, trial.phases(PhaseKind.REDUCTION)
        return replace(
            c,
            storage=tuple(sorted((*c.storage, *((p, Inline()) for p in reductions)))),
            nests=tuple((p, n) for p, n in c.nests if p not in reductions),
            mapping=tuple((p, m) for p, m in c.mapping if p not in reductions),
            compute=tuple((p, k) for p, k in c.compute if p not in reductions),
            contribution=tuple((p, contribution) for p in reductions),
        )

    return change


def packed_along_two(trial: Trial) -> Candidate:
    program = cases.bound(trial.name, trial.shape)
    axes = [a.id for a in program.axes if a.kind is AxisKind.PROGRAM]
    others = tuple(t for t in trial.reference.tiles if t.axis not in axes)
    return replace(trial.reference, tiles=(*others, *(Tile(axis=a, block=2) for a in axes)))


def small(target: Target, **budgets: int) -> Target:
    return replace(target, **budgets)


TRIALS: tuple[tuple[str, str, tuple[int, int], Target, Change], ...] = (
    ("not-well-formed", "the block of a0 is 0; expected at least 1", (5, 17), AVX512, tiled(0)),
    ("lanes-too-wide", "64 lanes of f32 take 4 vector registers", (5, 17), AVX512, mapped(AxisKind.FULL, 64)),
    (
        *("lanes-exceed-block", "16 lanes along axis a0 do not divide its block of 8 programs", (16, 16), AVX512),
        both(tiled(8), mapped(AxisKind.PROGRAM, 16)),
    ),
    ("block-exceeds-extent", "a block of 9 along axis a0 is larger than its extent of 5", (5, 17), AVX512, tiled(9)),
    ("nest-mappings-disagree", "phases of nest 0 name different vector axes", (5, 17), AVX512, disagreeing),
    (
        *("choice-missing", "writes a result, but the candidate names no tail for it", (5, 17), AVX512),
        lambda t: replace(t.reference, tail=()),
    ),
    (
        *("layout-axes-differ", "has axes (0, 1), but its buffer is laid out over (1,)", (5, 17), AVX512),
        stored(lambda _: Buffered(layout=(1,))),
    ),
    (
        "reads-unfinished-reduction",
        "is finished and used in one nest; its users need a later nest",
        (5, 17),
        AVX2,
        fused,
    ),
    (
        *("nests-out-of-order", "stands in nest 0, before a nest that the program needs first", (5, 17), AVX512),
        lambda t: replace(t.reference, nests=tuple((p, -n + 1) for p, n in t.reference.nests)),
    ),
    (
        *("transfer-without-need", "is contiguous or uniform across the lanes, so a gather has nothing to do", (5, 17)),
        *(AVX512, transferred(PhaseKind.LOAD, Transfer.GATHER)),
    ),
    (
        "chains-exceed-block",
        "4 partial chains, but the register block has only 1",
        (5, 17),
        AVX512,
        mapped(AxisKind.FULL, 1, chains=4),
    ),
    (
        *("register-block-too-large", "vector registers alive; the target has 16", (5, 65), SSE2),
        mapped(AxisKind.FULL, 4, blocks=(16,), chains=16),
    ),
    (
        "factor-exceeds-extent",
        "one trip along axis a1 takes 40 coordinates, but there are 17",
        (5, 17),
        AVX512,
        mapped(AxisKind.FULL, 1, blocks=(40,)),
    ),
    (
        "inline-not-realized",
        "outputs are grouped although no lanes have to be brought together",
        (5, 17),
        AVX512,
        inside(Contribution(group=2)),
    ),
    (
        *("panel-crossed", "16 lanes along axis a1 may not lie within one panel of 4 coordinates", (5, 17), AVX512),
        stored(lambda _: Buffered(layout=(0, 1), panel=4)),
    ),
    (
        *("nothing-to-split-at", "loop a1 has no comparison of indices that is known to hold", (5, 17), AVX512),
        lambda t: replace(t.reference, predicates=(1,)),
    ),
    ("mask-unsupported", "needs masked accesses of f32, which sse2 lacks", (5, 17), SSE2, tails(Tail.MASK)),
    (
        "overlap-unsafe",
        "may not overlap coordinates already done: a reduction would count them twice",
        (5, 17),
        AVX512,
        tails(Tail.OVERLAP),
    ),
    (
        "tail-without-need",
        "cover every coordinate, so a scalar tail has nothing to do",
        (16, 16),
        AVX512,
        tails(Tail.SCALAR),
    ),
    (
        *("clone-ineligible", "needs packets of which some are whole and some partial", (5, 17), AVX512),
        lambda t: replace(t.reference, packet=Clones.FULL),
    ),
    (
        "over-source-budget",
        "builder instructions; at most 5 may be kept",
        (5, 17),
        small(AVX512, source_budget_instructions=5),
        lambda t: t.reference,
    ),
    (
        *("over-clone-budget", "builder instructions; at most 5 may be retained", (5, 17)),
        *(small(AVX512, clone_budget_instructions=5), lambda t: replace(tiled(2)(t), packet=Clones.FULL)),
    ),
    (
        "split-without-merge",
        "a split into 2 parts needs a loop with a merge rule",
        (5, 17),
        AVX512,
        lambda t: replace(t.reference, split=Split(parts=2)),
    ),
    (
        "order-not-realized",
        "the order (1, 0) is not realized yet",
        (5, 17),
        AVX512,
        lambda t: replace(t.reference, schedule=Schedule(order=(1, 0))),
    ),
    (
        "threads-not-realized",
        "8 threads are not realized yet",
        (5, 17),
        AVX512,
        lambda t: replace(t.reference, schedule=Schedule(threads=8)),
    ),
)
"""Rule, part of its sentence, shape, target and change of the reference of `in_place`."""

SPECIAL: tuple[tuple[str, str, str, tuple[int, int], Target, Change], ...] = (
    (
        *(
            "ordered-across-lanes",
            "ordered_sum",
            "keeps its order, so its axis a1 cannot run across the lanes",
            (5, 17),
        ),
        *(AVX512, mapped(AxisKind.FULL, 16)),
    ),
    (
        "several-packed-axes",
        "several_parallel",
        "programs are packed along 2 parallel axes",
        (5, 17),
        AVX512,
        packed_along_two,
    ),
    (
        "loop-bound-varies",
        "triangular",
        "vary along axis a0, so a packet cannot join 4 programs",
        (5, 17),
        AVX512,
        tiled(4),
    ),
    (
        "condition-varies",
        "stores_in_arms",
        "varies along axis a0, so a packet cannot join 4 programs along it",
        (5, 17),
        AVX512,
        tiled(4),
    ),
    ("snapshot-lost", "in_place_twice", "would be read again after tensor t0 was overwritten", (5, 17), AVX512, direct),
    (
        *("inline-not-realized", "outer_of_normalized", "it is read along other axes than its own", (5, 17), AVX512),
        inside(Contribution()),
    ),
    (
        *("snapshot-lost", "in_place", "would be read again after tensor t0 was overwritten", (5, 17), AVX512),
        inside(Contribution()),
    ),
    (
        "reads-unfinished-store",
        "in_place_twice",
        "reads what its own nest writes to tensor t0",
        (5, 17),
        AVX512,
        direct_and_fused,
    ),
    ("stores-may-meet", "two_stores_apart", "may write the same element of tensor t1", (5, 17), AVX512, fused),
    ("domains-disagree", "every_reduction", "cannot share a nest", (5, 17), AVX512, fused),
    (
        "workspace-too-large",
        "masked_store",
        "bytes of workspace; at most",
        (2, 400000),
        AVX512,
        stored(lambda _: Buffered(layout=(0, 1))),
    ),
    (
        "needs-transfer",
        "column_sums",
        "a transfer (gather or transpose) has to be chosen",
        (5, 17),
        AVX512,
        mapped(AxisKind.FULL, 16),
    ),
    (
        *(
            "transpose-impossible",
            "column_sums",
            "cannot be transposed in registers: no axis of the nest is contiguous",
        ),
        *((5, 17), AVX512, both(mapped(AxisKind.FULL, 16), transferred(PhaseKind.LOAD, Transfer.TRANSPOSE))),
    ),
    (
        *("chains-need-reassociation", "ordered_sum", "keeps its order, so it has one chain, not 4", (5, 17), AVX512),
        mapped(AxisKind.FULL, 1, blocks=(4,), chains=4),
    ),
    (
        *("variant-not-permitted", "stores_in_loop", "may not use nonsense: the error bound and the target permit"),
        *((5, 17), AVX512),
        lambda t: replace(
            t.reference, compute=tuple((p, replace(c, variants=(("erf", "nonsense"),))) for p, c in t.reference.compute)
        ),
    ),
)
"""The same with a kernel of its own after the rule."""

ALL = (*((rule, "in_place", *rest) for rule, *rest in TRIALS), *SPECIAL)


@pytest.mark.parametrize("rule, name, sentence, shape, target, change", ALL, ids=[entry[0] for entry in ALL])
def test_rule(rule: str, name: str, sentence: str, shape: tuple[int, int], target: Target, change: Change) -> None:
    candidate = change(Trial(name, shape, target))
    verdict = judge(cases.bound(name, shape), candidate, target)
    assert isinstance(verdict, Refused)
    sentences = {reason.rule: reason.sentence for reason in verdict.reasons}
    assert rule in sentences, sentences
    assert any(sentence in r.sentence for r in verdict.reasons if r.rule == rule), sentences[rule]


def test_every_rule_is_tried() -> None:
    assert {entry[0] for entry in ALL} == {rule.rule for rule in RULES}


def test_rule_names_are_distinct() -> None:
    assert len({rule.rule for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("name", list(cases.kernels())[::3])
def test_judging_never_raises(name: str) -> None:
    """Whatever numbers stand in its fields, a candidate is judged."""
    rng = random.Random(name)
    program = cases.bound(name, (5, 17))
    target = rng.choice([AVX512, AVX2, SSE2])
    sampler = Sampler(program, target, seed=5)
    for candidate in sampler.enumerated(2):
        for _ in range(12):
            phases = len(view(program, candidate.tiles).graph.phases)
            disturbed = _disturbed(candidate, rng, len(program.axes), phases)
            assert isinstance(judge(program, disturbed, target), Legal | Refused)


def _disturbed(c: Candidate, rng: random.Random, axes: int, phases: int) -> Candidate:
    """One field replaced by arbitrary values of its type."""
    phase, axis = rng.randrange(-1, phases + 1), rng.randrange(-1, axes + 1)
    size = rng.choice([-1, 0, 1, 2, 3, 5, 16, 64, 10**6])
    storage = rng.choice([Inline(), Direct(), Buffered(layout=tuple(rng.sample(range(axes), rng.randrange(axes + 1))))])
    some = tuple(range(min(phases, 3)))
    contribution = Contribution(axis=rng.choice([None, axis]), lanes=size, chains=rng.choice([1, size]), group=size)
    return rng.choice(
        [
            replace(c, tiles=(Tile(axis=axis, block=size), *c.tiles[1:])),
            replace(c, mapping=tuple((p, Mapping(axis=axis, lanes=size)) for p, _ in c.mapping)),
            replace(c, mapping=c.mapping[1:]),
            replace(c, storage=tuple((p, storage) for p in some)),
            replace(c, storage=((phase, storage),)),
            replace(c, nests=tuple((p, rng.randrange(-1, 3)) for p, _ in c.nests)),
            replace(c, nests=c.nests[:-1]),
            replace(c, transfer=tuple((p, rng.choice(list(Transfer))) for p in some)),
            replace(c, compute=tuple((p, Compute(blocks=(Block(axis=axis, factor=size),))) for p, _ in c.compute)),
            replace(c, compute=tuple((p, replace(k, chains=size)) for p, k in c.compute)),
            replace(c, compute=tuple((p, replace(k, order=(axis,))) for p, k in c.compute)),
            replace(
                c, storage=tuple((p, replace(s, panel=size) if isinstance(s, Buffered) else s) for p, s in c.storage)
            ),
            replace(c, contribution=tuple((p, contribution) for p in some), storage=tuple((p, storage) for p in some)),
            replace(c, contribution=((phase, contribution),)),
            replace(c, predicates=(axis,)),
            replace(c, tail=tuple((n, rng.choice(list(Tail))) for n, _ in c.tail)),
            replace(c, packet=rng.choice(list(Clones)), split=Split(parts=size)),
            replace(c, schedule=Schedule(order=(axis,), grain=size, threads=rng.choice([0, 1, 2]))),
        ]
    )
