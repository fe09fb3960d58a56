"""What stopped a whole choice: the rules that refuse it, the model's cut, failures, or slower times.
Must not know how the answer is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.calibration.prior import Prices
from autotune.ir.program import Program
from autotune.measure.states import State, outcome_from_json
from autotune.realizations.candidate import Candidate
from autotune.realizations.mechanisms import OFF_BY_DEFAULT
from autotune.realizations.structure import Structure, assemble
from autotune.realizations.target import Target
from autotune.search.conditions import MAPPING, USES, Condition, all_hold, check_names, levels_of
from autotune.search.encode import Level, choices_of
from autotune.search.families import families_of, plain_choices
from autotune.search.join import search_set
from autotune.search.ledger import FailureCause, RefusedRule, failure_cause, failure_sentence, refused_rules
from autotune.search.notebook import Notebook
from autotune.search.subspace import OF_STRUCTURE, one_of_each_row
from autotune.search.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Candidates with the choice that were measured: how many, and the fastest with its time over the winner's."""

    count: int
    fastest: str
    fastest_ns: float
    over_winner: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """What became of a choice.

    At least `legal` candidates have it, `in_set` of the search set; the model predicts `predicted_ns` for the best of
    them, `winner_predicted_ns` for the stored winner (None where there is none).
    `refused` are the rules that refused choices of structures that fit, `levels` what each named choice can be at all,
    and `nearest` the values next to the refused one with which there are legal candidates. `off` names mechanisms that
    are asked for and off by default. `has_it`: the winner does.

    Units: nanoseconds a call.
    """

    conditions: tuple[str, ...]
    legal: int
    predicted_ns: float | None
    winner_predicted_ns: float | None
    in_set: int
    refused: tuple[RefusedRule, ...]
    levels: tuple[tuple[str, tuple[Level, ...]], ...]
    nearest: tuple[str, ...]
    winner: str | None
    has_it: bool
    off: tuple[str, ...]
    tried: Tried | None
    failures: tuple[FailureCause, ...]


def why_not(
    conditions: Sequence[Condition],
    program: Program,
    target: Target,
    prices: Prices,
    *,
    cache: Path | None = None,
    book: Notebook | None = None,
) -> WhyNot:
    """Enumerate with the conditions and look up what earlier searches found; nothing is compiled.

    Raises: UnknownChoice.
    """
    whole = search_set(program, target, prices, cache=cache)
    tables = Tables(target, prices)
    families = list(families_of(program, target, tables, lambda structure: _fits(structure, conditions)))
    everything = [candidate for family in families for candidate in one_of_each_row(family)]
    check_names(conditions, [*everything, *whole.candidates])
    kept = search_set(program, target, prices, cache=cache, only=conditions)
    everywhere = [row for row in range(len(kept.candidates)) if row != kept.reference]
    somewhere = [row for row, c in enumerate(whole.candidates) if all_hold(conditions, program, c, target)]
    together = any(condition.name in (USES, MAPPING) for condition in conditions)  # what nests decide together
    predicted = [*kept.prior_ns[everywhere].tolist(), *whole.prior_ns[somewhere].tolist()]
    known = {candidate.id: ns for candidate, ns in zip(whole.candidates, whole.prior_ns, strict=True)} if book else {}
    winner = None if book is None else book.track.incumbent
    return WhyNot(
        conditions=tuple(condition.text for condition in conditions),
        legal=len(somewhere) if together else max(kept.legal_count - 1, len(somewhere)),
        predicted_ns=min(predicted, default=None),
        winner_predicted_ns=None if winner is None else known.get(winner),
        in_set=len(somewhere),
        refused=refused_rules(tables.refusals.table()),
        levels=tuple(_levels(conditions, whole.candidates)),
        nearest=() if predicted else tuple(_nearest(conditions, whole.candidates)),
        winner=winner,
        has_it=winner is not None
        and book is not None
        and all_hold(conditions, program, book.candidates[winner], target),
        off=tuple(str(c.level) for c in conditions if c.name == USES and c.level in OFF_BY_DEFAULT),
        tried=None if book is None else _tried(book, conditions, program, target),
        failures=() if book is None else tuple(_failures(book, conditions, program, target)),
    )


def _fits(structure: Structure, conditions: Sequence[Condition]) -> bool:
    """Whether the choices that a structure makes allow the conditions."""
    choices = choices_of(assemble(structure, plain_choices(structure)))
    own = {name: level for name, level in choices.items() if not name.startswith("p") or _choice(name) in OF_STRUCTURE}
    return all(condition.allows(own) for condition in conditions)


def _choice(name: str) -> str:
    return name.partition(".")[2]


def _levels(
    conditions: Sequence[Condition], candidates: Sequence[Candidate]
) -> Iterator[tuple[str, tuple[Level, ...]]]:
    for condition in conditions:
        found = set(levels_of(condition.name, candidates))
        if found:
            yield condition.name, tuple(sorted(found, key=lambda level: (isinstance(level, str), level)))


def _nearest(conditions: Sequence[Condition], candidates: Sequence[Candidate]) -> Iterator[str]:
    """For each condition on a number that no candidate has, the numbers next to it that some have."""
    for condition in conditions:
        numbers = sorted({level for level in levels_of(condition.name, candidates) if isinstance(level, int)})
        wanted = condition.level
        if not isinstance(wanted, int) or wanted in numbers:
            continue
        below, above = [n for n in numbers if n < wanted], [n for n in numbers if n > wanted]
        yield from (f"{condition.name}={n}" for n in (*below[-1:], *above[:1]))


def _tried(book: Notebook, conditions: Sequence[Condition], program: Program, target: Target) -> Tried | None:
    times = {id: ns for id in book.candidates if (ns := book.track.time_ns(id)) is not None}
    best_ns = book.track.time_ns(book.track.incumbent)
    fitting = [id for id in times if all_hold(conditions, program, book.candidates[id], target)]
    if not fitting or best_ns is None:
        return None
    fastest = min(fitting, key=lambda id: times[id])
    return Tried(count=len(fitting), fastest=fastest, fastest_ns=times[fastest], over_winner=times[fastest] / best_ns)


def _failures(
    book: Notebook, conditions: Sequence[Condition], program: Program, target: Target
) -> Iterator[FailureCause]:
    ends = {id: outcome_from_json(outcome.reason) for id, outcome in book.outcomes.items()}
    counts: Counter[tuple[State, str]] = Counter()
    examples: dict[tuple[State, str], str] = {}
    for id, end in ends.items():
        cause = failure_cause(end)
        if cause is not None and all_hold(conditions, program, book.candidates[id], target):
            counts[end.state, cause] += 1
            examples.setdefault((end.state, cause), id)
    for (state, cause), count in counts.most_common():
        example = examples[state, cause]
        yield FailureCause(
            state=state, cause=cause, count=count, example=example, sentence=failure_sentence(ends[example])
        )
