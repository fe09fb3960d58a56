"""Where values live and which phases share a nest: refusals.
Must not know costs or instructions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autotune.ir.buffer import BufferProgram, ReduceInto, StoreTensor
from autotune.ir.program import Load
from autotune.realizations.candidate import Buffered, Candidate
from autotune.realizations.context import NestContext, ProgramFacts
from autotune.realizations.verdict import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutAxesDiffer(Refusal):
    rule: ClassVar[str] = "layout-axes-differ"
    phase: int
    layout: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return f"phase p{self.phase} has axes {self.axes}, but its buffer is laid out over {self.layout}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLost(Refusal):
    rule: ClassVar[str] = "snapshot-lost"
    value: int
    tensor: int

    @property
    def sentence(self) -> str:
        return (
            f"load %{self.value} would be read again after tensor t{self.tensor} was overwritten; "
            "it has to be copied where it is defined"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsUnfinishedReduction(Refusal):
    rule: ClassVar[str] = "reads-unfinished-reduction"
    value: int

    @property
    def sentence(self) -> str:
        return f"reduction %{self.value} is finished and used in one nest; its users need a later nest"


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainsDisagree(Refusal):
    rule: ClassVar[str] = "domains-disagree"
    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return f"sinks over axes {self.left} and {self.right} cannot share a nest"


@dataclass(frozen=True, slots=True, kw_only=True)
class NestsOutOfOrder(Refusal):
    rule: ClassVar[str] = "nests-out-of-order"
    phase: int
    nest: int

    @property
    def sentence(self) -> str:
        return f"phase p{self.phase} stands in nest {self.nest}, before a nest that the program needs first"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceTooLarge(Refusal):
    rule: ClassVar[str] = "workspace-too-large"
    needed_bytes: int
    limit_bytes: int

    @property
    def sentence(self) -> str:
        return f"buffers take {self.needed_bytes} bytes of workspace; at most {self.limit_bytes} (half of L2) are allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceMissing(Refusal):
    rule: ClassVar[str] = "choice-missing"
    phase: int
    what: str

    @property
    def sentence(self) -> str:
        return f"phase p{self.phase} writes a result, but the candidate names no {self.what} for it"


def refuse_missing(candidate: Candidate, sinks: Iterable[int]) -> Iterator[Refusal]:
    """Every phase that writes has a nest, a mapping, a register block and a tail."""
    nests, tails = dict(candidate.nests), dict(candidate.tail)
    for phase in sinks:
        known = (("nest", nests), ("mapping", dict(candidate.mapping)), ("register block", dict(candidate.compute)))
        for what, table in known:
            if phase not in table:
                yield ChoiceMissing(phase=phase, what=what)
        if phase in nests and nests[phase] not in tails:
            yield ChoiceMissing(phase=phase, what="tail")


def refuse_layouts(facts: ProgramFacts, candidate: Candidate, axes_of: dict[int, tuple[int, ...]]) -> Iterator[Refusal]:
    """A buffer is laid out over exactly the axes of its value."""
    for phase, storage in candidate.storage:
        if isinstance(storage, Buffered) and sorted(storage.layout) != sorted(axes_of[phase]):
            yield LayoutAxesDiffer(phase=phase, layout=storage.layout, axes=axes_of[phase])


def refuse_nest_order(candidate: Candidate) -> Iterator[Refusal]:
    """Nest numbers never fall along the program."""
    highest = -1
    for phase, nest in candidate.nests:
        if nest < highest:
            yield NestsOutOfOrder(phase=phase, nest=nest)
        highest = max(highest, nest)


def refuse_nest(context: NestContext) -> Iterator[Refusal]:
    """Rules on the sinks that share one nest."""
    for value in sorted(context.read_reductions):
        yield ReadsUnfinishedReduction(value=value)
    domains = [context.domain(sink) for sink in context.nest.sinks]
    for domain in domains[1:]:
        if domain != domains[0]:
            yield DomainsDisagree(left=tuple(sorted(domains[0])), right=tuple(sorted(domain)))
    reduced = [frozenset(context.reduce(s).axes) for s in context.nest.sinks if isinstance(s, ReduceInto)]
    for axes in reduced[1:]:
        if axes != reduced[0]:
            yield DomainsDisagree(left=tuple(sorted(reduced[0])), right=tuple(sorted(axes)))


def refuse_snapshots(contexts: Sequence[NestContext]) -> Iterator[Refusal]:
    """A load of a tensor the program overwrites is not read again in a nest after the store."""
    overwritten: set[int] = set()
    for context in contexts:
        for let, load in context.loads():
            if load.tensor in overwritten:
                yield SnapshotLost(value=let.id, tensor=load.tensor)
        stores = [context.facts.stores[s.store] for s in context.nest.sinks if isinstance(s, StoreTensor)]
        for position, store in enumerate(stores):
            later_reads = [
                let.id
                for let, load in context.loads()
                if isinstance(load, Load) and load.tensor == store.tensor and load.index != store.index
            ]
            for value in later_reads:
                yield SnapshotLost(value=value, tensor=store.tensor)
            del position
        overwritten.update(store.tensor for store in stores)


def refuse_workspace(facts: ProgramFacts, plan: BufferProgram) -> Iterator[Refusal]:
    """Private buffers fit half of the second-level cache."""
    limit = facts.target.l2_bytes // 2
    if plan.workspace_bytes > limit:
        yield WorkspaceTooLarge(needed_bytes=plan.workspace_bytes, limit_bytes=limit)
