"""The JSON documents of `--json`: one object on standard output.
Must not know which verb prints it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def print_document(document: Mapping[str, Any]) -> None:
    """Print one JSON object, indented, keys in the order given; numbers that JSON lacks become null."""
    json.dump(_plain(document), sys.stdout, indent=2, allow_nan=False, ensure_ascii=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
