"""Kernels are found in files, and every way in which a file may be wrong has its own error."""

import importlib
import sys

import numpy as np
import pytest

import autotune as at
from autotune.errors import KernelFileBroken, KernelFileMissing, NoKernelInFile
from autotune.language.load import load_kernels

TWO = """
import autotune as at

@at.kernel(workloads=[dict(N=3)])
def second_in_alphabet(x: at.f32["N"], y: at.f32["N"]):
    for i in at.parallel(x.shape[0]):
        at.store(y[i], x[i] * FACTOR)

@at.kernel
def first_in_alphabet(x: at.f32["N"]):
    "Doubles in place."
    for i in at.parallel(x.shape[0]):
        x[i] = x[i] + x[i]

FACTOR = 3
other_name = first_in_alphabet
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="kernels.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def test_kernels_come_in_the_order_of_the_file(write):
    path = write(TWO)
    kernels = load_kernels(path)
    assert list(kernels) == ["second_in_alphabet", "first_in_alphabet"]
    kernel = kernels["second_in_alphabet"]
    assert kernel.workloads == [{"N": 3}] and kernel.file == str(path)
    assert kernels["first_in_alphabet"].__doc__ == "Doubles in place."
    x = np.array([1.0, 2.0], np.float32)
    assert at.interpret(kernel, x, x)["y"].values.tolist() == [3.0, 6.0]


def test_files_of_one_name_stay_apart(write):
    first = load_kernels(write(TWO))
    (write("", name="marker.py").parent / "inner").mkdir()
    second = load_kernels(write(TWO.replace("FACTOR = 3", "FACTOR = 5"), name="inner/kernels.py"))
    x = np.ones(1, np.float32)
    results = [at.interpret(k["second_in_alphabet"], x, x)["y"].values[0] for k in (first, second)]
    assert results == [3.0, 5.0]


def test_language_names_win_over_subpackages_of_the_same_name(write):
    assert importlib.import_module("autotune.store") is sys.modules["autotune.store"]
    assert load_kernels(write(TWO))["second_in_alphabet"].program.stored_tensors() == (1,)
    bare = TWO.replace("at.store", "store") + "\nfrom autotune import store\n"
    assert load_kernels(write(bare))["second_in_alphabet"].program.stored_tensors() == (1,)
    assert at.search is importlib.import_module("autotune.tune").search
    assert at.search is at.search


SINGLE_NAMES = """
from __future__ import annotations
from math import pi
from autotune import f32, function, kernel, parallel, sum, tile

@kernel
def scaled(x: f32["M", "N"], y: f32["M"]):
    for i in parallel(tile(x.shape[0])):
        y[i] = turned(sum(x[i, :], axis=1))

@function
def turned(v):
    return v * pi
"""


def test_names_may_be_imported_one_by_one_and_annotations_be_text(write):
    x = np.ones((2, 3), np.float32)
    result = at.interpret(load_kernels(write(SINGLE_NAMES))["scaled"], x, np.zeros(2, np.float32))
    np.testing.assert_allclose(result["y"].values, 3 * np.pi, rtol=1e-6)


def test_a_kernel_in_a_function_sees_the_names_around_it():
    factor = 4.0

    @at.kernel(workloads=[{"N": 8}])
    def local(x: at.f32["N"], y: at.f32["N"]):  # noqa: F821
        for i in at.parallel(x.shape[0]):
            y[i] = x[i] * factor

    assert at.interpret(local, np.ones(2, np.float32), np.zeros(2, np.float32))["y"].values.tolist() == [4.0, 4.0]


def test_a_call_goes_to_the_run_time(write, monkeypatch):
    seen = []
    monkeypatch.setattr(importlib.import_module("autotune.call"), "call", lambda *given: seen.append(given))
    kernel = load_kernels(write(TWO))["second_in_alphabet"]
    kernel(1, y=2)
    assert seen == [(kernel, (1,), {"y": 2})]


def test_what_a_kernel_file_may_lack(write, tmp_path):
    with pytest.raises(KernelFileMissing, match=r"no kernel file .*none\.py"):
        load_kernels(tmp_path / "none.py")
    with pytest.raises(KernelFileBroken, match=r"cannot be loaded: line 1: .*\n.*python"):
        load_kernels(write("def ("))
    with pytest.raises(KernelFileBroken, match="cannot be loaded: ZeroDivisionError: division by zero"):
        load_kernels(write("1 / 0"))
    with pytest.raises(KernelFileBroken, match="it is no Python file"):
        load_kernels(write("text", name="kernels.txt"))
    with pytest.raises(NoKernelInFile, match="no kernel in"):
        load_kernels(write("import autotune as at"))
