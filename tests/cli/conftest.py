"""Running the command in this process, with a store and a kernel file of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.cli.app import app
from autotune.cli.exits import ExitCode

ROW_SUM = """
import autotune as at


@at.kernel(workloads=[dict(M=3, N=5)])
def row_sum(x: at.f32["M", "N"], y: at.f32["M"]):
    for row in at.parallel(x.shape[0]):
        y[row] = at.sum(x[row, :])
"""

SCALE = """

@at.kernel
def scaled(x: at.f32["M"], y: at.f32["M"], scale: at.f32):
    for row in at.parallel(x.shape[0]):
        y[row] = scale * x[row]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one call of the command left behind."""

    code: ExitCode
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    """Takes back what a command does to the process's loggers."""
    root, ours = logging.getLogger(), logging.getLogger("autotune")
    handlers, root_level, level = list(root.handlers), root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(root_level)
    ours.setLevel(level)


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    untouched_logging: None,
) -> Command:
    """`command("best", file)` runs `autotune best file` in an empty directory, with an empty store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_DATABASE", str(tmp_path / "policies.sqlite"))

    def run(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            app([str(argument) for argument in arguments], prog_name="autotune")
        captured = capfd.readouterr()
        return Ran(code=ExitCode(ended.value.code or 0), out=captured.out, err=captured.err)

    return run


@pytest.fixture
def row_sum(tmp_path: Path) -> Path:
    """A file with one kernel that has one workload."""
    path = tmp_path / "row_sum.py"
    path.write_text(ROW_SUM)
    return path


@pytest.fixture
def two_kernels(tmp_path: Path) -> Path:
    """A file with two kernels; the second has no workload and needs a scalar."""
    path = tmp_path / "two_kernels.py"
    path.write_text(ROW_SUM + SCALE)
    return path
