"""What `--json` prints for the values that reports hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from autotune.measure.states import State
from autotune.report.document import print_document
from autotune.search.ledger import StateCount


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.inf, None),
        (math.nan, None),
        ((1, 2.5, "µ"), [1, 2.5, "µ"]),
        (State.CRASH, "crash"),
        (StateCount(state=State.CRASH, count=2), {"type": "StateCount", "state": "crash", "count": 2}),
        ({"nested": [{"deep": (math.inf,)}]}, {"nested": [{"deep": [None]}]}),
    ],
)
def test_values_become_plain_json(value: object, expected: object, capsys: pytest.CaptureFixture[str]) -> None:
    document: Mapping[str, Any] = {"value": value}
    print_document(document)
    assert json.loads(capsys.readouterr().out) == {"value": expected}
