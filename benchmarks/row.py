"""One line of a benchmark: a case, ours and one peer; and its JSON.
Must not know how the line is measured or shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

OWN_REFERENCE = "reference"
"""The name under which our own reference candidate is listed among the peers."""
OURS = "ours"
"""In the peer's place of a row that says why nothing of ours could be timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Ours against one peer in one case, or why there is no time.

    Units: `*_us` microseconds a call; `ratio` ours over peer, the median of paired ratios; `error` and `peer_error`
    the largest error of ours and of the peer over its bound; `overhead_us` a call that does nothing, made the way
    the peer is called; `roof` the part of the measured roof that ours reaches, from 0 to 1; `tried` the right
    formulations of the peer with the microseconds of a first look; `protocol` how the two were compared, in `rounds`
    rounds or pairs of visits, with `ratio_least` and `ratio_most` the extremes of their ratios. A row that is not
    `counted` is shown but is no contender: it leaves out work that ours does, or is a reference of our own.
    """

    suite: str
    case: str
    candidate: str
    ours_us: float | None
    peer: str
    peer_us: float | None
    ratio: float | None
    error: float | None
    peer_error: float | None = None
    formulation: str = ""
    overhead_us: float | None = None
    pages: str = ""
    rounds: int = 0
    redone: int = 0
    failure: str | None = None
    roof: float | None = None
    tried: str = ""
    counted: bool = True
    protocol: str = ""
    ratio_least: float | None = None
    ratio_most: float | None = None


def to_json(rows: Iterable[Row]) -> str:
    """A JSON array of the rows, one a line; an error that is not finite becomes the text "inf"."""
    lines = [json.dumps({key: _finite(value) for key, value in asdict(row).items()}) for row in rows]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _finite(value: object) -> object:
    return "inf" if isinstance(value, float) and not math.isfinite(value) else value
