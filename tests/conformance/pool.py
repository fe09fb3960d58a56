"""Legal candidates to choose a covering sample from: the best and some others of every structure, and uniform ones.
Must not know how a sample is chosen or checked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from autotune.realizations.candidate import Candidate
from autotune.realizations.reference import reference_candidate
from autotune.realizations.target import Target
from autotune.search.families import Family
from tests.conformance.cases import Workload

UNIFORM = 1000
OF_EACH_STRUCTURE = 12


def pool(workload: Workload, families: Sequence[Family], target: Target, seed: int) -> list[Candidate]:
    """Distinct legal candidates, the reference first."""
    rng = random.Random(seed)
    found = {reference_candidate(workload.program, target): None}
    for family, picks in _drawn(families, target, rng):
        if family.fits(picks, target):
            found.setdefault(family.candidate(picks))
    return list(found)


def _drawn(families: Sequence[Family], target: Target, rng: random.Random) -> Iterator[tuple[Family, tuple[int, ...]]]:
    for family in families:
        yield family, (0,) * len(family.tables)
        for _ in range(OF_EACH_STRUCTURE):
            yield family, random_picks(family, rng)
    for family in rng.choices(families, [family.size(target) for family in families], k=UNIFORM):
        yield family, random_picks(family, rng)


def random_picks(family: Family, rng: random.Random) -> tuple[int, ...]:
    """Any combination of a structure's rows, with equal probability."""
    return tuple(rng.randrange(len(table)) for table in family.tables)
