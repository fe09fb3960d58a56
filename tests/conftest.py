"""Options of the whole test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="exhaustive forms of tests that CI samples")
    parser.addoption("--update-golden", action="store_true", help="write the recorded programs and phase graphs anew")


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether exhaustive forms were asked for."""
    return bool(request.config.getoption("--full"))
