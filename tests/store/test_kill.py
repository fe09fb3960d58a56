"""A process killed at any moment loses at most the outcome in flight."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.store.connection import integrity
from autotune.store.database import open_database, open_readonly
from tests.store.samples import WORKLOAD, candidate, outcome, search

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from pathlib import Path
from autotune.store.database import open_database
from tests.store.samples import WORKLOAD, candidate, outcome, search
with open_database(Path(sys.argv[1])) as database:
    started = search()
    database.begin_search(WORKLOAD, started)
    for lanes in range(1, 100_000):
        what = candidate(lanes)
        one = outcome(what=what, search=started.uuid, samples_ns=(1e6 / lanes,))
        database.record(WORKLOAD, what, one)
        print(one.uuid, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_kill_loses_at_most_the_outcome_in_flight(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "policies.sqlite"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(random.Random(seed).randrange(1, 60))]
    process.kill()
    said += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.wait()

    with open_readonly(path) as database:
        stored = [one.uuid for one in database.outcomes(WORKLOAD.key.id)]
        best = database.best(WORKLOAD.key.id)
    assert stored[: len(said)] == said
    assert len(stored) - len(said) <= 1
    assert best is not None and best.outcome.uuid == stored[-1]
    assert integrity(path) == "ok"

    with open_database(path) as database:
        database.begin_search(WORKLOAD, search())
        assert database.record(WORKLOAD, candidate(), outcome())
        kept = database.policies()
        database.rebuild_policies()
        assert database.policies() == kept
