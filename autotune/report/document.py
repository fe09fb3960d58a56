"""The JSON documents of `--json`: one object on standard output.
Must not know which verb prints it."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any


def print_document(document: Mapping[str, Any]) -> None:
    """Print one JSON object, indented, keys in the order given.

    Dataclasses become objects with their name as `type`, enums their value; numbers that JSON lacks become null.
    """
    json.dump(_plain(document), sys.stdout, indent=2, allow_nan=False, ensure_ascii=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return _plain(value.value)
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case str():
            return value
        case Sequence():
            return [_plain(item) for item in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return {"type": type(value).__name__, **fields}
        case _:
            return value
