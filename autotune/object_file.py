"""What a relocatable ELF object defines, needs and may write to, read from its bytes.
Must not know how objects are made or loaded."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _FLAG_WRITE, _FLAG_ALLOC, _BIND_LOCAL = 2, 1, 2, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSummary:
    """Units: `text_bytes` of machine code."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]
    writable_sections: tuple[str, ...]
    text_bytes: int


def summarize(data: bytes) -> ObjectSummary:
    """Symbols and sections of a 64-bit little-endian ELF object.

    Raises: ValueError where the bytes are something else.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("expected a 64-bit little-endian ELF object")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    count, names_index = struct.unpack_from("<HH", data, 0x3C)
    size = _SECTION_HEADER.size
    sections = [_SECTION_HEADER.unpack_from(data, table + size * number) for number in range(count)]
    names_at = sections[names_index][4]
    writable, text_bytes = [], 0
    defined: list[str] = []
    undefined: list[str] = []
    for name_offset, kind, flags, _, offset, length, link, *_ in sections:
        name = _string(data, names_at + name_offset)
        if flags & _FLAG_WRITE and flags & _FLAG_ALLOC and length:
            writable.append(name)
        if name.startswith(".text"):
            text_bytes += length
        if kind == _SYMBOL_TABLE:
            _collect(data, offset, length, sections[link][4], defined, undefined)
    return ObjectSummary(
        defined=tuple(defined),
        undefined=tuple(undefined),
        writable_sections=tuple(writable),
        text_bytes=text_bytes,
    )


def _collect(data: bytes, offset: int, length: int, strings_at: int, defined: list[str], undefined: list[str]) -> None:
    for at in range(offset + _SYMBOL.size, offset + length, _SYMBOL.size):
        name_offset, info, _, section, _, _ = _SYMBOL.unpack_from(data, at)
        if info >> 4 != _BIND_LOCAL and name_offset:
            (defined if section else undefined).append(_string(data, strings_at + name_offset))


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
