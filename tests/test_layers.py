"""Who may import whom, and what must not be imported at all."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import autotune

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("llvmlite", "networkx", "optuna", "scipy", "sklearn")
FOLDERS = ("ir", "realizations", "calibration")


def _imported_by(statement: str) -> set[str]:
    """Top-level and `autotune.*` modules that a fresh process has loaded after `statement`."""
    code = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_layer_contract_holds() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_every_module_imports_and_none_brings_in_a_bare_folder_name() -> None:
    names = [module.name for module in pkgutil.walk_packages(autotune.__path__, "autotune.")]
    assert {"autotune.ir.program", "autotune.realizations.candidate", "autotune.cli.app"} <= set(names)
    for name in names:
        if not name.endswith(".__main__"):
            importlib.import_module(name)
    assert not set(FOLDERS) & set(sys.modules)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_reached_through_its_link(folder: str) -> None:
    link = ROOT / "autotune" / folder
    assert link.is_symlink()
    assert os.readlink(link) == f"../{folder}"


@pytest.mark.parametrize("statement", ["import autotune", "import autotune.cli"])
def test_start_up_is_light(statement: str) -> None:
    assert not set(HEAVY) & _imported_by(statement)


def test_asking_for_a_policy_needs_no_search_code() -> None:
    loaded = _imported_by("import autotune.planner")
    assert "autotune.planner" in loaded
    assert not {"autotune.search", "autotune.tune", "autotune.measure.session", "autotune.build", *HEAVY} & loaded
