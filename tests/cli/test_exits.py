"""Exit codes: distinct, and the most serious one of several."""

from __future__ import annotations

import itertools

from autotune.cli.exits import ExitCode, most_serious


def test_success_is_zero_and_usage_errors_share_the_number_of_the_parser() -> None:
    assert ExitCode.IMPROVED == 0
    assert ExitCode.BAD_INPUT == 2


def test_no_code_is_that_of_an_unhandled_exception() -> None:
    assert 1 not in set(ExitCode)


def test_any_two_codes_have_a_more_serious_one_whatever_their_order() -> None:
    for first, second in itertools.product(ExitCode, repeat=2):
        assert most_serious([first, second]) == most_serious([second, first]) in (first, second)


def test_one_failed_search_is_not_hidden_by_one_that_improved() -> None:
    assert (
        most_serious([ExitCode.IMPROVED, ExitCode.NOTHING_CORRECT, ExitCode.REFERENCE_KEPT]) == ExitCode.NOTHING_CORRECT
    )


def test_no_search_at_all_is_no_failure() -> None:
    assert most_serious([]) == ExitCode.IMPROVED
