"""A kernel file called through the real compiler: what one process stores, another runs byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune import build
from autotune.call import Calls
from autotune.call_backend import default_backend
from autotune.call_entry import Origin
from autotune.call_errors import StalePolicyWarning, UntunedWarning
from autotune.jit import host_target
from autotune.language.kernel import Kernel
from autotune.language.load import load_kernels
from autotune.realizations.candidate import Split
from autotune.realizations.reference import reference_candidate
from autotune.store.database import open_database
from autotune.store.keys import workload_of
from tests.store.samples import outcome

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "rmsnorm.py"
SHAPE = {"M": 5, "N": 37}

CALL = """
import sys, warnings
from pathlib import Path
import numpy as np
from autotune.language.load import load_kernels
warnings.simplefilter("error")
(kernel,) = load_kernels(Path(sys.argv[1])).values()
x, w = np.random.default_rng(0).standard_normal((5, 37), np.float32), np.ones(37, np.float32)
y = np.empty_like(x)
kernel(x, w, y)
expected = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
print(float(abs(y - expected).max()))
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "policies.sqlite"
    monkeypatch.setenv("AUTOTUNE_DATABASE", str(path))
    monkeypatch.delenv("AUTOTUNE_TARGET", raising=False)
    monkeypatch.setattr("autotune.call._CALLS", Calls(default_backend))
    return path


@pytest.fixture
def kernel() -> Kernel:
    (found,) = load_kernels(FILE).values()
    return found


def remember(path: Path, kernel: Kernel, sha256: str | None = None) -> None:
    """Store the reference candidate as if it had won."""
    program, target = kernel.bind(**SHAPE), host_target()
    chosen = reference_candidate(program, target)
    made = build.build(program, chosen, target)
    workload = workload_of(kernel.program, SHAPE, target)
    with open_database(path) as database:
        database.record(workload, chosen, outcome(workload, chosen, object_sha256=sha256 or made.sha256))


def arguments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((SHAPE["M"], SHAPE["N"]), dtype=np.float32)
    return x, np.ones(SHAPE["N"], np.float32), np.full_like(x, np.nan)


def right(x: np.ndarray, y: np.ndarray) -> bool:
    exact = x.astype(np.float64)
    return np.allclose(y, exact / np.sqrt((exact * exact).mean(axis=1, keepdims=True) + 1e-5), rtol=1e-6)


def test_another_process_runs_the_stored_winner_without_a_word(path: Path, kernel: Kernel) -> None:
    remember(path, kernel)
    command = [sys.executable, "-c", CALL, str(FILE)]
    environment = {**os.environ, "AUTOTUNE_DATABASE": str(path)}
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert (run.returncode, run.stderr) == (0, "")
    assert float(run.stdout) < 1e-5


def test_without_a_policy_the_reference_runs_with_one_warning(path: Path, kernel: Kernel) -> None:
    x, w, y = arguments()
    with pytest.warns(UntunedWarning, match="rmsnorm at M=5,N=37 runs the reference candidate") as caught:
        kernel(x, w, y)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert right(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(x, w, y)
    assert not path.exists()


def test_other_code_is_checked_against_the_oracle(path: Path, kernel: Kernel) -> None:
    remember(path, kernel, sha256="c" * 64)
    x, w, y = arguments()
    dispatcher = Calls(default_backend).dispatcher(kernel)
    (note,) = dispatcher((x, w, y), {})
    assert note.category is StalePolicyWarning and "it was checked again and is correct" in note.text
    assert right(x, y)
    assert [entry.origin for entry in dispatcher.entries.values() if entry] == [Origin.RECHECKED]


def test_candidate_that_is_not_legal_here_is_refused_with_its_rule(path: Path, kernel: Kernel) -> None:
    program, target = kernel.bind(**SHAPE), host_target()
    chosen = reference_candidate(program, target)
    backend = default_backend()
    assert backend.refusal(program, chosen, target) is None
    refusal = backend.refusal(program, replace(chosen, split=Split(parts=2)), target)
    assert refusal is not None and "split" in refusal
