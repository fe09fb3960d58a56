"""JSON for every stored dataclass: tagged objects, tuples as lists, enums by value.
Must not know which classes exist; callers name the module-level unions they accept."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

Json = Any


class MalformedJson(ValueError):
    """Stored data does not have the form its class asks for."""


def to_json(value: object) -> Json:
    """Plain JSON data of a dataclass tree; floats that JSON lacks become {"float": "inf"}."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form; expected frozen dataclasses, enums, tuples and scalars")


def from_json(kind: Any, data: Json) -> Any:
    """The value of type `kind` (a dataclass, enum, tuple, union or scalar) that `data` describes.

    A field that `data` lacks takes its default: records stay readable when a class gains a field that has one.
    Raises: MalformedJson naming what was expected and what was found.
    """
    return _decoder(kind)(data)


@cache
def _decoder(kind: Any) -> Callable[[Json], Any]:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union_decoder(get_args(kind))
    if origin is tuple:
        return _tuple_decoder(get_args(kind))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass_decoder(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_decoder(kind)
    return lambda data: _scalar(kind, data)


def _scalar(kind: Any, data: Json) -> Any:
    if kind is type(None) and data is None:
        return None
    if kind is float and isinstance(data, dict) and set(data) == {"float"}:
        return float(data["float"])
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(kind, type) and isinstance(data, kind) and (kind is bool or not isinstance(data, bool)):
        return data
    raise MalformedJson(f"expected {getattr(kind, '__name__', kind)}, found {data!r:.80}")


def _enum_decoder(kind: type[Enum]) -> Callable[[Json], Any]:
    def decode(data: Json) -> Any:
        try:
            return kind(data)
        except ValueError:
            allowed = ", ".join(repr(member.value) for member in kind)
            raise MalformedJson(f"expected one of {allowed} for {kind.__name__}, found {data!r:.80}") from None

    return decode


def _tuple_decoder(items: tuple[Any, ...]) -> Callable[[Json], Any]:
    def decode(data: Json) -> Any:
        if not isinstance(data, list):
            raise MalformedJson(f"expected a list, found {data!r:.80}")
        if len(items) == 2 and items[1] is Ellipsis:
            return tuple(from_json(items[0], item) for item in data)
        if len(items) != len(data):
            raise MalformedJson(f"expected {len(items)} entries, found {len(data)}")
        return tuple(from_json(kind, item) for kind, item in zip(items, data, strict=True))

    return decode


def _union_decoder(members: tuple[Any, ...]) -> Callable[[Json], Any]:
    flat: list[Any] = []
    for member in members:
        flat.extend(get_args(member) if get_origin(member) in (Union, types.UnionType) else (member,))
    tagged = {m.__name__: m for m in flat if dataclasses.is_dataclass(m) and isinstance(m, type)}
    plain = [m for m in flat if m not in tagged.values()]

    def decode(data: Json) -> Any:
        if isinstance(data, dict) and "type" in data:
            kind = tagged.get(data["type"])
            if kind is None:
                raise MalformedJson(f"expected one of {', '.join(sorted(tagged))}, found {data['type']!r}")
            return from_json(kind, data)
        exact = [m for m in plain if isinstance(m, type) and type(data) is m]
        for member in (*exact, *plain):
            try:
                return from_json(member, data)
            except MalformedJson:
                continue
        raise MalformedJson(f"no form of {' | '.join(getattr(m, '__name__', str(m)) for m in flat)} fits {data!r:.80}")

    return decode


def _dataclass_decoder(kind: type) -> Callable[[Json], Any]:
    hints = get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind)]
    needed = [f.name for f in dataclasses.fields(kind) if not _has_default(f)]

    def decode(data: Json) -> Any:
        if not isinstance(data, dict) or data.get("type") != kind.__name__:
            found = data.get("type") if isinstance(data, dict) else data
            raise MalformedJson(f"expected a {kind.__name__}, found {found!r:.80}")
        unknown = set(data) - set(names) - {"type"}
        if unknown:
            raise MalformedJson(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
        missing = [name for name in needed if name not in data]
        if missing:
            raise MalformedJson(f"{kind.__name__} lacks the field {', '.join(missing)}")
        return kind(**{name: from_json(hints[name], data[name]) for name in names if name in data})

    return decode


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
