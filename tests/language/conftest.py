"""What the tests of the language share: the kernels of a test module that trace."""

import pytest

from autotune.errors import AutotuneError
from autotune.language.kernel import Kernel


@pytest.fixture
def programs(request):
    """Programs of the kernels that the test's module defines and that are no mistakes, by name."""
    found = {}
    for thing in vars(request.module).values():
        if isinstance(thing, Kernel):
            try:
                found[thing.name] = thing.program
            except AutotuneError:
                continue
    assert found
    return found
