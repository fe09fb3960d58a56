"""What the command says about wrong input: no traceback, exit code 2, what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.cli.exits import ExitCode

from .conftest import Command

VERBS_OF_A_SHAPE = ("search", "best", "show", "explain", "space", "verify")


@pytest.mark.parametrize("verb", [*VERBS_OF_A_SHAPE, "graph"])
def test_a_missing_file_is_bad_input(command: Command, verb: str) -> None:
    ran = command(verb, "missing.py")
    assert ran.code == ExitCode.BAD_INPUT
    assert ran.err.startswith("error: no kernel file missing.py")
    assert "Traceback" not in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("verb", VERBS_OF_A_SHAPE)
def test_a_bad_shape_says_what_a_shape_is(command: Command, row_sum: Path, verb: str) -> None:
    ran = command(verb, row_sum, "--shape", "3x5")
    assert ran.code == ExitCode.BAD_INPUT
    assert "'3x5' is not NAME=NUMBER" in ran.err
    assert "write --shape M=129,N=512" in ran.err


@pytest.mark.parametrize("verb", ["search", "best", "show", "explain"])
def test_a_cold_tensor_that_the_kernel_lacks_is_named_with_those_it_has(
    command: Command, row_sum: Path, verb: str
) -> None:
    ran = command(verb, row_sum, "--cold", "x,z")
    assert ran.code == ExitCode.BAD_INPUT
    assert "kernel 'row_sum' has no tensor 'z'" in ran.err and "--cold x,y" in ran.err


@pytest.mark.parametrize("verb", ["search", "best", "show", "explain"])
def test_an_alignment_that_nothing_is_measured_at_says_which_are(command: Command, row_sum: Path, verb: str) -> None:
    ran = command(verb, row_sum, "--alignment", "32")
    assert ran.code == ExitCode.BAD_INPUT
    assert "alignment of 32 bytes" in ran.err and "64 or 16" in ran.err


def test_a_shape_that_lacks_a_dimension_names_it(command: Command, row_sum: Path) -> None:
    ran = command("search", row_sum, "--shape", "M=3")
    assert ran.code == ExitCode.BAD_INPUT
    assert "needs an extent for N" in ran.err


def test_a_shape_with_an_unknown_name_says_which_there_are(command: Command, row_sum: Path) -> None:
    ran = command("search", row_sum, "--shape", "M=3,N=5,K=7")
    assert ran.code == ExitCode.BAD_INPUT
    assert "has no dimension 'K'" in ran.err
    assert "M, N" in ran.err


def test_neither_workload_nor_shape_is_an_error_that_shows_both_ways_out(command: Command, two_kernels: Path) -> None:
    ran = command("search", two_kernels, "--kernel", "scaled")
    assert ran.code == ExitCode.BAD_INPUT
    assert "kernel 'scaled' has no workloads and no --shape was given" in ran.err
    assert "write --shape M=128, or @at.kernel(workloads=[dict(M=128)]) above the kernel" in ran.err


@pytest.mark.parametrize("budget", ["soon", "0s", "-5s", "5d"])
def test_a_bad_budget_says_what_a_budget_is(command: Command, row_sum: Path, budget: str) -> None:
    ran = command("search", row_sum, f"--budget={budget}")
    assert ran.code == ExitCode.BAD_INPUT
    assert f"the option --budget sets budget to {budget!r}" in ran.err
    assert "expected a time above zero such as '60s'" in ran.err


def test_no_trials_is_no_limit(command: Command, row_sum: Path) -> None:
    ran = command("search", row_sum, "--max-trials", 0)
    assert ran.code == ExitCode.BAD_INPUT
    assert "expected a whole number above zero" in ran.err


@pytest.mark.parametrize("verb", VERBS_OF_A_SHAPE)
def test_an_unknown_target_lists_the_known(command: Command, row_sum: Path, verb: str) -> None:
    ran = command(verb, row_sum, "--target", "simd:mmx")
    assert ran.code == ExitCode.BAD_INPUT
    assert "unknown target 'simd:mmx'" in ran.err
    assert "avx512, avx2, sse2, neon" in ran.err


def test_an_unknown_kernel_lists_those_of_the_file(command: Command, two_kernels: Path) -> None:
    ran = command("best", two_kernels, "--kernel", "softmax")
    assert ran.code == ExitCode.BAD_INPUT
    assert "has no kernel 'softmax'; it has row_sum, scaled" in ran.err
    assert "write --kernel row_sum" in ran.err


@pytest.mark.parametrize("verb", ["show", "explain", "graph"])
def test_a_verb_that_shows_one_kernel_asks_which(command: Command, two_kernels: Path, verb: str) -> None:
    ran = command(verb, two_kernels)
    assert ran.code == ExitCode.BAD_INPUT
    assert "has 2 kernels and this verb shows one: row_sum, scaled" in ran.err


def test_a_verb_that_shows_one_shape_asks_which(command: Command, tmp_path: Path, row_sum: Path) -> None:
    row_sum.write_text(row_sum.read_text().replace("dict(M=3, N=5)", "dict(M=3, N=5), dict(M=4, N=6)"))
    ran = command("show", row_sum)
    assert ran.code == ExitCode.BAD_INPUT
    assert "has 2 workloads and this verb shows one: M=3,N=5; M=4,N=6" in ran.err
    assert "write --shape M=3,N=5" in ran.err


def test_a_mistake_in_the_kernel_is_shown_with_its_line(command: Command, row_sum: Path) -> None:
    row_sum.write_text(row_sum.read_text().replace("at.sum(", "at.median("))
    ran = command("show", row_sum, "--as", "program")
    assert ran.code == ExitCode.BAD_INPUT
    assert "row_sum.py:8:" in ran.err
    assert "the kernel language has no function at.median" in ran.err
    assert "y[row] = at.median(x[row, :])" in ran.err


def test_a_drawing_has_to_be_an_svg(command: Command, row_sum: Path) -> None:
    ran = command("graph", row_sum, "--out", "graph.png")
    assert ran.code == ExitCode.BAD_INPUT
    assert "expected a file name that ends in .svg" in ran.err


def test_nothing_is_verified_on_a_target_that_this_machine_lacks(command: Command, row_sum: Path) -> None:
    from autotune.jit import can_run
    from autotune.realizations.targets import TARGET_NAMES, named_target

    foreign = next(name for name in TARGET_NAMES if not can_run(named_target(name)))
    ran = command("verify", row_sum, "--target", f"simd:{foreign}")
    assert ran.code == ExitCode.BAD_INPUT
    assert f"this machine cannot run code for {foreign}" in ran.err


def test_an_unknown_option_is_bad_input(command: Command, row_sum: Path) -> None:
    ran = command("best", row_sum, "--fast")
    assert ran.code == ExitCode.BAD_INPUT
    assert "--fast" in ran.err


@pytest.mark.parametrize("name", ["0123", "winner"])
def test_an_unknown_candidate_says_where_ids_are_listed(command: Command, row_sum: Path, name: str) -> None:
    ran = command("show", row_sum, name)
    assert ran.code == ExitCode.BAD_INPUT
    assert f"candidate {name!r}: no candidate of this shape and target starts so" in ran.err
    assert "`autotune explain FILE` lists" in ran.err
