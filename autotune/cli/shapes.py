"""Texts on the command line that stand for sizes and scalars.
Must not know kernels, targets or verbs."""

from __future__ import annotations

import math
import re
from typing import TypeAlias

from autotune.cli.errors import BadShape

Shape: TypeAlias = dict[str, int | float]

_WHOLE = re.compile(r"[+-]?\d+")
_ENTRY = re.compile(r"(?P<name>[^\W\d]\w*)=(?P<value>.+)")


def parse_shape(text: str) -> Shape:
    """The sizes (whole numbers) and scalar arguments (any number) that a text such as `M=129,N=512` gives.

    Raises: BadShape.
    """
    shape: Shape = {}
    for entry in text.split(","):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None:
            raise BadShape(text=text, problem=f"{entry.strip()!r} is not NAME=NUMBER")
        name = match["name"]
        if name in shape:
            raise BadShape(text=text, problem=f"{name} is given twice")
        shape[name] = _number(text, match["value"])
    return shape


def format_shape(shape: Shape) -> str:
    """The text that `parse_shape` reads back."""
    return ",".join(f"{name}={value}" for name, value in shape.items())


def _number(text: str, value: str) -> int | float:
    try:
        number = float(value)
    except ValueError:
        raise BadShape(text=text, problem=f"{value!r} is not a number") from None
    if not math.isfinite(number):
        raise BadShape(text=text, problem=f"{value!r} is not a finite number")
    return int(value) if _WHOLE.fullmatch(value.strip()) else number
