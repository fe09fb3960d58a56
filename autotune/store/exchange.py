"""A store as JSON lines, for other machines, for people, and for replaying a search without a clock.
Must not know SQL."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from autotune.ir.serial import Json, MalformedJson, from_json, to_json
from autotune.realizations.candidate import Candidate
from autotune.store.database import Database
from autotune.store.errors import MalformedExport
from autotune.store.keys import Workload
from autotune.store.records import Outcome, Search

FORMAT = "autotune store"
VERSION = 1
_FREE = ("reason", "environment")  # fields that hold JSON data of any form
_ADDED: dict[str, dict[str, Json]] = {"Search": {"forbidden": [], "fresh": False}}  # what older exports lack


@dataclass(slots=True)
class _Bundle:
    workloads: list[Workload] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


def export_lines(database: Database) -> Iterator[str]:
    """Every record as one line of JSON after a header line; policies are left out, being derived."""
    yield _line({"format": FORMAT, "version": VERSION})
    # What refers to others is read first: a search that writes meanwhile can only add to what is referred to.
    outcomes, searches = database.outcomes(), database.searches()
    yield from map(_line, map(to_json, database.workloads()))
    yield from map(_line, map(to_json, database.candidates()))
    for record in (*searches, *outcomes):
        assert isinstance(record, Search | Outcome)
        yield _line(_encode_fields(record))


def import_lines(database: Database, lines: Iterable[str], *, source: str = "import") -> int:
    """Add the records that are missing, by identity; a second import adds nothing. The number of outcomes added.

    Raises: MalformedExport, ConflictingRecord, StoreError.
    """
    bundle = _Bundle()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            if number == 1:
                _check_header(data)
            else:
                _sort_in(bundle, _decode(data))
        except (ValueError, TypeError) as error:
            raise MalformedExport(source=source, line=number, detail=str(error)) from error
    return database.merge(bundle.workloads, bundle.candidates, bundle.searches, bundle.outcomes)


def _check_header(data: Json) -> None:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise MalformedJson(f"the first line names no format {FORMAT!r}")
    if data.get("version") != VERSION:
        raise MalformedJson(f"the format has version {data.get('version')!r}, this version of autotune reads {VERSION}")


def _sort_in(bundle: _Bundle, record: Workload | Candidate | Search | Outcome) -> None:
    match record:
        case Workload():
            bundle.workloads.append(record)
        case Candidate():
            bundle.candidates.append(record)
        case Search():
            bundle.searches.append(record)
        case Outcome():
            bundle.outcomes.append(record)


def _encode_fields(record: Search | Outcome) -> Json:
    data: dict[str, Json] = {"type": type(record).__name__}
    for f in dataclasses.fields(record):
        value = getattr(record, f.name)
        data[f.name] = value if f.name in _FREE else to_json(value)
    return data


def _decode(data: Json) -> Workload | Candidate | Search | Outcome:
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (Workload, Candidate, Search, Outcome)}
    kind = kinds.get(data.get("type", "")) if isinstance(data, dict) else None
    if kind is None:
        raise MalformedJson(f"expected one of {', '.join(kinds)}, found {data!r:.80}")
    record = from_json(kind, data) if kind in (Workload, Candidate) else _decode_fields(kind, data)
    assert isinstance(record, Workload | Candidate | Search | Outcome)
    return record


def _decode_fields(kind: Any, data: dict[str, Json]) -> Any:
    hints = get_type_hints(kind)
    names = tuple(f.name for f in dataclasses.fields(kind))
    data = {**_ADDED.get(kind.__name__, {}), **data}
    if set(data) - {"type"} != set(names):
        raise MalformedJson(f"expected the fields {', '.join(names)} of {kind.__name__}, found {', '.join(data)}")
    return kind(**{name: data[name] if name in _FREE else from_json(hints[name], data[name]) for name in names})


def _line(data: Json) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n"
