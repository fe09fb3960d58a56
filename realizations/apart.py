"""How contractions that are sinks of their own reach their operands: read in place or copied, lanes as in any nest.
Must not know costs, register blocks or instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.ir.buffer import Transfer
from autotune.ir.phases import Phase, PhaseKind
from autotune.realizations.candidate import Buffered, Inline, Storage
from autotune.realizations.factors import Factors, Operands


class Apart(Factors):
    """The operand choices of a program whose contractions are computed by loops of nests, like any other sum."""

    def operands(self, lanes: tuple[int, ...]) -> Iterator[Operands]:
        """Every way to hold the operands; what is strided across the lanes is transposed or gathered."""
        for found in super().operands(lanes):
            yield found
            if any(wanted is Transfer.TRANSPOSE for _, wanted in found.transfer):
                yield replace(found, transfer=tuple((phase, Transfer.GATHER) for phase, _ in found.transfer))

    def _values(self, lanes: tuple[int, ...], kept: set[int]) -> dict[int, Storage]:
        storage: dict[int, Storage] = {}
        for phase in reversed(self.phases):
            if phase.kind is PhaseKind.ELEMENTWISE:
                keep = phase.number in kept or self._worth_keeping(phase, storage)
                storage[phase.number] = self._buffered(phase, lanes, storage) if keep else Inline()
        return storage

    def _reached(self, lanes: tuple[int, ...], storage: dict[int, Storage]) -> Operands:
        wanted = ((p.number, self._transfer(p, lanes, storage, frozenset())) for p in self.phases)
        transfer = tuple(sorted((n, t) for n, t in wanted if t is not Transfer.NONE))
        copied = ((p, storage.get(p.number)) for p in self.phases if p.kind is PhaseKind.LOAD or p.value in self.values)
        across = tuple((p.number, kept.layout[-1]) for p, kept in copied if isinstance(kept, Buffered) and kept.layout)
        return Operands(storage=storage, transfer=transfer, inside=(), across=across)

    def _nest_lane(self, phase: Phase, lanes: tuple[int, ...], storage: Mapping[int, Storage]) -> int | None:
        return self._sink_lane(phase, lanes, storage)

    def _sink_lane(self, sink: Phase, lanes: tuple[int, ...], storage: Mapping[int, Storage]) -> int | None:
        if sink.contraction is None:
            return super()._sink_lane(sink, lanes, storage)
        summed = frozenset(axis for axis in sink.contribution if self.extent(axis) > 1)
        return self.across(lanes, self.domain(sink) | summed)
